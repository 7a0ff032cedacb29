// The test suite that every kv::Store must pass.
//
//   struct MyStore {                                   // default-constructed for each test, outside the runtime
//     std::unique_ptr<kv::Store> open(fiber::Nursery&);
//     std::string prefix() const;                      // keys below it belong to this test alone
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(Mine, KvConformance, MyStore);
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/sync.h"
#include "ledger/kv_store.h"
#include "rota/fiber.h"

namespace rota::ledger::kv {

inline constexpr std::chrono::seconds kSoon{60};  // For what is expected to happen.

inline Compare compare_number(std::string key, Compare::Target target, std::int64_t number,
                              Compare::Relation relation = Compare::Relation::kEqual) {
  return {.key = std::move(key), .target = target, .relation = relation, .number = number};
}
inline Compare compare_value(std::string key, std::string value,
                             Compare::Relation relation = Compare::Relation::kEqual) {
  return {.key = std::move(key), .target = Compare::Target::kValue, .relation = relation, .value = std::move(value)};
}
// Thrown when the store does not answer: on a busy machine real servers may elect another leader during a test, and
// the outcome of a change is unknown. The test is repeated.
struct Disturbed {};

template <class T>
void check_disturbed(const Result<T>& result) {
  if (is_unknown_outcome(result.code())) throw Disturbed{};
}
inline TxnResult must_txn(Store& store, const Txn& txn) {
  Result<TxnResult> result = store.txn(txn, kSoon);
  check_disturbed(result);
  EXPECT_TRUE(result.ok()) << result.error().to_string();
  return result.ok() ? *result : TxnResult{};
}
inline std::int64_t must_put(Store& store, const std::string& key, const std::string& value, std::int64_t lease = 0) {
  return must_txn(store, {.success = {Put{key, value, lease}}}).revision;
}
inline std::int64_t must_delete(Store& store, const KeyRange& range) {
  return must_txn(store, {.success = {DeleteRange{range}}}).results.at(0).deleted;
}
inline RangeResult must_range(Store& store, const RangeRequest& request) {
  Result<RangeResult> result = store.range(request, kSoon);
  check_disturbed(result);
  EXPECT_TRUE(result.ok()) << result.error().to_string();
  return result.ok() ? *result : RangeResult{};
}
inline std::vector<std::string> keys_of(const RangeResult& result) {
  std::vector<std::string> keys;
  for (const KeyValue& kv : result.kvs) keys.push_back(kv.key);
  return keys;
}
// Reads `count` changes.
inline std::vector<Event> must_watch(Watch& watch, std::size_t count) {
  std::vector<Event> events;
  while (events.size() < count) {
    Result<std::vector<Event>> some = watch.next(kSoon);
    EXPECT_TRUE(some.ok()) << some.error().to_string();
    if (!some.ok()) break;
    EXPECT_FALSE(some->empty());
    events.insert(events.end(), some->begin(), some->end());
  }
  return events;
}

template <class Home>
class KvConformance : public ::testing::Test {
 protected:
  template <class Body>
  void run(Body&& body) {
    for (int attempt = 0; attempt < 5; ++attempt) {
      Home home;
      fiber::Runtime runtime({.worker_count = 2});
      bool disturbed = false;
      runtime.run([&] {
        fiber::with_scope([&](fiber::Nursery& nursery) {
          const std::unique_ptr<Store> store = home.open(nursery);
          try {
            body(*store, home.prefix());
          } catch (const Disturbed&) {
            disturbed = true;
          }
        });
      });
      if (!disturbed) return;
    }
    FAIL() << "the store was disturbed in every attempt";
  }
};

TYPED_TEST_SUITE_P(KvConformance);

// Keys count their changes, and come back in order, limited, without values, and as they were at an older revision.
TYPED_TEST_P(KvConformance, KeysAndRevisions) {
  this->run([](Store& store, const std::string& p) {
    EXPECT_TRUE(must_range(store, {.range = with_prefix(p)}).kvs.empty());
    const std::int64_t first = must_put(store, p + "b", "1");
    const std::int64_t second = must_put(store, p + "b", "2");
    EXPECT_EQ(second, first + 1);
    const RangeResult one = must_range(store, {.range = {p + "b"}});
    ASSERT_EQ(one.kvs.size(), 1U);
    EXPECT_EQ(one.kvs[0], (KeyValue{p + "b", "2", first, second, 2, 0}));
    EXPECT_EQ(one.revision, second);
    must_put(store, p + "a", std::string("\0\xff", 2));
    must_put(store, p + "c", "");
    const RangeResult all = must_range(store, {.range = with_prefix(p)});
    EXPECT_EQ(keys_of(all), (std::vector<std::string>{p + "a", p + "b", p + "c"}));
    EXPECT_EQ(all.kvs[0].value, std::string("\0\xff", 2));
    EXPECT_FALSE(all.more);
    const RangeResult two = must_range(store, {.range = with_prefix(p), .limit = 2, .keys_only = true});
    EXPECT_EQ(keys_of(two), (std::vector<std::string>{p + "a", p + "b"}));
    EXPECT_TRUE(two.more);
    EXPECT_EQ(two.kvs[1].value, "");
    EXPECT_EQ(two.kvs[1].mod_revision, second);
    EXPECT_EQ(keys_of(must_range(store, {.range = {p + "a", p + "b"}})), std::vector<std::string>{p + "a"});
    const RangeResult past = must_range(store, {.range = with_prefix(p), .revision = first});
    ASSERT_EQ(past.kvs.size(), 1U);
    EXPECT_EQ(past.kvs[0].value, "1");
    EXPECT_EQ(must_delete(store, {p + "b", p + "d"}), 2);
    EXPECT_EQ(must_delete(store, {p + "b"}), 0);
    EXPECT_EQ(keys_of(must_range(store, {.range = with_prefix(p)})), std::vector<std::string>{p + "a"});
    const std::int64_t again = must_put(store, p + "b", "3");
    EXPECT_EQ(must_range(store, {.range = {p + "b"}}).kvs.at(0), (KeyValue{p + "b", "3", again, again, 1, 0}));
  });
}

// Each target and relation of a comparison, of keys that exist and that do not, decides between the two branches.
TYPED_TEST_P(KvConformance, Comparisons) {
  this->run([](Store& store, const std::string& p) {
    using enum Compare::Target;
    using enum Compare::Relation;
    const std::int64_t created = must_put(store, p + "k", "m");
    const std::int64_t changed = must_put(store, p + "k", "n");
    const auto holds = [&](const Compare& compare) {
      const TxnResult result =
          must_txn(store, {.compares = {compare},
                           .success = {RangeRequest{.range = {p + "k"}}},
                           .failure = {RangeRequest{.range = {p + "k"}}, DeleteRange{{p + "no"}}}});
      EXPECT_EQ(result.results.at(0).range.kvs.at(0).value, "n");
      EXPECT_EQ(result.results.size(), result.succeeded ? 1U : 2U);
      return result.succeeded;
    };
    for (const auto& [target, number] : {std::pair(kVersion, std::int64_t{2}), std::pair(kCreateRevision, created),
                                         std::pair(kModRevision, changed)}) {
      EXPECT_TRUE(holds(compare_number(p + "k", target, number)));
      EXPECT_FALSE(holds(compare_number(p + "k", target, number + 1)));
      EXPECT_TRUE(holds(compare_number(p + "k", target, number - 1, kGreater)));
      EXPECT_FALSE(holds(compare_number(p + "k", target, number, kGreater)));
      EXPECT_TRUE(holds(compare_number(p + "k", target, number + 1, kLess)));
      EXPECT_FALSE(holds(compare_number(p + "k", target, number, kLess)));
      EXPECT_TRUE(holds(compare_number(p + "k", target, 0, kNotEqual)));
      EXPECT_TRUE(holds(compare_number(p + "none", target, 0)));
      EXPECT_FALSE(holds(compare_number(p + "none", target, 0, kNotEqual)));
    }
    EXPECT_TRUE(holds(compare_value(p + "k", "n")));
    EXPECT_FALSE(holds(compare_value(p + "k", "m")));
    EXPECT_TRUE(holds(compare_value(p + "k", "m", kGreater)));
    EXPECT_TRUE(holds(compare_value(p + "k", "o", kLess)));
    EXPECT_TRUE(holds(compare_value(p + "k", "o", kNotEqual)));
    EXPECT_FALSE(holds(compare_value(p + "none", "")));
    // All must hold; what a transaction puts, it reads, at one revision.
    const TxnResult both =
        must_txn(store, {.compares = {compare_value(p + "k", "n"), compare_number(p + "x", kVersion, 0)},
                         .success = {Put{p + "x", "1"}, Put{p + "y", "2"}, RangeRequest{.range = {p + "x", p + "z"}}}});
    ASSERT_TRUE(both.succeeded);
    ASSERT_EQ(both.results.at(2).range.kvs.size(), 2U);
    EXPECT_EQ(both.results[2].range.kvs[0].mod_revision, both.revision);
    EXPECT_EQ(both.results[2].range.kvs[1].mod_revision, both.revision);
    EXPECT_FALSE(must_txn(store, {.compares = {compare_value(p + "k", "n"), compare_number(p + "x", kVersion, 0)},
                                  .success = {Put{p + "x", "9"}}})
                     .succeeded);
    EXPECT_EQ(must_range(store, {.range = {p + "x"}}).kvs.at(0).value, "1");
  });
}

// A transaction that is not allowed changes nothing.
TYPED_TEST_P(KvConformance, RefusalsChangeNothing) {
  this->run([](Store& store, const std::string& p) {
    const auto refused = [&](const Txn& txn) {
      const Result<TxnResult> result = store.txn(txn, kSoon);
      check_disturbed(result);
      return result.code();
    };
    EXPECT_EQ(refused({.success = {Put{p + "a", "1"}, Put{p + "a", "2"}}}), ErrorCode::kInvalidArgument);
    EXPECT_EQ(refused({.success = {Put{p + "a", "1"}, Put{"", "2"}}}), ErrorCode::kInvalidArgument);
    EXPECT_EQ(refused({.success = {Put{p + "a", std::string(kMaxRequestBytes + 1, 'x')}}}), ErrorCode::kTooLarge);
    EXPECT_EQ(refused({.success = {Put{p + "a", std::string(3 * kMaxRequestBytes, 'x')}}}), ErrorCode::kTooLarge);
    EXPECT_EQ(refused({.success = {Put{p + "a", "1", 12345}}}), ErrorCode::kNotFound);
    EXPECT_EQ(refused({.success = std::vector<Op>(kMaxTxnOps + 1, RangeRequest{.range = {p + "a"}})}),
              ErrorCode::kInvalidArgument);
    EXPECT_TRUE(must_range(store, {.range = with_prefix(p)}).kvs.empty());
    // The largest value that the ledger writes passes.
    const std::string large(std::size_t{1} << 20, 'x');
    must_put(store, p + "large", large);
    EXPECT_EQ(must_range(store, {.range = {p + "large"}}).kvs.at(0).value, large);
  });
}

// A lease keeps its keys until it is revoked.
TYPED_TEST_P(KvConformance, Leases) {
  this->run([](Store& store, const std::string& p) {
    const Lease lease = store.lease_grant(std::chrono::seconds(600), kSoon).value();
    EXPECT_NE(lease.id, 0);
    must_put(store, p + "held", "1", lease.id);
    must_put(store, p + "also", "1", lease.id);
    must_put(store, p + "freed", "1", lease.id);
    must_put(store, p + "freed", "2");  // A put without the lease detaches the key.
    EXPECT_EQ(must_range(store, {.range = {p + "held"}}).kvs.at(0).lease, lease.id);
    EXPECT_TRUE(store.lease_keep(lease.id, kSoon).ok());
    auto watch = store.watch(with_prefix(p), 0, kSoon).value();
    EXPECT_TRUE(store.lease_revoke(lease.id, kSoon).ok());
    const std::vector<Event> events = must_watch(*watch, 2);
    ASSERT_EQ(events.size(), 2U);
    EXPECT_TRUE(events[0].deleted && events[1].deleted);
    EXPECT_EQ(keys_of(must_range(store, {.range = with_prefix(p)})), std::vector<std::string>{p + "freed"});
    EXPECT_EQ(store.lease_keep(lease.id, kSoon).code(), ErrorCode::kNotFound);
    EXPECT_EQ(store.lease_revoke(lease.id, kSoon).code(), ErrorCode::kNotFound);
    EXPECT_EQ(store.txn({.success = {Put{p + "held", "2", lease.id}}}, kSoon).code(), ErrorCode::kNotFound);
  });
}

// A lease that nobody keeps ends by itself, and its keys with it.
TYPED_TEST_P(KvConformance, ALeaseExpires) {
  this->run([](Store& store, const std::string& p) {
    const Lease lease = store.lease_grant(std::chrono::seconds(1), kSoon).value();
    const std::int64_t put = must_put(store, p + "held", "1", lease.id);
    auto watch = store.watch({p + "held"}, put, kSoon).value();
    const std::vector<Event> events = must_watch(*watch, 2);
    ASSERT_EQ(events.size(), 2U);
    EXPECT_FALSE(events[0].deleted);
    EXPECT_TRUE(events[1].deleted);
    EXPECT_EQ(store.lease_keep(lease.id, kSoon).code(), ErrorCode::kNotFound);
  });
}

// A watch delivers every change of its range, once, in order, from a past revision or from now on.
TYPED_TEST_P(KvConformance, Watches) {
  this->run([](Store& store, const std::string& p) {
    const std::int64_t first = must_put(store, p + "a", "1");
    must_put(store, p + "b", "1");
    auto past = store.watch(with_prefix(p), first, kSoon).value();
    auto now = store.watch({p + "a"}, 0, kSoon).value();
    EXPECT_EQ(now->next(std::chrono::milliseconds(1)).code(), ErrorCode::kDeadlineExceeded);
    must_txn(store, {.success = {Put{p + "a", "2"}, Put{p + "c", "1"}}});
    must_delete(store, {p + "a"});
    must_put(store, p + "a", "3");
    const std::vector<Event> here = must_watch(*now, 3);
    ASSERT_EQ(here.size(), 3U);
    EXPECT_EQ(here[0].kv.value, "2");
    EXPECT_TRUE(here[1].deleted);
    EXPECT_EQ(here[1].kv.key, p + "a");
    EXPECT_EQ(here[2].kv, (KeyValue{p + "a", "3", first + 4, first + 4, 1, 0}));
    const std::vector<Event> all = must_watch(*past, 6);
    ASSERT_EQ(all.size(), 6U);
    std::vector<std::string> seen;
    for (const Event& event : all)
      seen.push_back(event.kv.key.substr(p.size()) + (event.deleted ? "-" : event.kv.value));
    std::sort(seen.begin() + 2, seen.begin() + 4);  // One revision.
    EXPECT_EQ(seen, (std::vector<std::string>{"a1", "b1", "a2", "c1", "a-", "a3"}));
    EXPECT_EQ(past->next(std::chrono::milliseconds(1)).code(), ErrorCode::kDeadlineExceeded);
    must_put(store, p + "b", "2");
    EXPECT_EQ(must_watch(*past, 1).at(0).kv.value, "2");
  });
}

// Compaction removes the history before a revision; who needs it gets an error of its own.
TYPED_TEST_P(KvConformance, Compaction) {
  this->run([](Store& store, const std::string& p) {
    const std::int64_t first = must_put(store, p + "a", "1");
    must_put(store, p + "b", "1");
    const std::int64_t third = must_put(store, p + "a", "2");
    must_delete(store, {p + "b"});
    ASSERT_TRUE(store.compact(third, kSoon).ok());
    const Result<void> again = store.compact(third, kSoon);
    ASSERT_FALSE(again.ok());
    EXPECT_TRUE(is_compacted(again.error()));
    EXPECT_EQ(store.compact(third + 1000000, kSoon).code(), ErrorCode::kInvalidArgument);
    const Result<RangeResult> past = store.range({.range = {p + "a"}, .revision = first}, kSoon);
    ASSERT_FALSE(past.ok());
    EXPECT_TRUE(is_compacted(past.error()));
    EXPECT_EQ(must_range(store, {.range = with_prefix(p), .revision = third}).kvs.size(), 2U);
    EXPECT_EQ(must_range(store, {.range = with_prefix(p)}).kvs.size(), 1U);
    Result<std::unique_ptr<Watch>> watch = store.watch(with_prefix(p), first, kSoon);
    ASSERT_TRUE(watch.ok());
    const Result<std::vector<Event>> lost = (*watch)->next(kSoon);
    ASSERT_FALSE(lost.ok());
    EXPECT_TRUE(is_compacted(lost.error())) << lost.error().to_string();
    auto kept = store.watch(with_prefix(p), third, kSoon).value();
    EXPECT_EQ(must_watch(*kept, 2).at(0).kv.value, "2");
  });
}

// Many tasks share a store; comparisons make their changes exclusive.
TYPED_TEST_P(KvConformance, ManyTasks) {
  this->run([](Store& store, const std::string& p) {
    must_put(store, p + "n", "0");
    sync::Atomic<bool> disturbed{false};
    const auto count_to_ten = [&] {
      for (int done = 0; done < 10;) {
        const KeyValue now = must_range(store, {.range = {p + "n"}}).kvs.at(0);
        const std::string next = std::to_string(std::stoi(now.value) + 1);
        const TxnResult result =
            must_txn(store, {.compares = {compare_number(p + "n", Compare::Target::kModRevision, now.mod_revision)},
                             .success = {Put{p + "n", next}}});
        done += result.succeeded ? 1 : 0;
      }
    };
    fiber::with_scope([&](fiber::Nursery& tasks) {
      for (int task = 0; task < 8; ++task) {
        tasks.launch([&] {
          try {
            count_to_ten();
          } catch (const Disturbed&) {
            disturbed.store(true);
          }
        });
      }
    });
    if (disturbed.load()) throw Disturbed{};
    EXPECT_EQ(must_range(store, {.range = {p + "n"}}).kvs.at(0).value, "80");
  });
}

REGISTER_TYPED_TEST_SUITE_P(KvConformance, KeysAndRevisions, Comparisons, RefusalsChangeNothing, Leases, ALeaseExpires,
                            Watches, Compaction, ManyTasks);

}  // namespace rota::ledger::kv
