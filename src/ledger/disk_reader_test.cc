// Reading a ledger's file with and without a concurrent writer: what is seen, and that nothing is changed or delayed.
#include "ledger/disk_reader.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <utility>

#include "ledger/disk_testing.h"
#include "ledger/sqlite_handle.h"

namespace rota::ledger {
namespace {

using ::testing::HasSubstr;

// Another process that runs until it is told to stop.
class Child {
 public:
  template <class Body>
  explicit Child(Body&& body) {
    EXPECT_EQ(::pipe(pipe_), 0);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::close(pipe_[1]);  // Its end, and also that of a parent that dies, is the sign to stop.
    ::_exit(body(*this));
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { stop(); }

  // Runs in the child.
  [[nodiscard]] bool stopped() const { return wait(0); }
  void await_stop() const { (void)wait(-1); }
  // Returns its exit status.
  int stop() {
    if (pid_ <= 0) return status_;
    ::close(pipe_[1]);
    int status = 0;
    EXPECT_EQ(::waitpid(std::exchange(pid_, 0), &status, 0) > 0, true);
    ::close(pipe_[0]);
    return status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  }

 private:
  [[nodiscard]] bool wait(int timeout_ms) const {
    struct pollfd end{pipe_[0], POLLIN, 0};
    return ::poll(&end, 1, timeout_ms) > 0;
  }
  int pipe_[2] = {-1, -1};
  pid_t pid_ = 0;
  int status_ = -1;
};

class DiskReaderTest : public ::testing::Test {
 protected:
  DiskReaderTest() { options_.path = folder_ / "ledger"; }

  std::unique_ptr<DiskLedger> open() { return DiskLedger::open(options_).value(); }
  void make_closed(std::uint64_t records) {
    const std::unique_ptr<DiskLedger> ledger = open();
    ASSERT_TRUE(ledger->append(test_records(1, records)).ok());
    ASSERT_TRUE(ledger->close().ok());
  }
  // Leaves the ledger as a kill does: at "crashed", with the index beside the log if `with_index`.
  void make_crashed(std::uint64_t records, bool with_index) {
    const std::unique_ptr<DiskLedger> ledger = open();
    ASSERT_TRUE(ledger->append(test_records(1, records)).ok());
    copy_ledger(options_.path, folder_ / "crashed");
    if (with_index) std::filesystem::copy_file(options_.path + "-shm", folder_ / "crashed-shm");
  }
  // Every file of the folder with its bytes.
  std::map<std::string, std::string> files() {
    std::map<std::string, std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      found[entry.path().filename()] = file_bytes(entry.path());
    }
    return found;
  }
  std::vector<RecordBytes> all_of(const std::string& path) {
    Result<DiskReader> reader = DiskReader::open(path);
    EXPECT_TRUE(reader.ok()) << reader.error().message;
    if (!reader.ok()) return {};
    Result<std::vector<RecordBytes>> records = reader->read(1, 1'000'000);
    EXPECT_TRUE(records.ok()) << records.error().message;
    return records.value_or(std::vector<RecordBytes>());
  }

  TestFolder folder_{TestFolder::Where::kMemory};
  DiskOptions options_;
};

// Contract: C-2 (status, logs, explain while it runs). A reader beside a writer that appends and checkpoints sees a
// prefix that only grows, and in the end all of it.
TEST_F(DiskReaderTest, ReadsWhileAnotherWrites) {
  constexpr std::uint64_t kRecords = 3000;
  make_closed(10);
  Child writer([&](const Child& me) -> int {
    options_.checkpoint_pages = 20;
    options_.writer = Writer::kInPlace;
    const Result<std::unique_ptr<DiskLedger>> ledger = DiskLedger::open(options_);
    if (!ledger.ok()) return 1;
    for (std::uint64_t index = 11; index <= kRecords; index += 10) {
      if (!(*ledger)->append(test_records(index, index + 9)).ok()) return 2;
    }
    me.await_stop();  // It has all of it open still when the last of it is read.
    return (*ledger)->stats().checkpoints > 0 && (*ledger)->close().ok() ? 0 : 3;
  });
  DiskReader reader = DiskReader::open(options_.path).value();
  std::vector<RecordBytes> seen;
  while (seen.size() < kRecords) {
    const std::uint64_t before = reader.last_index();
    const Result<void> fresh = reader.refresh();
    ASSERT_TRUE(fresh.ok()) << fresh.error().message;
    ASSERT_GE(reader.last_index(), before);
    Result<std::vector<RecordBytes>> more = reader.read(seen.size() + 1, 500);
    ASSERT_TRUE(more.ok()) << more.error().message;
    seen.insert(seen.end(), more->begin(), more->end());
  }
  EXPECT_EQ(writer.stop(), 0);
  EXPECT_EQ(seen, test_records(1, kRecords));
  EXPECT_EQ(all_of(options_.path), seen);
}

// Neither a reader nor a caller of holder() blocks a writer: each opening succeeds, and recovers.
TEST_F(DiskReaderTest, DoesNotKeepAWriterFromOpening) {
  make_closed(1);
  Child reading([&](const Child& me) -> int {
    while (!me.stopped()) {
      Result<DiskReader> reader = DiskReader::open(options_.path);
      if (!reader.ok()) return (std::fputs(reader.error().message.c_str(), stderr), 1);
      if (reader->last_index() < 1 || !reader->read(1, 100).ok()) return 2;
      for (int i = 0; i < 100; ++i) {
        if (!DiskReader::writer_of(options_.path).ok()) return 3;
      }
    }
    return 0;
  });
  for (std::uint64_t round = 2; round <= 40; ++round) {
    const Result<std::unique_ptr<DiskLedger>> ledger = DiskLedger::open(options_);
    ASSERT_TRUE(ledger.ok()) << ledger.error().message;
    ASSERT_TRUE((*ledger)->append(test_records(round, round)).ok());
    ASSERT_TRUE((*ledger)->close().ok());
  }
  EXPECT_EQ(reading.stop(), 0);
  EXPECT_EQ(all_of(options_.path), test_records(1, 40));
}

// A ledger that nobody has open is read without creating, removing or changing a file.
TEST_F(DiskReaderTest, LeavesAClosedLedgerAsItIs) {
  make_closed(100);
  const auto before = files();
  EXPECT_EQ(before.count("ledger-wal"), 0U);
  EXPECT_EQ(all_of(options_.path), test_records(1, 100));
  EXPECT_EQ(files(), before);
}

TEST_F(DiskReaderTest, LeavesACrashedLedgerAsItIs) {
  make_crashed(100, true);
  const auto before = files();
  EXPECT_GT(before.at("crashed-wal").size(), 0U);
  EXPECT_EQ(all_of(folder_ / "crashed"), test_records(1, 100));
  EXPECT_EQ(files(), before);
  // The next process that opens it recovers everything.
  options_.path = folder_ / "crashed";
  EXPECT_EQ(open()->last_index(), 100U);
}

// A copy of a crashed ledger without its index is readable, and only the index is created.
TEST_F(DiskReaderTest, ReadsALogWithoutItsIndex) {
  make_crashed(100, false);
  auto before = files();
  EXPECT_EQ(all_of(folder_ / "crashed"), test_records(1, 100));
  auto after = files();
  after.erase("crashed-shm");
  EXPECT_EQ(after, before);
}

// A folder and files that are read-only.
TEST_F(DiskReaderTest, ReadsWhatIsReadOnly) {
  make_closed(20);
  options_.path = folder_ / "other";
  make_crashed(30, true);
  namespace fs = std::filesystem;
  for (const auto& entry : fs::directory_iterator(folder_.path())) {
    fs::permissions(entry.path(), fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read);
  }
  fs::permissions(folder_.path(), fs::perms(0555));
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) ::_exit(100);
    Result<DiskReader> crashed = DiskReader::open(folder_ / "crashed");
    Result<DiskReader> closed = DiskReader::open(folder_ / "ledger");
    if (!crashed.ok() || crashed->last_index() != 30 || !crashed->read(30, 1).ok()) ::_exit(1);
    if (!closed.ok() || closed->last_index() != 20 || !closed->read(20, 1).ok()) ::_exit(2);
    ::_exit(::access(folder_.path().c_str(), W_OK) == 0 ? 3 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  fs::permissions(folder_.path(), fs::perms(0755));
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(DiskReaderTest, ADamagedRecordIsReportedWithItsIndex) {
  make_closed(100);
  ASSERT_TRUE(detail::Connection::open(options_.path, detail::Connection::Mode::kWrite, nullptr)
                  .value()
                  ->execute("UPDATE records SET bytes = x'00' WHERE idx = 42")
                  .ok());
  DiskReader reader = DiskReader::open(options_.path).value();
  EXPECT_EQ(reader.read(1, 41).value(), test_records(1, 41));
  const Result<std::vector<RecordBytes>> damaged = reader.read(1, 100);
  ASSERT_EQ(damaged.code(), ErrorCode::kCorrupt);
  EXPECT_THAT(damaged.error().message, HasSubstr("record 42 is damaged"));
  ASSERT_FALSE(damaged.error().details.empty());
  EXPECT_EQ(damaged.error().details.front().value, "42");
}

// Contract: L-2. A log with damage in the middle is not shown as if it ended there.
TEST_F(DiskReaderTest, ADamagedLogIsRefused) {
  {
    const std::unique_ptr<DiskLedger> ledger = open();
    for (std::uint64_t index = 1; index <= 9; ++index) ASSERT_TRUE(ledger->append(test_records(index, index)).ok());
    copy_ledger(options_.path, folder_ / "crashed");
  }
  std::string log = file_bytes(folder_ / "crashed-wal");
  log[log.size() / 2] = static_cast<char>(log[log.size() / 2] ^ 1);
  write_file(folder_ / "crashed-wal", log);
  EXPECT_EQ(DiskReader::open(folder_ / "crashed").code(), ErrorCode::kCorrupt);
}

// Contract: L-2. The header of the log is damaged, and the index of a writer that was killed is left: a reader says so
// soon, instead of waiting for a writer to recover it. If nothing is lost with the log, it is ignored.
TEST_F(DiskReaderTest, ADamagedHeaderDoesNotDelayAReader) {
  make_crashed(9, true);
  std::string log = file_bytes(folder_ / "crashed-wal");
  for (std::size_t at = 0; at < 32; ++at) log[at] = '\xff';
  write_file(folder_ / "crashed-wal", log);
  EXPECT_EQ(DiskReader::open(folder_ / "crashed").code(), ErrorCode::kCorrupt);

  std::filesystem::copy_file(options_.path, folder_ / "closed");  // Closed meanwhile: it has everything.
  std::filesystem::copy_file(folder_ / "crashed-shm", folder_ / "closed-shm");
  write_file(folder_ / "closed-wal", log.substr(0, 32));
  DiskReader reader = DiskReader::open(folder_ / "closed").value();
  EXPECT_EQ(reader.read(1, 100).value(), test_records(1, 9));
}

// Contract: L-2. A writer was killed when its log had a header and nothing else: readers do not wait for it.
TEST_F(DiskReaderTest, ALogThatHasOnlyItsHeaderIsIgnored) {
  make_crashed(9, true);
  for (const bool with_index : {false, true}) {
    const std::filesystem::path path = folder_ / (with_index ? "indexed" : "plain");
    std::filesystem::copy_file(options_.path, path);  // Closed meanwhile: it has everything.
    if (with_index) std::filesystem::copy_file(folder_ / "crashed-shm", path.string() + "-shm");
    write_file(path.string() + "-wal", file_bytes(folder_ / "crashed-wal").substr(0, 32));
    Result<DiskReader> reader = DiskReader::open(path);
    ASSERT_TRUE(reader.ok()) << reader.error().to_string();
    EXPECT_EQ(reader->read(1, 100).value(), test_records(1, 9));
  }
}

TEST_F(DiskReaderTest, SaysWhoHasItOpen) {
  EXPECT_EQ(DiskReader::writer_of(options_.path).value(), std::nullopt);
  {
    const std::unique_ptr<DiskLedger> ledger = open();
    const auto writer = DiskReader::writer_of(options_.path).value();
    ASSERT_TRUE(writer.has_value());
    EXPECT_THAT(*writer, HasSubstr("process " + std::to_string(::getpid())));
    EXPECT_EQ(DiskLedger::open(options_).code(), ErrorCode::kConflict);
  }
  EXPECT_EQ(DiskReader::writer_of(options_.path).value(), std::nullopt);
}

TEST_F(DiskReaderTest, BeginsWhereItWasCompacted) {
  const std::unique_ptr<DiskLedger> ledger = open();
  ASSERT_TRUE(ledger->append(test_records(1, 100)).ok());
  ASSERT_TRUE(ledger->save_snapshot({60, "state"}).ok());
  ASSERT_TRUE(ledger->compact(50).ok());
  DiskReader reader = DiskReader::open(options_.path).value();
  EXPECT_EQ(reader.first_index(), 51U);
  EXPECT_EQ(reader.last_index(), 100U);
  EXPECT_EQ(reader.snapshot_index(), 60U);
  EXPECT_EQ(reader.latest_snapshot().value()->bytes, "state");
  EXPECT_EQ(reader.read(50, 1).code(), ErrorCode::kNotFound);
  EXPECT_EQ(reader.read(51, 1000).value(), test_records(51, 100));
}

TEST_F(DiskReaderTest, RefusesWhatIsNoLedger) {
  EXPECT_EQ(DiskReader::open(options_.path).code(), ErrorCode::kNotFound);
  write_file(options_.path, "");  // A ledger gets its name when it is complete: this one has lost its contents.
  EXPECT_EQ(DiskReader::open(options_.path).code(), ErrorCode::kCorrupt);
  write_file(options_.path, std::string(8192, 'x'));
  EXPECT_EQ(DiskReader::open(options_.path).code(), ErrorCode::kCorrupt);
  const std::string other = folder_ / "a%3f?#other";
  ASSERT_TRUE(detail::Connection::open(other, detail::Connection::Mode::kCreate, nullptr)
                  .value()
                  ->execute("CREATE TABLE x(y)")
                  .ok());
  EXPECT_EQ(DiskReader::open(other).code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace rota::ledger
