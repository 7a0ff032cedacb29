// The worker against a host that a test plays: over the local bus, handlers mostly in virtual time, commands for real.
#include "rota/worker.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "bus/local.h"
#include "fiber/testing.h"
#include "rota/fiber.h"
#include "worker/process_testing.h"
#include "worker/worker_testing.h"

namespace rota {
namespace {

using namespace worker::testing;
using fiber::in_all_modes;
using fiber::in_virtual_time;

// Contract: U-2, U-5. It registers what it has, runs a handler with its inputs, and tells all that the handler says.
TEST(Worker, RunsAHandler) {
  in_all_modes([] {
    with_worker(
        handlers_only(),
        [](Worker& worker) {
          ASSERT_TRUE(worker
                          .handle("add",
                                  [](TaskContext& task) -> std::string {
                                    EXPECT_EQ(task.task(), 7U);
                                    EXPECT_EQ(task.attempt(), 1U);
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
          EXPECT_EQ(host.hellos[0].cpu_millis, 2000U);
          EXPECT_EQ(host.hellos[0].memory_bytes, kGiB);
          EXPECT_EQ(host.hellos[0].gpus, 2U);
          EXPECT_EQ(host.hellos[0].types, std::vector<std::string>{"add"});
          EXPECT_FALSE(host.hellos[0].commands);
          EXPECT_EQ(host.next_text(), "7 progress 123 begun");
          EXPECT_EQ(host.next_text(), "7 checkpoint {\"step\": 1}");
          EXPECT_EQ(host.next_text(), "7 log hello");
          EXPECT_EQ(host.next_text(), "7 cache model m1");
          std::string last;
          std::string next = host.next_text();  // One or two more of progress: that depends on the time.
          while (next.starts_with("7 progress")) {
            last = next;
            next = host.next_text();
          }
          EXPECT_EQ(last, "7 progress 1000 over");
          EXPECT_EQ(next, "7 succeeded {\"got\": [1,2]}");
        });
  });
}

// Contract: U-5. What a handler throws, returns that is no JSON, or that is not there, is a failure that says so.
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
            const Report report = host.final(assign.task);
            EXPECT_EQ(report.kind, ReportKind::kFailed);
            EXPECT_NE(report.text.find(part), std::string::npos) << report.text;
          };
          failed(handler_task(1, "throws"), "no luck");
          failed(handler_task(2, "odd"), "no std::exception");
          failed(handler_task(3, "text"), "the handler's result: not valid JSON");
          failed(handler_task(4, "bad-checkpoint"), "a checkpoint: not valid JSON");
          failed(handler_task(5, "thorws"), "no handler for 'thorws'; did you mean 'throws'?");
          failed(command_task(6, "true"), "runs handlers, no commands");
          Assign bad = handler_task(7, "text");
          bad.spec = "{\"inptus\": 1}";
          failed(bad, "the task's specification: unknown member inptus; did you mean 'inputs'?");
          Assign large = handler_task(8, "text");
          large.cpu_millis = 2001;
          failed(large, "this worker has 2000");
          large = handler_task(9, "text");
          large.gpu_mask = 4;
          failed(large, "2 devices");
        });
  });
}

// Contract: U-5. Cancel wakes a handler that waits; it can still save a checkpoint; preempting says so. A handler that
// succeeds nevertheless has succeeded.
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
          const auto stop = [&](std::uint64_t task, StopKind kind, const char* inputs) {
            host.send(handler_task(task, "wait", inputs));
            while (host.next().kind != ReportKind::kLog) {
            }
            host.send(Stop{.task = task, .attempt = 1, .term = 1, .kind = kind});
            EXPECT_EQ(host.next().json, "{\"saved\": true}");
            return host.final(task);
          };
          EXPECT_EQ(stop(1, StopKind::kCancel, "0").kind, ReportKind::kCancelled);
          EXPECT_EQ(stop(2, StopKind::kPreempt, "0").kind, ReportKind::kPreempted);
          const Report anyway = stop(3, StopKind::kCancel, "1");
          EXPECT_EQ(anyway.kind, ReportKind::kSucceeded);
          EXPECT_EQ(anyway.json, "\"done anyway\"");
        });
  });
}

// Contract: U-5. Paused, a handler stops at its next word; resumed, it goes on; a time limit ends it.
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
          host.send(Stop{.task = 1, .attempt = 1, .term = 1, .kind = StopKind::kPause});
          const std::chrono::nanoseconds paused_at = fiber::now();
          ASSERT_TRUE(fiber::sleep_for(60s).ok());
          host.send(Stop{.task = 1, .attempt = 1, .term = 1, .kind = StopKind::kResume});
          EXPECT_EQ(host.next_text(), "1 log 2");
          EXPECT_GE(fiber::now() - paused_at, 60s);
          EXPECT_EQ(host.final(1).json, "10");
          Assign limited = handler_task(2, "tick");
          limited.spec = "{\"timeout_ms\": 3500}";
          host.send(limited);
          const Report late = host.final(2);
          EXPECT_EQ(late.kind, ReportKind::kFailed);
          EXPECT_EQ(late.text, "ran longer than its limit of 3s500ms");
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
          large.cpu_millis = 2000;
          host.send(large);
          small.task = 3;
          host.send(small);
          EXPECT_EQ(host.next_text(), "1 started");
          EXPECT_EQ(host.next_text(), "1 succeeded 0");
          EXPECT_EQ(host.next_text(), "2 started");
          EXPECT_EQ(host.next_text(), "2 succeeded 0");
          EXPECT_EQ(host.next_text(), "3 started");
          EXPECT_EQ(host.next_text(), "3 succeeded 0");
          // Cancelled in the queue: it never starts, and the one behind it does.
          host.send(handler_task(4, "sleep"));
          EXPECT_EQ(host.next_text(), "4 started");
          large.task = 5;
          host.send(large);
          small.task = 6;
          host.send(small);
          host.send(Stop{.task = 5, .attempt = 1, .term = 1, .kind = StopKind::kCancel});
          EXPECT_EQ(host.next_text(), "5 cancelled before it began");
          EXPECT_EQ(host.next_text(), "6 started");
          EXPECT_EQ(host.final(6).kind, ReportKind::kSucceeded);
        });
  });
}

// Contract: U-1. Messages that come twice, late, or from an older leader change nothing.
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
                                    return std::to_string(task.attempt());
                                  })
                          .ok());
        },
        [&](Host& host, Worker&) {
          Assign assign = handler_task(1, "count");
          assign.attempt = 2;
          assign.term = 5;
          host.send(assign);
          host.send(assign);  // Twice.
          Assign stale = assign;
          stale.attempt = 1;
          host.send(stale);
          Assign deposed = handler_task(2, "count");
          deposed.term = 4;
          host.send(deposed);
          host.send(Stop{.task = 1, .attempt = 2, .term = 4, .kind = StopKind::kCancel});
          host.send(Stop{.task = 1, .attempt = 1, .term = 5, .kind = StopKind::kCancel});
          host.send(Stop{.task = 9, .attempt = 1, .term = 5, .kind = StopKind::kCancel});
          EXPECT_EQ(host.next_text(), "1 started");
          EXPECT_EQ(host.next_text(), "1 succeeded 2");
          EXPECT_EQ(runs, 1);
          // A new leader takes a running attempt over: its reports are then under the new term.
          assign.attempt = 3;
          host.send(assign);
          EXPECT_EQ(host.next_text(), "1 started");
          assign.term = 6;
          host.send(assign);
          const Report report = host.final(1);
          EXPECT_EQ(report.term, 6U);
          EXPECT_EQ(report.attempt, 3U);
          EXPECT_EQ(runs, 2);
          // A newer attempt of a task that still runs: the older is stopped and says no more; the newer runs.
          assign.attempt = 4;
          host.send(assign);
          EXPECT_EQ(host.next_text(), "1 started");
          assign.attempt = 5;
          host.send(assign);
          EXPECT_EQ(host.next_text(), "1 started");
          EXPECT_EQ(host.next_text(), "1 succeeded 5");
          EXPECT_GE(runs, 3);  // The older may have been stopped before its first instruction.
        });
  });
}

// Contract: U-1, U-4. A final report that nobody acknowledges is sent again, until somebody does.
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
          // The host asks again, because it has forgotten: the same end, and no second run.
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

// A bus that can be cut.
class Cut : public bus::WorkerEnd {
 public:
  explicit Cut(bus::WorkerEnd& end) : end_(end) {}
  Result<bus::DeliveryToWorker> receive(std::chrono::nanoseconds limit) override {
    if (away) return ErrorCode::kUnavailable;
    return end_.receive(std::min<std::chrono::nanoseconds>(limit, 10ms));
  }
  Result<void> acknowledge(std::uint64_t id) override { return away ? ErrorCode::kUnavailable : end_.acknowledge(id); }
  Result<void> send(bus::FromWorker message) override {
    return away ? ErrorCode::kUnavailable : end_.send(std::move(message));
  }
  bool away = false;

 private:
  bus::WorkerEnd& end_;
};

// Contract: U-4. A worker that loses the bus finishes what it runs and reports it when the bus is back, with a new
// registration that says what it holds.
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
      EXPECT_EQ(host.hellos[1].held[0].task, 1U);
      worker.stop();
    });
  });
}

// Contract: U-2. Merged tasks: one run, an array of results, a report for each.
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
          merged.children = {{.task = 11, .attempt = 1, .inputs = "1"},
                             {.task = 12, .attempt = 3, .inputs = "{\"x\":2}"}};
          host.send(merged);
          EXPECT_EQ(host.next_text(), "10 started");
          EXPECT_EQ(host.next_text(), "11 succeeded 1");
          const Report second = host.next();
          EXPECT_EQ(second.task, 12U);
          EXPECT_EQ(second.attempt, 3U);
          EXPECT_EQ(second.json, "{\"x\":2}");
          EXPECT_EQ(host.next_text(), "10 succeeded [1,{\"x\":2}]");
          merged.task = 20;
          merged.type = "short";
          host.send(merged);
          EXPECT_EQ(host.final(20).kind, ReportKind::kFailed);
        });
  });
}

// Contract: U-2. stop() gives back what waits and lets end what runs; a closed bus does the same.
TEST(Worker, Stops) {
  in_virtual_time([] {
    for (const bool close : {false, true}) {
      bus::LocalBus bus;
      auto end = bus.connect("w").value();
      Worker worker(handlers_only());
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
          EXPECT_EQ(host.next_text(), "3 preempted the worker stops");
          EXPECT_EQ(host.final(2).kind, ReportKind::kSucceeded);
        }
      });
      EXPECT_EQ(ended, 2);
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
      while (host.next().kind != ReportKind::kLog) {
      }
      running.cancel();
      running.wait();
    });
    EXPECT_TRUE(woken);
  });
}

// Contract: U-4. Cancelled while commands end and others take their places, it ends, and with Cancelled: nothing is
// started in the midst of it.
TEST(Worker, CancelledInTheMidst) {
  for (int round = 0; round < 5; ++round) {
    in_runtime([] {
      bus::LocalBus bus;
      auto end = bus.connect("w").value();
      Worker worker(with_commands());
      fiber::with_scope([&](fiber::Nursery& n) {
        auto running = n.spawn([&] { return worker.run(*end).code(); });
        Host host(bus, "w");
        for (std::uint64_t task = 1; task <= 40; ++task) host.send(command_task(task, "true"));
        for (int ended = 0; ended < 5;) ended += is_final(host.next().kind) ? 1 : 0;
        running.cancel();
        EXPECT_EQ(running.get(), ErrorCode::kCancelled);
      });
    });
  }
}

// Contract: U-2, U-3. Commands over the bus: result, failure, progress, cancel, devices.
TEST(Worker, RunsCommands) {
  in_runtime([] {
    with_worker(
        with_commands(), [](Worker&) {},
        [](Host& host, Worker&) {
          host.send(command_task(1, "echo progress 50 half >&3; echo words; echo 42"));
          EXPECT_EQ(host.next_text(), "1 started");
          EXPECT_EQ(host.next_text(), "1 progress 500 half");
          const Report done = host.next();
          EXPECT_EQ(done.json, "42");
          EXPECT_EQ(worker::testing::read_text(done.log_path), "words\n42\n");
          EXPECT_GT(done.max_rss_bytes, 0U);

          host.send(command_task(2, "echo sorry >&2; exit 9"));
          EXPECT_EQ(host.final(2).text, "exit status 9; its last words: sorry");

          Assign missing = command_task(3, "");
          missing.spec = "{\"run\": [\"rota-no-such-program\"]}";
          host.send(missing);
          EXPECT_EQ(host.final(3).text.find("could not start: there is no program 'rota-no-such-program' in PATH"), 0U);

          host.send(command_task(4, "echo log up >&3; sleep 1000"));
          while (host.next().kind != ReportKind::kLog) {
          }
          host.send(Stop{.task = 4, .attempt = 1, .term = 1, .kind = StopKind::kCancel});
          const Report cancelled = host.final(4);
          EXPECT_EQ(cancelled.kind, ReportKind::kCancelled);
          EXPECT_EQ(cancelled.text, "killed by signal 15 (Terminated)");

          host.send(command_task(5, "echo log up >&3; sleep 1000"));
          while (host.next().kind != ReportKind::kLog) {
          }
          host.send(Stop{.task = 5, .attempt = 1, .term = 1, .kind = StopKind::kPause});
          host.send(Stop{.task = 5, .attempt = 1, .term = 1, .kind = StopKind::kPreempt});
          EXPECT_EQ(host.final(5).kind, ReportKind::kPreempted);

          Assign devices = command_task(6, "echo \\\"[$CUDA_VISIBLE_DEVICES]\\\"");
          devices.gpu_mask = 3;
          host.send(devices);
          EXPECT_EQ(host.final(6).json, "[0,1]");
          Assign none = command_task(7, "echo \\\"[$CUDA_VISIBLE_DEVICES]\\\"");
          host.send(none);
          EXPECT_EQ(host.final(7).json, "[]");
        });
  });
}

// Contract: U-2, U-3. Many commands on few processors: never more at a time than there are processors, whoever starts
// them, each once, and each said to have started before it is said to have ended.
TEST(Worker, ManyCommandsWithinResources) {
  constexpr std::uint64_t kTasks = 60;
  const worker::testing::Folder folder;
  const std::string journal = folder / "journal";
  in_runtime([&] {
    with_worker(
        with_commands(), [](Worker&) {},
        [&](Host& host, Worker&) {
          for (std::uint64_t task = 1; task <= kTasks; ++task) {
            // Some are wider than those before them, and do not fit in their place.
            Assign assign = command_task(task, "echo + >> " + journal + "; echo - >> " + journal);
            assign.cpu_millis = task % 7 == 0 ? 2000 : 1000;
            host.send(assign);
          }
          std::set<std::uint64_t> started;
          for (std::uint64_t ended = 0; ended < kTasks;) {
            const Report report = host.next();
            if (report.kind == ReportKind::kStarted) {
              EXPECT_TRUE(started.insert(report.task).second) << report.task;
            }
            if (!is_final(report.kind)) continue;
            ++ended;
            EXPECT_EQ(report.kind, ReportKind::kSucceeded) << report.text;
            EXPECT_TRUE(started.contains(report.task)) << report.task;
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

// Contract: U-2, U-3. One that stands by behind a full machine can be cancelled, and is given back when the worker
// stops; it never runs. One behind those takes its place in line.
TEST(Worker, StopsWhatStandsBy) {
  const worker::testing::Folder folder;
  in_runtime([&] {
    WorkerOptions options = with_commands();
    options.hardware = Hardware{.cpu_millis = 1000, .memory_bytes = kGiB};
    with_worker(
        options, [](Worker&) {},
        [&](Host& host, Worker& worker) {
          host.send(command_task(1, "echo log up >&3; while [ ! -e " + folder / "go" + " ]; do sleep 0.01; done"));
          while (host.next().kind != ReportKind::kLog) {
          }
          host.send(command_task(2, "touch " + folder / "ran2"));
          host.send(command_task(3, "echo 33"));
          host.send(Stop{.task = 2, .attempt = 1, .term = 1, .kind = StopKind::kCancel});
          EXPECT_EQ(host.final(2).kind, ReportKind::kCancelled);
          worker::testing::write_text(folder / "go", "");
          EXPECT_EQ(host.final(1).kind, ReportKind::kSucceeded);
          EXPECT_EQ(host.final(3).json, "33");

          host.send(command_task(4, "echo log up >&3; sleep 1000"));
          while (host.next().kind != ReportKind::kLog) {
          }
          host.send(command_task(5, "touch " + folder / "ran5"));
          host.send(command_task(6, "touch " + folder / "ran6"));
          worker.stop();
          std::set<std::uint64_t> given_back;
          while (given_back.size() < 2) {
            const Report report = host.next();
            if (report.kind == ReportKind::kPreempted) given_back.insert(report.task);
          }
          EXPECT_EQ(given_back, (std::set<std::uint64_t>{5, 6}));
          host.send(Stop{.task = 4, .attempt = 1, .term = 1, .kind = StopKind::kCancel});
          EXPECT_EQ(host.final(4).kind, ReportKind::kCancelled);
        });
  });
  EXPECT_FALSE(std::filesystem::exists(folder / "ran2"));
  EXPECT_FALSE(std::filesystem::exists(folder / "ran5"));
  EXPECT_FALSE(std::filesystem::exists(folder / "ran6"));
}

// Contract: U-3. Commands that misbehave do not keep others from running.
TEST(Worker, MisbehavingCommands) {
  in_runtime([] {
    with_worker(
        with_commands(), [](Worker&) {},
        [](Host& host, Worker&) {
          Assign stubborn = command_task(1, "");
          stubborn.spec =
              "{\"run\": \"trap '' TERM; while :; do sleep 1000; done\", \"timeout_ms\": 50, \"grace_ms\": 50}";
          host.send(stubborn);
          host.send(command_task(2, "yes | head -c 20000000"));
          host.send(command_task(3, "(setsid sleep 1000 &) ; sleep 0.05"));
          host.send(command_task(4, "echo fine"));
          std::map<std::uint64_t, Report> ends;
          while (ends.size() < 4) {
            const Report report = host.next();
            if (is_final(report.kind)) ends[report.task] = report;
          }
          EXPECT_EQ(ends[1].text, "ran longer than its limit of 50ms; it ignored TERM and was killed");
          EXPECT_EQ(ends[1].cause, bus::FailureCause::kTimeout);
          EXPECT_EQ(ends[2].json, "\"y\"");
          EXPECT_EQ(ends[3].kind, ReportKind::kSucceeded);
          EXPECT_EQ(ends[4].json, "\"fine\"");
        });
  });
}

// Contract: U-2. What is detected is what this process may use.
TEST(Hardware, Detected) {
  const Hardware hardware = Hardware::detect();
  EXPECT_GE(hardware.cpu_millis, 1U);
  EXPECT_LE(hardware.cpu_millis, 1000U * static_cast<unsigned>(::sysconf(_SC_NPROCESSORS_ONLN)));
  EXPECT_GE(hardware.memory_bytes, 1U << 20);
  Worker given(handlers_only());
  EXPECT_EQ(given.hardware().cpu_millis, 2000U);
  Worker detected(WorkerOptions{});
  EXPECT_EQ(detected.hardware().cpu_millis, hardware.cpu_millis);
}

}  // namespace
}  // namespace rota
