// The engine under virtual time: programs are run by a fake executor, and a test plays the host.
#include "worker/engine.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "fiber/testing.h"
#include "worker/fake_executor_testing.h"
#include "worker/worker_testing.h"

namespace rota::worker {
namespace {

using namespace testing;
using fiber::in_virtual_time;

constexpr model::Incarnation kLife(77);

// An engine with a fake executor, and the host.
struct Fleet {
  bus::LocalBus& bus;
  Host& host;
  Engine& engine;
  FakeExecutor& executor;
};

template <class Body>
void with_engine(std::map<std::string, FakeProgram> programs, Body&& body,
                 const WorkerOptions& options = handlers_only()) {
  in_virtual_time([&] {
    bus::LocalBus bus;
    auto end = bus.connect("w").value();
    FakeExecutor executor(programs);
    Engine engine(options);
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] {
        const Surroundings surroundings{
            .executor = &executor, .wall_offset_ns = kWall - fiber::now().count(), .incarnation = kLife};
        EXPECT_TRUE(engine.run(*end, surroundings).ok());
      });
      Host host(bus, "w");
      Fleet fleet{bus, host, engine, executor};
      body(fleet);
      engine.stop();
    });
  });
}

std::int64_t seconds(std::int64_t ns) { return (ns - kWall) / 1'000'000'000; }

// Contract: U-1. An assignment or a control for another process of this worker's name, most often its predecessor, is
// ignored; the host gives such an attempt up. A message that names no process counts.
TEST(Engine, MessagesForAnotherIncarnation) {
  with_engine({{"long", {.runs_for = 10s, .result = "42"}}}, [](Fleet& fleet) {
    Assign former = program_task(1, "long");
    former.incarnation = model::Incarnation(76);
    fleet.host.send(former);
    Assign mine = program_task(2, "long");
    mine.incarnation = kLife;
    fleet.host.send(mine);
    fleet.host.send(program_task(3, "long"));
    EXPECT_EQ(fleet.host.next_text(), "2 started");
    EXPECT_EQ(fleet.host.next_text(), "3 started");
    ControlAttempt stop = control(2);
    stop.incarnation = model::Incarnation(76);
    fleet.host.send(stop);
    stop = control(3);
    stop.incarnation = kLife;
    fleet.host.send(stop);
    EXPECT_EQ(fleet.host.final(3).end, AttemptEnd::kCancelled);
    EXPECT_EQ(fleet.host.final(2).end, AttemptEnd::kSucceeded);
    // The attempt that was ignored is not known: the host may assign it to this process.
    former.incarnation = kLife;
    fleet.host.send(former);
    EXPECT_EQ(fleet.host.final(1).end, AttemptEnd::kSucceeded);
  });
}

// Contract: U-1. A control message that was undone by a later one and arrives a second time is ignored. Another leader
// may have another log, whose records have lower numbers: only messages of one leader are compared.
TEST(Engine, LateCopiesOfControlMessages) {
  with_engine({{"long", {.runs_for = 10s, .result = "42"}}}, [](Fleet& fleet) {
    const auto send = [&](AttemptAction action, std::uint64_t term, std::uint64_t decided_in) {
      ControlAttempt message = control(1, action);
      message.term = Term(term);
      message.decided_in = decided_in;
      fleet.host.send(message);
    };
    fleet.host.send(program_task(1, "long"));
    EXPECT_EQ(fleet.host.next_text(), "1 started");
    const std::chrono::nanoseconds started_at = fiber::now();
    send(AttemptAction::kPause, 1, 5);
    send(AttemptAction::kResume, 1, 6);
    send(AttemptAction::kPause, 1, 5);  // The late copy.
    EXPECT_EQ(fleet.host.final(1).end, AttemptEnd::kSucceeded);
    EXPECT_EQ(fiber::now() - started_at, 10s);
    fleet.host.send(program_task(2, "long"));
    EXPECT_EQ(fleet.host.next_text(), "2 started");
    ControlAttempt pause = control(2, AttemptAction::kPause);
    pause.decided_in = 7;
    fleet.host.send(pause);
    ControlAttempt resume = control(2, AttemptAction::kResume);
    resume.term = Term(2);
    resume.decided_in = 3;
    fleet.host.send(resume);
    EXPECT_EQ(fleet.host.final(2).end, AttemptEnd::kSucceeded);
  });
}

// Contract: U-2. A program's times are those of its run: under virtual time, exactly.
TEST(Engine, ProgramsRunInVirtualTime) {
  with_engine({{"long", {.runs_for = 3600s, .result = "42"}},
               {"bad", {.runs_for = 1s, .end = AttemptEnd::kFailed, .message = "oh"}}},
              [](Fleet& fleet) {
                fleet.host.send(program_task(1, "long"));
                EXPECT_EQ(fleet.host.next_text(), "1 started");
                EXPECT_EQ(fleet.host.next_text(), "1 log started");
                const AttemptOutcome done = fleet.host.final(1);
                EXPECT_EQ(done.end, AttemptEnd::kSucceeded);
                EXPECT_EQ(done.result, "42");
                EXPECT_EQ(done.ended_ns - done.started_ns, 3'600'000'000'000);
                EXPECT_GE(done.started_ns, kWall);
                fleet.host.send(program_task(2, "bad"));
                const AttemptOutcome failed = fleet.host.final(2);
                EXPECT_EQ(failed.end, AttemptEnd::kFailed);
                EXPECT_EQ(failed.message, "oh");
                EXPECT_GE(failed.started_ns, done.ended_ns);
              });
}

// Contract: U-2. With a full machine, programs that stand by start in the place of those that end; each is reported as
// started once, before its end, and its times follow those of the program before it without a gap.
TEST(Engine, StandByProgramsHaveTheirTimes) {
  constexpr std::uint64_t kTasks = 20;
  with_engine({{"p", {.runs_for = 10s}}}, [](Fleet& fleet) {
    for (std::uint64_t task = 1; task <= kTasks; ++task) fleet.host.send(program_task(task, "p"));
    std::set<std::uint64_t> started;
    std::vector<std::pair<std::int64_t, std::int64_t>> times;
    for (std::size_t ended = 0; ended < kTasks;) {
      const Report report = fleet.host.next();
      const std::uint64_t task = report.id.task.value();
      if (kind_of(report) == "started") {
        EXPECT_TRUE(started.insert(task).second) << task;
        EXPECT_EQ(std::get<model::Started>(report.body).started_ns % 10'000'000'000, kWall % 10'000'000'000);
      }
      if (!report.is_final()) continue;
      ++ended;
      const AttemptOutcome& outcome = outcome_of(report);
      EXPECT_EQ(outcome.end, AttemptEnd::kSucceeded) << outcome.message;
      EXPECT_TRUE(started.contains(task)) << task;
      times.emplace_back(outcome.started_ns, outcome.ended_ns);
    }
    std::sort(times.begin(), times.end());
    for (std::size_t i = 0; i < times.size(); ++i) {  // Two at a time, one after the other.
      EXPECT_EQ(seconds(times[i].first), static_cast<std::int64_t>(i / 2) * 10);
      EXPECT_EQ(times[i].second - times[i].first, 10'000'000'000);
    }
    EXPECT_EQ(fleet.executor.most_at_once(), 2);
    EXPECT_GE(fleet.executor.in_place(), 10);
  });
}

// Contract: U-5. The times of a handler are those of the call, also if it was paused before it started or waited in
// line.
TEST(Engine, HandlersHaveTheirTimes) {
  in_virtual_time([] {
    with_worker(
        handlers_only(),
        [](Worker& worker) {
          ASSERT_TRUE(worker
                          .handle("sleep",
                                  [](TaskContext&) -> std::string {
                                    (void)fiber::sleep_for(10s);
                                    return "1";
                                  })
                          .ok());
          ASSERT_TRUE(worker.handle("fail", [](TaskContext&) -> std::string { throw std::runtime_error("x"); }).ok());
        },
        [](Host& host, Worker&) {
          Assign wide = handler_task(1, "sleep");
          wide.resources.cpu_millis = 2000;
          host.send(wide);
          wide.id = first_attempt(2);
          host.send(wide);
          EXPECT_EQ(std::get<model::Started>(host.until("started").body).started_ns, kWall);
          const AttemptOutcome first = host.final(1);
          EXPECT_EQ(first.started_ns, kWall);
          EXPECT_EQ(seconds(first.ended_ns), 10);
          const AttemptOutcome second = host.final(2);
          EXPECT_EQ(seconds(second.started_ns), 10);
          EXPECT_EQ(seconds(second.ended_ns), 20);
          host.send(handler_task(3, "fail"));
          const AttemptOutcome failed = host.final(3);
          EXPECT_EQ(failed.started_ns, failed.ended_ns);
          EXPECT_EQ(seconds(failed.started_ns), 20);
          host.send(handler_task(4, "unknown"));
          EXPECT_EQ(host.final(4).started_ns, 0) << "it never started";
        });
  });
}

// Contract: B-5. Named resources are counted: two licences allow two tasks at a time, and the strict order holds.
TEST(Engine, NamedResources) {
  WorkerOptions options = handlers_only();
  options.spec.resources.cpu_millis = 8000;
  options.spec.resources.named = {{"licence", 2}};
  with_engine(
      {{"p", {.runs_for = 10s}}},
      [](Fleet& fleet) {
        for (std::uint64_t task = 1; task <= 4; ++task) {
          Assign assign = program_task(task, "p");
          assign.resources.named = {{"licence", task == 3 ? 2 : 1}};
          fleet.host.send(assign);
        }
        std::map<std::uint64_t, std::int64_t> started;
        while (started.size() < 4) {
          const Report report = fleet.host.next();
          if (report.is_final()) started[report.id.task.value()] = seconds(outcome_of(report).started_ns);
        }
        EXPECT_EQ(started, (std::map<std::uint64_t, std::int64_t>{{1, 0}, {2, 0}, {3, 10}, {4, 20}}));
        ASSERT_EQ(fleet.host.hellos.size(), 1U);
        EXPECT_EQ(fleet.host.hellos[0].worker.resources.count_of("licence"), 2);
      },
      options);
}

// Contract: U-1, B-5. A registration carries everything that the worker knows about itself.
TEST(Engine, RegistersEverything) {
  WorkerOptions options = handlers_only();
  options.spec.zone = "eu-1";
  options.spec.cost_microdollars_per_hour = 5;
  options.spec.power_milliwatts = 6;
  options.spec.capabilities = {"ssd", "avx512"};
  options.spec.labels = {{"rack", "b7"}, {"floor", "2"}};
  options.spec.programs = true;
  with_engine(
      {{"p", {.runs_for = 10s}}},
      [&](Fleet& fleet) {
        fleet.host.send(program_task(1, "p"));
        EXPECT_EQ(fleet.host.final(1).end, AttemptEnd::kSucceeded);
        ASSERT_EQ(fleet.host.hellos.size(), 1U);
        const model::Register& hello = fleet.host.hellos[0];
        EXPECT_EQ(hello.incarnation, kLife);
        model::WorkerSpec expected = options.spec;
        expected.capabilities = {"avx512", "ssd"};
        expected.labels = {{"floor", "2"}, {"rack", "b7"}};
        EXPECT_EQ(hello.worker, expected);
        EXPECT_TRUE(hello.held.empty());
      },
      options);
}

// Contract: U-1. A worker that the host does not know registers again at once, with the attempts that it holds, merged
// ones included, and the caches that its tasks reported.
TEST(Engine, RegistersAgain) {
  in_virtual_time([] {
    with_worker(
        handlers_only(),
        [](Worker& worker) {
          ASSERT_TRUE(worker
                          .handle("sleep",
                                  [](TaskContext& task) -> std::string {
                                    task.cache("model", "m1");
                                    (void)fiber::sleep_for(1s);
                                    task.cache("model", "m2");
                                    (void)fiber::sleep_for(100s);
                                    return "[1, 2]";
                                  })
                          .ok());
        },
        [](Host& host, Worker&) {
          Assign merged = handler_task(5, "sleep");
          merged.merged = {{.id = merged.id, .inputs = "1"}, {.id = first_attempt(6), .inputs = "2"}};
          host.send(merged);
          for (int i = 0; i < 2; ++i) host.until("cached");
          const std::chrono::nanoseconds asked = fiber::now();
          host.send(model::RegisterAgain{Term(1)});
          while (host.hellos.size() < 2) (void)host.next_message();
          EXPECT_EQ(fiber::now(), asked) << "not with the next heartbeat";
          const model::Register& hello = host.hellos[1];
          EXPECT_EQ(hello.incarnation, host.hellos[0].incarnation);
          EXPECT_EQ(hello.worker, host.hellos[0].worker);
          EXPECT_EQ(hello.held, (std::vector<model::HeldAttempt>{{first_attempt(5)}, {first_attempt(6)}}));
          ASSERT_EQ(hello.caches.size(), 2U);
          EXPECT_EQ(hello.caches[0], (model::CacheItem{"model:m1", kWall}));
          EXPECT_EQ(hello.caches[1], (model::CacheItem{"model:m2", kWall + 1'000'000'000}));
          // A host that does not know of the term that this worker has heard must learn of it: its messages are
          // ignored.
          host.send(model::RegisterAgain{Term(0)});
          while (host.hellos.size() < 3) (void)host.next_message();
          EXPECT_EQ(host.hellos[2].term, Term(1));
          EXPECT_EQ(host.final(5).result, "1");
          EXPECT_EQ(host.final(6).result, "2");
          EXPECT_EQ(host.hellos.size(), 3U);
        });
  });
}

// Contract: U-1. A worker that leaves says so first, gives back tasks that have not started, and finishes the others.
TEST(Engine, Leaves) {
  with_engine({{"p", {.runs_for = 100s}}}, [](Fleet& fleet) {
    for (std::uint64_t task = 1; task <= 6; ++task) fleet.host.send(program_task(task, "p"));
    while (fleet.host.until("started").id.task != TaskId(2)) {
    }
    ASSERT_TRUE(fiber::sleep_for(10s).ok());
    fleet.engine.stop();
    model::FromWorker message = fleet.host.next_message();
    while (!std::holds_alternative<model::Leave>(message)) {
      const auto* report = std::get_if<Report>(&message);
      EXPECT_FALSE(report != nullptr && report->is_final()) << "Leave comes before anything is given back";
      message = fleet.host.next_message();
    }
    EXPECT_EQ(std::get<model::Leave>(message).incarnation, kLife);
    std::map<std::uint64_t, AttemptOutcome> ends;
    fleet.host.send(program_task(7, "p"));  // It crossed the message.
    while (ends.size() < 7) {
      const Report report = fleet.host.next();
      if (report.is_final()) ends[report.id.task.value()] = outcome_of(report);
    }
    for (const std::uint64_t task : {1, 2}) EXPECT_EQ(ends[task].end, AttemptEnd::kSucceeded);
    for (const std::uint64_t task : {3, 4, 5, 6, 7}) {
      EXPECT_EQ(ends[task].end, AttemptEnd::kPreempted) << task;
      EXPECT_EQ(ends[task].started_ns, 0) << task;
    }
    fleet.host.send(model::RegisterAgain{Term(1)});
    EXPECT_EQ(fleet.host.leaves, 1);
  });
}

// Contract: U-1, B-16. A user drains the worker: it leaves as if it had been stopped. A message for an earlier
// incarnation, or of an older term, has no effect.
TEST(Engine, LeavesWhenItIsDrained) {
  with_engine({{"p", {.runs_for = 100s}}}, [](Fleet& fleet) {
    for (std::uint64_t task = 1; task <= 3; ++task) fleet.host.send(program_task(task, "p"));
    while (fleet.host.until("started").id.task != TaskId(2)) {
    }
    fleet.host.send(model::LeaveFleet{Term(1), model::Incarnation(kLife.value() + 1)});
    fleet.host.send(model::LeaveFleet{Term(0), kLife});
    ASSERT_TRUE(fiber::sleep_for(10s).ok());
    EXPECT_EQ(fleet.host.leaves, 0);
    fleet.host.send(model::LeaveFleet{Term(1), kLife});
    std::map<std::uint64_t, AttemptOutcome> ends;
    while (ends.size() < 3) {
      const Report report = fleet.host.next();
      if (report.is_final()) ends[report.id.task.value()] = outcome_of(report);
    }
    EXPECT_EQ(fleet.host.leaves, 1);
    for (const std::uint64_t task : {1, 2}) EXPECT_EQ(ends[task].end, AttemptEnd::kSucceeded);
    EXPECT_EQ(ends[3].end, AttemptEnd::kPreempted);
  });
}

// Contract: U-1, U-4. A worker that leaves while the bus is away says so after it has registered again.
TEST(Engine, LeavesAgainAfterRegistering) {
  with_engine({{"p", {.runs_for = 100s}}}, [](Fleet& fleet) {
    fleet.host.send(program_task(1, "p"));
    fleet.host.until("started");
    fleet.engine.stop();
    fleet.host.send(model::RegisterAgain{Term(1)});
    while (fleet.host.leaves < 2) (void)fleet.host.next_message();
    EXPECT_EQ(fleet.host.hellos.size(), 2U);
    EXPECT_EQ(fleet.host.final(1).end, AttemptEnd::kSucceeded);
  });
}

// Contract: U-1. One task, assigned twice, late, and with newer attempts while an older one runs: each attempt that the
// host still wants has one end.
TEST(Engine, NewerAttemptsOfARunningProgram) {
  with_engine({{"p", {.runs_for = 10s}}}, [](Fleet& fleet) {
    const auto attempt = [](std::uint32_t number) {
      Assign assign = program_task(1, "p");
      assign.id.attempt = AttemptNumber(number);
      return assign;
    };
    fleet.host.send(attempt(2));
    fleet.host.send(attempt(2));
    fleet.host.send(attempt(1));
    EXPECT_EQ(fleet.host.until("started").id.attempt, AttemptNumber(2));
    fleet.host.send(attempt(3));
    fleet.host.send(attempt(4));
    const Report fourth = fleet.host.final_report(1);
    EXPECT_EQ(fourth.id.attempt, AttemptNumber(4));
    EXPECT_EQ(outcome_of(fourth).end, AttemptEnd::kSucceeded);
    // A newer attempt that is cancelled before its turn has its own end, and never runs.
    fleet.host.send(attempt(5));
    fleet.host.until("started");
    fleet.host.send(attempt(6));
    fleet.host.send(ControlAttempt{.id = attempt(6).id, .term = Term(1)});
    const Report sixth = fleet.host.final_report(1);
    EXPECT_EQ(sixth.id.attempt, AttemptNumber(6));
    EXPECT_EQ(outcome_of(sixth).end, AttemptEnd::kCancelled);
    EXPECT_EQ(outcome_of(sixth).started_ns, 0);
  });
}

// Contract: U-1. Deterministic mode: the same seed gives the same reports at the same times.
TEST(Engine, IsDeterministic) {
  const auto run = [](std::uint64_t seed) {
    std::vector<std::string> all;
    fiber::Runtime runtime({.worker_count = 3, .deterministic_seed = seed});
    runtime.run([&] {
      bus::LocalBus bus;
      auto end = bus.connect("w").value();
      FakeExecutor executor({{"a", {.runs_for = 7s}}, {"b", {.runs_for = 3s}}, {"c", {}}});
      Engine engine(handlers_only());
      fiber::with_scope([&](fiber::Nursery& n) {
        n.launch([&] {
          EXPECT_TRUE(
              engine
                  .run(*end,
                       {.executor = &executor, .wall_offset_ns = kWall - fiber::now().count(), .incarnation = kLife})
                  .ok());
        });
        Host host(bus, "w");
        const char* const names[] = {"a", "b", "c"};
        for (std::uint64_t task = 1; task <= 30; ++task) {
          Assign assign = program_task(task, names[task % 3]);
          if (task % 5 == 0) assign.resources.cpu_millis = 2000;
          host.send(assign);
        }
        for (int ended = 0; ended < 30;) {
          const Report report = host.next();
          all.push_back(model::encode_message(model::FromWorker(report)));
          ended += report.is_final() ? 1 : 0;
        }
        engine.stop();
      });
    });
    return all;
  };
  for (const std::uint64_t seed : {1, 2, 3}) EXPECT_EQ(run(seed), run(seed)) << seed;
}

}  // namespace
}  // namespace rota::worker
