// The test suite that every implementation of Ledger must pass (L-1).
//
//   struct MyLedger {                                        // default-constructed for each test
//     static constexpr bool kPersists = true;                // open() again finds the durable records
//     static constexpr bool kBacksUp = true;
//     Result<std::unique_ptr<Ledger>> open(bool deterministic);  // Always the same place.
//     Result<std::unique_ptr<Ledger>> open_backup(const std::string& path);  // Only if kBacksUp.
//     std::string free_path();                                    // A path for a backup. Only if kBacksUp.
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(Mine, LedgerConformance, MyLedger);
//
// Each test runs on a plain thread, in a fiber on two thread workers, and in deterministic mode.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "ledger/ledger.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/runtime.h"
#include "rota/fiber/sync.h"

namespace rota::ledger {

inline void PrintTo(const RecordBytes& record,
                    std::ostream* out) {  // NOLINT(readability-identifier-naming): GoogleTest's.
  *out << "record " << record.index << " of " << record.bytes.size() << " bytes";
}

inline std::string test_bytes(std::uint64_t seed, std::size_t size) {
  std::string bytes;
  for (Prng random(seed); bytes.size() < size;) {
    const std::uint64_t word = random.next();
    bytes.append(reinterpret_cast<const char*>(&word), sizeof word);
  }
  bytes.resize(size);
  return bytes;
}
// Record `index` of every test: sizes from 0 to some hundred bytes, with contents that no other record has.
inline RecordBytes test_record(std::uint64_t index) {
  return {index, test_bytes(index, index % 7 == 0 ? 0 : index * 37 % 300)};
}
inline std::vector<RecordBytes> test_records(std::uint64_t from, std::uint64_t to) {
  std::vector<RecordBytes> records;
  for (std::uint64_t index = from; index <= to; ++index) records.push_back(test_record(index));
  return records;
}
// A snapshot of `bytes` bytes with contents that no other index has.
inline Snapshot test_snapshot(std::uint64_t index, std::size_t bytes = 5000) {
  return {index, test_bytes(index + 1'000'000, bytes)};
}
// Everything that a ledger holds.
inline std::vector<RecordBytes> all_records(Ledger& ledger) {
  std::vector<RecordBytes> all;
  for (std::uint64_t next = ledger.first_index(); next <= ledger.last_index();) {
    Result<std::vector<RecordBytes>> some = ledger.read(next, 1000);
    EXPECT_TRUE(some.ok()) << (some.ok() ? "" : some.error().to_string());
    if (!some.ok() || some->empty()) break;
    next += some->size();
    for (RecordBytes& record : *some) all.push_back(std::move(record));
  }
  return all;
}

template <class Home>
class LedgerConformance : public ::testing::Test {
 protected:
  // Runs body(home, open) in each of the three ways, each time in a new place.
  template <class Body>
  void everywhere(Body&& body) {
    {
      SCOPED_TRACE("on a thread");
      run(body, false);
    }
    {
      SCOPED_TRACE("in a fiber");
      fiber::Runtime runtime({.worker_count = 2});
      runtime.run([&] { run(body, false); });
    }
    SCOPED_TRACE("in deterministic mode");
    fiber::Runtime runtime({.worker_count = 2, .deterministic_seed = 1});
    runtime.run([&] { run(body, true); });
  }

 private:
  template <class Body>
  void run(Body& body, bool deterministic) {
    Home home;
    body(home, [&] {
      Result<std::unique_ptr<Ledger>> ledger = home.open(deterministic);
      EXPECT_TRUE(ledger.ok()) << (ledger.ok() ? "" : ledger.error().to_string());
      return std::move(ledger).value();
    });
  }
};

TYPED_TEST_SUITE_P(LedgerConformance);

TYPED_TEST_P(LedgerConformance, ANewLedgerIsEmpty) {
  this->everywhere([](TypeParam&, auto open) {
    const std::unique_ptr<Ledger> ledger = open();
    EXPECT_EQ(ledger->first_index(), 1U);
    EXPECT_EQ(ledger->last_index(), 0U);
    EXPECT_EQ(ledger->submitted_index(), 0U);
    EXPECT_TRUE(ledger->read(1, 10)->empty());
    EXPECT_FALSE(ledger->latest_snapshot()->has_value());
    EXPECT_TRUE(ledger->wait_durable(0).ok());
    EXPECT_TRUE(ledger->append({}).ok());
    EXPECT_TRUE(ledger->compact(0).ok());
    EXPECT_TRUE(ledger->close().ok());
  });
}

// Appended records are returned in order and byte for byte, from any index and in portions of any size.
TYPED_TEST_P(LedgerConformance, RecordsComeBack) {
  this->everywhere([](TypeParam&, auto open) {
    const std::unique_ptr<Ledger> ledger = open();
    ASSERT_TRUE(ledger->append(test_records(1, 1)).ok());
    ASSERT_TRUE(ledger->append(test_records(2, 100)).ok());
    EXPECT_EQ(ledger->last_index(), 100U);
    EXPECT_EQ(*ledger->read(1, 1000), test_records(1, 100));
    EXPECT_EQ(*ledger->read(40, 3), test_records(40, 42));
    EXPECT_EQ(*ledger->read(100, 3), test_records(100, 100));
    EXPECT_TRUE(ledger->read(101, 3)->empty());
    EXPECT_TRUE(ledger->read(5, 0)->empty());
    EXPECT_EQ(ledger->read(0, 1).code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(ledger->read(1, SIZE_MAX)->size(), 100U);
  });
}

// A read ends before it becomes too large, and always returns at least one record.
TYPED_TEST_P(LedgerConformance, AReadIsBounded) {
  TypeParam home;
  const std::unique_ptr<Ledger> ledger = home.open(false).value();
  const std::string large(kMaxReadBytes / 2, 'x');
  ASSERT_TRUE(ledger->append(std::vector<RecordBytes>{{1, large}, {2, large}, {3, large}}).ok());
  EXPECT_EQ(ledger->read(1, 10)->size(), 2U);
  EXPECT_EQ(ledger->read(3, 10)->size(), 1U);
  // Contract: P-17. One record may be larger than a read.
  const std::string larger(kMaxReadBytes + 1, 'y');
  ASSERT_TRUE(ledger->append(std::vector<RecordBytes>{{4, larger}, {5, "z"}}).ok());
  EXPECT_EQ(ledger->read(4, 10)->size(), 1U);
  EXPECT_EQ(ledger->read(4, 1)->front().bytes, larger);
}

// A wrong index or size is refused with the expected value, and nothing changes.
TYPED_TEST_P(LedgerConformance, RefusalsChangeNothing) {
  this->everywhere([](TypeParam&, auto open) {
    const std::unique_ptr<Ledger> ledger = open();
    ASSERT_TRUE(ledger->append(test_records(1, 3)).ok());
    const auto refused = [&](std::vector<RecordBytes> records, ErrorCode code) {
      EXPECT_EQ(ledger->submit(records).code(), code);
      EXPECT_EQ(ledger->append(records).code(), code);
      EXPECT_EQ(ledger->submitted_index(), 3U);
    };
    refused(test_records(5, 5), ErrorCode::kConflict);
    refused(test_records(3, 4), ErrorCode::kConflict);
    refused(test_records(0, 0), ErrorCode::kConflict);
    refused({test_record(4), test_record(6)}, ErrorCode::kConflict);
    refused({test_record(4), test_record(4)}, ErrorCode::kConflict);
    refused({test_record(4), {5, std::string(kMaxRecordBytes + 1, 'x')}}, ErrorCode::kTooLarge);
    EXPECT_EQ(*ledger->submit(test_records(7, 7)).error().detail("expected"), "4");
    EXPECT_EQ(ledger->wait_durable(4).code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(all_records(*ledger), test_records(1, 3));
    ASSERT_TRUE(ledger->append(test_records(4, 4)).ok());
  });
}

// Records are submitted in several steps and then waited for, in any order.
TYPED_TEST_P(LedgerConformance, SubmitAndWait) {
  this->everywhere([](TypeParam&, auto open) {
    const std::unique_ptr<Ledger> ledger = open();
    for (std::uint64_t index = 1; index <= 50; ++index) {
      ASSERT_TRUE(ledger->submit(test_records(index, index)).ok());
    }
    EXPECT_EQ(ledger->submitted_index(), 50U);
    ASSERT_TRUE(ledger->wait_durable(50).ok());
    ASSERT_TRUE(ledger->wait_durable(7).ok());
    EXPECT_EQ(ledger->last_index(), 50U);
    EXPECT_EQ(all_records(*ledger), test_records(1, 50));
  });
}

// Many tasks submit in turn and each waits for its own record; a task can read a record that it was told is durable.
TYPED_TEST_P(LedgerConformance, ManyTasks) {
  const auto body = [](Ledger& ledger) {
    std::uint64_t next = 1;
    fiber::Mutex turn;
    fiber::with_scope([&](fiber::Nursery& scope) {
      for (int task = 0; task < 20; ++task) {
        scope.launch([&] {
          for (int i = 0; i < 10; ++i) {
            std::uint64_t mine = 0;
            {
              const std::lock_guard lock(turn);
              mine = next++;
              ASSERT_TRUE(ledger.submit(test_records(mine, mine)).ok());
            }
            ASSERT_TRUE(ledger.wait_durable(mine).ok());
            EXPECT_GE(ledger.last_index(), mine);
            EXPECT_EQ(*ledger.read(mine, 1), test_records(mine, mine));
          }
        });
      }
    });
    EXPECT_EQ(all_records(ledger), test_records(1, 200));
  };
  for (const bool deterministic : {false, true}) {
    TypeParam home;
    fiber::Config config{.worker_count = 2};
    if (deterministic) config.deterministic_seed = 7;
    fiber::Runtime runtime(config);
    runtime.run([&] {
      Result<std::unique_ptr<Ledger>> ledger = home.open(deterministic);
      ASSERT_TRUE(ledger.ok());
      body(**ledger);
    });
  }
}

TYPED_TEST_P(LedgerConformance, Snapshots) {
  this->everywhere([](TypeParam&, auto open) {
    const std::unique_ptr<Ledger> ledger = open();
    ASSERT_TRUE(ledger->append(test_records(1, 20)).ok());
    EXPECT_EQ(ledger->save_snapshot(test_snapshot(0)).code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(ledger->save_snapshot(test_snapshot(21)).code(), ErrorCode::kFailedPrecondition);
    EXPECT_FALSE(ledger->latest_snapshot()->has_value());
    ASSERT_TRUE(ledger->save_snapshot(test_snapshot(10)).ok());
    EXPECT_EQ(**ledger->latest_snapshot(), test_snapshot(10));
    EXPECT_EQ(ledger->save_snapshot(test_snapshot(10)).code(), ErrorCode::kFailedPrecondition);
    EXPECT_EQ(ledger->save_snapshot(test_snapshot(9)).code(), ErrorCode::kFailedPrecondition);
    ASSERT_TRUE(ledger->save_snapshot({11, ""}).ok());
    EXPECT_EQ(**ledger->latest_snapshot(), (Snapshot{11, ""}));
    ASSERT_TRUE(ledger->save_snapshot(test_snapshot(20, 3'000'000)).ok());
    EXPECT_EQ(**ledger->latest_snapshot(), test_snapshot(20, 3'000'000));
    EXPECT_EQ(all_records(*ledger), test_records(1, 20));
  });
}

// Compaction never goes beyond the latest snapshot; later records stay, and indices continue even if none is left.
TYPED_TEST_P(LedgerConformance, Compaction) {
  this->everywhere([](TypeParam&, auto open) {
    const std::unique_ptr<Ledger> ledger = open();
    ASSERT_TRUE(ledger->append(test_records(1, 5000)).ok());
    EXPECT_EQ(ledger->compact(1).code(), ErrorCode::kFailedPrecondition);
    ASSERT_TRUE(ledger->save_snapshot(test_snapshot(4800)).ok());
    EXPECT_EQ(ledger->compact(4801).code(), ErrorCode::kFailedPrecondition);
    EXPECT_EQ(ledger->first_index(), 1U);
    ASSERT_TRUE(ledger->compact(10).ok());
    EXPECT_EQ(ledger->first_index(), 11U);
    ASSERT_TRUE(ledger->compact(4800).ok());
    ASSERT_TRUE(ledger->compact(7).ok());
    EXPECT_EQ(ledger->first_index(), 4801U);
    EXPECT_EQ(ledger->read(4800, 1).code(), ErrorCode::kNotFound);
    EXPECT_EQ(*ledger->read(4800, 1).error().detail("first_index"), "4801");
    EXPECT_EQ(all_records(*ledger), test_records(4801, 5000));
    ASSERT_TRUE(ledger->save_snapshot(test_snapshot(5000)).ok());
    ASSERT_TRUE(ledger->compact(5000).ok());
    EXPECT_EQ(ledger->first_index(), 5001U);
    EXPECT_EQ(ledger->last_index(), 5000U);
    EXPECT_TRUE(ledger->read(5001, 1)->empty());
    ASSERT_TRUE(ledger->append(test_records(5001, 5002)).ok());
    EXPECT_EQ(all_records(*ledger), test_records(5001, 5002));
  });
}

TYPED_TEST_P(LedgerConformance, ClosedIsClosed) {
  this->everywhere([](TypeParam&, auto open) {
    const std::unique_ptr<Ledger> ledger = open();
    ASSERT_TRUE(ledger->append(test_records(1, 3)).ok());
    ASSERT_TRUE(ledger->close().ok());
    EXPECT_TRUE(ledger->close().ok());
    EXPECT_EQ(ledger->submit(test_records(4, 4)).code(), ErrorCode::kClosed);
    EXPECT_EQ(ledger->read(1, 1).code(), ErrorCode::kClosed);
    EXPECT_EQ(ledger->save_snapshot(test_snapshot(3)).code(), ErrorCode::kClosed);
    EXPECT_EQ(ledger->latest_snapshot().code(), ErrorCode::kClosed);
    EXPECT_EQ(ledger->compact(0).code(), ErrorCode::kClosed);
  });
}

// After close() and another open() the records, their first index and the snapshot are unchanged. Records that were
// submitted and not waited for are there as well.
TYPED_TEST_P(LedgerConformance, OpenedAgain) {
  if (!TypeParam::kPersists) GTEST_SKIP() << "this home forgets";
  this->everywhere([](TypeParam&, auto open) {
    {
      const std::unique_ptr<Ledger> ledger = open();
      ASSERT_TRUE(ledger->append(test_records(1, 20)).ok());
      ASSERT_TRUE(ledger->save_snapshot(test_snapshot(15)).ok());
      ASSERT_TRUE(ledger->compact(12).ok());
      ASSERT_TRUE(ledger->submit(test_records(21, 22)).ok());
      ASSERT_TRUE(ledger->close().ok());
    }
    {
      const std::unique_ptr<Ledger> ledger = open();
      EXPECT_EQ(ledger->first_index(), 13U);
      EXPECT_EQ(all_records(*ledger), test_records(13, 22));
      EXPECT_EQ(**ledger->latest_snapshot(), test_snapshot(15));
      EXPECT_EQ(ledger->compact(16).code(), ErrorCode::kFailedPrecondition);
      ASSERT_TRUE(ledger->append(test_records(23, 23)).ok());
      ASSERT_TRUE(ledger->save_snapshot(test_snapshot(23)).ok());
      ASSERT_TRUE(ledger->compact(23).ok());
    }  // Not closed explicitly: the destructor closes it.
    const std::unique_ptr<Ledger> ledger = open();
    EXPECT_EQ(ledger->first_index(), 24U);
    EXPECT_EQ(ledger->last_index(), 23U);
    ASSERT_TRUE(ledger->append(test_records(24, 24)).ok());
    EXPECT_EQ(all_records(*ledger), test_records(24, 24));
  });
}

// A backup is a ledger with the contents of one moment; an existing file is not overwritten.
TYPED_TEST_P(LedgerConformance, Backup) {
  this->everywhere([](TypeParam& home, auto open) {
    const std::unique_ptr<Ledger> ledger = open();
    ASSERT_TRUE(ledger->append(test_records(1, 30)).ok());
    if constexpr (!TypeParam::kBacksUp) {
      EXPECT_EQ(ledger->backup("/nowhere").code(), ErrorCode::kUnsupported);
    } else {
      ASSERT_TRUE(ledger->save_snapshot(test_snapshot(20)).ok());
      ASSERT_TRUE(ledger->compact(10).ok());
      const std::string path = home.free_path();
      ASSERT_TRUE(ledger->backup(path).ok());
      EXPECT_EQ(ledger->backup(path).code(), ErrorCode::kAlreadyExists);
      ASSERT_TRUE(ledger->append(test_records(31, 40)).ok());
      Result<std::unique_ptr<Ledger>> copy = home.open_backup(path);
      ASSERT_TRUE(copy.ok()) << copy.error().to_string();
      EXPECT_EQ(all_records(**copy), test_records(11, 30));
      EXPECT_EQ(**(*copy)->latest_snapshot(), test_snapshot(20));
      EXPECT_EQ(all_records(*ledger), test_records(11, 40));
    }
  });
}

REGISTER_TYPED_TEST_SUITE_P(LedgerConformance, ANewLedgerIsEmpty, RecordsComeBack, AReadIsBounded,
                            RefusalsChangeNothing, SubmitAndWait, ManyTasks, Snapshots, Compaction, ClosedIsClosed,
                            OpenedAgain, Backup);

}  // namespace rota::ledger
