// The follower: a copy of the state for readers and snapshots.
#include "host/follower.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "host/host_testing.h"
#include "host/recovery.h"

namespace rota::host {
namespace {

using namespace testing_support;  // NOLINT(*-build-using-namespace)

HostOptions following() {
  HostOptions of = options();
  of.follow = true;
  return of;
}

std::uint64_t users(const fleet::State& state) { return state.users().size(); }

// Contract: H-6. A client that was told of its record reads a state that has it; the follower's state is the log's.
TEST(Follower, ReadsReflectWhatTheClientWasTold) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus, following());
      for (std::uint64_t i = 1; i <= 200; ++i) {
        ASSERT_TRUE(running.host.execute(fleet::SetQuota{.user = "user-" + std::to_string(i)}).ok());
        std::uint64_t seen = 0;
        const Result<std::uint64_t> at =
            running.host.follower().read([&](const fleet::State& state) { seen = users(state); }, i);
        ASSERT_TRUE(at.ok());
        EXPECT_GE(*at, i);
        EXPECT_EQ(seen, *at);
      }
      Hash128 hash;
      ASSERT_TRUE(running.host.follower().read([&](const fleet::State& state) { hash = state.hash(); }).ok());
      EXPECT_EQ(hash, recover(ledger)->brain.hash());
      running.stop();
      EXPECT_EQ(running.host.follower().wait_for(1000, 1h).code(), ErrorCode::kClosed);
    });
  });
}

// Contract: H-6. The follower shows only what is durable.
TEST(Follower, ShowsOnlyWhatIsDurable) {
  everywhere([] {
    SlowLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus, following());
      ASSERT_TRUE(running.host.execute(fleet::SetQuota{.user = "a"}).ok());
      ledger.open.reset();
      auto client = nursery.spawn([&] { return running.host.execute(fleet::SetQuota{.user = "b"}).ok(); });
      while (ledger.submitted_index() < 2) (void)fiber::sleep_for(1ms);
      EXPECT_EQ(running.host.follower().wait_for(2, 20ms).code(), ErrorCode::kTimeout);
      std::uint64_t seen = 0;
      ASSERT_TRUE(running.host.follower().read([&](const fleet::State& state) { seen = users(state); }, 1).ok());
      EXPECT_EQ(seen, 1U);
      ledger.open.set();
      EXPECT_TRUE(client.get());
      EXPECT_TRUE(running.host.follower().wait_for(2, 100s).ok());
      running.stop();
    });
  });
}

// Contract: H-6. A reader that holds the follower delays neither decisions nor answers; what the queue has no room for
// is read from the ledger afterwards.
TEST(Follower, ASlowReaderCostsTheDeciderNothing) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus, following());
      ASSERT_TRUE(running.host.execute(fleet::SetQuota{.user = "first"}).ok());
      fiber::Event inside;
      fiber::Event leave;
      auto reader = nursery.spawn([&] {
        return running.host.follower().read(
            [&](const fleet::State&) {
              inside.set();
              leave.wait();
            },
            1);
      });
      inside.wait();
      const std::uint64_t stuck = running.host.follower().index();
      for (int i = 0; i < 500; ++i) {  // More batches than the queue holds.
        ASSERT_TRUE(running.host.execute(fleet::SetQuota{.user = std::to_string(i)}).ok());
      }
      EXPECT_LE(running.host.follower().index(), stuck);
      leave.set();
      EXPECT_TRUE(reader.get().ok());
      std::uint64_t seen = 0;
      ASSERT_TRUE(running.host.follower().read([&](const fleet::State& state) { seen = users(state); }, 501).ok());
      EXPECT_EQ(seen, 501U);
      running.stop();
    });
  });
}

// Contract: L-4, B-21. Snapshots come from the follower; a host that starts from one continues with a higher term and
// the same state, and followers of followers agree.
TEST(Follower, SnapshotsRecover) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    HostOptions often = following();
    often.snapshot_every = 10;
    model::Term last;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      for (int life = 0; life < 3; ++life) {
        Running running(nursery, ledger, bus, often);
        for (int i = 0; i < 25; ++i) {
          ASSERT_TRUE(
              running.host.execute(fleet::SetQuota{.user = std::to_string(life) + "-" + std::to_string(i)}).ok());
          ASSERT_TRUE(running.host.follower().wait_for(ledger.last_index(), 100s).ok());
        }
        running.stop();
        const Recovered recovered = recover(ledger).value();
        EXPECT_GT(recovered.position.term, last);
        last = recovered.position.term;
        EXPECT_EQ(recovered.brain.state().users().size(), static_cast<std::size_t>(life + 1) * 25);
      }
    });
    EXPECT_GT(ledger.first_index(), 1U);
  });
}

// Contract: H-1. The past can be read at any record that the ledger still leads to, in any order.
TEST(Follower, ThePastIsReadByIndex) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus, following());
      Follower& follower = running.host.follower();
      for (int i = 1; i <= 30; ++i) {
        ASSERT_TRUE(running.host.execute(fleet::SetQuota{.user = std::to_string(i)}).ok());
      }
      for (const std::uint64_t index : {20U, 25U, 3U, 30U, 1U}) {
        std::uint64_t seen = 0;
        ASSERT_TRUE(follower.read_past(index, [&](const fleet::State& state) { seen = users(state); }).ok());
        EXPECT_EQ(seen, index);
      }
      EXPECT_EQ(follower.read_past(31, [](const fleet::State&) {}).code(), ErrorCode::kNotFound);
      Recovered part;
      const std::vector<ledger::RecordBytes> records = ledger.read(1, 15).value();
      for (const ledger::RecordBytes& each : records) {
        const fleet::Record record = fleet::decode_record(each.bytes, part.position).value();
        EXPECT_TRUE(part.brain.apply(record).ok());
      }
      ASSERT_TRUE(ledger.save_snapshot({15, encode_snapshot(part.brain, part.position.chain)}).ok());
      ASSERT_TRUE(ledger.compact(15).ok());
      EXPECT_EQ(follower.read_past(14, [](const fleet::State&) {}).code(), ErrorCode::kNotFound);
      std::uint64_t seen = 0;
      EXPECT_TRUE(follower.read_past(16, [&](const fleet::State& state) { seen = users(state); }).ok());
      EXPECT_EQ(seen, 16U);
      running.stop();
    });
  });
}

}  // namespace
}  // namespace rota::host
