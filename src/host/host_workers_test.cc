// The host and its workers: registration, incarnations, leaving, returned tasks, times.

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "host/host_testing.h"
#include "host/recovery.h"

namespace rota::host {
namespace {

using namespace testing_support;  // NOLINT(*-build-using-namespace)

// Workers that end with the host: their tasks are given back without spending an attempt, however often it happens.
TEST(Host, WorkersThatEndWithIt) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    HostOptions embedded = options();
    embedded.ends_with_host = [](const model::WorkerSpec&) { return true; };
    for (int life = 1; life <= 6; ++life) {
      bus::LocalBus bus;
      fiber::with_scope([&](fiber::Nursery& nursery) {
        Running running(nursery, ledger, bus, embedded);
        Puppet puppet(bus, "w");
        puppet.hello(static_cast<std::uint64_t>(life));
        running.wait_registered("w");
        if (life == 1) accepted(running.host.execute(fleet::SubmitWorkflow{"1", chain({"a"})}));
        const Assign assign = puppet.next_assign();
        EXPECT_EQ(assign.id.attempt, AttemptNumber(static_cast<std::uint32_t>(life)));
        if (life < 6) return running.crash();
        puppet.report_end(assign, AttemptEnd::kSucceeded);
        running.watcher.wait_ended();
        EXPECT_EQ(running.watcher.outcomes.at(WorkflowId(1)), Outcome::kSucceeded);
        running.stop();
      });
    }
  });
}

// U-1, B-16: a registration that was not acknowledged when the host died is delivered again. The incarnation is the
// same: nothing is lost, no attempt is spent, and the worker is sent its assignments again.
TEST(Host, ARegistrationThatComesTwice) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Puppet puppet(bus, "w");
      auto running = std::make_unique<Running>(nursery, ledger, bus);
      puppet.hello(7);
      running->wait_registered("w");
      accepted(running->host.execute(fleet::SubmitWorkflow{"1", chain({"a"})}));
      Assign assign = puppet.next_assign();
      running->crash();
      // Whether the bus gives it again depends on when the host died; so it does here, for certain.
      puppet.hello(7);
      for (int i = 0; i < 5; ++i) {
        running = std::make_unique<Running>(nursery, ledger, bus);
        const Assign again = puppet.next_assign();
        EXPECT_EQ(again.id.task, assign.id.task);
        EXPECT_EQ(again.id.attempt, AttemptNumber(1));
        assign = again;
        puppet.hello(7);
        if (i < 4) running->crash();
      }
      puppet.report_end(assign, AttemptEnd::kSucceeded);
      running->watcher.wait_ended();
      EXPECT_EQ(running->watcher.outcomes.at(WorkflowId(1)), Outcome::kSucceeded);
      running->stop();
    });
  });
}

// B-18: without a worker a submission is refused; with await_workers it waits until they have registered.
TEST(Host, SubmissionsAwaitTheWorkers) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    HostOptions waiting = options();
    waiting.await_workers = 2;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus, waiting);
      fiber::Task<Result<fleet::Events>> submitting =
          nursery.spawn([&] { return running.host.execute(fleet::SubmitWorkflow{"1", chain({"a"})}); });
      std::size_t workers = 9;
      const auto count = [&workers](const fleet::State& state) {
        workers = 0;
        state.each_worker([&](const fleet::Worker&) { ++workers; });
      };
      ASSERT_TRUE(running.host.peek(count).ok());
      EXPECT_EQ(workers, 0U);
      Puppet first(bus, "first");
      first.hello();
      first.hello();  // Twice the same is one.
      running.wait_registered("first");
      EXPECT_FALSE(submitting.is_completed());
      Puppet second(bus, "second");
      second.hello();
      EXPECT_TRUE(submitting.get().ok());
      running.stop();
    });
  });
}

// Contract: B-8. Workers of a file are registered in the order of the file, in whatever order their messages arrive.
TEST(Host, WorkersAreRegisteredInTheirOrder) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    HostOptions ordered = options();
    ordered.registration_order = {"first", "second", "third"};
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus, ordered);
      Puppet third(bus, "third");
      Puppet second(bus, "second");
      Puppet first(bus, "first");
      third.hello();
      second.hello();
      first.hello();
      running.wait_registered("third");
      std::vector<std::string> names;
      ASSERT_TRUE(running.host
                      .peek([&names](const fleet::State& state) {
                        state.each_worker([&](const fleet::Worker& worker) { names.push_back(worker.spec.name); });
                      })
                      .ok());
      EXPECT_EQ(names, ordered.registration_order);
      running.stop();
    });
  });
}

// U-1: a worker that reconnects with the same incarnation keeps its tasks; after a restart they get a new attempt.
TEST(Host, AWorkerRegistersAgain) {
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
      puppet.hello(1, {assign.id});
      const Assign same = puppet.next_assign();
      EXPECT_EQ(same.id.attempt, AttemptNumber(1));
      puppet.hello(2);
      const Assign anew = puppet.next_assign();
      EXPECT_EQ(anew.id.attempt, AttemptNumber(2));
      puppet.report_end(anew, AttemptEnd::kSucceeded);
      running.watcher.wait_ended();
      running.stop();
    });
  });
}

// B-16, U-1: a worker that was considered lost and comes back with the same incarnation must cancel its old attempts.
TEST(Host, AWorkerThatWasGivenUpComesBack) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus);
      Puppet puppet(bus, "w");
      puppet.hello();
      running.wait_registered("w");
      accepted(running.host.execute(fleet::SubmitWorkflow{"1", chain({"a"})}));
      const Assign first = puppet.next_assign();
      ASSERT_TRUE(running.host.execute(fleet::WorkerLost{"w", "not heard"}).ok());
      puppet.hello(1, {first.id});
      const Assign second = puppet.next_assign();
      EXPECT_EQ(second.id.attempt, AttemptNumber(2));
      const model::ToWorker next = puppet.next();
      const auto* stop = std::get_if<model::ControlAttempt>(&next);
      ASSERT_NE(stop, nullptr);
      EXPECT_EQ(stop->id.attempt, AttemptNumber(1));
      EXPECT_EQ(stop->action, model::AttemptAction::kCancel);
      // What it holds and should hold is not stopped.
      puppet.hello(1, {second.id});
      EXPECT_EQ(puppet.next_assign().id.attempt, AttemptNumber(2));
      puppet.report_end(second, AttemptEnd::kSucceeded);
      running.watcher.wait_ended();
      EXPECT_TRUE(std::holds_alternative<model::AcknowledgeReport>(puppet.next()));
      running.stop();
    });
  });
}

// U-1: a heartbeat of a worker that the host does not know is answered with a request to register; so is one of an
// incarnation that it does not know. A late heartbeat of an earlier incarnation is ignored.
TEST(Host, AnUnknownWorkerIsAskedToRegister) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus);
      Puppet puppet(bus, "w");
      ASSERT_TRUE(puppet.end().send(model::Heartbeat{Incarnation(1)}).ok());
      EXPECT_TRUE(std::holds_alternative<model::RegisterAgain>(puppet.next()));
      puppet.hello(1);
      running.wait_registered("w");
      ASSERT_TRUE(puppet.end().send(model::Heartbeat{Incarnation(1)}).ok());
      EXPECT_TRUE(puppet.nothing());
      ASSERT_TRUE(puppet.end().send(model::Heartbeat{Incarnation(2)}).ok());
      EXPECT_TRUE(std::holds_alternative<model::RegisterAgain>(puppet.next()));
      puppet.hello(2);
      ASSERT_TRUE(puppet.end().send(model::Heartbeat{Incarnation(1)}).ok());
      EXPECT_TRUE(puppet.nothing());
      running.stop();
    });
  });
}

// U-1, B-16: a worker that leaves gets no more tasks, keeps what it runs, and has left when that is done.
TEST(Host, AWorkerThatLeavesIsDrained) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus);
      Puppet puppet(bus, "w");
      puppet.hello();
      running.wait_registered("w");
      accepted(running.host.execute(fleet::SubmitWorkflow{"1", chain({"a", "b"})}));
      const Assign assign = puppet.next_assign();
      ASSERT_TRUE(puppet.end().send(model::Leave{Incarnation(1)}).ok());
      puppet.report_end(assign, AttemptEnd::kSucceeded);
      EXPECT_TRUE(std::holds_alternative<model::AcknowledgeReport>(puppet.next()));
      EXPECT_TRUE(puppet.nothing());  // The second stage is ready, and waits for another worker.
      bool left = false;
      ASSERT_TRUE(running.host
                      .inspect([&](const fleet::State& state) {
                        const fleet::Worker* worker = state.find_worker("w");
                        left = worker == nullptr || worker->left;
                      })
                      .ok());
      EXPECT_TRUE(left);
      Puppet other(bus, "x");
      other.hello(7);
      other.report_end(other.next_assign(), AttemptEnd::kSucceeded);
      running.watcher.wait_ended();
      running.stop();
    });
  });
}

// U-1: a worker that returns a task without having been asked to is stopping. It does not get the task again, no
// attempt is spent, and the number of records stays bounded.
TEST(Host, AReturnedTaskDoesNotGoBackToItsWorker) {
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
      puppet.report_end(assign, AttemptEnd::kPreempted, {}, "the worker is stopping");
      EXPECT_TRUE(std::holds_alternative<model::AcknowledgeReport>(puppet.next()));
      EXPECT_TRUE(puppet.nothing());
      EXPECT_LE(ledger.last_index(), before + 3);
      Puppet other(bus, "x");
      other.hello(7);
      const Assign again = other.next_assign();
      std::uint32_t spent = 99;
      ASSERT_TRUE(running.host.inspect([&](const fleet::State& state) { spent = state.at(again.id.task).spent; }).ok());
      EXPECT_LE(spent, 1U);
      other.report_end(again, AttemptEnd::kSucceeded);
      running.watcher.wait_ended();
      running.stop();
    });
  });
}

// The start and end of an attempt are those that its worker measured, within what the host can know: not before the
// assignment, and not after the report.
TEST(Host, TimesAreTheWorkers) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus);
      Puppet puppet(bus, "w");
      puppet.hello();
      running.wait_registered("w");
      accepted(running.host.execute(fleet::SubmitWorkflow{"1", chain({"a", "b"})}));
      const Assign first = puppet.next_assign();
      std::int64_t assigned = 0;
      ASSERT_TRUE(
          running.host.inspect([&](const fleet::State& state) { assigned = state.at(first.id.task).assigned_ns; })
              .ok());
      (void)fiber::sleep_for(20ms);
      model::AttemptOutcome outcome{.end = AttemptEnd::kSucceeded};
      outcome.started_ns = assigned + 1'000'000;
      outcome.ended_ns = assigned + 9'000'000;
      puppet.report(first, model::Ended{outcome});
      const Assign second = puppet.next_assign();
      outcome.started_ns = 1;                                       // A clock far behind,
      outcome.ended_ns = std::numeric_limits<std::int64_t>::max();  // and one far ahead.
      puppet.report(second, model::Ended{outcome});
      running.watcher.wait_ended();
      ASSERT_TRUE(running.host
                      .inspect([&](const fleet::State& state) {
                        const fleet::Task& a = state.at(first.id.task);
                        EXPECT_EQ(a.started_ns, assigned + 1'000'000);
                        EXPECT_EQ(a.ended_ns, assigned + 9'000'000);
                        const fleet::Task& b = state.at(second.id.task);
                        EXPECT_EQ(b.started_ns, b.assigned_ns);
                        EXPECT_GE(b.ended_ns, b.started_ns);
                        EXPECT_LE(b.ended_ns, state.time_ns());
                      })
                      .ok());
      running.stop();
    });
  });
}

}  // namespace
}  // namespace rota::host
