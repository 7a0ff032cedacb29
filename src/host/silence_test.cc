// Heartbeats that change nothing leave no record; a silence and its end do.
#include "host/silence.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "host/host_testing.h"
#include "host/recovery.h"

namespace rota::host {
namespace {

using namespace testing_support;  // NOLINT(*-build-using-namespace)

TEST(SilenceWatch, TheLongestSilentComesFirst) {
  SilenceWatch watch;
  watch.add("a", 0);
  watch.add("b", 10);
  watch.add("c", 20);
  EXPECT_EQ(watch.next_due_ns(100), 100);
  watch.heard("a", 30);
  watch.heard("nobody", 30);
  EXPECT_EQ(watch.size(), 3U);
  EXPECT_EQ(watch.next_due_ns(100), 110);
  EXPECT_EQ(watch.take_silent(109, 100), std::nullopt);
  EXPECT_EQ(watch.take_silent(125, 100), "b");
  EXPECT_EQ(watch.take_silent(125, 100), "c");
  EXPECT_EQ(watch.take_silent(125, 100), std::nullopt);
  watch.remove("a");
  EXPECT_EQ(watch.next_due_ns(100), std::numeric_limits<std::int64_t>::max());
}

TEST(SilenceWatch, WhatCannotBeHeardIsNoSilence) {
  SilenceWatch watch;
  watch.add("a", 0);
  watch.add("b", 90);
  watch.listening_since(50);
  watch.listening_since(40);  // Never goes back.
  EXPECT_EQ(watch.next_due_ns(100), 150);
  EXPECT_EQ(watch.take_silent(150, 100), "a");
  EXPECT_EQ(watch.next_due_ns(100), 190);
  EXPECT_EQ(watch.next_due_ns(std::numeric_limits<std::int64_t>::max()), std::numeric_limits<std::int64_t>::max());
}

// Runs the body under virtual time.
template <class Body>
void in_virtual_time(Body body) {
  fiber::Runtime runtime({.worker_count = 2, .deterministic_seed = 5});
  runtime.run(body);
}

// What the log says about workers, one word per event.
std::vector<std::string> worker_events(ledger::Ledger& ledger) {
  std::vector<std::string> words;
  fleet::LogPosition position;
  const std::vector<ledger::RecordBytes> records = ledger.read(1, 1'000'000).value();
  for (const ledger::RecordBytes& bytes : records) {
    const fleet::Record record = fleet::decode_record(bytes.bytes, position).value();
    for (const fleet::Event& event : record.events) {
      if (std::holds_alternative<fleet::WorkerRegistered>(event)) words.emplace_back("registered");
      if (const auto* changed = std::get_if<fleet::WorkerChanged>(&event)) {
        words.emplace_back(to_string(changed->change));
      }
    }
  }
  return words;
}

bool is_reachable(Running& running, const std::string& worker) {
  bool reachable = false;
  EXPECT_TRUE(running.host
                  .inspect([&](const fleet::State& state) {
                    const fleet::Worker* it = state.find_worker(worker);
                    reachable = it != nullptr && it->reachable;
                  })
                  .ok());
  return reachable;
}

// Contract: B-16. The log shows when a worker joined, became unreachable, returned and left; a thousand heartbeats in
// between leave no trace, and the log recovers to the same state.
TEST(Silence, OnlyChangesAreRecorded) {
  in_virtual_time([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus);
      Puppet puppet(bus, "w");
      puppet.hello();
      running.wait_registered("w");
      accepted(running.host.execute(fleet::SubmitWorkflow{"1", chain({"a"})}));
      const Assign first = puppet.next_assign();
      const std::uint64_t before = ledger.last_index();
      for (int i = 0; i < 1000; ++i) {
        ASSERT_TRUE(puppet.end().send(model::Heartbeat{Incarnation(1)}).ok());
        (void)fiber::sleep_for(29s);
      }
      EXPECT_EQ(ledger.last_index(), before);
      EXPECT_TRUE(is_reachable(running, "w"));
      (void)fiber::sleep_for(2s);  // 31 s since the last one.
      EXPECT_FALSE(is_reachable(running, "w"));
      EXPECT_EQ(ledger.last_index(), before + 1);

      ASSERT_TRUE(puppet.end().send(model::Heartbeat{Incarnation(1)}).ok());
      // The worker is asked what it still runs, and gets its task again as a new attempt.
      bool asked = false;
      std::optional<Assign> second;
      while (!asked || !second) {
        const model::ToWorker message = puppet.next();
        asked = asked || std::holds_alternative<model::RegisterAgain>(message);
        const auto* assign = std::get_if<Assign>(&message);
        if (assign != nullptr) {
          EXPECT_EQ(assign->id.attempt, AttemptNumber(2));
          second = *assign;
        }
      }
      puppet.hello(1, {{first.id, first.assigned_ns}});
      for (;;) {
        const model::ToWorker message = puppet.next();
        if (const auto* stop = std::get_if<model::ControlAttempt>(&message)) {
          EXPECT_EQ(stop->id, first.id);
          EXPECT_EQ(stop->action, model::AttemptAction::kCancel);
          break;
        }
      }
      EXPECT_EQ(ledger.last_index(), before + 2);
      puppet.report_end(*second, AttemptEnd::kSucceeded);
      running.watcher.wait_ended();
      ASSERT_TRUE(puppet.end().send(model::Leave{Incarnation(1)}).ok());
      while (is_reachable(running, "w")) (void)fiber::sleep_for(1ms);
      running.stop();
    });
    EXPECT_EQ(worker_events(ledger),
              (std::vector<std::string>{"registered", "unreachable", "back", "draining", "left"}));
    EXPECT_EQ(recover(ledger)->brain.state().globals().index, ledger.last_index());
  });
}

// Contract: B-16. A report shows that a worker is alive as well as a heartbeat does.
TEST(Silence, AnyMessageCounts) {
  in_virtual_time([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus);
      Puppet puppet(bus, "w");
      puppet.hello();
      running.wait_registered("w");
      accepted(running.host.execute(fleet::SubmitWorkflow{"1", chain({"a"})}));
      const Assign assign = puppet.next_assign();
      for (int i = 0; i < 10; ++i) {
        puppet.report(assign, model::Progress{});
        (void)fiber::sleep_for(29s);
      }
      EXPECT_TRUE(is_reachable(running, "w"));
      running.stop();
    });
  });
}

// Contract: B-16. After a restart of the host every worker gets a full TTL, however long it was silent before.
TEST(Silence, ARestartGivesAFullTtl) {
  in_virtual_time([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Puppet puppet(bus, "w");
      {
        Running running(nursery, ledger, bus);
        puppet.hello();
        running.wait_registered("w");
        (void)fiber::sleep_for(29s);
        running.crash();
      }
      Running running(nursery, ledger, bus);
      (void)fiber::sleep_for(29s);
      EXPECT_TRUE(is_reachable(running, "w"));
      (void)fiber::sleep_for(2s);
      EXPECT_FALSE(is_reachable(running, "w"));
      running.stop();
    });
  });
}

// A host's end that cannot be reached while `down` is set.
class Outage : public bus::HostEnd {
 public:
  explicit Outage(bus::HostEnd& inner) : inner_(inner) {}
  Result<bus::DeliveryFromWorker> receive(std::chrono::nanoseconds limit) override {
    if (down.load()) return ErrorCode::kUnavailable;
    return inner_.receive(std::min<std::chrono::nanoseconds>(limit, 1s));
  }
  Result<void> acknowledge(std::uint64_t id) override { return inner_.acknowledge(id); }
  Result<void> send(const std::string& worker, model::ToWorker message) override {
    return inner_.send(worker, std::move(message));
  }
  Result<void> rewind() override { return inner_.rewind(); }

  sync::Atomic<bool> down{false};

 private:
  bus::HostEnd& inner_;
};

// Contract: U-1, B-16. While the bus is unreachable no worker can be heard, so none is given up; after that each has a
// full TTL to be heard.
TEST(Silence, AnUnreachableBusIsNoSilence) {
  in_virtual_time([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    Outage outage(bus.host());
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Host host(ledger, outage, options());
      auto task = nursery.spawn([&] { return host.run(); });
      Puppet puppet(bus, "w");
      puppet.hello();
      const auto reachable = [&] {
        bool result = false;
        EXPECT_TRUE(host.inspect([&](const fleet::State& state) {
                          const fleet::Worker* it = state.find_worker("w");
                          result = it != nullptr && it->reachable;
                        })
                        .ok());
        return result;
      };
      while (!reachable()) (void)fiber::sleep_for(1ms);
      outage.down.store(true);
      (void)fiber::sleep_for(1000s);
      EXPECT_TRUE(reachable());
      outage.down.store(false);
      (void)fiber::sleep_for(28s);
      EXPECT_TRUE(reachable());
      (void)fiber::sleep_for(4s);
      EXPECT_FALSE(reachable());
      host.stop();
      EXPECT_TRUE(task.get().ok());
    });
  });
}

// A ledger whose submissions wait for the test.
class BlockedLedger : public SlowLedger {
 public:
  Result<void> submit(std::span<const ledger::RecordBytes> records) override {
    gate.wait();
    return SlowLedger::submit(records);
  }
  fiber::Event gate{true};
};

// Contract: B-16. A host that was blocked for longer than the TTL (a stopped process, a stalled disk) does not take the
// messages that wait for it for silence.
TEST(Silence, ABlockedHostIsNoSilence) {
  in_virtual_time([] {
    BlockedLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus);
      Puppet puppet(bus, "w");
      puppet.hello();
      running.wait_registered("w");
      ledger.gate.reset();
      auto client = nursery.spawn([&] { (void)running.host.execute(fleet::SetQuota{.user = "x"}); });
      (void)fiber::sleep_for(100s);
      ledger.gate.set();
      client.get();
      (void)fiber::sleep_for(20s);
      EXPECT_TRUE(is_reachable(running, "w"));
      (void)fiber::sleep_for(12s);
      EXPECT_FALSE(is_reachable(running, "w"));
      running.stop();
    });
  });
}

}  // namespace
}  // namespace rota::host
