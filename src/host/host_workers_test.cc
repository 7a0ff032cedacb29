// The host and its workers: registration, incarnations, leaving, returned tasks, times.

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "host/host_testing.h"
#include "host/recovery.h"

namespace rota::host {
namespace {

using namespace testing_support;  // NOLINT(*-build-using-namespace)

// A host's end that refuses what is too large for it, and notes which workers the host expects.
class StrictBus : public bus::HostEnd {
 public:
  explicit StrictBus(bus::HostEnd& inner) : inner_(inner) {}
  Result<bus::DeliveryFromWorker> receive(std::chrono::nanoseconds limit) override { return inner_.receive(limit); }
  Result<void> acknowledge(std::uint64_t id) override { return inner_.acknowledge(id); }
  Result<void> send(const std::string& worker, model::ToWorker message) override {
    const auto* assign = std::get_if<Assign>(&message);
    if (assign != nullptr && refuse(*assign)) return Error{ErrorCode::kTooLarge, "the bus carries at most 7 bytes"};
    if (const ErrorCode code = fail_with.load(); code != ErrorCode::kOk) return code;
    return inner_.send(worker, std::move(message));
  }
  Result<void> rewind() override { return inner_.rewind(); }
  void expect(const std::string& worker, bool here) override {
    const sync::MutexLock lock(mutex_);
    expected_[worker] = here;
  }
  // Whether the host expects the worker; nothing if it has not said.
  std::optional<bool> expects(const std::string& worker) {
    const sync::MutexLock lock(mutex_);
    const auto found = expected_.find(worker);
    return found == expected_.end() ? std::nullopt : std::optional<bool>(found->second);
  }
  std::function<bool(const Assign&)> refuse = [](const Assign&) { return false; };
  sync::Atomic<ErrorCode> fail_with{ErrorCode::kOk};

 private:
  bus::HostEnd& inner_;
  sync::Mutex mutex_;
  std::map<std::string, bool> expected_ ROTA_GUARDED_BY(mutex_);
};

// Contract: U-1. A task whose assignment no bus carries fails for good, with a sentence, and is not sent for ever. The
// worker's other tasks run. A merged execution that is too large is taken apart.
TEST(Host, AnAssignmentThatIsTooLarge) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus local;
    StrictBus bus(local.host());
    bus.refuse = [](const Assign& assign) { return assign.spec.inputs.size() > 7 || assign.merged.size() > 1; };
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Watcher watcher(ledger);
      Host host(ledger, bus, options(), &watcher);
      auto task = nursery.spawn([&] { return host.run(); });
      Puppet puppet(local, "w");
      puppet.hello();
      while (bus.expects("w") != true) (void)fiber::sleep_for(1ms);
      model::WorkflowSpec spec = chain({"large"});
      spec.templates[0].spec.inputs = R"({"a": "very long"})";
      spec.templates[0].retry.max_attempts = 5;
      accepted(host.execute(fleet::SubmitWorkflow{"1", spec}));
      watcher.wait_ended();
      EXPECT_EQ(watcher.outcomes.at(WorkflowId(1)), Outcome::kFailed);
      ASSERT_TRUE(host.inspect([](const fleet::State& state) {
                        const fleet::Task& failed = state.at(TaskId(WorkflowId(1), 0));
                        ASSERT_NE(failed.extra, nullptr);
                        EXPECT_NE(failed.extra->message.find("at most 7 bytes"), std::string::npos)
                            << failed.extra->message;
                        EXPECT_EQ(failed.attempt, AttemptNumber(1)) << "it was tried again, which cannot help";
                      })
                      .ok());
      accepted(host.execute(fleet::SubmitWorkflow{"2", chain({"small"})}));
      const Assign assign = puppet.next_assign();
      EXPECT_EQ(assign.id.task, TaskId(WorkflowId(2), 0));
      host.stop();
      EXPECT_TRUE(task.get().ok());
    });
  });
}

// Contract: U-1. The bus is told which workers the host counts on: not those that left or became unreachable, also
// after a restart; and again when they return.
TEST(Host, TheBusHearsWhoIsGone) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus local;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      StrictBus bus(local.host());
      Host host(ledger, bus, options());
      auto task = nursery.spawn([&] { return host.run(); });
      const auto wait_until = [&](const char* worker, bool here) {
        while (bus.expects(worker) != here) ASSERT_TRUE(fiber::sleep_for(1ms).ok());
      };
      Puppet leaver(local, "leaver");
      Puppet mute(local, "mute");
      Puppet other(local, "other");
      for (Puppet* each : {&leaver, &mute, &other}) each->hello();
      for (const char* name : {"leaver", "mute", "other"}) wait_until(name, true);
      ASSERT_TRUE(leaver.end().send(model::Leave{Incarnation(1)}).ok());
      wait_until("leaver", false);
      ASSERT_TRUE(host.execute(fleet::WorkerLost{"mute", "not heard"}).ok());
      wait_until("mute", false);
      EXPECT_EQ(bus.expects("other"), true);
      mute.hello(1);
      wait_until("mute", true);
      leaver.hello(2);
      wait_until("leaver", true);
      ASSERT_TRUE(leaver.end().send(model::Leave{Incarnation(2)}).ok());
      wait_until("leaver", false);
      host.stop();
      EXPECT_TRUE(task.get().ok());
    });
    fiber::with_scope([&](fiber::Nursery& nursery) {
      StrictBus bus(local.host());
      Host host(ledger, bus, options());
      auto task = nursery.spawn([&] { return host.run(); });
      while (bus.expects("other") != true) ASSERT_TRUE(fiber::sleep_for(1ms).ok());
      EXPECT_EQ(bus.expects("mute"), true);
      EXPECT_EQ(bus.expects("leaver"), std::nullopt);
      host.stop();
      EXPECT_TRUE(task.get().ok());
    });
  });
}

// U-1, invariant (2) of the host: a worker leaves and registers again while the bus is away. What it is sent in its
// second stay comes after what was still to be sent in the first.
TEST(Host, MessagesKeepTheirOrderWhenAWorkerLeavesAndReturns) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus local;
    StrictBus bus(local.host());
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Watcher watcher(ledger);
      Host host(ledger, bus, options(), &watcher);
      auto task = nursery.spawn([&] { return host.run(); });
      Puppet puppet(local, "w");
      puppet.hello(1);
      while (bus.expects("w") != true) (void)fiber::sleep_for(1ms);
      model::WorkflowSpec spec = chain({"a"});
      spec.templates[0].retry.max_attempts = 9;
      accepted(host.execute(fleet::SubmitWorkflow{"1", spec}));
      const Assign first = puppet.next_assign();
      bus.fail_with.store(ErrorCode::kUnavailable);
      for (std::uint64_t stay = 2; stay <= 4; ++stay) {
        ASSERT_TRUE(host.execute(fleet::WorkerLost{"w", "not heard"}).ok());
        while (bus.expects("w") != false) (void)fiber::sleep_for(1ms);
        puppet.hello(stay);
        while (bus.expects("w") != true) (void)fiber::sleep_for(1ms);
      }
      bus.fail_with.store(ErrorCode::kOk);
      AttemptNumber last = first.id.attempt;
      for (int i = 0; i < 3; ++i) {
        const Assign next = puppet.next_assign();
        EXPECT_GT(next.id.attempt, last);
        last = next.id.attempt;
      }
      host.stop();
      EXPECT_TRUE(task.get().ok());
    });
  });
}

// Contract: U-1. A host that has lost its log has a higher term than its predecessors: workers do not take its messages
// for old ones.
TEST(Host, TheTermIncreasesAlthoughTheLogIsLost) {
  everywhere([] {
    bus::LocalBus local;
    Puppet puppet(local, "w");
    model::Term last;
    HostOptions later = options();
    for (int life = 0; life < 4; ++life) {
      ledger::MemoryLedger ledger;
      for (int start = 0; start < 2; ++start) {
        *later.wall_ns += 10'000'000'000;  // More than a start takes: the clock of the host before went on as well.
        fiber::with_scope([&](fiber::Nursery& nursery) {
          Running running(nursery, ledger, local, later);
          puppet.hello(1);
          running.wait_registered("w");
          if (start == 0) accepted(running.host.execute(fleet::SubmitWorkflow{"1", chain({"a"})}));
          Assign assign = puppet.next_assign();
          while (assign.term == last) assign = puppet.next_assign();  // Sent twice by the previous host.
          EXPECT_GT(assign.term, last);
          last = assign.term;
          running.crash();
        });
      }
    }
  });
}

// Contract: U-1, U-4. The log is lost, and the clock of the new host is behind that of the former one: a worker that
// has heard of the former host's term does not ignore the new one. A term that no clock can have caused is ignored.
TEST(Host, TheTermFollowsThatOfTheWorkers) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus, options());
      Puppet puppet(bus, "w");
      puppet.hello(1);
      running.wait_registered("w");
      accepted(running.host.execute(fleet::SubmitWorkflow{"1", chain({"a"})}));
      const Assign assign = puppet.next_assign();
      const model::Term heard(assign.term.value() + 86'400'000);  // A day.
      const model::HeldAttempt held{assign.id, assign.assigned_ns};
      puppet.hello(1, {held}, heard);
      EXPECT_EQ(puppet.next_assign().term, heard.next());
      puppet.hello(1, {held}, heard.next());  // The same leader: an outage of the bus is over.
      EXPECT_EQ(puppet.next_assign().term, heard.next());
      puppet.hello(1, {held}, model::Term(UINT64_MAX));
      const Assign again = puppet.next_assign();
      EXPECT_EQ(again.term, heard.next());
      puppet.report_end(again, AttemptEnd::kSucceeded);
      running.watcher.wait_ended();
      running.stop();
    });
    const std::uint64_t last = ledger.last_index();
    EXPECT_GT(last, 0U);
    EXPECT_TRUE(recover(ledger).ok()) << "the log is not valid";
  });
}

// Contract: U-1. A host with a new log ignores the reports of tasks of the former one, which have the same numbers, and
// acknowledges the final ones. What a worker still runs of the former log is cancelled before anything is assigned.
TEST(Host, ReportsOfAFormerLog) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    HostOptions with_policy = options();  // Its first record comes before any report.
    with_policy.policy.emplace().aging_boost = 7;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus, with_policy);
      Puppet puppet(bus, "w");
      puppet.hello(1);
      running.wait_registered("w");
      accepted(running.host.execute(fleet::SubmitWorkflow{"1", chain({"a"})}));
      EXPECT_EQ(puppet.next_assign().id.attempt, AttemptNumber(1));
      ASSERT_TRUE(running.host.execute(fleet::WorkerLost{"w", "not heard"}).ok());
      // It claims to run the attempt that its registration will be given: one of another log.
      const model::AttemptId same{TaskId(WorkflowId(1), 0), AttemptNumber(2)};
      puppet.hello(1, {{same, 5}});
      const model::ToWorker cancel = puppet.next();
      ASSERT_TRUE(std::holds_alternative<model::ControlAttempt>(cancel));
      EXPECT_EQ(std::get<model::ControlAttempt>(cancel).id, same);
      EXPECT_EQ(std::get<model::ControlAttempt>(cancel).assigned_ns, 5);
      EXPECT_EQ(std::get<model::ControlAttempt>(cancel).action, model::AttemptAction::kCancel);
      const Assign assign = puppet.next_assign();
      EXPECT_EQ(assign.id, same);
      // The same when the assignment was sent already: the host had read an old registration.
      puppet.hello(1, {{same, 5}});
      const model::ToWorker late_cancel = puppet.next();
      ASSERT_TRUE(std::holds_alternative<model::ControlAttempt>(late_cancel));
      EXPECT_EQ(std::get<model::ControlAttempt>(late_cancel).assigned_ns, 5);
      EXPECT_EQ(puppet.next_assign().assigned_ns, assign.assigned_ns);
      EXPECT_TRUE(std::holds_alternative<model::ControlAttempt>(puppet.next())) << "it is not paused";
      // Of the former log: it was assigned at another time.
      Assign former = assign;
      former.assigned_ns = 5;
      puppet.report(former, model::Output{.bytes = "old"});
      puppet.report_end(former, AttemptEnd::kSucceeded, "\"old\"");
      EXPECT_TRUE(std::holds_alternative<model::AcknowledgeReport>(puppet.next()));
      puppet.report_end(assign, AttemptEnd::kSucceeded, "\"new\"");
      EXPECT_TRUE(std::holds_alternative<model::AcknowledgeReport>(puppet.next()));
      ASSERT_TRUE(running.host
                      .inspect([](const fleet::State& state) {
                        EXPECT_EQ(state.at(TaskId(WorkflowId(1), 0)).extra->result, "\"new\"");
                      })
                      .ok());
      for (const Report& report : running.watcher.reports) EXPECT_EQ(report.assigned_ns, assign.assigned_ns);
      running.stop();
    });
  });
}

// The host ends although a worker that is gone could not be sent its last messages.
TEST(Host, ItEndsWhileMessagesToAGoneWorkerWait) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus local;
    StrictBus bus(local.host());
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Host host(ledger, bus, options());
      auto task = nursery.spawn([&] { return host.run(); });
      Puppet puppet(local, "w");
      puppet.hello(1);
      while (bus.expects("w") != true) (void)fiber::sleep_for(1ms);
      bus.fail_with.store(ErrorCode::kUnavailable);
      accepted(host.execute(fleet::SubmitWorkflow{"1", chain({"a"})}));
      for (std::uint64_t stay = 2; stay <= 3; ++stay) {
        ASSERT_TRUE(host.execute(fleet::WorkerLost{"w", "not heard"}).ok());
        puppet.hello(stay);
        while (bus.expects("w") != true) (void)fiber::sleep_for(1ms);
      }
      host.stop();
      EXPECT_TRUE(task.get().ok());
    });
  });
}

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
      puppet.hello(1, {{assign.id, assign.assigned_ns}});
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

// B-16, U-1: an assignment arrives after its attempt was given up, and after the worker has said that it runs nothing.
// The worker is told to stop it as soon as it reports the start; an attempt that counts is left alone.
TEST(Host, AnAssignmentThatArrivesTooLate) {
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
      Puppet other(bus, "v");
      other.hello();
      running.wait_registered("v");
      ASSERT_TRUE(running.host.execute(fleet::WorkerLost{"w", "not heard"}).ok());
      const Assign second = other.next_assign();
      EXPECT_EQ(second.id.attempt, AttemptNumber(2));
      puppet.hello();
      puppet.report(first, model::Started{});
      const model::ToWorker next = puppet.next();
      const auto* stop = std::get_if<model::ControlAttempt>(&next);
      ASSERT_NE(stop, nullptr);
      EXPECT_EQ(stop->id, first.id);
      EXPECT_EQ(stop->action, model::AttemptAction::kCancel);
      EXPECT_EQ(stop->assigned_ns, first.assigned_ns);
      other.report(second, model::Started{});
      other.report_end(second, AttemptEnd::kSucceeded);
      EXPECT_TRUE(std::holds_alternative<model::AcknowledgeReport>(other.next())) << "it is not stopped";
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
      puppet.hello(1, {{first.id, first.assigned_ns}});
      const model::ToWorker next = puppet.next();
      const auto* stop = std::get_if<model::ControlAttempt>(&next);
      ASSERT_NE(stop, nullptr);
      EXPECT_EQ(stop->id.attempt, AttemptNumber(1));
      EXPECT_EQ(stop->action, model::AttemptAction::kCancel);
      const Assign second = puppet.next_assign();
      EXPECT_EQ(second.id.attempt, AttemptNumber(2));
      // What it holds and should hold is not stopped.
      puppet.hello(1, {{second.id, second.assigned_ns}});
      EXPECT_EQ(puppet.next_assign().id.attempt, AttemptNumber(2));
      const model::ToWorker resume = puppet.next();
      ASSERT_TRUE(std::holds_alternative<model::ControlAttempt>(resume));
      EXPECT_EQ(std::get<model::ControlAttempt>(resume).action, model::AttemptAction::kResume) << "it is not paused";
      puppet.report_end(second, AttemptEnd::kSucceeded);
      running.watcher.wait_ended();
      EXPECT_TRUE(std::holds_alternative<model::AcknowledgeReport>(puppet.next()));
      running.stop();
    });
  });
}

// Contract: U-1. A user drains a worker without tasks. It leaves the brain at once, so it must be told: otherwise it
// would register again.
TEST(Host, ADrainedWorkerIsToldToLeave) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus);
      Puppet puppet(bus, "w");
      puppet.hello(7);
      running.wait_registered("w");
      ASSERT_TRUE(running.host.execute(fleet::DrainWorker{"w"}).ok());
      const model::ToWorker message = puppet.next();
      ASSERT_TRUE(std::holds_alternative<model::LeaveFleet>(message));
      EXPECT_EQ(std::get<model::LeaveFleet>(message).incarnation, Incarnation(7));
      EXPECT_GT(std::get<model::LeaveFleet>(message).term, model::Term(0));
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

// Contract: U-1. The same report arrives after its task has ended and its worker has left: nothing happens.
TEST(Host, AReturnedTaskMayBeReportedAfterItsWorkerHasLeft) {
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
      puppet.report_end(assign, AttemptEnd::kSucceeded);
      running.watcher.wait_ended();
      EXPECT_TRUE(std::holds_alternative<model::AcknowledgeReport>(puppet.next()));
      ASSERT_TRUE(puppet.end().send(model::Leave{Incarnation(1)}).ok());
      puppet.report_end(assign, AttemptEnd::kPreempted, {}, "the worker is stopping");
      EXPECT_TRUE(std::holds_alternative<model::AcknowledgeReport>(puppet.next()));
      ASSERT_TRUE(
          running.host.inspect([](const fleet::State& state) { EXPECT_EQ(state.find_worker("w"), nullptr); }).ok());
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

// Contract: B-4. A queue takes longer than expected, and a task of higher priority stands behind it: a task that waits
// there is recalled over the bus, and runs once, at another worker. What the first worker still says about it is late.
TEST(Host, ARecalledTaskRunsOnceElsewhere) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus);
      Puppet slow(bus, "slow");
      slow.hello();
      running.wait_registered("slow");
      fleet::SetPolicy policy;
      policy.policy.max_queue_per_worker = 8;
      ASSERT_TRUE(running.host.execute(policy).ok());
      model::WorkflowSpec spec = chain({"a"});
      spec.templates[0].needs.cpu_millis = 4000;  // One at a time.
      spec.templates[0].expect_ms = 10;
      spec.stages[0].items.assign(3, "{}");
      const WorkflowId id = accepted(running.host.execute(fleet::SubmitWorkflow{"1", spec}));
      const Assign runs = slow.next_assign();
      const Assign stays = slow.next_assign();
      const Assign waits = slow.next_assign();
      EXPECT_EQ(waits.id, (model::AttemptId{TaskId(id, 2), AttemptNumber(1)}));
      slow.report(runs, model::Started{});
      spec.stages[0].items.clear();
      spec.priority = 100;
      const WorkflowId urgent = accepted(running.host.execute(fleet::SubmitWorkflow{"2", spec}));
      EXPECT_EQ(slow.next_assign().id.task, TaskId(urgent, 0));

      // The host decides by its own timer that the queue has waited for too long.
      const model::ToWorker message = slow.next();
      const auto* recall = std::get_if<model::ControlAttempt>(&message);
      ASSERT_NE(recall, nullptr);
      EXPECT_EQ(recall->action, model::AttemptAction::kRecall);
      EXPECT_EQ(recall->id, waits.id);
      Puppet other(bus, "other");
      other.hello();
      running.wait_registered("other");
      slow.report_end(waits, AttemptEnd::kPreempted);
      const Assign again = other.next_assign();
      EXPECT_EQ(again.id, (model::AttemptId{TaskId(id, 2), AttemptNumber(2)}));
      slow.report_end(waits, AttemptEnd::kSucceeded, R"("late")");
      other.report_end(again, AttemptEnd::kSucceeded, R"("once")");
      slow.report_end(runs, AttemptEnd::kSucceeded);
      slow.report_end(stays, AttemptEnd::kSucceeded);
      running.watcher.wait_ended();
      EXPECT_EQ(running.watcher.outcomes.at(id), Outcome::kSucceeded);
      ASSERT_TRUE(running.host
                      .inspect([&](const fleet::State& state) {
                        const fleet::Task& task = state.at(waits.id.task);
                        EXPECT_EQ(state.at(task.worker).spec.name, "other");
                        EXPECT_EQ(task.attempt, AttemptNumber(2)) << "it was sent once more";
                        EXPECT_EQ(task.spent, 0U) << "a recall spends no attempt";
                        EXPECT_EQ(task.extra->result, R"("once")");
                      })
                      .ok());
      running.stop();
    });
  });
}

}  // namespace
}  // namespace rota::host
