// The store of files by content: what it keeps, what it refuses, and what it finds damaged.
#include "net/file_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace rota::net {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

const std::function<bool()> kGoOn = [] { return false; };

std::string sha256_of(std::string_view bytes) {
  ContentHash hash;
  hash.add(bytes);
  return hash.finish();
}

// Bytes that differ from block to block.
std::string content_of(std::size_t bytes, unsigned seed = 1) {
  std::string content(bytes, '\0');
  for (char& c : content) {
    seed = seed * 1664525U + 1013904223U;
    c = static_cast<char>(seed >> 24);
  }
  return content;
}

std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class FileStoreTest : public testing::Test {
 protected:
  FileStoreTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~FileStoreTest() override { fs::remove_all(folder_); }

  [[nodiscard]] FileStore::Options options(std::uint64_t most = 0, bool evict = false) const {
    return {.directory = (folder_ / "store").string(),
            .most_bytes = most,
            .evict = evict,
            .setting = "--files-bytes",
            .advice = "remove old files"};
  }
  static Result<void> store(FileStore& store, const std::string& content, std::size_t piece = kBlockBytes) {
    ROTA_TRY_ASSIGN(FileWriter writer, store.write(sha256_of(content), content.size()));
    while (writer.position() < writer.bytes()) {
      ROTA_TRY(writer.append(std::string_view(content).substr(writer.position(), piece)));
    }
    return writer.finish();
  }
  static std::string load(FileStore& store, const std::string& content) {
    const Result<FileReader> reader = store.read(sha256_of(content));
    return reader.ok() ? reader->read(0, content.size() + 1).value() : reader.error().message;
  }
  [[nodiscard]] fs::path file_of(const std::string& content) const {
    const std::string sha256 = sha256_of(content);
    return folder_ / "store/sha256" / sha256.substr(0, 2) / sha256.substr(2);
  }
  [[nodiscard]] fs::path partial_of(const std::string& content) const {
    return folder_ / "store/partial" / sha256_of(content);
  }
  static void flip_bit(const fs::path& path, std::size_t at) {
    fs::permissions(path, fs::perms::owner_all);
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 1));
  }

  const fs::path folder_ = fs::temp_directory_path() / ("rota-file-store-" + std::to_string(::getpid()));
};

// Contract: U-6. The name of a content is its SHA-256, as every other program computes it.
TEST_F(FileStoreTest, ContentsAreNamedByTheirSha256) {
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  FileStore files(options());
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, kBlockBytes - 1, kBlockBytes, kBlockBytes + 1}) {
    const std::string content = content_of(bytes);
    ASSERT_TRUE(store(files, content).ok()) << bytes;
    EXPECT_EQ(load(files, content), content) << bytes;
    EXPECT_EQ(files.find(sha256_of(content)).value(), bytes);
    EXPECT_FALSE(fs::exists(partial_of(content)));
  }
  EXPECT_EQ(files.find(sha256_of("never")).code(), ErrorCode::kNotFound);
  EXPECT_TRUE(is_sha256(sha256_of("abc")));
  EXPECT_FALSE(is_sha256("../../etc/passwd"));
  EXPECT_FALSE(is_sha256(std::string(64, 'A')));
}

// Contract: U-6. An upload that broke off is continued, wherever it was.
TEST_F(FileStoreTest, AnUploadContinuesWhereItBrokeOff) {
  const std::string content = content_of(3 * kBlockBytes + 17);
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}, kBlockBytes - 1, kBlockBytes, kBlockBytes + 1,
                               2 * kBlockBytes, 3 * kBlockBytes, content.size() - 1, content.size()}) {
    {
      FileStore files(options());
      Result<FileWriter> writer = files.write(sha256_of(content), content.size());
      ASSERT_TRUE(writer.ok());
      ASSERT_TRUE(writer->append(std::string_view(content).substr(0, at)).ok());
      if (at < content.size()) {
        EXPECT_EQ(writer->finish().code(), ErrorCode::kFailedPrecondition) << "it is not complete";
      }
    }
    FileStore files(options());  // Of another process.
    Result<FileWriter> writer = files.write(sha256_of(content), content.size());
    ASSERT_TRUE(writer.ok());
    EXPECT_EQ(writer->position(), at);
    ASSERT_TRUE(writer->append(std::string_view(content).substr(at)).ok());
    ASSERT_TRUE(writer->finish().ok());
    EXPECT_EQ(load(files, content), content);
    files.remove(sha256_of(content));
  }
}

// Contract: U-6. What a crash left behind is not taken for the content: the SHA-256 decides, and the next upload
// starts anew.
TEST_F(FileStoreTest, ATornPartialContentIsFound) {
  const std::string content = content_of(2 * kBlockBytes);
  FileStore files(options());
  for (const std::string& torn :
       {std::string(kBlockBytes, '\0'), content.substr(1, kBlockBytes), content + "more than there can be"}) {
    fs::create_directories(partial_of(content).parent_path());
    std::ofstream(partial_of(content), std::ios::binary) << torn;
    const bool too_long = torn.size() > content.size();
    const Result<void> stored = store(files, content);
    EXPECT_EQ(stored.code(), too_long ? ErrorCode::kOk : ErrorCode::kCorrupt);
    if (!too_long) {
      EXPECT_THAT(stored.error().message, HasSubstr("have the SHA-256"));
      EXPECT_FALSE(fs::exists(partial_of(content)));
      EXPECT_EQ(files.find(sha256_of(content)).code(), ErrorCode::kNotFound);
      ASSERT_TRUE(store(files, content).ok());
    }
    EXPECT_EQ(load(files, content), content);
    files.remove(sha256_of(content));
  }
}

// Contract: U-6. Bytes that are not those of the name never get the name.
TEST_F(FileStoreTest, OtherBytesAreRefused) {
  FileStore files(options());
  Result<FileWriter> writer = files.write(sha256_of("right"), 5);
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(writer->append("wrongest").code(), ErrorCode::kTooLarge);
  ASSERT_TRUE(writer->append("wrong").ok());
  const Result<void> refused = writer->finish();
  EXPECT_EQ(refused.code(), ErrorCode::kCorrupt);
  ASSERT_NE(refused.error().detail("status"), nullptr);
  EXPECT_EQ(*refused.error().detail("status"), "422");
  EXPECT_EQ(files.find(sha256_of("right")).code(), ErrorCode::kNotFound);
}

// Contract: U-6. A full store refuses, and says what is full, how large it may be, and what to do; what it has stays.
TEST_F(FileStoreTest, AFullStoreRefusesWithAnExplanation) {
  FileStore files(options(1000));
  const std::string first = content_of(600);
  ASSERT_TRUE(store(files, first).ok());
  const Result<void> refused = store(files, content_of(500, 2));
  EXPECT_EQ(refused.code(), ErrorCode::kNoSpace);
  EXPECT_EQ(refused.error().message,
            "the store of files in '" + (folder_ / "store").string() +
                "' is full: it may have 1kB, it has 600B, and a file of 500B does not fit; raise the bound with "
                "--files-bytes, or remove old files");
  EXPECT_EQ(load(files, first), first);
  EXPECT_TRUE(store(files, content_of(400, 3)).ok()) << "what fits is stored";
  EXPECT_TRUE(store(files, first).ok()) << "what is there needs no room";
  files.remove(sha256_of(first));
  EXPECT_TRUE(store(files, content_of(500, 2)).ok());
  EXPECT_EQ(FileStore(options(1000)).write(sha256_of("x"), 1001).code(), ErrorCode::kNoSpace);
  // What is being written counts as if it were complete.
  FileStore other(options(1000));
  Result<FileWriter> half = other.write(sha256_of(content_of(100, 4)), 100);
  ASSERT_TRUE(half.ok());
  EXPECT_EQ(other.write(sha256_of("y"), 1).code(), ErrorCode::kNoSpace);
}

// Contract: U-6. A cache makes room: the least recently used contents go first.
TEST_F(FileStoreTest, ACacheEvictsTheLeastRecentlyUsed) {
  FileStore files(options(1000, true));
  std::vector<std::string> contents;
  for (unsigned i = 0; i < 3; ++i) {
    contents.push_back(content_of(300, i + 1));
    ASSERT_TRUE(store(files, contents[i]).ok());
    const timespec times[2] = {{.tv_sec = 1000 + i, .tv_nsec = 0}, {.tv_sec = 1000 + i, .tv_nsec = 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, file_of(contents[i]).c_str(), times, 0), 0);
  }
  EXPECT_EQ(load(files, contents[0]), contents[0]);  // Used now.
  ASSERT_TRUE(store(files, content_of(300, 9)).ok());
  EXPECT_TRUE(files.find(sha256_of(contents[0])).ok());
  EXPECT_FALSE(files.find(sha256_of(contents[1])).ok()) << "the least recently used";
  EXPECT_TRUE(files.find(sha256_of(contents[2])).ok());
  EXPECT_EQ(files.list(10).size(), 3U);
  EXPECT_EQ(store(files, content_of(1001)).code(), ErrorCode::kNoSpace) << "more than the cache may ever have";
}

// Contract: U-6. Several writers of one content do not disturb each other: one writes, the others are told to wait, and
// find it complete.
TEST_F(FileStoreTest, OneContentHasOneWriter) {
  const std::string content = content_of(2 * kBlockBytes);
  FileStore first(options());
  FileStore second(options());  // Of another process: the lock is on the file.
  {
    Result<FileWriter> writer = first.write(sha256_of(content), content.size());
    ASSERT_TRUE(writer.ok());
    EXPECT_EQ(first.write(sha256_of(content), content.size()).code(), ErrorCode::kWouldBlock);
    EXPECT_EQ(second.write(sha256_of(content), content.size()).code(), ErrorCode::kWouldBlock);
    ASSERT_TRUE(writer->append(content).ok());
    ASSERT_TRUE(writer->finish().ok());
  }
  // The refusal of the second writer changes nothing in the account of the first.
  FileStore bounded({.directory = (folder_ / "bounded").string(), .most_bytes = 1000});
  const Result<FileWriter> half = bounded.write(sha256_of("a"), 600);
  ASSERT_TRUE(half.ok());
  EXPECT_EQ(bounded.write(sha256_of("a"), 600).code(), ErrorCode::kWouldBlock);
  EXPECT_EQ(bounded.write(sha256_of("b"), 500).code(), ErrorCode::kNoSpace);
  Result<FileWriter> late = second.write(sha256_of(content), content.size());
  ASSERT_TRUE(late.ok());
  EXPECT_TRUE(late->is_stored());
  EXPECT_EQ(late->position(), content.size());
}

TEST_F(FileStoreTest, ManyThreadsStoreTheSameContents) {
  constexpr int kThreads = 4;
  constexpr unsigned kContents = 8;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this] {
      FileStore files(options());
      for (unsigned i = 0; i < kContents; ++i) {
        const std::string content = content_of(kBlockBytes + i, i + 1);
        Result<void> stored = store(files, content, 10'000);
        while (stored.code() == ErrorCode::kWouldBlock) {
          std::this_thread::yield();
          stored = store(files, content, 10'000);
        }
        EXPECT_TRUE(stored.ok()) << stored.error().message;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  FileStore files(options());
  for (unsigned i = 0; i < kContents; ++i) {
    const std::string content = content_of(kBlockBytes + i, i + 1);
    EXPECT_EQ(load(files, content), content);
  }
  EXPECT_TRUE(fs::is_empty(folder_ / "store/partial"));
}

// Contract: U-6. A content that was damaged on the disk is found where it is used: it is not placed, and is removed so
// that it can be stored again.
TEST_F(FileStoreTest, DamageIsFoundWhereAContentIsUsed) {
  FileStore files(options());
  const std::string content = content_of(3 * kBlockBytes);
  const std::string target = (folder_ / "work/data/x.bin").string();
  for (const bool truncated : {false, true}) {
    ASSERT_TRUE(store(files, content).ok());
    if (truncated) {
      fs::permissions(file_of(content), fs::perms::owner_all);
      fs::resize_file(file_of(content), content.size() - 1);
    } else {
      flip_bit(file_of(content), kBlockBytes + 5);
    }
    {
      const Result<FileReader> reader = files.read(sha256_of(content));
      ASSERT_TRUE(reader.ok());
      const Result<void> copied = copy_file(*reader, sha256_of(content), target, false, kGoOn);
      EXPECT_EQ(copied.code(), ErrorCode::kCorrupt);
      EXPECT_THAT(copied.error().message, HasSubstr("is damaged"));
      EXPECT_FALSE(fs::exists(target));
      EXPECT_TRUE(fs::is_empty(fs::path(target).parent_path())) << "no temporary file is left";
    }
    EXPECT_EQ(files.verify(sha256_of(content), kGoOn).code(), ErrorCode::kCorrupt);
    EXPECT_EQ(files.find(sha256_of(content)).code(), ErrorCode::kNotFound);
  }
  ASSERT_TRUE(store(files, content).ok());
  EXPECT_TRUE(files.verify(sha256_of(content), kGoOn).ok());
  const Result<FileReader> reader = files.read(sha256_of(content));
  ASSERT_TRUE(copy_file(*reader, sha256_of(content), target, true, kGoOn).ok());
  EXPECT_EQ(read_all(target), content);
  EXPECT_EQ(::access(target.c_str(), X_OK), 0);
  // The copy is a file of its own: what a task does to it does not reach the store.
  std::ofstream(target, std::ios::app) << "more";
  EXPECT_TRUE(files.verify(sha256_of(content), kGoOn).ok());
}

TEST_F(FileStoreTest, BlocksOfZerosTakeNoRoomOnTheDisk) {
  FileStore files(options());
  const std::string content = "x" + std::string(std::size_t{64} << 20, '\0') + "y";
  ASSERT_TRUE(store(files, content, std::size_t{1} << 20).ok());
  struct stat status{};
  ASSERT_EQ(::stat(file_of(content).c_str(), &status), 0);
  EXPECT_EQ(static_cast<std::size_t>(status.st_size), content.size());
  EXPECT_LT(static_cast<std::size_t>(status.st_blocks) * 512, content.size() / 4);
  EXPECT_EQ(load(files, content), content);
}

// Contract: U-6. Cleaning removes what nobody refers to and nobody used lately, and makes room in the account.
TEST_F(FileStoreTest, CleaningKeepsWhatIsReferredTo) {
  FileStore files(options(1000));
  const std::string kept = content_of(400, 1);
  const std::string old = content_of(400, 2);
  ASSERT_TRUE(store(files, kept).ok());
  ASSERT_TRUE(store(files, old).ok());
  const auto keeps = [&](const std::string& sha256) { return sha256 == sha256_of(kept); };
  EXPECT_EQ(files.clean(keeps, 0), 0U) << "both were used since";
  EXPECT_EQ(files.clean(keeps, INT64_MAX), 400U);
  EXPECT_EQ(load(files, kept), kept);
  EXPECT_TRUE(store(files, content_of(600, 3)).ok());
}

TEST_F(FileStoreTest, OnlyFilesHaveADigest) {
  std::ofstream(folder_ / "f") << "abc";
  const Result<FileDigest> digest = digest_file((folder_ / "f").string(), kGoOn);
  ASSERT_TRUE(digest.ok());
  EXPECT_EQ(digest->sha256, sha256_of("abc"));
  EXPECT_EQ(digest->bytes, 3U);
  EXPECT_EQ(digest_file(folder_.string(), kGoOn).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(digest_file((folder_ / "none").string(), kGoOn).code(), ErrorCode::kNotFound);
  EXPECT_EQ(digest_file((folder_ / "f").string(), [] { return true; }).code(), ErrorCode::kCancelled);
}

// U-6: a content that was damaged or cut off since is stored again by who has the right bytes.
TEST_F(FileStoreTest, StoringAgainRepairs) {
  FileStore files(options());
  const std::string content = content_of(1000);
  ASSERT_TRUE(store(files, content).ok());
  flip_bit(file_of(content), 500);
  ASSERT_TRUE(store(files, content).ok());
  EXPECT_EQ(load(files, content), content);
  fs::permissions(file_of(content), fs::perms::owner_all);
  fs::resize_file(file_of(content), 10);
  ASSERT_TRUE(store(files, content).ok());
  EXPECT_EQ(load(files, content), content);
  // Somebody who names a wrong size does not have a good content removed.
  EXPECT_TRUE(files.write(sha256_of(content), 5)->is_stored());
  EXPECT_EQ(load(files, content), content);
}

// U-6: what is stored leaves room on the disk. A content that does not fit is refused before it is written, and one
// that finds the disk full halfway does not stay there.
TEST_F(FileStoreTest, AFullDisk) {
  std::uint64_t room = 1000;
  FileStore::Options limited = options();
  limited.disk_room = [&room] { return room; };
  FileStore files(limited);
  const std::string small = content_of(1000);
  const std::string large = content_of(1001, 2);
  EXPECT_TRUE(store(files, small).ok());
  const Result<FileWriter> refused = files.write(sha256_of(large), large.size());
  EXPECT_EQ(refused.code(), ErrorCode::kNoSpace);
  EXPECT_THAT(refused.error().message, testing::AllOf(HasSubstr("the disk of the store"), HasSubstr("does not fit")));
  EXPECT_FALSE(fs::exists(partial_of(large)));
  room = 2000;
  {
    FileWriter writer = files.write(sha256_of(large), large.size()).value();
    ASSERT_TRUE(writer.append(large.substr(0, 500)).ok());
    room = 100;  // Others have written meanwhile.
    EXPECT_EQ(writer.append(large.substr(500)).code(), ErrorCode::kNoSpace);
    EXPECT_FALSE(fs::exists(partial_of(large)));
  }
  room = 1001;
  EXPECT_TRUE(store(files, large).ok());
  // Of a content that was begun, only the rest needs room.
  const std::string begun = content_of(900, 3);
  {
    ASSERT_TRUE(files.write(sha256_of(begun), begun.size())->append(begun.substr(0, 800)).ok());
  }
  room = 100;
  EXPECT_TRUE(store(files, begun).ok());
  EXPECT_EQ(load(files, begun), begun);
}

// A cache makes room on the disk by removing what was not used for the longest time.
TEST_F(FileStoreTest, AFullDiskOfACache) {
  const std::string first = content_of(600);
  const std::string second = content_of(600, 2);
  FileStore::Options limited = options(10'000, true);
  limited.disk_room = [&] { return std::uint64_t{fs::exists(file_of(first)) ? 500U : 1100U}; };
  FileStore files(options(10'000, true));
  ASSERT_TRUE(store(files, first).ok());
  FileStore cache(limited);
  EXPECT_TRUE(store(cache, second).ok());
  EXPECT_EQ(load(cache, second), second);
  EXPECT_EQ(cache.find(sha256_of(first)).code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace rota::net
