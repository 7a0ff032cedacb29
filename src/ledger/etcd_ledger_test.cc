#include "ledger/etcd_ledger.h"

#include <algorithm>

#include "base/log.h"
#include "ledger/conformance.h"
#include "ledger/etcd_format.h"
#include "ledger/etcd_ledger_testing.h"
#include "ledger/etcd_server_testing.h"
#include "ledger/kv_conformance.h"
#include "net/stream.h"

namespace rota::ledger {
namespace {

using kv::CallKind;
using kv::FakeStore;
using kv::Fault;
using kv::kSoon;
using kv::Txn;

struct FakeEtcdHome {
  static constexpr bool kPersists = true;
  static constexpr bool kBacksUp = false;
  FakeStore world{};
  EtcdLedgerOptions options{};
  Result<std::unique_ptr<Ledger>> open(bool /*deterministic*/) {
    return OwnedEtcdLedger::open([this](fiber::Nursery&) { return world.client(); }, options);
  }
};
// All bounds as small as possible, nothing is cached, and every third call is lost, before or after its execution, or
// arrives late.
struct FaultyEtcdHome : FakeEtcdHome {
  FaultyEtcdHome() {
    options.group_records = 7;
    options.group_bytes = 1000;
    options.piece_bytes = 100'000;
    options.trim_keys = 10;
    options.cache_bytes = 0;
    options.retry_after = options.retry_most = std::chrono::microseconds(10);
  }
  Result<std::unique_ptr<Ledger>> open(bool /*deterministic*/) {
    return OwnedEtcdLedger::open(
        [this](fiber::Nursery&) {
          return world.client([n = std::make_shared<sync::Atomic<std::uint32_t>>(0)](CallKind, const Txn*) {
            const std::uint32_t call = n->fetch_add(1);
            return call % 3 != 2 ? Fault::kNone : static_cast<Fault>(1 + call / 3 % 3);
          });
        },
        options);
  }
};

using FakeEtcdHomes = ::testing::Types<FakeEtcdHome, FaultyEtcdHome>;

// Contract: L-1, L-3. The replicated ledger passes the common suite on the simulated store: with its own bounds, and
// with the smallest while a third of all calls fail.
INSTANTIATE_TYPED_TEST_SUITE_P(FakeEtcd, LedgerConformance, FakeEtcdHomes);

// A test body in a deterministic runtime with one store and any number of hosts.
class Cluster {
 public:
  explicit Cluster(fiber::Nursery& nursery, FakeStore& world) : nursery_(nursery), world_(world) {}

  struct Host {
    std::unique_ptr<kv::Store> store{};
    std::unique_ptr<EtcdLedger> ledger{};
    EtcdLedger* operator->() const { return ledger.get(); }
  };
  Host host(const std::string& name, FakeStore::Plan plan = {}, std::uint64_t terms_above = 0) {
    return open(name, std::move(plan), terms_above).value();
  }
  Result<Host> open(const std::string& name, FakeStore::Plan plan = {}, std::uint64_t terms_above = 0) {
    EtcdLedgerOptions options;
    options.name = name;
    options.terms_above = terms_above;
    options.group_records = 4;
    options.piece_bytes = 1000;
    options.cache_bytes = 0;
    options.close_within = std::chrono::seconds(1);
    Host made;
    made.store = world_.client(std::move(plan), std::chrono::microseconds(100));
    ROTA_TRY_ASSIGN(made.ledger, EtcdLedger::open(*made.store, options, nursery_));
    return made;
  }

 private:
  fiber::Nursery& nursery_;
  FakeStore& world_;
};

template <class Body>
void in_cluster(Body&& body) {
  const LogCapture quiet(LogLevel::kError);
  FakeStore world;
  fiber::Runtime runtime({.worker_count = 2, .deterministic_seed = 3});
  runtime.run([&] {
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Cluster cluster(nursery, world);
      body(cluster, world);
    });
  });
}

bool puts_key(const Txn* txn, const std::string& part) {
  return txn != nullptr && std::any_of(txn->success.begin(), txn->success.end(), [&](const kv::Op& op) {
           const auto* put = std::get_if<kv::Put>(&op);
           return put != nullptr && put->key.find(part) != std::string::npos;
         });
}

// Contract: L-3. One host leads. The other waits, follows the log, takes over when the leader's lease ends, and has a
// higher term. The deposed leader commits nothing any more, for good.
TEST(EtcdLedger, TakeOver) {
  in_cluster([](Cluster& cluster, FakeStore& world) {
    auto a = cluster.host("a:1");
    auto b = cluster.host("b:2");
    const std::uint64_t first_term = a->campaign(kSoon).value();
    EXPECT_EQ(a->term(), first_term);
    EXPECT_EQ(b->submit(test_records(1, 1)).code(), ErrorCode::kNotLeader);
    const auto lost = b->campaign(std::chrono::milliseconds(100));
    ASSERT_EQ(lost.code(), ErrorCode::kNotLeader);
    EXPECT_EQ(*lost.error().detail("leader"), "a:1");
    ASSERT_TRUE(a->append(test_records(1, 10)).ok());
    ASSERT_TRUE(b->wait_beyond(9, kSoon).ok());
    EXPECT_EQ(all_records(*b.ledger), test_records(1, 10));
    EXPECT_EQ(b->leader(), "a:1");
    const auto refused = b->submit(test_records(11, 11));
    ASSERT_EQ(refused.code(), ErrorCode::kNotLeader);
    EXPECT_EQ(*refused.error().detail("leader"), "a:1");

    world.expire_leases();
    const std::uint64_t second_term = b->campaign(kSoon).value();
    EXPECT_GT(second_term, first_term);
    EXPECT_EQ(a->append(test_records(11, 11)).code(), ErrorCode::kNotLeader);
    ASSERT_TRUE(b->append(std::vector<RecordBytes>{{11, "of b"}}).ok());
    const auto deposed = a->append(test_records(a->submitted_index() + 1, a->submitted_index() + 1));
    ASSERT_EQ(deposed.code(), ErrorCode::kNotLeader);
    EXPECT_NE(deposed.error().message.find("deposed"), std::string::npos);
    EXPECT_EQ(a->save_snapshot(test_snapshot(5)).code(), ErrorCode::kNotLeader);
    EXPECT_EQ(a->wait_durable(11).code(), ErrorCode::kNotLeader);
    EXPECT_TRUE(a->wait_durable(10).ok());
    EXPECT_EQ(a->last_index(), 10U);
    EXPECT_EQ(a->campaign(kSoon).code(), ErrorCode::kNotLeader);
    EXPECT_EQ(b->read(11, 5)->front().bytes, "of b");
  });
}

// Contract: L-3. Terms begin where the first leader of a log says: above those of the log that it was copied from.
// Later leaders do not lower them, and raise them when workers know higher ones; a deposed leader cannot.
TEST(EtcdLedger, TermsContinueThoseOfAnotherStore) {
  in_cluster([](Cluster& cluster, FakeStore& world) {
    auto a = cluster.host("a", {}, 1'000'000);
    const std::uint64_t first = a->campaign(kSoon).value();
    EXPECT_GT(first, 1'000'000U);
    EXPECT_EQ(a->term(), first);
    ASSERT_TRUE(a->append(test_records(1, 3)).ok());
    auto b = cluster.host("b", {}, 7);
    world.expire_leases();
    const std::uint64_t second = b->campaign(kSoon).value();
    EXPECT_GT(second, first);
    EXPECT_EQ(a->raise_terms(9'000'000).code(), ErrorCode::kNotLeader);
    ASSERT_TRUE(b->raise_terms(second).ok());  // Already so.
    ASSERT_TRUE(b->raise_terms(2'000'000).ok());
    EXPECT_EQ(b->term(), second);
    ASSERT_TRUE(b->append(test_records(4, 5)).ok());
    ASSERT_TRUE(b->close().ok());
    auto c = cluster.host("c");
    const std::uint64_t third = c->campaign(kSoon).value();
    EXPECT_GT(third, 2'000'000U);
    EXPECT_LT(third, 9'000'000U);
    EXPECT_EQ(all_records(*c.ledger), test_records(1, 5));
  });
}

// Contract: L-3. The lease ends although its owner renews it as it should (a long pause): the leader notices by itself.
TEST(EtcdLedger, TheLeaseEndsEarly) {
  in_cluster([](Cluster& cluster, FakeStore& world) {
    auto a = cluster.host("a");
    ASSERT_TRUE(a->campaign(kSoon).ok());
    ASSERT_TRUE(fiber::sleep_for(std::chrono::minutes(1)).ok());  // Virtual: the lease is renewed many times.
    ASSERT_TRUE(a->append(test_records(1, 1)).ok());
    world.expire_leases();
    EXPECT_EQ(a->wait_failure().code, ErrorCode::kNotLeader);
    EXPECT_EQ(a->append(test_records(2, 2)).code(), ErrorCode::kNotLeader);
  });
}

// close() gives up the leadership at once; the next host finds everything that was submitted.
TEST(EtcdLedger, CloseHandsOver) {
  in_cluster([](Cluster& cluster, FakeStore& /*world*/) {
    auto a = cluster.host("a");
    auto b = cluster.host("b");
    ASSERT_TRUE(a->campaign(kSoon).ok());
    ASSERT_TRUE(a->submit(test_records(1, 30)).ok());
    const auto before = fiber::now();
    ASSERT_TRUE(a->close().ok());
    ASSERT_TRUE(b->campaign(kSoon).ok());
    EXPECT_LT(fiber::now() - before, std::chrono::seconds(1));
    EXPECT_EQ(all_records(*b.ledger), test_records(1, 30));
  });
}

// Contract: L-3. Two hosts that campaign together never share a term.
TEST(EtcdLedger, TermsAreUnique) {
  in_cluster([](Cluster& cluster, FakeStore& /*world*/) {
    std::vector<std::uint64_t> terms;
    fiber::with_scope([&](fiber::Nursery& tasks) {
      for (int i = 0; i < 5; ++i) {
        tasks.launch([&, i] {
          auto host = cluster.host("host" + std::to_string(i));
          const auto term = host->campaign(kSoon);
          ASSERT_TRUE(term.ok()) << term.error().to_string();
          terms.push_back(*term);  // Deterministic mode: one thread.
          ASSERT_TRUE(host->append(test_records(terms.size(), terms.size())).ok());
          ASSERT_TRUE(host->close().ok());
        });
      }
    });
    ASSERT_EQ(terms.size(), 5U);
    EXPECT_TRUE(std::is_sorted(terms.begin(), terms.end()));
    EXPECT_EQ(std::adjacent_find(terms.begin(), terms.end()), terms.end());
    auto last = cluster.host("last");
    EXPECT_EQ(all_records(*last.ledger), test_records(1, 5));
  });
}

// Contract: L-3. Each transaction of a leader in turn, from its campaign on, is applied without an answer, is lost, or
// arrives late. All records become durable, exactly once.
TEST(EtcdLedger, EveryTransactionFailsOnce) {
  for (const Fault fault : {Fault::kLost, Fault::kUnanswered, Fault::kLate}) {
    for (int victim = 0; victim < 20; ++victim) {
      SCOPED_TRACE("fault " + std::to_string(static_cast<int>(fault)) + " at " + std::to_string(victim));
      in_cluster([&](Cluster& cluster, FakeStore& world) {
        int count = 0;
        auto a = cluster.host("a", [&](CallKind kind, const Txn*) {
          return kind == CallKind::kTxn && count++ == victim ? fault : Fault::kNone;
        });
        ASSERT_TRUE(a->campaign(kSoon).ok());
        std::vector<RecordBytes> records = test_records(1, 12);
        records.push_back({13, test_bytes(13, 3500)});  // In pieces.
        ASSERT_TRUE(a->append(records).ok());
        ASSERT_TRUE(a->save_snapshot(test_snapshot(9, 2500)).ok());
        ASSERT_TRUE(a->compact(8).ok());
        ASSERT_TRUE(a->append(test_records(14, 20)).ok());
        ASSERT_TRUE(a->close().ok());
        const auto after = test_records(14, 20);
        records.insert(records.end(), after.begin(), after.end());
        auto b = cluster.host("b");
        EXPECT_EQ(all_records(*b.ledger), std::vector<RecordBytes>(records.begin() + 8, records.end()));
        EXPECT_EQ(**b->latest_snapshot(), test_snapshot(9, 2500));
        EXPECT_LT(world.stats().keys, 20U);
      });
    }
  }
}

// Contract: L-3. Before each transaction of the leader in turn, another host takes over and appends. What the first one
// was told is durable is there; what the second appended is there; and nothing of the first follows it.
TEST(EtcdLedger, ALeaderChangeBetweenAnyTwoSteps) {
  // With kUnanswered, the transaction itself is applied first, and the change comes before the leader learns of it.
  for (const Fault fault : {Fault::kNone, Fault::kLost, Fault::kLate, Fault::kUnanswered}) {
    for (int victim = 1; victim < 18; ++victim) {
      SCOPED_TRACE("fault " + std::to_string(static_cast<int>(fault)) + " at " + std::to_string(victim));
      in_cluster([&](Cluster& cluster, FakeStore& world) {
        auto b = cluster.host("b");
        std::uint64_t b_index = 0;
        int count = 0;
        const auto take_over = [&] {
          world.expire_leases();
          ASSERT_TRUE(b->campaign(kSoon).ok());
          b_index = b->last_index() + 1;
          // Half of the time it has appended nothing yet when the old leader acts again.
          if (victim % 2 == 0) {
            ASSERT_TRUE(b->append(std::vector<RecordBytes>{{b_index, "of b"}}).ok());
          }
        };
        auto a = cluster.host("a", [&](CallKind kind, const Txn*) {
          if (kind != CallKind::kTxn) return Fault::kNone;
          const int at = count++;
          // An unanswered transaction is followed by its repetition: the change comes between the two.
          if (fault != Fault::kNone && at == victim - 1) return fault;
          if (at == victim) take_over();
          return Fault::kNone;
        });
        const Result<std::uint64_t> term = a->campaign(kSoon);
        if (!term.ok()) {  // The change came between the two attempts to create the leader's key.
          EXPECT_EQ(term.code(), ErrorCode::kNotLeader);
          EXPECT_EQ(victim, 1);
          EXPECT_TRUE(b->append(std::vector<RecordBytes>{{b_index, "of b"}}).ok());
          return;
        }
        std::vector<RecordBytes> records = test_records(1, 10);
        records.push_back({11, test_bytes(11, 3500)});
        const auto rest = test_records(12, 20);
        records.insert(records.end(), rest.begin(), rest.end());
        (void)a->append(records);
        (void)a->save_snapshot(test_snapshot(std::max<std::uint64_t>(1, a->last_index()), 2500));
        (void)a->compact(a->last_index());
        const std::uint64_t acknowledged = a->last_index();
        if (b_index == 0) {  // The leader needed fewer transactions.
          EXPECT_EQ(acknowledged, 20U);
          return;
        }
        EXPECT_NE(a->append(test_records(a->submitted_index() + 1, a->submitted_index() + 1)).code(), ErrorCode::kOk);
        EXPECT_GE(b_index, acknowledged + 1);
        if (victim % 2 != 0) {
          ASSERT_TRUE(b->append(std::vector<RecordBytes>{{b_index, "of b"}}).ok());
        }
        ASSERT_TRUE(b->append(std::vector<RecordBytes>{{b_index + 1, "also of b"}}).ok());
        auto c = cluster.host("c");
        const std::vector<RecordBytes> all = all_records(*c.ledger);
        ASSERT_FALSE(all.empty());
        EXPECT_EQ(all.back(), (RecordBytes{b_index + 1, "also of b"}));
        for (const RecordBytes& record : all) {
          if (record.index < b_index) {
            EXPECT_EQ(record, records[record.index - 1]);
          } else if (record.index == b_index) {
            EXPECT_EQ(record.bytes, "of b");
          }
        }
      });
    }
  }
}

// Contract: L-3. Every transaction of a leader arrives a second time, much later and in the wrong order. While it
// leads, what readers see does not change, and it can append; once another host leads, nothing at all changes.
TEST(EtcdLedger, OldTransactionsArriveLate) {
  in_cluster([](Cluster& cluster, FakeStore& world) {
    std::vector<Txn> sent;
    auto a = cluster.host("a", [&](CallKind, const Txn* txn) {
      if (txn != nullptr) sent.push_back(*txn);
      return Fault::kNone;
    });
    ASSERT_TRUE(a->campaign(kSoon).ok());
    std::vector<RecordBytes> records = test_records(1, 10);
    records.push_back({11, test_bytes(11, 3500)});
    ASSERT_TRUE(a->append(records).ok());
    for (const std::uint64_t index : {6U, 9U}) {
      ASSERT_TRUE(a->save_snapshot(test_snapshot(index, 2500)).ok());
      ASSERT_TRUE(a->compact(index - 1).ok());
    }
    ASSERT_TRUE(a->append(test_records(12, 13)).ok());
    const auto raw = world.client();
    const auto replay = [&] {
      // The newest first, so that the oldest one would win.
      const std::vector<Txn> copies(sent.rbegin(), sent.rend());
      for (const Txn& txn : copies) (void)raw->txn(txn, kSoon);
    };
    replay();
    auto c = cluster.host("c");
    EXPECT_EQ(c->first_index(), 9U);
    EXPECT_EQ(c->last_index(), 13U);
    EXPECT_EQ(*c->read(9, 3), std::vector<RecordBytes>(records.begin() + 8, records.end()));
    EXPECT_EQ(**c->latest_snapshot(), test_snapshot(9, 2500));
    ASSERT_TRUE(a->append(test_records(14, 14)).ok());
    world.expire_leases();
    auto b = cluster.host("b");
    ASSERT_TRUE(b->campaign(kSoon).ok());
    const std::int64_t before = world.stats().revision;
    replay();
    EXPECT_EQ(world.stats().revision, before);
    ASSERT_TRUE(b->append(test_records(15, 15)).ok());
    EXPECT_EQ(*b->read(12, 10), test_records(12, 15));
  });
}

// Contract: L-3. While the store is down nothing is acknowledged and nothing is lost; when it is back, the leader
// continues.
TEST(EtcdLedger, TheStoreIsDownForAWhile) {
  in_cluster([](Cluster& cluster, FakeStore& world) {
    auto a = cluster.host("a");
    ASSERT_TRUE(a->campaign(kSoon).ok());
    ASSERT_TRUE(a->append(test_records(1, 3)).ok());
    world.set_down(true);
    ASSERT_TRUE(a->submit(test_records(4, 9)).ok());
    ASSERT_TRUE(fiber::sleep_for(std::chrono::seconds(2)).ok());
    EXPECT_EQ(a->last_index(), 3U);
    world.set_down(false);
    ASSERT_TRUE(a->wait_durable(9).ok());
    auto b = cluster.host("b");
    EXPECT_EQ(all_records(*b.ledger), test_records(1, 9));
  });
}

// Contract: L-2, L-3. The store's quota is a full disk: nothing more is accepted, and nothing that was is lost.
TEST(EtcdLedger, TheQuotaIsUsedUp) {
  in_cluster([](Cluster& cluster, FakeStore& world) {
    auto a = cluster.host("a");
    ASSERT_TRUE(a->campaign(kSoon).ok());
    ASSERT_TRUE(a->append(test_records(1, 3)).ok());
    world.set_no_space(true);
    EXPECT_EQ(a->append(test_records(4, 4)).code(), ErrorCode::kNoSpace);
    EXPECT_EQ(a->submit(test_records(5, 5)).code(), ErrorCode::kNoSpace);
    EXPECT_EQ(a->save_snapshot(test_snapshot(1)).code(), ErrorCode::kNoSpace);
    EXPECT_EQ(all_records(*a.ledger), test_records(1, 3));
    world.set_no_space(false);
    auto b = cluster.host("b");
    ASSERT_TRUE(b->campaign(kSoon).ok());
    EXPECT_EQ(all_records(*b.ledger), test_records(1, 3));
    ASSERT_TRUE(b->append(test_records(4, 4)).ok());
  });
}

// Contract: L-3. A follower reads records as they arrive, also when its watch has lost changes to compaction.
TEST(EtcdLedger, AFollowerReadsTheTail) {
  in_cluster([](Cluster& cluster, FakeStore& world) {
    auto a = cluster.host("a");
    ASSERT_TRUE(a->campaign(kSoon).ok());
    bool cut_off = false;
    auto b = cluster.host("b", [&](CallKind, const Txn*) { return cut_off ? Fault::kLost : Fault::kNone; });
    std::vector<RecordBytes> seen;
    fiber::with_scope([&](fiber::Nursery& tasks) {
      tasks.launch([&] {
        while (seen.size() < 60) {
          ASSERT_TRUE(b->wait_beyond(seen.size(), kSoon).ok());
          const auto some = b->read(seen.size() + 1, 10);
          if (some.code() == ErrorCode::kUnavailable) continue;
          ASSERT_TRUE(some.ok()) << some.error().to_string();
          seen.insert(seen.end(), some->begin(), some->end());
        }
      });
      for (std::uint64_t i = 1; i <= 60; ++i) {
        cut_off = i % 20 > 10;
        ASSERT_TRUE(a->append(test_records(i, i)).ok());
        if (i % 15 == 0) world.compact_all();
      }
      cut_off = false;
    });
    EXPECT_EQ(seen, test_records(1, 60));
    EXPECT_EQ(b->wait_beyond(60, std::chrono::milliseconds(50)).code(), ErrorCode::kDeadlineExceeded);
  });
}

// A watch whose next changes were compacted away is replaced by reading the keys again.
TEST(EtcdLedger, AWatchGap) {
  in_cluster([](Cluster& cluster, FakeStore& world) {
    auto a = cluster.host("a");
    ASSERT_TRUE(a->campaign(kSoon).ok());
    int watches = 0;
    // The follower's first watch begins late: several appends and a compaction of the history come before.
    auto b = cluster.host("b", [&](CallKind kind, const Txn*) {
      if (kind == CallKind::kWatch && watches++ == 0) {
        EXPECT_TRUE(a->append(test_records(1, 9)).ok());
        world.compact_all();
        EXPECT_TRUE(a->append(test_records(10, 11)).ok());
      }
      return Fault::kNone;
    });
    ASSERT_TRUE(b->wait_beyond(10, kSoon).ok());
    EXPECT_EQ(all_records(*b.ledger), test_records(1, 11));
    EXPECT_GE(watches, 2);
  });
}

// Contract: L-3, L-4. Compaction deletes at most 100 keys at a time and the store's history too; a reader gets records
// or is told that they are compacted, never damage.
TEST(EtcdLedger, CompactionUnderAReader) {
  in_cluster([](Cluster& cluster, FakeStore& world) {
    auto a = cluster.host("a");
    ASSERT_TRUE(a->campaign(kSoon).ok());
    for (std::uint64_t i = 1; i <= 500; ++i) ASSERT_TRUE(a->append(test_records(i, i)).ok());
    ASSERT_TRUE(a->save_snapshot(test_snapshot(490)).ok());
    auto b = cluster.host("b");
    bool done = false;
    int compacted = 0;
    fiber::with_scope([&](fiber::Nursery& tasks) {
      tasks.launch([&] {
        for (std::uint64_t from = 1; !done || from < 495; from = from % 500 + 7) {
          const auto some = b->read(from, 3);
          if (some.ok()) {
            for (const RecordBytes& record : *some) EXPECT_EQ(record, test_record(record.index));
          } else {
            ++compacted;
            EXPECT_EQ(some.code(), ErrorCode::kNotFound) << some.error().to_string();
            EXPECT_NE(some.error().detail("first_index"), nullptr);
          }
        }
      });
      for (const std::uint64_t up_to : {50U, 300U, 490U}) EXPECT_TRUE(a->compact(up_to).ok());
      done = true;
    });
    EXPECT_GT(compacted, 0);
    const FakeStore::Stats stats = world.stats();
    EXPECT_LE(stats.most_deleted, 100);
    EXPECT_GE(stats.most_deleted, 100);
    EXPECT_LT(stats.keys, 30U);
    EXPECT_LT(stats.old_versions, 400U);
    EXPECT_EQ(all_records(*a.ledger), test_records(491, 500));
  });
}

// A follower that has not heard of a compaction yet finds out by reading; it takes missing records for compacted ones
// only if they are.
TEST(EtcdLedger, AFollowerLagsBehindACompaction) {
  in_cluster([](Cluster& cluster, FakeStore& /*world*/) {
    auto a = cluster.host("a");
    ASSERT_TRUE(a->campaign(kSoon).ok());
    for (std::uint64_t i = 1; i <= 20; ++i) ASSERT_TRUE(a->append(test_records(i, i)).ok());
    auto b = cluster.host(
        "b", [](CallKind kind, const Txn*) { return kind == CallKind::kWatch ? Fault::kLost : Fault::kNone; });
    ASSERT_TRUE(a->save_snapshot(test_snapshot(15)).ok());
    ASSERT_TRUE(a->compact(12).ok());
    EXPECT_EQ(b->first_index(), 1U);
    const auto gone = b->read(3, 1);
    ASSERT_EQ(gone.code(), ErrorCode::kNotFound);
    EXPECT_EQ(*gone.error().detail("first_index"), "13");
    EXPECT_EQ(*b->read(13, 10), test_records(13, 20));
  });
}

// Pieces of a record whose append never happened are removed by the next leader, and its own record takes the place.
TEST(EtcdLedger, UnfinishedPiecesAreRemoved) {
  in_cluster([](Cluster& cluster, FakeStore& world) {
    bool cut_off = false;
    auto a = cluster.host("a", [&](CallKind, const Txn* txn) {
      cut_off = cut_off || puts_key(txn, "meta/head");
      return cut_off ? Fault::kLost : Fault::kNone;
    });
    ASSERT_TRUE(a->campaign(kSoon).ok());
    ASSERT_TRUE(a->submit(std::vector<RecordBytes>{{1, test_bytes(1, 9500)}}).ok());
    auto b = cluster.host("b");
    ASSERT_TRUE(b->campaign(kSoon).ok());  // After the lease.
    EXPECT_EQ(b->last_index(), 0U);
    EXPECT_EQ(world.stats().keys, 1U);  // The leader.
    ASSERT_TRUE(b->append(std::vector<RecordBytes>{{1, test_bytes(2, 9500)}}).ok());
    EXPECT_EQ(b->read(1, 1)->front().bytes, test_bytes(2, 9500));
  });
}

// A value that was changed or is missing is reported with its place, never returned.
TEST(EtcdLedger, DamageIsReported) {
  in_cluster([](Cluster& cluster, FakeStore& world) {
    auto a = cluster.host("a");
    ASSERT_TRUE(a->campaign(kSoon).ok());
    for (std::uint64_t i = 1; i <= 5; ++i) ASSERT_TRUE(a->append(test_records(i, i)).ok());
    ASSERT_TRUE(a->append(std::vector<RecordBytes>{{6, test_bytes(6, 3500)}}).ok());
    const detail::EtcdKeys keys("rota/");
    const auto raw = world.client();
    kv::KeyValue batch = kv::must_range(*raw, {.range = {keys.log(3)}}).kvs.at(0);
    batch.value[12] = static_cast<char>(batch.value[12] ^ 1);
    kv::must_put(*raw, batch.key, batch.value);
    EXPECT_EQ(a->read(3, 1).code(), ErrorCode::kCorrupt);
    EXPECT_EQ(a->read(1, 2)->size(), 2U);
    kv::must_delete(*raw, {keys.log(4)});
    const auto missing = a->read(4, 1);
    ASSERT_EQ(missing.code(), ErrorCode::kCorrupt);
    EXPECT_EQ(*missing.error().detail("index"), "4");
    const auto pieces = kv::must_range(*raw, {.range = kv::with_prefix(keys.part_prefix)}).kvs;
    ASSERT_EQ(pieces.size(), 4U);
    kv::must_put(*raw, pieces[2].key, std::string(1000, 'x'));
    EXPECT_EQ(a->read(6, 1).code(), ErrorCode::kCorrupt);
    kv::must_delete(*raw, {pieces[2].key});
    EXPECT_EQ(a->read(6, 1).code(), ErrorCode::kCorrupt);
    // Somebody who does not lead has moved the head.
    kv::must_put(*raw, keys.head, detail::encode_head({1, 7, 7}));
    EXPECT_EQ(a->append(test_records(7, 7)).code(), ErrorCode::kCorrupt);
  });
}

// A copy that was interrupted is the beginning of a log, and would pass for the whole: nobody follows or leads it.
TEST(EtcdLedger, AnIncompleteCopyIsRefused) {
  in_cluster([](Cluster& cluster, FakeStore& world) {
    const auto raw = world.client();
    auto early = cluster.host("early");
    auto a = cluster.host("a");
    ASSERT_TRUE(a->campaign(kSoon).ok());
    ASSERT_TRUE(EtcdLedger::mark_copy(*raw, "rota/", false, kSoon).ok());
    ASSERT_TRUE(a->append(test_records(1, 5)).ok());
    ASSERT_TRUE(a->close().ok());
    const auto late = cluster.open("late");
    ASSERT_EQ(late.code(), ErrorCode::kFailedPrecondition);
    EXPECT_NE(late.error().message.find("incomplete copy"), std::string::npos) << late.error().message;
    EXPECT_EQ(early->campaign(kSoon).code(), ErrorCode::kFailedPrecondition);
    ASSERT_TRUE(EtcdLedger::mark_copy(*raw, "rota/", true, kSoon).ok());
    auto b = cluster.host("b");
    EXPECT_TRUE(b->campaign(kSoon).ok());
    EXPECT_EQ(b->last_index(), 5U);
  });
}

// Records that are submitted while a batch commits form the next one, within its bounds.
TEST(EtcdLedger, GroupCommit) {
  in_cluster([](Cluster& cluster, FakeStore& world) {
    auto a = cluster.host("a");
    ASSERT_TRUE(a->campaign(kSoon).ok());
    const std::uint64_t before = world.stats().txns;
    ASSERT_TRUE(a->submit(test_records(1, 1)).ok());
    ASSERT_TRUE(a->submit(test_records(2, 9)).ok());
    ASSERT_TRUE(a->wait_durable(9).ok());
    EXPECT_EQ(world.stats().txns - before, 3U);  // 9 records, 4 at a time.
  });
}

// Contract: L-3. On three real servers: leadership, records in pieces, snapshots, compaction, and a takeover by a
// second host that finds everything.
TEST(EtcdLedger, OnEtcd) {
  const LogCapture quiet(LogLevel::kError);
  kv::EtcdCluster& servers = kv::shared_cluster();
  fiber::Runtime runtime({.worker_count = 2});
  runtime.run([&] {
    fiber::with_scope([&](fiber::Nursery& nursery) {
      const auto store = [&](std::size_t member) {
        return std::make_unique<kv::EtcdStore>(net::real_network(), servers.client_options(member), nursery);
      };
      const auto store_a = store(0);
      const auto store_b = store(1);
      EtcdLedgerOptions options{.prefix = "on-etcd/", .name = "a", .lease = std::chrono::seconds(30)};
      options.call_within = kSoon;
      auto a = EtcdLedger::open(*store_a, options, nursery, kSoon).value();
      const std::uint64_t term = a->campaign(kSoon).value();
      options.name = "b";
      auto b = EtcdLedger::open(*store_b, options, nursery, kSoon).value();
      ASSERT_TRUE(a->append(test_records(1, 300)).ok());
      const std::string large = test_bytes(1, std::size_t{5} << 20);
      ASSERT_TRUE(a->append(std::vector<RecordBytes>{{301, large}}).ok());
      ASSERT_TRUE(a->save_snapshot(test_snapshot(250, 3 << 20)).ok());
      ASSERT_TRUE(a->compact(200).ok());
      ASSERT_TRUE(b->wait_beyond(300, kSoon).ok());
      EXPECT_EQ(b->leader(), "a");
      EXPECT_EQ(b->read(301, 1)->front().bytes, large);
      // The leader is deposed without its knowledge, as after a long pause.
      const auto raw = store(2);
      kv::must_delete(*raw, {"on-etcd/meta/leader"});
      EXPECT_GT(b->campaign(kSoon).value(), term);
      ASSERT_TRUE(b->append(test_records(302, 302)).ok());
      EXPECT_EQ(a->append(test_records(302, 302)).code(), ErrorCode::kNotLeader);
      EXPECT_EQ(b->first_index(), 201U);
      EXPECT_EQ(*b->read(201, 100), test_records(201, 300));
      EXPECT_EQ(**b->latest_snapshot(), test_snapshot(250, 3 << 20));
      (void)a->close();
      EXPECT_TRUE(b->close().ok());
    });
  });
}

}  // namespace
}  // namespace rota::ledger
