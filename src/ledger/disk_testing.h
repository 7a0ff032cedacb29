// Shared by the tests of the ledger on disk: a temporary folder, and functions that inspect and damage files.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "ledger/conformance.h"
#include "ledger/disk_ledger.h"

namespace rota::ledger {

class TestFolder {
 public:
  enum class Where : std::uint8_t {
    kDisk,    // The folder for temporary files.
    kMemory,  // A folder in memory, if the system has one: fast, for tests that do not depend on the device.
  };
  explicit TestFolder(Where where = Where::kDisk) {
    const bool memory = where == Where::kMemory && std::filesystem::is_directory("/dev/shm");
    std::string name = (memory ? "/dev/shm" : std::filesystem::temp_directory_path().string()) + "/rota_ledger_XXXXXX";
    path_ = mkdtemp(name.data());
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct DiskHome {
  static constexpr bool kPersists = true;
  static constexpr bool kBacksUp = true;
  Result<std::unique_ptr<Ledger>> open(bool deterministic) {
    options.path = folder / "ledger";
    options.writer = deterministic ? Writer::kInPlace : Writer::kThread;
    return open_with(options);
  }
  Result<std::unique_ptr<Ledger>> open_backup(const std::string& path) {
    DiskOptions other = options;
    other.path = path;
    return open_with(other);
  }
  std::string free_path() { return folder / "backup"; }
  static Result<std::unique_ptr<Ledger>> open_with(const DiskOptions& options) {
    ROTA_TRY_ASSIGN(std::unique_ptr<DiskLedger> ledger, DiskLedger::open(options));
    return std::unique_ptr<Ledger>(std::move(ledger));
  }

  explicit DiskHome(TestFolder::Where where = TestFolder::Where::kDisk) : folder(where) {}

  TestFolder folder;
  DiskOptions options;
};

inline std::string file_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
inline void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}
// Copies a ledger in its current state, as a crash of the process would leave it.
inline void copy_ledger(const std::string& from, const std::string& to) {
  for (const char* suffix : {"", "-wal"}) {
    std::filesystem::remove(to + suffix);
    if (std::filesystem::exists(from + suffix)) std::filesystem::copy_file(from + suffix, to + suffix);
  }
  std::filesystem::remove(to + "-shm");
}

}  // namespace rota::ledger
