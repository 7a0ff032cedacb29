// Contract: B-5, U-2. A worker registers its GPUs with model and memory.
#include "worker/gpu.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace rota::worker {
namespace {

using model::Device;
using namespace std::chrono_literals;

TEST(Gpu, NvidiaSmi) {
  EXPECT_EQ(
      parse_nvidia_smi("NVIDIA A100-SXM4-80GB, 81920\nNVIDIA GeForce RTX 3090, 24576\n"),
      (std::vector<Device>{{"NVIDIA A100-SXM4-80GB", 81920LL << 20}, {"NVIDIA GeForce RTX 3090", 24576LL << 20}}));
  EXPECT_EQ(parse_nvidia_smi("NVIDIA GB10, [N/A]\r\n"), (std::vector<Device>{{"NVIDIA GB10", 0}}));
  EXPECT_TRUE(parse_nvidia_smi("NVIDIA-SMI has failed because it couldn't communicate with the driver\n").empty());
  EXPECT_TRUE(parse_nvidia_smi("").empty());
  EXPECT_TRUE(parse_nvidia_smi(", 5\n").empty());
  std::string many;
  for (int i = 0; i < 100; ++i) many += "X, 1\n";
  EXPECT_EQ(parse_nvidia_smi(many).size(), static_cast<std::size_t>(model::kMostDevices));
}

class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("rota-gpu-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  void file(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text << "\n";
  }
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

TEST(Gpu, Sysfs) {
  const Folder drm;
  drm.file("card10/device/mem_info_vram_total", "17163091968");
  drm.file("card10/device/product_name", "AMD Instinct MI50");
  drm.file("card1/device/mem_info_vram_total", "8589934592");
  drm.file("card1/device/vendor", "0x1002");
  drm.file("card1/device/device", "0x73ff");
  drm.file("card1-DP-1/device/mem_info_vram_total", "1");  // A connector.
  drm.file("card0/device/vendor", "0x8086");               // Without memory of its own.
  EXPECT_EQ(drm_devices(drm.path()),
            (std::vector<Device>{{"gpu-0x1002-0x73ff", 8589934592}, {"AMD Instinct MI50", 17163091968}}));
  EXPECT_TRUE(drm_devices("/nowhere").empty());
}

TEST(Gpu, AProgramThatHangsIsKilled) {
  EXPECT_EQ(output_of({"sh", "-c", "echo x; exec sleep 1000"}, 50ms).code(), ErrorCode::kTimeout);
  EXPECT_EQ(output_of({"sh", "-c", "echo x; exit 3"}, 120s).code(), ErrorCode::kInternal);
  EXPECT_EQ(output_of({"/no/such/program"}, 120s).code(), ErrorCode::kNotFound);
  EXPECT_EQ(output_of({"echo", "x"}, 120s).value(), "x\n");
}

TEST(Gpu, AsUsersWriteThem) {
  EXPECT_EQ(parse_devices({"2xA100:80GiB", "T4"}).value(),
            (std::vector<Device>{{"A100", 80LL << 30}, {"A100", 80LL << 30}, {"T4", 0}}));
  EXPECT_TRUE(parse_devices({"none"}).value().empty());
  for (const char* wrong : {"", "2x", "0xA100", "65xA100", "A100:much", ":80GiB"}) {
    EXPECT_EQ(parse_devices({wrong}).code(), ErrorCode::kInvalidArgument) << wrong;
  }
}

}  // namespace
}  // namespace rota::worker
