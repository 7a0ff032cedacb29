#include "rota/fiber/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "fiber/io_testing.h"

namespace rota::fiber {
namespace {

using testing::bytes_of;

class FileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/rota_file_XXXXXX";
    folder_ = mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_ + "/" + name; }

  Runtime runtime_{{.worker_count = 2}};
  std::string folder_;
};

std::string read_back(File& file, std::uint64_t offset, std::size_t size) {
  std::string text(size, '\0');
  text.resize(file.read_at(std::as_writable_bytes(std::span(text)), offset).value());
  return text;
}

// Contract: F-26. Written, synced, and read back at offsets; a hole reads as zeros; behind the end there is nothing.
TEST_F(FileTest, WriteAndReadAtOffsets) {
  runtime_.run([&] {
    File file = File::open(path("a"), {.write = true, .create = true}).value();
    ASSERT_TRUE(file.write_all_at("hello", 0).ok());
    ASSERT_TRUE(file.write_all_at("world", 10).ok());
    ASSERT_TRUE(file.sync().ok());
    ASSERT_TRUE(file.sync(true).ok());
    EXPECT_EQ(file.size().value(), 15U);
    EXPECT_EQ(read_back(file, 0, 100), std::string("hello\0\0\0\0\0world", 15));
    EXPECT_EQ(read_back(file, 12, 2), "rl");
    EXPECT_EQ(read_back(file, 15, 2), "");
    EXPECT_EQ(read_back(file, 1000, 2), "");
    ASSERT_TRUE(file.truncate(3).ok());
    EXPECT_EQ(read_back(file, 0, 100), "hel");
    ASSERT_TRUE(file.close().ok());
    EXPECT_TRUE(file.close().ok());
    EXPECT_FALSE(file.is_open());
    EXPECT_EQ(file.size().code(), ErrorCode::kClosed);
  });
}

// Contract: F-26. Many tasks write one file at once, each at its own place.
TEST_F(FileTest, ManyTasksOneFile) {
  runtime_.run([&] {
    File file = File::open(path("many"), {.write = true, .create = true}).value();
    with_scope([&](Nursery& n) {
      for (std::uint64_t i = 0; i < 100; ++i) {
        n.launch([&, i] {
          ASSERT_TRUE(file.write_all_at(std::string(1000, static_cast<char>('A' + i % 26)), i * 1000).ok());
        });
      }
    });
    for (std::uint64_t i = 0; i < 100; ++i) {
      EXPECT_EQ(read_back(file, i * 1000, 1000), std::string(1000, static_cast<char>('A' + i % 26)));
    }
  });
}

// Contract: F-26. What the options say, and the errors with the path, the system's sentence and its name.
TEST_F(FileTest, OpenErrors) {
  runtime_.run([&] {
    const Result<File> missing = File::open(path("missing"));
    ASSERT_EQ(missing.code(), ErrorCode::kNotFound);
    EXPECT_EQ(missing.error().message, "open " + path("missing") + ": No such file or directory");
    EXPECT_EQ(*missing.error().detail("errno"), "ENOENT");
    EXPECT_EQ(File::open(path("x"), {.read = false}).code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(File::open(path("x"), {.create = true}).code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(File::open(path("x"), {.write = true, .exclusive = true}).code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(File::open(path("x"), {.truncate = true}).code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(File::open(folder_, {.write = true}).code(), ErrorCode::kInvalidArgument);
    ASSERT_TRUE(write_file(path("there"), "old").ok());
    EXPECT_EQ(File::open(path("there"), {.write = true, .create = true, .exclusive = true}).code(),
              ErrorCode::kAlreadyExists);
    File truncated = File::open(path("there"), {.write = true, .truncate = true}).value();
    EXPECT_EQ(truncated.size().value(), 0U);
    File read_only = File::open(path("there")).value();
    const Result<void> written = read_only.write_all_at("x", 0);
    ASSERT_FALSE(written.ok());
    EXPECT_EQ(*written.error().detail("errno"), "EBADF");
    File none;
    EXPECT_EQ(none.sync().code(), ErrorCode::kClosed);
  });
}

// Contract: F-26. A device that is full is reported as such.
TEST_F(FileTest, NoSpace) {
  runtime_.run([&] {
    File full = File::open("/dev/full", {.write = true}).value();
    EXPECT_EQ(full.write_all_at("x", 0).code(), ErrorCode::kNoSpace);
  });
}

// Contract: F-26. Whole files: read within a limit, files without a size too; replaced in one step, keeping the mode.
TEST_F(FileTest, WholeFiles) {
  runtime_.run([&] {
    std::string content(300'000, '\0');
    for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7);
    ASSERT_TRUE(write_file(path("whole"), content).ok());
    EXPECT_TRUE(read_file(path("whole")).value() == content);
    EXPECT_EQ(read_file(path("whole"), content.size()).value().size(), content.size());
    EXPECT_EQ(read_file(path("whole"), content.size() - 1).code(), ErrorCode::kTooLarge);
    EXPECT_FALSE(read_file("/proc/self/status").value().empty());
    ASSERT_EQ(chmod(path("whole").c_str(), 0640), 0);
    ASSERT_TRUE(write_file(path("whole"), "").ok());
    EXPECT_EQ(read_file(path("whole")).value(), "");
    struct stat status{};
    ASSERT_EQ(stat(path("whole").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 07777U, 0640U);
    EXPECT_EQ(write_file(path("no/such/folder"), "x").code(), ErrorCode::kNotFound);
    // Nothing is left beside it.
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
  });
}

// Contract: F-26. Closed by another task while a helper reads: the read ends well or says Closed, and never reads from
// another file that got the same number.
TEST_F(FileTest, CloseWhileInUse) {
  runtime_.run([&] {
    ASSERT_TRUE(write_file(path("one"), std::string(1000, '1')).ok());
    ASSERT_TRUE(write_file(path("two"), std::string(1000, '2')).ok());
    for (int round = 0; round < 50; ++round) {
      File one = File::open(path("one")).value();
      with_scope([&](Nursery& n) {
        auto reader = n.spawn([&] {
          std::string text(1000, '\0');
          const Result<std::size_t> count = one.read_at(std::as_writable_bytes(std::span(text)), 0);
          EXPECT_TRUE(count.ok() ? text == std::string(1000, '1') : count.code() == ErrorCode::kClosed);
        });
        for (int i = 0; i < round % 4; ++i) yield();
        ASSERT_TRUE(one.close().ok());
        File two = File::open(path("two")).value();
        EXPECT_EQ(read_back(two, 0, 5), "22222");
        reader.get();
      });
    }
  });
}

// Contract: F-26. In deterministic mode files work in place.
TEST_F(FileTest, Deterministic) {
  Runtime runtime({.worker_count = 2, .deterministic_seed = 3});
  runtime.run([&] {
    ASSERT_TRUE(write_file(path("d"), "same").ok());
    EXPECT_EQ(read_file(path("d")).value(), "same");
  });
}

}  // namespace
}  // namespace rota::fiber
