// The host: durability, crashes, snapshots, control of tasks.
#include "host/host.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "host/follower.h"
#include "host/host_testing.h"
#include "host/recovery.h"

namespace rota::host {
namespace {

using namespace testing_support;  // NOLINT(*-build-using-namespace)

// L-1, U-1: a workflow from its submission to its end; the final reports are acknowledged, and the log is complete.
TEST(Host, RunsAWorkflow) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus);
      Puppet puppet(bus, "w");
      puppet.hello();
      running.wait_registered("w");
      model::WorkflowSpec spec = chain({"a", "b"});
      spec.templates.push_back(spec.templates[0]);
      spec.templates[1].spec.inputs = R"({"n":"${a.result.n}"})";
      spec.stages[1].use = 1;
      const WorkflowId id = accepted(running.host.execute(fleet::SubmitWorkflow{"key", spec}));

      const Assign first = puppet.next_assign();
      EXPECT_EQ(first.id, (model::AttemptId{TaskId(id, 0), AttemptNumber(1)}));
      EXPECT_EQ(first.spec.type, "work");
      EXPECT_FALSE(first.spec.program.has_value());
      EXPECT_EQ(first.resources.cpu_millis, 1000);
      puppet.report(first, model::Started{});
      puppet.report(first, model::Progress{});
      puppet.report_end(first, AttemptEnd::kSucceeded, R"({"n": 7})");
      bool acknowledged = false;
      bool assigned = false;
      Assign second;
      while (!acknowledged || !assigned) {
        const model::ToWorker message = puppet.next();
        if (const auto* it = std::get_if<model::AcknowledgeReport>(&message)) {
          EXPECT_EQ(it->id, first.id);
          acknowledged = true;
        } else {
          second = std::get<Assign>(message);
          assigned = true;
        }
      }
      EXPECT_EQ(second.spec.inputs, R"({"n":7})");
      puppet.report_end(second, AttemptEnd::kSucceeded);
      running.watcher.wait_ended();
      EXPECT_EQ(running.watcher.outcomes.at(id), Outcome::kSucceeded);
      // The same key again: a client that repeats itself is told so, and nothing happens.
      EXPECT_EQ(running.host.execute(fleet::SubmitWorkflow{"key", spec}).code(), ErrorCode::kAlreadyExists);
      running.stop();
      EXPECT_EQ(running.watcher.reports.size(), 4U);
      EXPECT_EQ(running.host.execute(fleet::Tick{}).code(), ErrorCode::kClosed);
    });
    const Recovered recovered = recover(ledger).value();
    EXPECT_EQ(recovered.brain.state().globals().index, ledger.last_index());
    EXPECT_EQ(recovered.brain.state().find_key("key")->outcome, Outcome::kSucceeded);
  });
}

// L-1: neither the client nor the worker learns of a decision before it is durable; the next one is decided meanwhile.
TEST(Host, EffectsAfterDurability) {
  everywhere([] {
    SlowLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus);
      Puppet puppet(bus, "w");
      puppet.hello();
      running.wait_registered("w");
      ledger.open.reset();
      sync::Atomic<bool> answered{false};
      auto client = nursery.spawn([&] {
        accepted(running.host.execute(fleet::SubmitWorkflow{"1", chain({"a"})}));
        answered.store(true);
      });
      // The record is in the ledger; its sync is not over.
      while (ledger.submitted_index() < 2) (void)fiber::sleep_for(1ms);
      EXPECT_TRUE(puppet.nothing());
      EXPECT_FALSE(answered.load());
      auto other = nursery.spawn([&] { accepted(running.host.execute(fleet::SubmitWorkflow{"2", chain({"a"})})); });
      while (ledger.submitted_index() < 3) (void)fiber::sleep_for(1ms);
      EXPECT_FALSE(answered.load());
      ledger.open.set();
      client.get();
      other.get();
      EXPECT_EQ(puppet.next_assign().id.task, TaskId(WorkflowId(1), 0));
      EXPECT_EQ(puppet.next_assign().id.task, TaskId(WorkflowId(2), 0));
      running.stop();
    });
  });
}

// L-1: the host ends with the ledger's error. No effect is released after it, and the report is delivered again.
TEST(Host, ALedgerThatFails) {
  everywhere([] {
    SlowLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Puppet puppet(bus, "w");
      Assign assign;
      {
        Running running(nursery, ledger, bus);
        puppet.hello();
        running.wait_registered("w");
        accepted(running.host.execute(fleet::SubmitWorkflow{"1", chain({"a"})}));
        assign = puppet.next_assign();
        ledger.broken.store(true);
        puppet.report_end(assign, AttemptEnd::kSucceeded, "1");
        const Result<void> ended = running.task.get();
        EXPECT_EQ(ended.code(), ErrorCode::kIoError);
        EXPECT_TRUE(running.watcher.outcomes.empty());
        EXPECT_EQ(running.host.execute(fleet::Tick{}).code(), ErrorCode::kClosed);
        EXPECT_TRUE(puppet.nothing());
      }
      ledger.broken.store(false);
      Running again(nursery, ledger, bus);  // The bus delivers the report once more; in this ledger it is known.
      const auto done = std::make_shared<bool>(false);
      while (!*done) {
        ASSERT_TRUE(again.host
                        .inspect([=](const fleet::State& state) {
                          *done = state.find_key("1")->outcome == Outcome::kSucceeded;
                        })
                        .ok());
      }
      again.stop();
    });
  });
}

// U-1: a host is killed between any two steps and started again on the same ledger and bus. Nothing is lost, and the
// worker is sent again what it may have missed.
TEST(Host, SurvivesCrashes) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Puppet puppet(bus, "w");
      auto running = std::make_unique<Running>(nursery, ledger, bus);
      puppet.hello();
      running->wait_registered("w");
      accepted(running->host.execute(fleet::SubmitWorkflow{"1", chain({"a", "b", "c"})}));
      model::Term term;
      for (int step = 0; step < 3; ++step) {
        const Assign assign = puppet.next_assign();
        EXPECT_GE(assign.term, term);
        EXPECT_EQ(assign.id.attempt, AttemptNumber(1));
        term = assign.term;
        running->crash();
        running = std::make_unique<Running>(nursery, ledger, bus);
        ASSERT_TRUE(puppet.end().send(model::Heartbeat{Incarnation(1)}).ok());
        // The assignment is sent again, in the new term.
        const Assign again = puppet.next_assign();
        EXPECT_EQ(again.id.task, assign.id.task);
        EXPECT_EQ(again.id.attempt, AttemptNumber(1));
        EXPECT_GT(again.term, term);
        puppet.report_end(again, AttemptEnd::kSucceeded, std::to_string(step));
        term = again.term;
      }
      running->watcher.wait_ended();
      EXPECT_EQ(running->watcher.outcomes.at(WorkflowId(1)), Outcome::kSucceeded);
      running->stop();
    });
  });
}

// U-2: the output of a program reaches the observer and is not recorded in the log.
TEST(Host, OutputIsNotRecorded) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus);
      Puppet puppet(bus, "w");
      puppet.hello();
      running.wait_registered("w");
      accepted(running.host.execute(fleet::SubmitWorkflow{"1", chain({"a"})}));
      const Assign assign = puppet.next_assign();
      const std::uint64_t before = ledger.last_index();
      puppet.report(assign, model::Output{.bytes = "hello\n"});
      while (running.watcher.count.load() < 1) (void)fiber::sleep_for(1ms);
      EXPECT_EQ(std::get<model::Output>(running.watcher.reports.back().body).bytes, "hello\n");
      EXPECT_EQ(ledger.last_index(), before);
      puppet.report_end(assign, AttemptEnd::kSucceeded);
      running.watcher.wait_ended();
      running.stop();
    });
  });
}

// Cancel, pause and resume reach the worker; the report of a cancelled task ends the workflow.
TEST(Host, Controls) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus);
      Puppet puppet(bus, "w");
      puppet.hello();
      running.wait_registered("w");
      const WorkflowId id = accepted(running.host.execute(fleet::SubmitWorkflow{"1", chain({"a", "b"})}));
      const Assign assign = puppet.next_assign();
      const auto control = [&](fleet::Action action, model::AttemptAction expected) {
        EXPECT_TRUE(running.host.execute(fleet::Control{action, id, {}}).ok());
        const model::ToWorker message = puppet.next();
        ASSERT_TRUE(std::holds_alternative<model::ControlAttempt>(message));
        EXPECT_EQ(std::get<model::ControlAttempt>(message).action, expected);
        EXPECT_EQ(std::get<model::ControlAttempt>(message).id, assign.id);
      };
      control(fleet::Action::kPause, model::AttemptAction::kPause);
      control(fleet::Action::kResume, model::AttemptAction::kResume);
      // U-4: a worker that registers again may have missed that it was resumed (simulator, seed 3298).
      puppet.hello();
      EXPECT_EQ(puppet.next_assign().id, assign.id);
      const model::ToWorker again = puppet.next();
      ASSERT_TRUE(std::holds_alternative<model::ControlAttempt>(again));
      EXPECT_EQ(std::get<model::ControlAttempt>(again).action, model::AttemptAction::kResume);
      control(fleet::Action::kCancel, model::AttemptAction::kCancel);
      puppet.report_end(assign, AttemptEnd::kCancelled);
      running.watcher.wait_ended();
      EXPECT_EQ(running.watcher.outcomes.at(id), Outcome::kCancelled);
      EXPECT_EQ(running.host.execute(fleet::Control{fleet::Action::kCancel, id, {}}).code(),
                ErrorCode::kFailedPrecondition);
      running.stop();
    });
  });
}

// The end of a backoff follows the host's clock.
TEST(Host, TimersFire) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus);
      Puppet puppet(bus, "w");
      puppet.hello();
      running.wait_registered("w");
      model::WorkflowSpec spec = chain({"a"});
      spec.templates[0].retry.backoff_ms = 30;
      accepted(running.host.execute(fleet::SubmitWorkflow{"1", spec}));
      const Assign assign = puppet.next_assign();
      const std::chrono::nanoseconds failed = fiber::now();  // Before the host can hear of it.
      puppet.report_end(assign, AttemptEnd::kFailed, {}, "no luck");
      const Assign again = puppet.next_assign();
      EXPECT_EQ(again.id.attempt, AttemptNumber(2));
      EXPECT_GE(fiber::now() - failed, 29ms);
      puppet.report_end(again, AttemptEnd::kSucceeded);
      running.watcher.wait_ended();
      running.stop();
    });
  });
}

// B-14: after an attempt was killed for memory, the next one asks for more.
TEST(Host, AFailuresCauseReachesTheBrain) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus);
      Puppet puppet(bus, "w");
      puppet.hello();
      running.wait_registered("w");
      model::WorkflowSpec spec = chain({"a"});
      spec.templates[0].needs.memory_bytes = 1 << 20;
      spec.templates[0].retry.memory_factor_permille = 2000;
      accepted(running.host.execute(fleet::SubmitWorkflow{"1", spec}));
      const Assign assign = puppet.next_assign();
      EXPECT_EQ(assign.resources.memory_bytes, 1 << 20);
      puppet.report_end(assign, AttemptEnd::kFailed, {}, "too much", model::FailureKind::kMemory);
      const Assign again = puppet.next_assign();
      EXPECT_EQ(again.resources.memory_bytes, 2 << 20);
      puppet.report_end(again, AttemptEnd::kSucceeded);
      running.watcher.wait_ended();
      running.stop();
    });
  });
}

// L-4: the log stays bounded, and the records that are left give the same state.
TEST(Host, SnapshotsAndCompaction) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    HostOptions often = options();
    often.follow = true;
    often.snapshot_every = 50;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus, often);
      Puppet puppet(bus, "w");
      puppet.hello();
      running.wait_registered("w");
      for (int i = 0; i < 120; ++i) {
        accepted(running.host.execute(fleet::SubmitWorkflow{std::to_string(i), chain({"a"})}));
        puppet.report_end(puppet.next_assign(), AttemptEnd::kSucceeded, std::to_string(i));
      }
      ASSERT_TRUE(running.host.follower().wait_for(ledger.last_index(), 120s).ok());  // It makes the snapshots.
      running.stop();
      EXPECT_GT(ledger.first_index(), 50U);
      Running again(nursery, ledger, bus, often);
      auto outcome = std::make_shared<Outcome>();
      ASSERT_TRUE(again.host.inspect([=](const fleet::State& state) { *outcome = state.find_key("7")->outcome; }).ok());
      EXPECT_EQ(*outcome, Outcome::kSucceeded);
      again.stop();
    });
  });
}

// F-9, L-1: a host that is cancelled at any moment ends as cancelled, whatever it was about to start.
TEST(Host, CancelledAtAnyMoment) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    fiber::Runtime runtime({.worker_count = 2, .deterministic_seed = seed});
    runtime.run([seed] {
      ledger::MemoryLedger ledger;
      bus::LocalBus bus;
      fiber::with_scope([&](fiber::Nursery& nursery) {
        Puppet puppet(bus, "w");
        Running running(nursery, ledger, bus);
        puppet.hello();
        for (std::uint64_t i = 0; i < seed / 4; ++i) fiber::yield();
        running.task.cancel();
        try {
          ASSERT_EQ(running.task.get().code(), ErrorCode::kCancelled) << "seed " << seed;
        } catch (const fiber::Cancelled&) {  // It was cancelled before it started.
        }
      });
    });
  }
}

// A damaged ledger is refused before anything is decided.
TEST(Host, RefusesADamagedLog) {
  fiber::Runtime runtime({.worker_count = 1});
  runtime.run([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus);
      accepted(running.host.execute(fleet::SetQuota{.user = "x"}));
      running.stop();
    });
    std::string bytes = ledger.read(1, 1)->at(0).bytes;
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    ledger::MemoryLedger damaged;
    ASSERT_TRUE(damaged.append(std::vector<ledger::RecordBytes>{{1, bytes}}).ok());
    Host host(damaged, bus.host());
    EXPECT_EQ(host.run().code(), ErrorCode::kCorrupt);
  });
}

// A workflow that is too large for the log is refused before it is decided, and the host continues.
TEST(Host, RefusesWhatTheLogCannotHold) {
  fiber::Runtime runtime({.worker_count = 1});
  runtime.run([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus);
      model::WorkflowSpec spec = chain({"a"});
      spec.stages[0].items.assign(700, "{\"x\":\"" + std::string(100'000, 'x') + "\"}");
      EXPECT_EQ(running.host.execute(fleet::SubmitWorkflow{"1", spec}).code(), ErrorCode::kTooLarge);
      EXPECT_EQ(ledger.last_index(), 0U);
      EXPECT_TRUE(running.host.execute(fleet::SetQuota{.user = "x"}).ok());
      running.stop();
    });
  });
}

// Contract: P-17. A workflow of 300,000 stages, which the reader of files accepts, is accepted.
TEST(Host, AcceptsAWorkflowOfManyStages) {
  fiber::Runtime runtime({.worker_count = 1});
  runtime.run([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus);
      ASSERT_TRUE(running.host.execute(fleet::RegisterWorker{{.name = "w"}, {}, {}}).ok());
      model::WorkflowSpec spec = chain({"a"});
      spec.stages.resize(300'000, spec.stages.front());
      for (std::size_t i = 1; i < spec.stages.size(); ++i) {
        spec.stages[i].name = "a_stage_with_a_longer_name_" + std::to_string(i);
        spec.stages[i].needs = {static_cast<std::uint32_t>(i - 1)};
      }
      EXPECT_TRUE(running.host.execute(fleet::SubmitWorkflow{"1", std::move(spec)}).ok());
      running.stop();
    });
  });
}

// Contract: B-24. A policy that the brain refuses is the host's error, and not a line in a log.
TEST(Host, RefusesAPolicyThatTheBrainRefuses) {
  fiber::Runtime runtime({.worker_count = 1});
  runtime.run([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    HostOptions options;
    options.policy.emplace().elastic.poll_ms = 0;
    Host host(ledger, bus.host(), options);
    const Result<void> ended = host.run();
    ASSERT_EQ(ended.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(ended.error().message.find("elastic.poll_ms"), std::string::npos) << ended.error().message;
    EXPECT_EQ(ledger.last_index(), 0U);
  });
}

}  // namespace
}  // namespace rota::host
