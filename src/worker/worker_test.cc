// The worker against a host that a test plays, over the local bus. Handlers run mostly in virtual time, programs as
// real processes.
#include "rota/worker.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>

#include "bus/local.h"
#include "fiber/testing.h"
#include "rota/fiber.h"
#include "worker/machine.h"
#include "worker/process_testing.h"
#include "worker/worker_testing.h"

namespace rota {
namespace {

using namespace worker::testing;
using fiber::in_all_modes;
using fiber::in_virtual_time;

// Contract: U-2, U-5. A worker registers its specification, runs a handler with its inputs, and sends every report of
// the handler.
TEST(Worker, RunsAHandler) {
  in_all_modes([] {
    with_worker(
        handlers_only(),
        [](Worker& worker) {
          ASSERT_TRUE(worker
                          .handle("add",
                                  [](TaskContext& task) -> std::string {
                                    EXPECT_EQ(task.task(), TaskId(7));
                                    EXPECT_EQ(task.attempt(), AttemptNumber(1));
                                    EXPECT_EQ(task.stop_reason(), StopReason::kNone);
                                    EXPECT_FALSE(task.cancel_token().is_cancelled());
                                    task.progress(12.34, "begun");
                                    task.checkpoint("{\"step\": 1}");
                                    task.log("hello");
                                    task.cache("model", "m1");
                                    task.progress(50);
                                    task.progress(200, "over");
                                    return "{\"got\": " + task.inputs() + "}";
                                  })
                          .ok());
        },
        [](Host& host, Worker&) {
          host.send(handler_task(7, "add", "[1, 2]"));
          EXPECT_EQ(host.next_text(), "7 started");
          ASSERT_EQ(host.hellos.size(), 1U);
          const model::WorkerSpec& spec = host.hellos[0].worker;
          EXPECT_EQ(spec.name, "w");
          EXPECT_EQ(spec.resources, handlers_only().spec.resources);
          EXPECT_EQ(spec.handlers, std::vector<std::string>{"add"});
          EXPECT_FALSE(spec.programs);
          EXPECT_EQ(host.next_text(), "7 progress 123 begun");
          EXPECT_EQ(host.next_text(), "7 checkpoint {\"step\": 1}");
          EXPECT_EQ(host.next_text(), "7 log hello");
          EXPECT_EQ(host.next_text(), "7 cached model:m1");
          std::string last;
          std::string next = host.next_text();  // How many progress reports follow depends on the time.
          while (next.starts_with("7 progress")) {
            last = next;
            next = host.next_text();
          }
          EXPECT_EQ(last, "7 progress 1000 over");
          EXPECT_EQ(next, "7 succeeded {\"got\": [1, 2]}");
        });
  });
}

// Contract: U-5. A handler that throws, a result that is not JSON, and a missing handler are failures with a message
// that says why.
TEST(Worker, HandlerFailures) {
  in_all_modes([] {
    with_worker(
        handlers_only(),
        [](Worker& worker) {
          ASSERT_TRUE(
              worker.handle("throws", [](TaskContext&) -> std::string { throw std::runtime_error("no luck"); }).ok());
          ASSERT_TRUE(worker.handle("odd", [](TaskContext&) -> std::string { throw 3; }).ok());
          ASSERT_TRUE(worker.handle("text", [](TaskContext&) { return std::string("not json"); }).ok());
          ASSERT_TRUE(worker
                          .handle("bad-checkpoint",
                                  [](TaskContext& task) {
                                    task.checkpoint("{");
                                    return std::string("1");
                                  })
                          .ok());
          EXPECT_EQ(worker.handle("odd", [](TaskContext&) { return std::string(); }).code(), ErrorCode::kAlreadyExists);
          EXPECT_EQ(worker.handle("", [](TaskContext&) { return std::string(); }).code(), ErrorCode::kInvalidArgument);
          EXPECT_EQ(worker.handle("x", nullptr).code(), ErrorCode::kInvalidArgument);
        },
        [](Host& host, Worker&) {
          const auto failed = [&](const Assign& assign, const std::string& part) {
            host.send(assign);
            const AttemptOutcome outcome = host.final(assign.id.task.value());
            EXPECT_EQ(outcome.end, AttemptEnd::kFailed);
            EXPECT_NE(outcome.message.find(part), std::string::npos) << outcome.message;
          };
          failed(handler_task(1, "throws"), "no luck");
          failed(handler_task(2, "odd"), "not a std::exception");
          failed(handler_task(3, "text"), "the handler's result: not valid JSON");
          failed(handler_task(4, "bad-checkpoint"), "a checkpoint: not valid JSON");
          failed(handler_task(5, "thorws"), "no handler for 'thorws'; did you mean 'throws'?");
          failed(program_task(6, "true"), "runs handlers only, not programs");
          Assign bad = handler_task(7, "text");
          bad.spec.inputs = "{";
          failed(bad, "the task's specification: inputs: not valid JSON: byte 1");
          Assign large = handler_task(8, "text");
          large.resources.cpu_millis = 2001;
          failed(large, "the task needs cpu 2.001; this worker has only cpu 2, memory 1 GiB, gpu 2");
          large = handler_task(9, "text");
          large.resources.gpus = 1;
          large.resources.devices = 4;
          failed(large, "gpu 2");
          large.resources.gpus = 3;
          large.resources.devices = 0;
          large.id = first_attempt(13);
          failed(large, "the task needs cpu 1, gpu 3; this worker has only cpu 2");
          large = handler_task(10, "text");
          large.resources.named = {{"licence", 1}};
          failed(large, "the task needs cpu 1, licence 1; this worker has only cpu 2");
          Assign merged = handler_task(11, "text");
          merged.merged = {{.id = first_attempt(12), .inputs = "1"}};
          host.send(merged);
          EXPECT_NE(host.final(11).message.find("does not begin with the task itself"), std::string::npos);
          EXPECT_EQ(host.final(12).end, AttemptEnd::kFailed);
        });
  });
}

// Contract: U-5. Cancelling wakes a handler that waits; it can still save a checkpoint; a preemption is reported as
// such. A handler that returns a result although it was cancelled has succeeded.
TEST(Worker, StopsAHandler) {
  in_all_modes([] {
    with_worker(
        handlers_only(),
        [](Worker& worker) {
          ASSERT_TRUE(worker
                          .handle("wait",
                                  [](TaskContext& task) -> std::string {
                                    task.log("up");
                                    try {
                                      fiber::Event never;
                                      never.wait();
                                    } catch (const fiber::Cancelled&) {
                                      EXPECT_TRUE(task.cancel_token().is_cancelled());
                                      EXPECT_NE(task.stop_reason(), StopReason::kNone);
                                      task.checkpoint("{\"saved\": true}");
                                      if (task.inputs() == "1") return "\"done anyway\"";
                                      throw;
                                    }
                                    return "0";
                                  })
                          .ok());
        },
        [](Host& host, Worker&) {
          const auto stop = [&](std::uint64_t task, AttemptAction action, const char* inputs) {
            host.send(handler_task(task, "wait", inputs));
            host.until("log");
            host.send(control(task, action));
            EXPECT_EQ(text_of(host.next()), "{\"saved\": true}");
            return host.final(task);
          };
          EXPECT_EQ(stop(1, AttemptAction::kCancel, "0").end, AttemptEnd::kCancelled);
          EXPECT_EQ(stop(2, AttemptAction::kPreempt, "0").end, AttemptEnd::kPreempted);
          const AttemptOutcome anyway = stop(3, AttemptAction::kCancel, "1");
          EXPECT_EQ(anyway.end, AttemptEnd::kSucceeded);
          EXPECT_EQ(anyway.result, "\"done anyway\"");
        });
  });
}

// Contract: U-5. A paused handler stops at its next report and continues when it is resumed; a time limit ends it.
TEST(Worker, PausesAndLimitsAHandler) {
  in_virtual_time([] {
    with_worker(
        handlers_only(),
        [](Worker& worker) {
          ASSERT_TRUE(worker
                          .handle("tick",
                                  [](TaskContext& task) -> std::string {
                                    for (int i = 1; i <= 10; ++i) {
                                      if (!fiber::sleep_for(1s).ok())
                                        throw fiber::Cancelled(fiber::CancelReason::kExplicit);
                                      task.log(std::to_string(i));
                                    }
                                    return "10";
                                  })
                          .ok());
        },
        [](Host& host, Worker&) {
          host.send(handler_task(1, "tick"));
          EXPECT_EQ(host.next_text(), "1 started");
          EXPECT_EQ(host.next_text(), "1 log 1");
          host.send(control(1, AttemptAction::kPause));
          const std::chrono::nanoseconds paused_at = fiber::now();
          ASSERT_TRUE(fiber::sleep_for(60s).ok());
          host.send(control(1, AttemptAction::kResume));
          EXPECT_EQ(host.next_text(), "1 log 2");
          EXPECT_GE(fiber::now() - paused_at, 60s);
          EXPECT_EQ(host.final(1).result, "10");
          Assign limited = handler_task(2, "tick");
          limited.spec.timeout_ms = 3500;
          host.send(limited);
          const AttemptOutcome late = host.final(2);
          EXPECT_EQ(late.end, AttemptEnd::kFailed);
          EXPECT_EQ(late.failure, model::FailureKind::kTimeout);
          EXPECT_EQ(late.message, "ran longer than its limit of 3s500ms");
        });
  });
}

// Contract: U-2. Tasks start in the order of their arrival, as soon as the first in line fits: a large one is not
// overtaken by a small one that would fit.
TEST(Worker, StrictOrderWithinResources) {
  in_virtual_time([] {
    with_worker(
        handlers_only(),
        [](Worker& worker) {
          ASSERT_TRUE(worker
                          .handle("sleep",
                                  [](TaskContext&) -> std::string {
                                    (void)fiber::sleep_for(1s);
                                    return "0";
                                  })
                          .ok());
        },
        [](Host& host, Worker&) {
          Assign small = handler_task(1, "sleep");
          host.send(small);
          Assign large = handler_task(2, "sleep");
          large.resources.cpu_millis = 2000;
          host.send(large);
          small.id = first_attempt(3);
          host.send(small);
          EXPECT_EQ(host.next_text(), "1 started");
          EXPECT_EQ(host.next_text(), "1 succeeded 0");
          EXPECT_EQ(host.next_text(), "2 started");
          EXPECT_EQ(host.next_text(), "2 succeeded 0");
          EXPECT_EQ(host.next_text(), "3 started");
          EXPECT_EQ(host.next_text(), "3 succeeded 0");
          // A task that is cancelled in the queue never starts, and the task behind it does.
          host.send(handler_task(4, "sleep"));
          EXPECT_EQ(host.next_text(), "4 started");
          large.id = first_attempt(5);
          host.send(large);
          small.id = first_attempt(6);
          host.send(small);
          host.send(control(5, AttemptAction::kCancel));
          EXPECT_EQ(host.next_text(), "5 cancelled before it started");
          EXPECT_EQ(host.next_text(), "6 started");
          std::set<std::uint64_t> ended;  // Both at the same moment, in either order.
          while (ended.size() < 2) {
            const Report report = host.next();
            if (!report.is_final()) continue;
            EXPECT_EQ(outcome_of(report).end, AttemptEnd::kSucceeded);
            ended.insert(report.id.task.value());
          }
          EXPECT_EQ(ended, (std::set<std::uint64_t>{4, 6}));
          // B-4: a task that is recalled while it is in the queue is given back; one that has started runs on.
          host.send(handler_task(7, "sleep"));
          EXPECT_EQ(host.next_text(), "7 started");
          large.id = first_attempt(8);
          host.send(large);
          host.send(control(7, AttemptAction::kRecall));
          host.send(control(8, AttemptAction::kRecall));
          const AttemptOutcome recalled = host.final(8);
          EXPECT_EQ(recalled.end, AttemptEnd::kPreempted);
          EXPECT_EQ(recalled.started_ns, 0);
          EXPECT_EQ(host.final(7).end, AttemptEnd::kSucceeded);
        });
  });
}

// Contract: U-1. Messages that arrive twice, late, or from an older leader change nothing.
TEST(Worker, IgnoresWhatIsNoNews) {
  in_virtual_time([] {
    int runs = 0;
    with_worker(
        handlers_only(),
        [&](Worker& worker) {
          ASSERT_TRUE(worker
                          .handle("count",
                                  [&runs](TaskContext& task) -> std::string {
                                    ++runs;
                                    if (!fiber::sleep_for(1s).ok())
                                      throw fiber::Cancelled(fiber::CancelReason::kExplicit);
                                    return task.attempt().to_string();
                                  })
                          .ok());
        },
        [&](Host& host, Worker&) {
          Assign assign = handler_task(1, "count");
          assign.id.attempt = AttemptNumber(2);
          assign.term = Term(5);
          host.send(assign);
          host.send(assign);  // Twice.
          Assign stale = assign;
          stale.id.attempt = AttemptNumber(1);
          host.send(stale);
          Assign deposed = handler_task(2, "count");
          deposed.term = Term(4);
          host.send(deposed);
          host.send(ControlAttempt{.id = assign.id, .term = Term(4)});
          host.send(ControlAttempt{.id = stale.id, .term = Term(5)});
          host.send(ControlAttempt{.id = first_attempt(9), .term = Term(5)});
          EXPECT_EQ(host.next_text(), "1 started");
          EXPECT_EQ(host.next_text(), "1 succeeded 2");
          EXPECT_EQ(runs, 1);
          // A new leader takes a running attempt over: its reports are then under the new term.
          assign.id.attempt = AttemptNumber(3);
          host.send(assign);
          EXPECT_EQ(host.next_text(), "1 started");
          assign.term = Term(6);
          host.send(assign);
          const Report report = host.final_report(1);
          EXPECT_EQ(report.term, Term(6));
          EXPECT_EQ(report.id.attempt, AttemptNumber(3));
          EXPECT_EQ(runs, 2);
          // A newer attempt of a task that still runs: the older attempt is stopped and not reported; the newer one
          // runs.
          assign.id.attempt = AttemptNumber(4);
          host.send(assign);
          EXPECT_EQ(host.next_text(), "1 started");
          assign.id.attempt = AttemptNumber(5);
          host.send(assign);
          EXPECT_EQ(host.next_text(), "1 started");
          EXPECT_EQ(host.next_text(), "1 succeeded 5");
          EXPECT_GE(runs, 3);  // The older attempt may have been stopped before it called the handler.
        });
  });
}

// Contract: U-1, U-4. A final report is sent again until it is acknowledged.
TEST(Worker, FinalReportsUntilAcknowledged) {
  in_virtual_time([] {
    with_worker(
        handlers_only(),
        [](Worker& worker) { ASSERT_TRUE(worker.handle("one", [](TaskContext&) { return std::string("1"); }).ok()); },
        [](Host& host, Worker&) {
          host.acknowledging = false;
          host.send(handler_task(1, "one"));
          EXPECT_EQ(host.next_text(), "1 started");
          const std::chrono::nanoseconds start = fiber::now();
          for (int i = 0; i < 3; ++i) EXPECT_EQ(host.next_text(), "1 succeeded 1");
          EXPECT_GE(fiber::now() - start, 10s);
          // The host assigns the same attempt again: the worker sends the same report and does not run it again.
          host.send(handler_task(1, "one"));
          EXPECT_EQ(host.next_text(), "1 succeeded 1");
          host.acknowledging = true;
          EXPECT_EQ(host.next_text(), "1 succeeded 1");
          const int before = host.heartbeats;
          host.send(handler_task(2, "one"));
          EXPECT_EQ(host.next_text(), "2 started");
          EXPECT_EQ(host.next_text(), "2 succeeded 1");
          EXPECT_GE(before, 3);
        });
  });
}

// A bus that can be made unavailable.
class Cut : public bus::WorkerEnd {
 public:
  explicit Cut(bus::WorkerEnd& end) : end_(end) {}
  Result<bus::DeliveryToWorker> receive(std::chrono::nanoseconds limit) override {
    if (away) return ErrorCode::kUnavailable;
    return end_.receive(std::min<std::chrono::nanoseconds>(limit, 10ms));
  }
  Result<void> acknowledge(std::uint64_t id) override { return away ? ErrorCode::kUnavailable : end_.acknowledge(id); }
  Result<void> send(model::FromWorker message) override {
    return away ? ErrorCode::kUnavailable : end_.send(std::move(message));
  }
  bool away = false;

 private:
  bus::WorkerEnd& end_;
};

// Contract: U-4. A worker that loses the bus finishes its tasks and reports them when the bus is back, after a new
// registration with the attempts that it holds.
TEST(Worker, LosesTheBusAndReportsLater) {
  in_virtual_time([] {
    bus::LocalBus bus;
    auto end = bus.connect("w").value();
    Cut cut(*end);
    Worker worker(handlers_only());
    int runs = 0;
    ASSERT_TRUE(worker
                    .handle("slow",
                            [&](TaskContext&) -> std::string {
                              (void)fiber::sleep_for(10s);
                              ++runs;
                              return "1";
                            })
                    .ok());
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] { EXPECT_TRUE(worker.run(cut).ok()); });
      Host host(bus, "w");
      host.send(handler_task(1, "slow"));
      EXPECT_EQ(host.next_text(), "1 started");
      cut.away = true;
      ASSERT_TRUE(fiber::sleep_for(60s).ok());
      EXPECT_EQ(runs, 1);
      cut.away = false;
      EXPECT_EQ(host.next_text(), "1 succeeded 1");
      ASSERT_EQ(host.hellos.size(), 2U);
      ASSERT_EQ(host.hellos[1].held.size(), 1U);
      EXPECT_EQ(host.hellos[1].held[0].id, first_attempt(1));
      worker.stop();
    });
  });
}

// Contract: U-2. Merged tasks: one run, an array of results, one report per task.
TEST(Worker, MergedTasks) {
  in_all_modes([] {
    with_worker(
        handlers_only(),
        [](Worker& worker) {
          ASSERT_TRUE(worker
                          .handle("batch",
                                  [](TaskContext& task) -> std::string {
                                    EXPECT_EQ(task.merged_inputs(), (std::vector<std::string>{"1", "{\"x\":2}"}));
                                    return task.inputs();
                                  })
                          .ok());
          ASSERT_TRUE(worker.handle("short", [](TaskContext&) { return std::string("[1]"); }).ok());
        },
        [](Host& host, Worker&) {
          Assign merged = handler_task(10, "batch");
          const AttemptId other{TaskId(12), AttemptNumber(3)};
          merged.merged = {{.id = merged.id, .inputs = "1"}, {.id = other, .inputs = "{\"x\":2}"}};
          host.send(merged);
          EXPECT_EQ(host.next_text(), "10 started");
          EXPECT_EQ(host.next_text(), "10 succeeded 1");
          const Report second = host.next();
          EXPECT_EQ(second.id, other);
          EXPECT_EQ(outcome_of(second).result, "{\"x\":2}");
          merged.id = merged.merged[0].id = first_attempt(20);
          merged.merged[1].id = first_attempt(21);
          merged.spec.type = "short";
          host.send(merged);
          EXPECT_EQ(host.final(20).end, AttemptEnd::kFailed);
          EXPECT_EQ(host.final(21).end, AttemptEnd::kFailed);
        });
  });
}

// Contract: B-12. One bad task of a merged execution fails by itself; the results of the others count. When the
// execution fails as a whole, each report says so, so that no task is blamed for another.
TEST(Worker, OneOfTheMergedTasksFails) {
  in_all_modes([] {
    with_worker(
        handlers_only(),
        [](Worker& worker) {
          ASSERT_TRUE(worker
                          .handle("batch",
                                  [](TaskContext&) {
                                    return std::string(R"([7, {"$error": "bad prompt"}, {"$error": "x", "more": 1}])");
                                  })
                          .ok());
          ASSERT_TRUE(
              worker.handle("throws", [](TaskContext&) -> std::string { throw std::runtime_error("boom"); }).ok());
        },
        [](Host& host, Worker&) {
          Assign merged = handler_task(30, "batch");
          merged.merged = {{.id = merged.id, .inputs = "1"},
                           {.id = first_attempt(31), .inputs = "2"},
                           {.id = first_attempt(32), .inputs = "3"}};
          host.send(merged);
          EXPECT_EQ(host.final(30).result, "7");
          const AttemptOutcome bad = host.final(31);
          EXPECT_EQ(bad.end, AttemptEnd::kFailed);
          EXPECT_EQ(bad.message, "bad prompt");
          EXPECT_FALSE(bad.batch);
          EXPECT_EQ(host.final(32).end, AttemptEnd::kSucceeded) << "a result that only looks like an error";

          merged.id = merged.merged[0].id = first_attempt(40);
          merged.merged[1].id = first_attempt(41);
          merged.merged[2].id = first_attempt(42);
          merged.spec.type = "throws";
          host.send(merged);
          for (const int task : {40, 41, 42}) {
            const AttemptOutcome outcome = host.final(task);
            EXPECT_EQ(outcome.end, AttemptEnd::kFailed);
            EXPECT_TRUE(outcome.batch);
          }
          Assign single = handler_task(50, "throws");
          host.send(single);
          EXPECT_FALSE(host.final(50).batch);
        });
  });
}

// Contract: U-2. stop() gives back tasks that wait and lets running tasks end; if the bus is closed for good, they are
// stopped.
TEST(Worker, Stops) {
  in_virtual_time([] {
    for (const bool close : {false, true}) {
      bus::LocalBus bus;
      auto end = bus.connect("w").value();
      Worker worker(handlers_only());
      const std::chrono::nanoseconds begun = fiber::now();
      int ended = 0;
      ASSERT_TRUE(worker
                      .handle("sleep",
                              [&](TaskContext&) -> std::string {
                                (void)fiber::sleep_for(10s);
                                ++ended;
                                return "1";
                              })
                      .ok());
      fiber::with_scope([&](fiber::Nursery& n) {
        n.launch([&] {
          EXPECT_TRUE(worker.run(*end).ok());
          EXPECT_EQ(worker.run(*end).code(), ErrorCode::kFailedPrecondition);
        });
        Host host(bus, "w");
        for (std::uint64_t task = 1; task <= 3; ++task) host.send(handler_task(task, "sleep"));
        EXPECT_EQ(host.next_text(), "1 started");
        EXPECT_EQ(host.next_text(), "2 started");
        if (close) {
          bus.close();
        } else {
          worker.stop();
          EXPECT_EQ(host.next_text(), "3 preempted the worker is leaving");
          EXPECT_EQ(host.leaves, 1) << "it leaves before it gives tasks back";
          EXPECT_EQ(host.final(2).end, AttemptEnd::kSucceeded);
        }
      });
      if (close) {
        EXPECT_LT(fiber::now() - begun, 10s);
      } else {
        EXPECT_EQ(ended, 2);
      }
    }
  });
}

// Contract: U-5. Cancelling the worker's task cancels the handlers.
TEST(Worker, Cancelled) {
  in_all_modes([] {
    bus::LocalBus bus;
    auto end = bus.connect("w").value();
    Worker worker(handlers_only());
    bool woken = false;
    ASSERT_TRUE(worker
                    .handle("wait",
                            [&](TaskContext& task) -> std::string {
                              task.log("up");
                              fiber::Event never;
                              try {
                                never.wait();
                              } catch (const fiber::Cancelled&) {
                                woken = true;
                                throw;
                              }
                              return "1";
                            })
                    .ok());
    fiber::with_scope([&](fiber::Nursery& n) {
      auto running = n.spawn([&] { return worker.run(*end).code(); });
      Host host(bus, "w");
      host.send(handler_task(1, "wait"));
      host.until("log");
      running.cancel();
      running.wait();
    });
    EXPECT_TRUE(woken);
  });
}

// Contract: U-4. A worker that is cancelled while programs end and others take their places ends with Cancelled, and
// starts nothing in the meantime.
TEST(Worker, CancelledInTheMidst) {
  for (int round = 0; round < 5; ++round) {
    in_runtime([] {
      bus::LocalBus bus;
      auto end = bus.connect("w").value();
      Worker worker(with_programs());
      fiber::with_scope([&](fiber::Nursery& n) {
        auto running = n.spawn([&] { return worker.run(*end).code(); });
        Host host(bus, "w");
        for (std::uint64_t task = 1; task <= 40; ++task) host.send(program_task(task, "true"));
        for (int ended = 0; ended < 5;) ended += host.next().is_final() ? 1 : 0;
        running.cancel();
        EXPECT_EQ(running.get(), ErrorCode::kCancelled);
      });
    });
  }
}

// Contract: U-2, U-3. Programs over the bus: result, failure, progress, cancel, devices.
TEST(Worker, RunsPrograms) {
  in_runtime([] {
    with_worker(
        with_programs(), [](Worker&) {},
        [](Host& host, Worker&) {
          host.send(program_task(1, "echo progress 50 half >&3; echo words; echo 42"));
          EXPECT_EQ(host.next_text(), "1 started");
          EXPECT_EQ(host.next_text(), "1 progress 500 half");
          const AttemptOutcome done = outcome_of(host.next());
          EXPECT_EQ(done.result, "42");
          EXPECT_EQ(worker::testing::read_text(done.log_path), "words\n42\n");
          EXPECT_GT(done.max_rss_bytes, 0);

          host.send(program_task(2, "echo sorry >&2; exit 9"));
          EXPECT_EQ(host.final(2).message, "exit status 9; its last words: sorry");

          Assign missing = program_task(3, "");
          missing.spec.program.emplace().arguments = {"rota-no-such-program"};
          host.send(missing);
          EXPECT_EQ(host.final(3).message.find("could not start: there is no program 'rota-no-such-program' in PATH"),
                    0U);

          host.send(program_task(4, "echo log up >&3; sleep 1000"));
          host.until("log");
          host.send(control(4, AttemptAction::kCancel));
          const AttemptOutcome cancelled = host.final(4);
          EXPECT_EQ(cancelled.end, AttemptEnd::kCancelled);
          EXPECT_EQ(cancelled.message, "killed by signal 15 (Terminated)");

          host.send(program_task(5, "echo log up >&3; sleep 1000"));
          host.until("log");
          host.send(control(5, AttemptAction::kPause));
          host.send(control(5, AttemptAction::kPreempt));
          EXPECT_EQ(host.final(5).end, AttemptEnd::kPreempted);

          Assign devices = program_task(6, "echo \"[$CUDA_VISIBLE_DEVICES]\"");
          devices.resources.gpus = 2;
          devices.resources.devices = 3;
          host.send(devices);
          EXPECT_EQ(host.final(6).result, "[0,1]");
          Assign none = program_task(7, "echo \"[$CUDA_VISIBLE_DEVICES]\"");
          host.send(none);
          EXPECT_EQ(host.final(7).result, "[]");
        });
  });
}

// Contract: U-2, U-3. Many programs on few processors: never more at a time than there are processors, whether the
// worker or a guard starts them; each runs once, and its start is reported before its end.
TEST(Worker, ManyProgramsWithinResources) {
  constexpr std::uint64_t kTasks = 60;
  const worker::testing::Folder folder;
  const std::string journal = folder / "journal";
  in_runtime([&] {
    with_worker(
        with_programs(), [](Worker&) {},
        [&](Host& host, Worker&) {
          for (std::uint64_t task = 1; task <= kTasks; ++task) {
            // Some tasks hold more than those before them, and do not fit in their place.
            Assign assign = program_task(task, "echo + >> " + journal + "; echo - >> " + journal);
            assign.resources.cpu_millis = task % 7 == 0 ? 2000 : 1000;
            host.send(assign);
          }
          std::set<std::uint64_t> started;
          for (std::uint64_t ended = 0; ended < kTasks;) {
            const Report report = host.next();
            if (kind_of(report) == "started") {
              EXPECT_TRUE(started.insert(report.id.task.value()).second) << report.id.task.value();
            }
            if (!report.is_final()) continue;
            ++ended;
            const AttemptOutcome& outcome = outcome_of(report);
            EXPECT_EQ(outcome.end, AttemptEnd::kSucceeded) << outcome.message;
            EXPECT_TRUE(started.contains(report.id.task.value())) << report.id.task.value();
            EXPECT_GE(outcome.started_ns, kWall) << "a program that ran has its times, also if it stood by";
            EXPECT_LT(outcome.started_ns, outcome.ended_ns);
          }
        });
  });
  int running = 0;
  int total = 0;
  for (const char c : worker::testing::read_text(journal)) {
    running += c == '+' ? 1 : c == '-' ? -1 : 0;
    total += c == '+' ? 1 : 0;
    EXPECT_LE(running, 2);
  }
  EXPECT_EQ(total, static_cast<int>(kTasks));
}

// Contract: U-2, U-3. A task that stands by can be cancelled, and is given back when the worker stops; it never runs. A
// task behind it takes its place in line.
TEST(Worker, StopsWhatStandsBy) {
  const worker::testing::Folder folder;
  in_runtime([&] {
    WorkerOptions options = with_programs();
    options.spec.resources.cpu_millis = 1000;
    options.spec.resources.gpus.clear();
    with_worker(
        options, [](Worker&) {},
        [&](Host& host, Worker& worker) {
          host.send(program_task(1, "echo log up >&3; while [ ! -e " + folder / "go" + " ]; do sleep 0.01; done"));
          host.until("log");
          host.send(program_task(2, "touch " + folder / "ran2"));
          host.send(program_task(3, "echo 33"));
          host.send(control(2, AttemptAction::kCancel));
          const AttemptOutcome second = host.final(2);
          EXPECT_EQ(second.end, AttemptEnd::kCancelled);
          EXPECT_EQ(second.started_ns, 0) << "it never started";
          EXPECT_EQ(second.ended_ns, 0);
          worker::testing::write_text(folder / "go", "");
          EXPECT_EQ(host.final(1).end, AttemptEnd::kSucceeded);
          EXPECT_EQ(host.final(3).result, "33");

          host.send(program_task(4, "echo log up >&3; sleep 1000"));
          host.until("log");
          host.send(program_task(5, "touch " + folder / "ran5"));
          host.send(program_task(6, "touch " + folder / "ran6"));
          worker.stop();
          std::set<std::uint64_t> given_back;
          while (given_back.size() < 2) {
            const Report report = host.next();
            if (kind_of(report) == "preempted") given_back.insert(report.id.task.value());
          }
          EXPECT_EQ(given_back, (std::set<std::uint64_t>{5, 6}));
          host.send(control(4, AttemptAction::kCancel));
          EXPECT_EQ(host.final(4).end, AttemptEnd::kCancelled);
        });
  });
  EXPECT_FALSE(std::filesystem::exists(folder / "ran2"));
  EXPECT_FALSE(std::filesystem::exists(folder / "ran5"));
  EXPECT_FALSE(std::filesystem::exists(folder / "ran6"));
}

// Contract: U-3. Programs that misbehave do not keep others from running.
TEST(Worker, MisbehavingPrograms) {
  in_runtime([] {
    const worker::testing::Folder folder;
    with_worker(
        with_programs(), [](Worker&) {},
        [&](Host& host, Worker&) {
          // It says when it ignores TERM; on a busy machine its limit may pass before.
          Assign stubborn =
              program_task(1, "trap '' TERM; touch " + folder / "ready" + "; while :; do sleep 1000; done");
          stubborn.spec.timeout_ms = 200;
          stubborn.spec.program->grace_ms = 50;
          host.send(stubborn);
          host.send(program_task(2, "yes | head -c 4000000"));
          host.send(program_task(3, "(setsid sleep 1000 &) ; sleep 0.05"));
          host.send(program_task(4, "echo fine"));
          std::map<std::uint64_t, AttemptOutcome> ends;
          while (ends.size() < 4) {
            const Report report = host.next();
            if (report.is_final()) ends[report.id.task.value()] = outcome_of(report);
          }
          EXPECT_TRUE(ends[1].message.starts_with("ran longer than its limit of 200ms")) << ends[1].message;
          if (std::filesystem::exists(folder / "ready")) {
            EXPECT_TRUE(ends[1].message.ends_with("; it ignored TERM and was killed")) << ends[1].message;
          }
          EXPECT_EQ(ends[1].failure, model::FailureKind::kTimeout);
          EXPECT_EQ(ends[2].result, "\"y\"");
          EXPECT_EQ(ends[3].end, AttemptEnd::kSucceeded);
          EXPECT_EQ(ends[4].result, "\"fine\"");
        });
  });
}

// Contract: U-2. What is detected is what this process may use; amounts that are given are kept.
TEST(MachineResources, DetectedOrGiven) {
  const model::Resources machine = machine_resources();
  EXPECT_GE(machine.cpu_millis, 1);
  EXPECT_LE(machine.cpu_millis, 1000 * ::sysconf(_SC_NPROCESSORS_ONLN));
  EXPECT_GE(machine.memory_bytes, 1 << 20);
  EXPECT_EQ(Worker(handlers_only()).spec().resources, handlers_only().spec.resources);
  EXPECT_EQ(Worker(WorkerOptions{}).spec().resources, machine);
  WorkerOptions half;
  half.spec.resources.cpu_millis = 500;
  half.spec.resources.named = {{"licence", 2}};
  const Worker given(half);
  EXPECT_EQ(given.spec().resources.cpu_millis, 500);
  EXPECT_EQ(given.spec().resources.memory_bytes, machine.memory_bytes);
  EXPECT_EQ(given.spec().resources.named, half.spec.resources.named);
}

// Contract: B-5. The models of NVIDIA devices are read from the files of the driver, in the order of the bus.
TEST(MachineResources, NvidiaDevices) {
  const worker::testing::Folder folder;
  EXPECT_TRUE(worker::nvidia_devices(folder / "missing").empty());
  for (const char* bus : {"0000:81:00.0", "0000:01:00.0", "0000:02:00.0"}) {
    std::filesystem::create_directories(folder / bus);
  }
  worker::testing::write_text(folder / "0000:01:00.0/information", "Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ: 1\n");
  worker::testing::write_text(folder / "0000:81:00.0/information", "IRQ: 1\nModel:  Tesla T4\n");
  const std::vector<model::Device> devices = worker::nvidia_devices(folder.path());
  ASSERT_EQ(devices.size(), 3U);
  EXPECT_EQ(devices[0].model, "NVIDIA A100-SXM4-40GB");
  EXPECT_EQ(devices[1].model, "") << "the driver says nothing about it";
  EXPECT_EQ(devices[2].model, "Tesla T4");
}

}  // namespace
}  // namespace rota
