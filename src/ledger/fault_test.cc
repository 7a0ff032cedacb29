// L-2: the disk fails, the disk is full, the power is cut, the process is killed: at every call in turn.
//
// Method: a workload of groups, snapshots and compactions runs on a VFS that makes call number k fail in one of several
// ways, for every k. Then the ledger is opened from what is left: the files as they are (the process died), as of the
// last syncs (a power cut), and with any sectors written since (a power cut while writing). Each time every
// acknowledged record must be there, and the records must be a prefix of those submitted.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "base/log.h"
#include "base/prng.h"
#include "base/sanitizers.h"
#include "ledger/disk_testing.h"
#include "ledger/fault_vfs.h"

namespace rota::ledger {
namespace {

// What the workload was told.
struct Told {
  std::uint64_t submitted = 0;
  std::uint64_t durable = 0;
  std::uint64_t snapshot = 0;  // Of the last one that was acknowledged.
  std::uint64_t snapshot_tried = 0;
  std::uint64_t compacted_tried = 0;
  bool opened = false;
  bool closed = false;
};

DiskOptions small_options(const std::string& path, const char* vfs) {
  DiskOptions options;
  options.path = path;
  options.writer = Writer::kInPlace;  // The calls are the same each time.
  options.checkpoint_pages = 12;
  options.piece_bytes = 6000;
  options.compact_records = 15;
  options.vfs = vfs;
  return options;
}

// Runs until an error, which is the last thing that the ledger does.
Result<void> work(const DiskOptions& options, Told& told) {
  ROTA_TRY_ASSIGN(const std::unique_ptr<DiskLedger> ledger, DiskLedger::open(options));
  told.opened = true;
  std::uint64_t next = ledger->last_index() + 1;
  for (int round = 0; round < 2; ++round) {
    for (const std::uint64_t group : {1, 20, 3}) {
      told.submitted = next + group - 1;
      ROTA_TRY(ledger->append(test_records(next, told.submitted)));
      told.durable = told.submitted;
      next = told.submitted + 1;
    }
    told.snapshot_tried = told.durable - 2;
    ROTA_TRY(ledger->save_snapshot(test_snapshot(told.snapshot_tried, 9000)));
    told.snapshot = told.snapshot_tried;
    told.compacted_tried = told.snapshot - 1;
    ROTA_TRY(ledger->compact(told.compacted_tried));
  }
  ROTA_TRY(ledger->close());
  told.closed = true;
  return {};
}

// Opens what is left and compares it with what was told.
void check(const std::string& path, const Told& told, Durability durability, bool all_durable) {
  DiskOptions options = small_options(path, nullptr);
  options.durability = durability;
  Result<std::unique_ptr<DiskLedger>> opened = DiskLedger::open(options);
  ASSERT_TRUE(opened.ok()) << opened.error().to_string();
  DiskLedger& ledger = **opened;
  const std::uint64_t last = ledger.last_index();
  if (all_durable) {
    EXPECT_GE(last, told.durable);
  }
  EXPECT_LE(last, told.submitted);
  EXPECT_LE(ledger.first_index(), told.compacted_tried + 1);
  EXPECT_EQ(all_records(ledger), test_records(ledger.first_index(), last));
  const std::optional<Snapshot> snapshot = ledger.latest_snapshot().value();
  if (all_durable) {
    EXPECT_GE(snapshot ? snapshot->index : 0, told.snapshot);
  }
  EXPECT_LE(snapshot ? snapshot->index : 0, told.snapshot_tried);
  if (snapshot) {
    EXPECT_EQ(*snapshot, test_snapshot(snapshot->index, 9000));
  }
  EXPECT_GE((snapshot ? snapshot->index : 0) + 1, ledger.first_index());
  // Appending continues.
  ASSERT_TRUE(ledger.append(test_records(last + 1, last + 5)).ok());
  EXPECT_EQ(ledger.read(last + 5, 1)->size(), 1U);
}

class FaultTest : public ::testing::TestWithParam<Fault> {
 protected:
  void check_all(const FaultVfs& vfs, const Told& told, Durability durability) {
    const std::string path = folder_ / "ledger";
    const bool full = durability == Durability::kFull;
    {
      SCOPED_TRACE("as it lies");
      copy_ledger(path, folder_ / "copy");
      check(folder_ / "copy", told, durability, true);
    }
    const std::uint64_t seeds = std::getenv("ROTA_LEDGER_SOAK") != nullptr ? 40 : 3;
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      SCOPED_TRACE(seed == 0 ? "as of the last syncs" : "torn, seed " + std::to_string(seed));
      vfs.power_cut(path, folder_ / "copy", seed);
      check(folder_ / "copy", told, durability, full);
    }
  }

  // Every step-th call in turn.
  void fail_each(Durability durability, std::uint64_t step) {
    const LogCapture quiet;
    if (ROTA_TSAN) step *= 8;  // One thread: there is no race to be found, and it is slow.
    if (kUnderAsan) step *= 3;
    std::uint64_t fired = 0;
    for (std::uint64_t k = 1;; k += step) {
      for (const char* suffix : {"", "-wal", "-shm", "-lock"}) std::filesystem::remove(folder_ / "ledger" + suffix);
      FaultVfs vfs;
      DiskOptions options = small_options(folder_ / "ledger", vfs.name());
      options.durability = durability;
      vfs.arm({.at = k, .kind = GetParam()});
      Told told;
      const Result<void> done = work(options, told);
      SCOPED_TRACE("call " + std::to_string(k) + ": " + vfs.fired_at());
      if (vfs.fired_at().empty()) {
        EXPECT_TRUE(done.ok()) << done.error().to_string();
        EXPECT_GT(fired, 60 / step);
        return;
      }
      ++fired;
      EXPECT_EQ(told.closed, done.ok());
      // Faults that only a write can have were tested for the other calls already.
      const bool for_writes = GetParam() == Fault::kNoSpace || GetParam() == Fault::kShort;
      if (for_writes && !vfs.fired_at().starts_with("xWrite")) continue;
      check_all(vfs, told, durability);
      if (HasFailure()) return;
    }
  }

  TestFolder folder_{TestFolder::Where::kMemory};  // What is durable is decided by FaultVfs here.
};

INSTANTIATE_TEST_SUITE_P(Each, FaultTest,
                         ::testing::Values(Fault::kError, Fault::kNoSpace, Fault::kShort, Fault::kDead));

// Contract: L-2. Every write, sync, truncation, removal and creation fails once, and nothing acknowledged is lost.
// A full disk differs from a short write only in its error, so every third call is enough.
TEST_P(FaultTest, EveryCallFails) { fail_each(Durability::kFull, GetParam() == Fault::kNoSpace ? 3 : 1); }

// Contract: L-2. The same with relaxed durability: a crash of the process loses nothing, a power cut only the end.
TEST_P(FaultTest, EveryCallFailsRelaxed) { fail_each(Durability::kRelaxed, 5); }

// Contract: L-2. Recovery itself is interrupted at every call, repeatedly, and still nothing is lost.
TEST_P(FaultTest, EveryCallOfRecoveryFails) {
  const LogCapture quiet;
  Told told;
  {
    FaultVfs vfs;
    vfs.arm({.at = 90, .kind = Fault::kDead});
    ASSERT_FALSE(work(small_options(folder_ / "first", vfs.name()), told).ok());
  }
  ASSERT_GT(told.durable, 20U);
  for (std::uint64_t k = 1;; ++k) {
    copy_ledger(folder_ / "first", folder_ / "ledger");
    FaultVfs vfs;
    // The current files are what the disk has.
    for (const char* suffix : {"", "-wal"}) vfs.synced(folder_ / "ledger" + suffix);
    vfs.arm({.at = k, .kind = GetParam()});
    const bool recovered = DiskLedger::open(small_options(folder_ / "ledger", vfs.name())).ok();
    SCOPED_TRACE("call " + std::to_string(k) + ": " + vfs.fired_at());
    if (vfs.fired_at().empty()) {
      EXPECT_TRUE(recovered);
      EXPECT_GT(k, 5U);
      return;
    }
    check_all(vfs, told, Durability::kFull);
    if (HasFailure()) return;
  }
}

// Contract: L-2. After a failure every waiter gets the error, later changes are refused with it, reading continues, and
// nothing is written any more. A full disk is NoSpace and says what to do.
TEST_P(FaultTest, AFailureIsFinal) {
  const LogCapture quiet;
  FaultVfs vfs;
  DiskOptions options = small_options(folder_ / "ledger", vfs.name());
  options.writer = Writer::kThread;
  std::unique_ptr<DiskLedger> ledger = DiskLedger::open(options).value();
  ASSERT_TRUE(ledger->append(test_records(1, 10)).ok());
  vfs.arm({.at = 1, .kind = GetParam()});
  const ErrorCode code = GetParam() == Fault::kNoSpace ? ErrorCode::kNoSpace : ErrorCode::kIoError;
  fiber::Runtime runtime({.worker_count = 2});
  runtime.run([&] {
    fiber::with_scope([&](fiber::Nursery& scope) {
      for (std::uint64_t index = 11; index <= 30; ++index) {
        if (!ledger->submit(test_records(index, index)).ok()) break;
        scope.launch([&, index] { EXPECT_EQ(ledger->wait_durable(index).code(), code); });
      }
    });
  });
  const std::uint64_t calls = vfs.calls();
  EXPECT_EQ(ledger->append(test_records(ledger->submitted_index() + 1, ledger->submitted_index() + 1)).code(), code);
  EXPECT_EQ(ledger->save_snapshot(test_snapshot(5)).code(), code);
  EXPECT_EQ(ledger->compact(0).code(), code);
  EXPECT_EQ(ledger->last_index(), 10U);
  EXPECT_EQ(all_records(*ledger), test_records(1, 10));
  if (code == ErrorCode::kNoSpace) {
    EXPECT_NE(ledger->close().error().message.find("make room"), std::string::npos);
  }
  EXPECT_EQ(ledger->close().code(), code);
  EXPECT_TRUE(quiet.contains("writing to the ledger failed"));
  ledger.reset();
  EXPECT_EQ(vfs.calls(), calls);  // Not even at its end.
  vfs.arm({});
  ledger = DiskLedger::open(options).value();
  EXPECT_EQ(ledger->last_index(), 10U);
  ASSERT_TRUE(ledger->append(test_records(11, 12)).ok());
}

// Contract: L-2. A backup fails at every call, and at the renaming: nothing is left at its path, and the ledger is not
// affected.
TEST_P(FaultTest, EveryCallOfABackupFails) {
  FaultVfs vfs;
  DiskOptions options = small_options(folder_ / "ledger", vfs.name());
  static bool rename_fails = false;
  options.rename = [](const char* from, const char* to) {
    errno = EIO;
    return rename_fails ? -1 : std::rename(from, to);
  };
  const std::unique_ptr<DiskLedger> ledger = DiskLedger::open(options).value();
  ASSERT_TRUE(ledger->append(test_records(1, 50)).ok());
  const auto files = [&] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      if (entry.path().filename().string().starts_with("backup")) names.push_back(entry.path().filename());
    }
    return names;
  };
  const std::string path = folder_ / "backup";
  for (std::uint64_t k = 1;; ++k) {
    vfs.arm({.at = k, .kind = GetParam()});
    const Result<void> done = ledger->backup(path);
    SCOPED_TRACE("call " + std::to_string(k) + ": " + vfs.fired_at());
    if (vfs.fired_at().empty()) {
      ASSERT_TRUE(done.ok()) << done.error().to_string();
      EXPECT_GT(k, 5U);
      break;
    }
    if (done.ok()) {  // What failed did not matter: it is whole.
      ASSERT_TRUE(std::filesystem::remove(path));
      continue;
    }
    EXPECT_EQ(files(), std::vector<std::string>());
    EXPECT_NE(done.error().message.find(path), std::string::npos);
  }
  EXPECT_EQ(files(), std::vector<std::string>{"backup"});
  vfs.arm({});
  rename_fails = true;
  EXPECT_EQ(ledger->backup(path + "2").code(), ErrorCode::kIoError);
  rename_fails = false;
  EXPECT_EQ(files(), std::vector<std::string>{"backup"});
  EXPECT_EQ(ledger->backup(folder_ / "no/such/folder").code(), ErrorCode::kNotFound);
  ASSERT_TRUE(ledger->append(test_records(51, 51)).ok());
  const std::unique_ptr<DiskLedger> copy = DiskLedger::open(small_options(path, nullptr)).value();
  EXPECT_EQ(all_records(*copy), test_records(1, 50));
}

// ------------------------------------------------------------------------------------------------------------ killing

constexpr const char* kChildPath = "ROTA_LEDGER_TEST_CHILD";
constexpr int kChildSays = 100;  // The descriptor.

// The child process of KilledAtAnyMoment, not a test: appends forever and writes each acknowledged index in eight
// bytes.
TEST(LedgerChild, DISABLED_AppendsForEver) {
  const char* path = std::getenv(kChildPath);
  ASSERT_NE(path, nullptr);
  DiskOptions options = small_options(path, nullptr);
  options.writer = Writer::kThread;
  const std::unique_ptr<DiskLedger> ledger = DiskLedger::open(options).value();
  fiber::Runtime runtime({.worker_count = 2});
  runtime.run([&] {
    std::uint64_t next = ledger->last_index() + 1;
    for (std::uint64_t round = 0;; ++round) {
      for (std::uint64_t i = 0; i <= round % 5; ++i, ++next) {
        ASSERT_TRUE(ledger->submit(test_records(next, next)).ok());
      }
      const std::uint64_t last = next - 1;
      ASSERT_TRUE(ledger->wait_durable(last).ok());
      ASSERT_EQ(::write(kChildSays, &last, sizeof last), static_cast<ssize_t>(sizeof last));
      if (round % 7 == 6) {
        ASSERT_TRUE(ledger->save_snapshot(test_snapshot(last, 9000)).ok());
        ASSERT_TRUE(ledger->compact(last - 1).ok());
      }
    }
  });
}

// Contract: L-2. A process is killed at a random moment, ten times on one ledger: the records that it reported as
// durable are there, and the next process continues after them.
TEST(LedgerKill, KilledAtAnyMoment) {
  const LogCapture quiet;
  const TestFolder folder(TestFolder::Where::kMemory);  // To the system a killed process's writes are as good as any.
  const std::string path = folder / "ledger";
  Prng random(20);
  std::uint64_t acknowledged = 0;
  for (int round = 0; round < 10; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], kChildSays);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    std::string program = "ledger_tests", filter = "--gtest_filter=LedgerChild.*",
                disabled = "--gtest_also_run_disabled_tests", variable = std::string(kChildPath) + "=" + path;
    char* arguments[] = {program.data(), filter.data(), disabled.data(), nullptr};
    std::vector<char*> environment{variable.data()};
    // Not GoogleTest's own variables: a shard of ours would leave the child without its one test.
    for (char** entry = environ; *entry != nullptr; ++entry) {
      if (!std::string_view(*entry).starts_with("GTEST_")) environment.push_back(*entry);
    }
    environment.push_back(nullptr);
    pid_t child = 0;
    ASSERT_EQ(::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, arguments, environment.data()), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    // Everything that it reported counts, also what is read after the kill.
    std::string said;
    char buffer[4096];
    const std::size_t enough = 8 * (1 + random.below(200));
    for (bool killed = false;;) {
      const ssize_t size = ::read(ends[0], buffer, sizeof buffer);
      if (size <= 0) break;
      said.append(buffer, static_cast<std::size_t>(size));
      if (!killed && said.size() >= enough) {
        ::kill(child, SIGKILL);
        killed = true;
      }
    }
    ::close(ends[0]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
    ASSERT_GE(said.size(), 8U);
    std::memcpy(&acknowledged, said.data() + (said.size() - said.size() % 8 - 8), 8);

    DiskOptions options = small_options(path, nullptr);
    Result<std::unique_ptr<DiskLedger>> opened = DiskLedger::open(options);
    ASSERT_TRUE(opened.ok()) << opened.error().to_string();
    DiskLedger& ledger = **opened;
    EXPECT_GE(ledger.last_index(), acknowledged);
    EXPECT_LE(ledger.last_index(), acknowledged + 10);
    EXPECT_EQ(all_records(ledger), test_records(ledger.first_index(), ledger.last_index()));
  }
}

}  // namespace
}  // namespace rota::ledger
