// The host on a ledger in memory and the bus within the process, with workers that the test plays; in real and in
// virtual time. A crash is a host that is cancelled, and a new one on the same ledger and bus.
#include "host/host.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/sync.h"
#include "bus/local.h"
#include "fleet/state.h"
#include "host/recovery.h"
#include "ledger/memory_ledger.h"
#include "rota/fiber/channel.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/runtime.h"
#include "rota/fiber/sync.h"
#include "rota/fiber/time.h"

namespace rota::host {
namespace {

using namespace std::chrono_literals;
using fleet::Outcome;
using model::Assign;
using model::AttemptEnd;
using model::AttemptNumber;
using model::Incarnation;
using model::Report;
using model::TaskId;
using model::WorkflowId;

constexpr std::int64_t kWall = 1'700'000'000'000'000'000;

model::WorkflowSpec chain(std::initializer_list<const char*> names) {
  model::WorkflowSpec spec;
  spec.name = "chain";
  spec.templates.emplace_back();
  spec.templates.back().spec.type = "work";
  for (const char* name : names) {
    model::Stage stage;
    stage.name = name;
    if (!spec.stages.empty()) stage.needs = {static_cast<std::uint32_t>(spec.stages.size() - 1)};
    spec.stages.push_back(stage);
  }
  return spec;
}

// A worker that does what a test says: of each assignment it asks for a report.
class Puppet {
 public:
  Puppet(bus::LocalBus& bus, std::string name) : end_(bus.connect(name).value()) {}

  void hello(std::uint64_t incarnation = 1, std::vector<model::AttemptId> held = {}) {
    model::Register hello;
    hello.incarnation = Incarnation(incarnation);
    hello.worker.resources.cpu_millis = 4000;
    hello.worker.resources.memory_bytes = 1 << 30;
    hello.worker.handlers = {"work"};
    hello.held = std::move(held);
    ASSERT_TRUE(end_->send(hello).ok());
  }
  model::ToWorker next() {
    Result<bus::DeliveryToWorker> delivery = end_->receive(100s);
    EXPECT_TRUE(delivery.ok());
    EXPECT_TRUE(end_->acknowledge(delivery->id).ok());
    return delivery->message;
  }
  Assign next_assign() {
    for (;;) {
      model::ToWorker message = next();
      if (auto* assign = std::get_if<Assign>(&message)) return *assign;
    }
  }
  bool nothing() { return end_->receive(20ms).code() == ErrorCode::kTimeout; }
  void report(const Assign& assign, model::ReportBody body) {
    ASSERT_TRUE(end_->send(Report{assign.id, assign.term, std::move(body)}).ok());
  }
  void report_end(const Assign& assign, AttemptEnd end, std::string result = {}, std::string message = {},
                  model::FailureKind failure = model::FailureKind::kError) {
    model::AttemptOutcome outcome;
    outcome.end = end;
    outcome.result = std::move(result);
    outcome.message = std::move(message);
    outcome.failure = failure;
    report(assign, model::Ended{std::move(outcome)});
  }
  bus::WorkerEnd& end() { return *end_; }

 private:
  std::unique_ptr<bus::WorkerEnd> end_;
};

// Every effect that leaves is seen here with how far the ledger was.
class Watcher : public HostObserver {
 public:
  explicit Watcher(ledger::Ledger& ledger) : ledger_(ledger) {}
  void on_record(const fleet::Record& record) override {
    EXPECT_EQ(record.index, last_ + 1);
    last_ = record.index;
    EXPECT_LE(record.index, ledger_.last_index());
    for (const fleet::Event& event : record.events) {
      if (const auto* ended = std::get_if<fleet::WorkflowEnded>(&event)) {
        outcomes[ended->workflow] = ended->outcome;
        ended_.set();
      }
    }
  }
  void on_report(const std::string&, const Report& report) override {
    reports.push_back(report);
    count.fetch_add(1);
  }
  void from(std::uint64_t index) { last_ = index; }
  void wait_ended() { ended_.wait(); }

  std::map<WorkflowId, Outcome> outcomes;
  std::vector<Report> reports;
  sync::Atomic<std::size_t> count{0};

 private:
  ledger::Ledger& ledger_;
  std::uint64_t last_ = 0;
  fiber::Event ended_;
};

// A ledger whose syncs wait for the test, and may fail.
class SlowLedger : public ledger::Ledger {
 public:
  Result<void> submit(std::span<const ledger::RecordBytes> records) override { return inner_.submit(records); }
  Result<void> wait_durable(std::uint64_t index) override {
    open.wait();
    if (broken.load()) return Error{ErrorCode::kIoError, "the disk is gone"};
    return inner_.wait_durable(index);
  }
  Result<std::vector<ledger::RecordBytes>> read(std::uint64_t from, std::size_t most) override {
    return inner_.read(from, most);
  }
  [[nodiscard]] std::uint64_t first_index() const override { return inner_.first_index(); }
  [[nodiscard]] std::uint64_t last_index() const override { return inner_.last_index(); }
  [[nodiscard]] std::uint64_t submitted_index() const override { return inner_.submitted_index(); }
  Result<void> save_snapshot(ledger::Snapshot snapshot) override { return inner_.save_snapshot(std::move(snapshot)); }
  Result<std::optional<ledger::Snapshot>> latest_snapshot() override { return inner_.latest_snapshot(); }
  Result<void> compact(std::uint64_t up_to) override { return inner_.compact(up_to); }
  Result<void> backup(const std::string& path) override { return inner_.backup(path); }
  Result<void> close() override { return inner_.close(); }

  fiber::Event open{true};
  sync::Atomic<bool> broken{false};

 private:
  ledger::MemoryLedger inner_;
};

// Runs the body in both kinds of runtime.
template <class Body>
void everywhere(Body body) {
  {
    SCOPED_TRACE("two workers");
    fiber::Runtime runtime({.worker_count = 2});
    runtime.run(body);
  }
  SCOPED_TRACE("virtual time");
  fiber::Runtime runtime({.worker_count = 2, .deterministic_seed = 3});
  runtime.run(body);
}

HostOptions options() {
  HostOptions options;
  options.wall_ns = kWall;
  return options;
}

WorkflowId accepted(const Result<fleet::Events>& events) {
  EXPECT_TRUE(events.ok()) << (events.ok() ? "" : events.error().to_string());
  if (!events.ok()) return {};
  for (const fleet::Event& event : *events) {
    if (const auto* it = std::get_if<fleet::WorkflowAccepted>(&event)) return it->workflow;
  }
  return {};
}

// A host that runs beside the test, until it is told otherwise.
struct Running {
  Running(fiber::Nursery& nursery, ledger::Ledger& ledger, bus::LocalBus& bus, HostOptions of = options())
      : watcher(ledger), host(ledger, bus.host(), std::move(of), &watcher) {
    watcher.from(ledger.last_index());
    task = nursery.spawn([this] { return host.run(); });
  }
  void wait_registered(const std::string& worker) {
    for (;;) {
      auto there = std::make_shared<bool>(false);
      ASSERT_TRUE(host.inspect([=](const fleet::State& state) {
                        const fleet::Worker* it = state.find_worker(worker);
                        *there = it != nullptr && it->reachable;
                      })
                      .ok());
      if (*there) return;
      (void)fiber::sleep_for(1ms);
    }
  }
  void stop() {
    host.stop();
    const Result<void> ended = task.get();
    EXPECT_TRUE(ended.ok()) << (ended.ok() ? "" : ended.error().to_string());
  }
  // What a kill leaves behind is the ledger and the bus.
  void crash() {
    task.cancel();
    task.wait();
  }

  Watcher watcher;
  Host host;
  fiber::Task<Result<void>> task;
};

// L-1, U-1: from a submission to its end; the worker's final reports are acknowledged, and the log says it all.
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
      EXPECT_EQ(first.type, "work");
      EXPECT_EQ(first.cpu_millis, 1000U);
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
      EXPECT_EQ(running.watcher.reports.size(), 4U);
      // The same key again: a client that repeats itself is told so, and nothing happens.
      EXPECT_EQ(running.host.execute(fleet::SubmitWorkflow{"key", spec}).code(), ErrorCode::kAlreadyExists);
      running.stop();
      EXPECT_EQ(running.host.execute(fleet::Tick{}).code(), ErrorCode::kClosed);
    });
    const Recovered recovered = recover(ledger).value();
    EXPECT_EQ(recovered.brain.state().globals().index, ledger.last_index());
    EXPECT_EQ(recovered.brain.state().find_key("key")->outcome, Outcome::kSucceeded);
  });
}

// L-1: neither the client nor the worker hears of a decision before it is durable; the next is decided meanwhile.
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

// L-1: an error of the ledger ends the host with it. Nothing leaves any more, the report comes again.
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

// U-1: a host is killed between any two steps and started again, on the same ledger and bus. Nothing is lost, and the
// worker is told again what it may not have heard of.
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
      std::uint64_t term = 0;
      for (int step = 0; step < 3; ++step) {
        const Assign assign = puppet.next_assign();
        EXPECT_GE(assign.term, term);
        EXPECT_EQ(assign.id.attempt, AttemptNumber(1));
        term = assign.term;
        running->crash();
        running = std::make_unique<Running>(nursery, ledger, bus);
        ASSERT_TRUE(puppet.end().send(model::Heartbeat{Incarnation(1)}).ok());
        // It is told once more, in the new term.
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

// Workers that end with the host: what they ran is given back, and no attempt is spent on that, however often.
TEST(Host, WorkersThatEndWithIt) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    HostOptions embedded = options();
    embedded.workers_end_with_host = true;
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

// U-1, B-16: a registration that was not acknowledged when the host died comes again. It is the same life of the
// worker: nothing of it is lost, no attempt is spent, and it is told once more what it runs.
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

// B-18: without a worker a submission is refused; with await_workers it waits for them, and for nothing else.
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

// U-1: a worker that reconnects is the same life: what it holds goes on. One that restarted gets a new attempt.
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

// U-2: what a command writes reaches whoever watches, and is no record.
TEST(Host, OutputIsNoRecord) {
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

// B-16, U-1: a worker that was given up and is heard again, in the same life, is told to stop what it still runs of
// then.
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

// Cancel, pause and resume reach the worker; a stopped task's report ends the workflow.
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

// A backoff ends by the host's own clock.
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
      puppet.report_end(assign, AttemptEnd::kFailed, {}, "no luck");
      const std::chrono::nanoseconds failed = fiber::now();
      const Assign again = puppet.next_assign();
      EXPECT_EQ(again.id.attempt, AttemptNumber(2));
      EXPECT_GE(fiber::now() - failed, 29ms);
      puppet.report_end(again, AttemptEnd::kSucceeded);
      running.watcher.wait_ended();
      running.stop();
    });
  });
}

// B-14: killed for memory, the next attempt asks for more.
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

// L-4: the log stays bounded, and what is left of it gives the same state.
TEST(Host, SnapshotsAndCompaction) {
  everywhere([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    HostOptions often = options();
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

// A ledger that was tampered with is refused before anything is decided.
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

// What could not be kept in the log is refused before it is decided, and the host goes on.
TEST(Host, RefusesWhatTheLogCannotHold) {
  fiber::Runtime runtime({.worker_count = 1});
  runtime.run([] {
    ledger::MemoryLedger ledger;
    bus::LocalBus bus;
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Running running(nursery, ledger, bus);
      model::WorkflowSpec spec = chain({"a"});
      spec.stages[0].items.assign(100, "{\"x\":\"" + std::string(100'000, 'x') + "\"}");
      EXPECT_EQ(running.host.execute(fleet::SubmitWorkflow{"1", spec}).code(), ErrorCode::kTooLarge);
      EXPECT_EQ(ledger.last_index(), 0U);
      EXPECT_TRUE(running.host.execute(fleet::SetQuota{.user = "x"}).ok());
      running.stop();
    });
  });
}

}  // namespace
}  // namespace rota::host
