// The ledger on disk, beyond the common suite: groups, damage, locks, versions, bounds.
#include "ledger/disk_ledger.h"

#include <sqlite3.h>
#include <unistd.h>

#include <cstring>

#include "base/log.h"
#include "base/prng.h"
#include "ledger/disk_reader.h"
#include "ledger/disk_testing.h"
#include "ledger/fault_vfs.h"
#include "ledger/sqlite_handle.h"
#include "rota/fiber/cancel.h"
#include "rota/fiber/time.h"

namespace rota::ledger {
namespace {

using detail::Connection;

class DiskLedgerTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<DiskLedger>> open(const std::string& name = "ledger") {
    options_.path = folder_ / name;
    return DiskLedger::open(options_);
  }
  // A ledger as a crash leaves it, at "crashed": all of it is in the write-ahead log, `groups` of one record each.
  void make_crashed(std::uint64_t groups) {
    std::unique_ptr<DiskLedger> ledger = open("first").value();
    for (std::uint64_t index = 1; index <= groups; ++index) {
      ASSERT_TRUE(ledger->append(test_records(index, index)).ok());
    }
    copy_ledger(folder_ / "first", folder_ / "crashed");
  }
  // A closed ledger of `records` records at "ledger".
  void make_closed(std::uint64_t records) {
    std::unique_ptr<DiskLedger> ledger = open().value();
    ASSERT_TRUE(ledger->append(test_records(1, records)).ok());
    ASSERT_TRUE(ledger->close().ok());
    ASSERT_FALSE(std::filesystem::exists(folder_ / "ledger-wal"));
  }
  void execute(const std::string& name, const char* sql) {
    ASSERT_TRUE(Connection::open(folder_ / name, Connection::Mode::kWrite, nullptr).value()->execute(sql).ok());
  }

  TestFolder folder_{TestFolder::Where::kMemory};
  DiskOptions options_;
};

constexpr std::size_t kWalHeader = 32;
constexpr std::size_t kFrame = 24 + 4096;

// Contract: L-2. A ledger that lost all its bytes is refused, by the writer and by readers; it is not taken for a new
// one.
TEST_F(DiskLedgerTest, AnEmptyFileIsNotANewLedger) {
  make_closed(3);
  std::filesystem::resize_file(folder_ / "ledger", 0);
  const Result<std::unique_ptr<DiskLedger>> opened = open();
  ASSERT_EQ(opened.code(), ErrorCode::kCorrupt);
  EXPECT_NE(opened.error().message.find("what it held is lost"), std::string::npos) << opened.error().message;
  EXPECT_EQ(DiskReader::open(folder_ / "ledger").code(), ErrorCode::kCorrupt);
  EXPECT_EQ(std::filesystem::file_size(folder_ / "ledger"), 0U) << "it was left as it is";
  std::filesystem::remove(folder_ / "ledger");
  EXPECT_TRUE(open().ok());
}

// ------------------------------------------------------------------------------------------------------- group commit

// Contract: L-2. Records that are submitted while nothing is written become one transaction with one sync.
TEST_F(DiskLedgerTest, AGroupIsOneSync) {
  FaultVfs vfs;
  options_.vfs = vfs.name();
  options_.writer = Writer::kInPlace;
  const std::unique_ptr<DiskLedger> ledger = open().value();
  ASSERT_TRUE(ledger->append(test_records(1, 1)).ok());
  for (std::uint64_t index = 2; index <= 101; ++index) ASSERT_TRUE(ledger->submit({{test_record(index)}}).ok());
  EXPECT_EQ(ledger->last_index(), 1U);
  const DiskLedger::Stats before = ledger->stats();
  const std::uint64_t syncs = vfs.syncs();
  ASSERT_TRUE(ledger->wait_durable(2).ok());
  EXPECT_EQ(ledger->last_index(), 101U);
  EXPECT_EQ(vfs.syncs(), syncs + 1);
  EXPECT_EQ(ledger->stats().groups, before.groups + 1);
  EXPECT_EQ(ledger->stats().records, 101U);
  EXPECT_EQ(ledger->stats().largest_group, 100U);
}

// Contract: L-2. The records that arrive while one group syncs form the next group.
TEST_F(DiskLedgerTest, GroupsFormWhileTheLastOneSyncs) {
  FaultVfs vfs;
  options_.vfs = vfs.name();
  const std::unique_ptr<DiskLedger> ledger = open().value();
  ASSERT_TRUE(ledger->append(test_records(1, 1)).ok());
  vfs.hold_syncs(true);
  fiber::Runtime runtime({.worker_count = 2});
  runtime.run([&] {
    ASSERT_TRUE(ledger->submit({{test_record(2)}}).ok());
    vfs.await_held();
    fiber::with_scope([&](fiber::Nursery& scope) {
      for (std::uint64_t index = 3; index <= 60; ++index) {
        ASSERT_TRUE(ledger->submit({{test_record(index)}}).ok());
        scope.launch([&, index] {
          ASSERT_TRUE(ledger->wait_durable(index).ok());
          EXPECT_EQ(*ledger->read(index, 1), test_records(index, index));
        });
      }
      // L-1: nobody gets an answer, and nothing can be read, before its sync.
      EXPECT_EQ(ledger->last_index(), 1U);
      EXPECT_TRUE(ledger->read(2, 10)->empty());
      vfs.hold_syncs(false);
    });
  });
  EXPECT_EQ(ledger->stats().groups, 3U);
  EXPECT_EQ(ledger->stats().largest_group, 58U);
}

// A full queue refuses records with QueueFull; append() waits instead.
TEST_F(DiskLedgerTest, TheQueueIsBounded) {
  options_.writer = Writer::kInPlace;
  options_.pending_bytes_max = 1000;
  const std::unique_ptr<DiskLedger> ledger = open().value();
  const auto record = [](std::uint64_t index) { return std::vector<RecordBytes>{{index, std::string(400, 'x')}}; };
  ASSERT_TRUE(ledger->submit(record(1)).ok());
  ASSERT_TRUE(ledger->submit(record(2)).ok());
  EXPECT_EQ(ledger->submit(record(3)).code(), ErrorCode::kQueueFull);
  EXPECT_EQ(ledger->submitted_index(), 2U);
  ASSERT_TRUE(ledger->append(record(3)).ok());
  ASSERT_TRUE(
      ledger->append(std::vector<RecordBytes>{{4, std::string(5000, 'x')}}).ok());  // Larger than the bound alone.
  EXPECT_EQ(ledger->last_index(), 4U);
}

// A task that is cancelled while it waits returns at once; its record becomes durable anyway.
TEST_F(DiskLedgerTest, AWaitCanBeCancelled) {
  const std::unique_ptr<DiskLedger> ledger = open().value();
  fiber::Runtime runtime({.worker_count = 2});
  runtime.run([&] {
    for (std::uint64_t index = 1; index <= 200; ++index) {
      ASSERT_TRUE(ledger->submit({{test_record(index)}}).ok());
      auto task = runtime.spawn([&, index] { return ledger->wait_durable(index).code(); });
      task.cancel();
      try {
        const ErrorCode code = task.get();
        EXPECT_TRUE(code == ErrorCode::kOk || code == ErrorCode::kCancelled);
      } catch (const fiber::Cancelled&) {  // It never began.
      }
    }
    ASSERT_TRUE(ledger->wait_durable(200).ok());
  });
  EXPECT_EQ(all_records(*ledger), test_records(1, 200));
}

// A writer thread would end waits that deterministic mode does not control, so it is refused, with the remedy.
TEST_F(DiskLedgerTest, DeterministicModeNeedsAWriterInPlace) {
  const std::unique_ptr<DiskLedger> ledger = open().value();
  fiber::Runtime runtime({.worker_count = 1, .deterministic_seed = 1});
  runtime.run([&] {
    EXPECT_EQ(ledger->submit(test_records(1, 1)).code(), ErrorCode::kFailedPrecondition);
    EXPECT_EQ(ledger->compact(0).code(), ErrorCode::kFailedPrecondition);
  });
  ASSERT_TRUE(ledger->append(test_records(1, 1)).ok());
}

// ------------------------------------------------------------------------------------------------------------- damage

// Contract: L-2. However many bytes of the last transaction are missing from the write-ahead log, it is removed and
// reported, and everything before it is there.
TEST_F(DiskLedgerTest, ATornTailIsCutAndReported) {
  make_crashed(20);
  const std::string log = file_bytes(folder_ / "crashed-wal");
  const std::string main = file_bytes(folder_ / "crashed");
  const std::size_t last_frame = kWalHeader + (log.size() - kWalHeader) / kFrame * kFrame - kFrame;
  for (std::size_t size = log.size() - 1; size > last_frame; size -= std::min<std::size_t>(409, size - last_frame)) {
    SCOPED_TRACE(size);
    write_file(folder_ / "crashed", main);
    write_file(folder_ / "crashed-wal", log.substr(0, size));
    const LogCapture lines;
    const std::unique_ptr<DiskLedger> ledger = open("crashed").value();
    EXPECT_EQ(all_records(*ledger), test_records(1, 19));
    EXPECT_EQ(ledger->recovery().last_index, 19U);
    EXPECT_EQ(ledger->recovery().torn_bytes, size - last_frame);
    EXPECT_TRUE(lines.contains("removed a torn tail"));
    ASSERT_TRUE(ledger->append(test_records(20, 21)).ok());
  }
  // A complete log: nothing to report.
  write_file(folder_ / "crashed", main);
  write_file(folder_ / "crashed-wal", log);
  const LogCapture lines;
  const std::unique_ptr<DiskLedger> ledger = open("crashed").value();
  EXPECT_EQ(all_records(*ledger), test_records(1, 20));
  EXPECT_EQ(ledger->recovery().torn_bytes, 0U);
  EXPECT_FALSE(lines.contains("torn"));
}

// Contract: L-2. One flipped bit anywhere before the last transactions of the write-ahead log, which SQLite would take
// for its end: the ledger refuses to start, names the position, and changes nothing; after the repair everything is
// there.
TEST_F(DiskLedgerTest, ADamagedLogIsRefused) {
  make_crashed(20);
  const std::string log = file_bytes(folder_ / "crashed-wal");
  const std::string main = file_bytes(folder_ / "crashed");
  const std::size_t frames = (log.size() - kWalHeader) / kFrame;
  ASSERT_GE(frames, 20U);
  Prng random(5);
  for (std::size_t frame = 0; frame + 4 < frames; ++frame) {
    const std::size_t at = frame == 0 ? random.below(kWalHeader) : kWalHeader + frame * kFrame + random.below(kFrame);
    SCOPED_TRACE(at);
    std::string damaged = log;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << random.below(8)));
    write_file(folder_ / "crashed-wal", damaged);
    const Result<std::unique_ptr<DiskLedger>> refused = open("crashed");
    ASSERT_EQ(refused.code(), ErrorCode::kCorrupt);
    ASSERT_NE(refused.error().detail("index"), nullptr) << refused.error().to_string();
    const std::size_t place = frame == 0 ? 0 : kWalHeader + frame * kFrame;
    EXPECT_EQ(*refused.error().detail("offset"), std::to_string(place)) << refused.error().to_string();
    EXPECT_EQ(file_bytes(folder_ / "crashed-wal"), damaged);
    EXPECT_EQ(file_bytes(folder_ / "crashed"), main);
  }
  write_file(folder_ / "crashed-wal", log);
  const std::unique_ptr<DiskLedger> ledger = open("crashed").value();
  EXPECT_EQ(all_records(*ledger), test_records(1, 20));
}

// Contract: L-2. One changed byte anywhere in the main file: either the ledger refuses to start and changes nothing, or
// the byte was unused and every record is there.
TEST_F(DiskLedgerTest, ADamagedMainFileIsRefusedOrHarmless) {
  make_closed(300);
  const std::string main = file_bytes(folder_ / "ledger");
  Prng random(9);
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    const std::size_t at = round < 100 ? static_cast<std::size_t>(round) : random.below(main.size());
    SCOPED_TRACE(at);
    std::string damaged = main;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << random.below(8)));
    write_file(folder_ / "ledger", damaged);
    std::filesystem::remove(folder_ / "ledger-wal");
    const Result<std::unique_ptr<DiskLedger>> opened = open();
    if (!opened.ok()) {
      ++refused;
      EXPECT_EQ(file_bytes(folder_ / "ledger"), damaged) << opened.error().to_string();
      continue;
    }
    EXPECT_EQ(all_records(**opened), test_records(1, 300));
  }
  EXPECT_GT(refused, 200);
}

// Contract: L-2. The error names the damaged record and what was expected.
TEST_F(DiskLedgerTest, TheDamagedRecordIsNamed) {
  const auto refusal = [&](const char* sql, ErrorCode code, const char* index) {
    SCOPED_TRACE(sql);
    std::filesystem::remove(folder_ / "ledger");
    make_closed(50);
    execute("ledger", sql);
    const Result<std::unique_ptr<DiskLedger>> opened = open();
    EXPECT_EQ(opened.code(), code);
    if (opened.ok()) return std::string();
    const std::string* found = opened.error().detail("index");
    EXPECT_EQ(found == nullptr ? "" : *found, index) << opened.error().to_string();
    return opened.error().message;
  };
  EXPECT_NE(refusal("UPDATE records SET bytes = x'00' WHERE idx = 17", ErrorCode::kCorrupt, "17")
                .find("record 17 is damaged"),
            std::string::npos);
  EXPECT_NE(
      refusal("DELETE FROM records WHERE idx = 30", ErrorCode::kCorrupt, "30").find("record 30 is missing; record 31"),
      std::string::npos);
  EXPECT_NE(
      refusal("DELETE FROM records WHERE idx > 45", ErrorCode::kDataLoss, "46").find("up to 50 were acknowledged"),
      std::string::npos);
  refusal("DELETE FROM records WHERE idx < 3", ErrorCode::kCorrupt, "1");
  refusal("UPDATE records SET idx = 100 WHERE idx = 50", ErrorCode::kCorrupt, "50");
  refusal(
      "UPDATE records SET sum = (SELECT sum FROM records WHERE idx = 9),"
      " bytes = (SELECT bytes FROM records WHERE idx = 9) WHERE idx = 8",
      ErrorCode::kCorrupt, "8");
  refusal("UPDATE meta SET base = 7", ErrorCode::kCorrupt, "");
  refusal("DELETE FROM meta", ErrorCode::kCorrupt, "");
}

// With a damaged snapshot the ledger refuses to start, too: the records that it covers may be gone.
TEST_F(DiskLedgerTest, ADamagedSnapshotIsNamed) {
  {
    const std::unique_ptr<DiskLedger> ledger = open().value();
    ASSERT_TRUE(ledger->append(test_records(1, 10)).ok());
    ASSERT_TRUE(ledger->save_snapshot(test_snapshot(8)).ok());
    ASSERT_TRUE(ledger->compact(8).ok());
  }
  copy_ledger(folder_ / "ledger", folder_ / "other");
  execute("ledger", "UPDATE pieces SET bytes = x'01'");
  EXPECT_EQ(*open().error().detail("index"), "8");
  execute("other", "DELETE FROM snapshots");
  EXPECT_EQ(open("other").code(), ErrorCode::kCorrupt);
}

// A log whose main file is missing is not taken for a new ledger.
TEST_F(DiskLedgerTest, ALostMainFileIsRefused) {
  make_crashed(3);
  write_file(folder_ / "crashed", "");
  const std::string log = file_bytes(folder_ / "crashed-wal");
  EXPECT_EQ(open("crashed").code(), ErrorCode::kCorrupt);
  EXPECT_EQ(file_bytes(folder_ / "crashed-wal"), log);
}

// ------------------------------------------------------------------------------------------------ who may open what

// One process at a time, and the error names the holder.
TEST_F(DiskLedgerTest, OneProcessHasIt) {
  std::unique_ptr<DiskLedger> ledger = open().value();
  const Result<std::unique_ptr<DiskLedger>> second = open();
  ASSERT_EQ(second.code(), ErrorCode::kConflict);
  EXPECT_NE(second.error().message.find("process " + std::to_string(::getpid())), std::string::npos)
      << second.error().message;
  ASSERT_TRUE(ledger->close().ok());
  EXPECT_TRUE(open().ok());
}

TEST_F(DiskLedgerTest, ANewerFormatIsRefused) {
  make_closed(3);
  execute("ledger", "PRAGMA user_version = 7");
  const std::string before = file_bytes(folder_ / "ledger");
  const Result<std::unique_ptr<DiskLedger>> refused = open();
  ASSERT_EQ(refused.code(), ErrorCode::kUnsupported);
  EXPECT_EQ(*refused.error().detail("format"), "7");
  EXPECT_EQ(file_bytes(folder_ / "ledger"), before);
}

// Another program's database, and a file that is not a database, are refused and left unchanged.
TEST_F(DiskLedgerTest, WhatIsNoLedgerIsLeftAlone) {
  ASSERT_TRUE(Connection::open(folder_ / "theirs", Connection::Mode::kCreate, nullptr)
                  .value()
                  ->execute("CREATE TABLE t(a)")
                  .ok());
  std::string before = file_bytes(folder_ / "theirs");
  EXPECT_EQ(open("theirs").code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(file_bytes(folder_ / "theirs"), before);
  before = std::string(5000, 'x');
  write_file(folder_ / "text", before);
  EXPECT_EQ(open("text").code(), ErrorCode::kCorrupt);
  EXPECT_EQ(file_bytes(folder_ / "text"), before);
}

TEST_F(DiskLedgerTest, BadPathsAndOptions) {
  EXPECT_EQ(DiskLedger::open({}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(DiskLedger::open({.path = folder_ / "a", .piece_bytes = 0}).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(open("no/such/folder/ledger").code(), ErrorCode::kNotFound);
  std::filesystem::create_directory(folder_ / "folder");
  EXPECT_FALSE(open("folder").ok());
  EXPECT_TRUE(std::filesystem::is_directory(folder_ / "folder"));
}

// A ledger written relaxed and then with full durability, and the other way round, keeps its records.
TEST_F(DiskLedgerTest, RelaxedAndBack) {
  std::uint64_t next = 1;
  for (const Durability durability : {Durability::kRelaxed, Durability::kFull, Durability::kRelaxed}) {
    options_.durability = durability;
    const std::unique_ptr<DiskLedger> ledger = open().value();
    EXPECT_EQ(all_records(*ledger), test_records(1, next - 1));
    ASSERT_TRUE(ledger->append(test_records(next, next + 9)).ok());
    next += 10;
  }
}

// A relaxed ledger syncs at checkpoints and not with each group.
TEST_F(DiskLedgerTest, RelaxedDoesNotSync) {
  FaultVfs vfs;
  options_.vfs = vfs.name();
  for (const bool relaxed : {true, false}) {
    options_.durability = relaxed ? Durability::kRelaxed : Durability::kFull;
    const std::unique_ptr<DiskLedger> ledger = open().value();
    const std::uint64_t next = ledger->last_index() + 1;
    ASSERT_TRUE(ledger->append({{test_record(next)}}).ok());  // Begins the log.
    vfs.power_cut(folder_ / "ledger", folder_ / "before", 0);
    ASSERT_TRUE(ledger->append({{test_record(next + 1)}}).ok());
    vfs.power_cut(folder_ / "ledger", folder_ / "after", 0);
    EXPECT_EQ(file_bytes(folder_ / "before-wal") == file_bytes(folder_ / "after-wal"), relaxed);
  }
}

// ---------------------------------------------------------------------------------------------------------- compaction

// Contract: L-4. Append, snapshot and compact a thousand times. The files grow to a bound and stay there, and appending
// continues during snapshots and compactions.
TEST_F(DiskLedgerTest, CompactionKeepsTheLogBounded) {
  options_.durability = Durability::kRelaxed;  // Only for speed.
  options_.checkpoint_pages = 50;
  options_.piece_bytes = 5000;
  options_.compact_records = 40;
  const std::unique_ptr<DiskLedger> ledger = open().value();
  const auto bytes = [&] {
    return std::filesystem::file_size(folder_ / "ledger") + std::filesystem::file_size(folder_ / "ledger-wal");
  };
  fiber::Runtime runtime({.worker_count = 2});
  std::uintmax_t early = 0, late = 0;
  std::uint64_t during = 0;  // Records appended while a snapshot or a compaction ran.
  runtime.run([&] {
    std::uint64_t next = 1;
    for (int round = 0; round < 100; ++round) {
      ASSERT_TRUE(ledger->append(test_records(next, next + 99)).ok());
      next += 100;
      const std::uint64_t last = next - 1;
      auto tidy = runtime.spawn([&, last] {
        ASSERT_TRUE(ledger->save_snapshot(test_snapshot(last, 20000)).ok());
        ASSERT_TRUE(ledger->compact(last).ok());
      });
      // Not without bound: on a busy machine the other task may not run for a while, and the log grows meanwhile.
      for (int more = 0; !tidy.is_completed(); ++more) {
        if (more >= 100) {
          fiber::yield();
          continue;
        }
        ASSERT_TRUE(ledger->append(test_records(next, next)).ok());
        ++next;
        ++during;
      }
      tidy.get();
      (round < 20 ? early : late) = std::max(round < 20 ? early : late, bytes());
    }
    EXPECT_EQ(all_records(*ledger), test_records(ledger->first_index(), next - 1));
    EXPECT_LT(next - ledger->first_index(), 1000U);
    EXPECT_GT(next, 10000U);
  });
  EXPECT_GT(during, 100U);
  EXPECT_LE(late, early * 3 / 2) << "early " << early;
}

// Reading continues during compaction: each read returns the requested records, or says that they were compacted.
TEST_F(DiskLedgerTest, ReadingDuringCompaction) {
  options_.durability = Durability::kRelaxed;
  options_.compact_records = 7;
  const std::unique_ptr<DiskLedger> ledger = open().value();
  ASSERT_TRUE(ledger->append(test_records(1, 3000)).ok());
  ASSERT_TRUE(ledger->save_snapshot(test_snapshot(3000)).ok());
  fiber::Runtime runtime({.worker_count = 2});
  runtime.run([&] {
    auto tidy = runtime.spawn([&] { ASSERT_TRUE(ledger->compact(2900).ok()); });
    Prng random(3);
    while (!tidy.is_completed()) {
      const std::uint64_t from = 1 + random.below(3000);
      const Result<std::vector<RecordBytes>> found = ledger->read(from, 5);
      if (found.ok()) {
        EXPECT_EQ(*found, test_records(from, std::min<std::uint64_t>(from + 4, 3000)));
      } else {
        EXPECT_EQ(found.code(), ErrorCode::kNotFound) << found.error().to_string();
      }
    }
    tidy.get();
  });
  EXPECT_EQ(all_records(*ledger), test_records(2901, 3000));
}

// A backup contains the state of one moment, even if records are written meanwhile.
TEST_F(DiskLedgerTest, BackupWhileWriting) {
  const std::unique_ptr<DiskLedger> ledger = open().value();
  ASSERT_TRUE(ledger->append(test_records(1, 2000)).ok());
  fiber::Runtime runtime({.worker_count = 2});
  runtime.run([&] {
    std::uint64_t next = 2001;
    for (int round = 0; round < 3; ++round) {
      const std::string path = folder_ / ("backup" + std::to_string(round));
      const std::uint64_t before = ledger->last_index();
      auto copying = runtime.spawn([&] { return ledger->backup(path); });
      while (!copying.is_completed()) {
        ASSERT_TRUE(ledger->append(test_records(next, next)).ok());
        ++next;
      }
      ASSERT_TRUE(copying.get().ok());
      const std::unique_ptr<DiskLedger> copy = DiskLedger::open({.path = path}).value();
      EXPECT_GE(copy->last_index(), before);
      EXPECT_LE(copy->last_index(), ledger->last_index());
      EXPECT_EQ(all_records(*copy), test_records(1, copy->last_index()));
    }
  });
}

}  // namespace
}  // namespace rota::ledger
