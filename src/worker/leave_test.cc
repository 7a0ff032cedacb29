// A worker that is told to leave at once, and one whose clock is set.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "fiber/testing.h"
#include "worker/engine.h"
#include "worker/fake_executor_testing.h"
#include "worker/worker_testing.h"

namespace rota::worker {
namespace {

using namespace testing;
using fiber::in_virtual_time;

// Runs an engine with the program "long" under virtual time, and a test as its host.
template <class Body>
void with_long_program(const std::function<std::int64_t()>& measure, Body&& body) {
  in_virtual_time([&] {
    bus::LocalBus bus;
    auto end = bus.connect("w").value();
    FakeExecutor executor({{"long", {.runs_for = 3600s}}, {"short", {.runs_for = 1s}}});
    Engine engine(handlers_only());
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] {
        EXPECT_TRUE(engine
                        .run(*end, {.executor = &executor,
                                    .wall_offset_ns = kWall - fiber::now().count(),
                                    .measure_wall_offset_ns = measure,
                                    .incarnation = model::Incarnation(77)})
                        .ok());
      });
      Host host(bus, "w");
      body(host, engine);
      engine.stop();
    });
  });
}

// Contract: U-1. stop() lets a running task end; stop_tasks() ends it as preempted, so that the host gives it to
// another.
TEST(Leave, RunningTasksAreGivenBack) {
  with_long_program(nullptr, [](Host& host, Engine& engine) {
    host.send(program_task(1, "long"));
    EXPECT_EQ(host.next_text(), "1 started");
    engine.stop();
    (void)fiber::sleep_for(60s);
    const std::chrono::nanoseconds before = fiber::now();
    engine.stop_tasks();
    const AttemptOutcome outcome = host.final(1);
    EXPECT_EQ(outcome.end, AttemptEnd::kPreempted);
    EXPECT_EQ(fiber::now(), before);
  });
}

// Contract: U-1, U-4. The bus is closed for good, because another process has the worker's name: running programs are
// stopped at once, because nobody would hear of their end.
TEST(Leave, ABusThatIsClosedForGood) {
  in_virtual_time([] {
    bus::LocalBus bus;
    auto end = bus.connect("w").value();
    FakeExecutor executor({{"long", {.runs_for = 3600s}}});
    Engine engine(handlers_only());
    fiber::with_scope([&](fiber::Nursery& n) {
      fiber::Task<Result<void>> running = n.spawn([&] {
        return engine.run(*end, {.executor = &executor,
                                 .wall_offset_ns = kWall - fiber::now().count(),
                                 .incarnation = model::Incarnation(77)});
      });
      Host host(bus, "w");
      host.send(program_task(1, "long"));
      EXPECT_EQ(host.next_text(), "1 started");
      const std::chrono::nanoseconds before = fiber::now();
      bus.close();
      EXPECT_TRUE(running.get().ok());
      EXPECT_LT(fiber::now() - before, 60s) << "it waited for the program";
    });
  });
}

// Contract: U-1. A task of a new leader that does not know the one that runs here under the same number: the old one is
// stopped, its end is not reported, and the new one runs.
TEST(Leave, ATaskOfTheSameNumberFromAnotherLog) {
  with_long_program(nullptr, [](Host& host, Engine&) {
    host.send(program_task(1, "long"));
    EXPECT_EQ(host.next_text(), "1 started");
    Assign other = program_task(1, "short");
    other.term = model::Term(9);
    host.send(ControlAttempt{.id = other.id, .term = other.term});
    other.assigned_ns = 1;  // By which attempts of different logs differ.
    host.send(other);
    const Report report = host.final_report(1);
    EXPECT_EQ(report.term, model::Term(9));
    EXPECT_EQ(std::get<model::Ended>(report.body).outcome.end, AttemptEnd::kSucceeded);
  });
}

// An end of a bus that can send, but not receive, while `deaf` is set; it counts what makes the worker seem alive.
class DeafEnd : public bus::WorkerEnd {
 public:
  explicit DeafEnd(bus::WorkerEnd& end) : end_(end) {}
  Result<bus::DeliveryToWorker> receive(std::chrono::nanoseconds limit) override {
    const std::chrono::nanoseconds until = fiber::now() + std::min<std::chrono::nanoseconds>(limit, 3600s);
    while (!deaf && fiber::now() < until) {
      Result<bus::DeliveryToWorker> delivery = end_.receive(100ms);
      if (delivery.ok() || delivery.code() != ErrorCode::kTimeout) return delivery;
    }
    return deaf ? ErrorCode::kUnavailable : ErrorCode::kTimeout;
  }
  Result<void> acknowledge(std::uint64_t id) override { return end_.acknowledge(id); }
  Result<void> send(model::FromWorker message) override {
    signs += std::holds_alternative<model::Report>(message) ? 0 : 1;
    return end_.send(std::move(message));
  }
  bool deaf = false;
  int signs = 0;

 private:
  bus::WorkerEnd& end_;
};

// Contract: U-1, B-16. A worker that can write but not read, because its account may not, sends no heartbeats: its host
// would give it tasks that it never hears of. When it can read again, it registers at once.
TEST(Leave, AWorkerThatCannotRead) {
  in_virtual_time([] {
    bus::LocalBus bus;
    auto inner = bus.connect("w").value();
    DeafEnd end(*inner);
    FakeExecutor executor({{"short", {.runs_for = 1s}}});
    Engine engine(handlers_only());
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] {
        EXPECT_TRUE(engine
                        .run(end, {.executor = &executor,
                                   .wall_offset_ns = kWall - fiber::now().count(),
                                   .incarnation = model::Incarnation(77)})
                        .ok());
      });
      ASSERT_TRUE(fiber::sleep_for(60s).ok());
      EXPECT_GT(end.signs, 5);
      end.deaf = true;
      ASSERT_TRUE(fiber::sleep_for(1s).ok());
      const int before = end.signs;
      ASSERT_TRUE(fiber::sleep_for(600s).ok());
      EXPECT_EQ(end.signs, before);
      end.deaf = false;
      ASSERT_TRUE(fiber::sleep_for(1s).ok());
      EXPECT_GT(end.signs, before);
      Host host(bus, "w");
      host.send(program_task(1, "short"));
      EXPECT_EQ(host.final(1).end, AttemptEnd::kSucceeded);
      EXPECT_GE(host.hellos.size(), 2U);
      engine.stop();
    });
  });
}

// Contract: U-2. The clock of the machine is set forward by an hour while a task runs: its times are those of the new
// clock from the next heartbeat on, and a duration is never wrong.
TEST(Leave, AClockThatIsSet) {
  sync::Atomic<std::int64_t> jump{0};
  with_long_program([&] { return kWall + jump.load(); },
                    [&](Host& host, Engine&) {
                      host.send(program_task(1, "short"));
                      const AttemptOutcome before = host.final(1);
                      jump.store(3'600'000'000'000);
                      (void)fiber::sleep_for(100s);
                      host.send(program_task(2, "short"));
                      const AttemptOutcome after = host.final(2);
                      EXPECT_GE(after.started_ns - before.started_ns, 3'700'000'000'000);
                      EXPECT_EQ(after.ended_ns - after.started_ns, 1'000'000'000);
                    });
}

}  // namespace
}  // namespace rota::worker
