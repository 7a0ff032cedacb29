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
