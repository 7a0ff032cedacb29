// Programs from their specification to their outcome.
#include "worker/program.h"

#include <csignal>

#include "base/sync.h"
#include "worker/process_testing.h"
#include "worker/task_check.h"

namespace rota::worker {
namespace {

using namespace std::chrono_literals;
using model::AttemptEnd;
using model::AttemptOutcome;
using testing::Folder;
using testing::in_runtime;

constexpr WallClock kClock{.offset_ns = 1'704'067'200'000'000'000};

struct Recorded : ProgramEvents {
  void on_progress(std::uint32_t permille, const std::string& message) override {
    all.push_back("progress " + std::to_string(permille) + " " + message);
  }
  void on_checkpoint(const std::string& json) override { all.push_back("checkpoint " + json); }
  void on_log(const std::string& text) override { all.push_back("log " + text); }
  void on_cached(const std::string& item) override { all.push_back("cached " + item); }
  std::vector<std::string> all;
};

// A program says with a log line that it is up, while another task waits for it.
struct Heard : Recorded {
  void on_log(const std::string&) override { up = true; }
  sync::Atomic<bool> up{false};
};

model::TaskSpec script(const std::string& text) {
  model::TaskSpec spec;
  spec.program.emplace().shell = text;
  return spec;
}
model::TaskSpec arguments(std::vector<std::string> list) {
  model::TaskSpec spec;
  spec.program.emplace().arguments = std::move(list);
  return spec;
}

// A place to run in, and one program after the other.
struct Bench {
  Folder folder;
  GuardPool guards;
  ProgramPlace place{.directory = folder.path(), .environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "ROTA_OLD=1"}};
  Recorded events;
  std::uint64_t next = 1;

  ProgramRequest request(std::uint64_t task, model::TaskSpec spec) const {
    return {.id = {model::TaskId(task), model::AttemptNumber(2)}, .spec = std::move(spec), .clock = kClock};
  }
  AttemptOutcome end(model::TaskSpec spec) {
    events.all.clear();
    ProgramRun run(guards, place, request(next++, std::move(spec)), events);
    Result<AttemptResult> ended = run.wait();
    EXPECT_TRUE(ended.ok()) << ended.error().to_string();
    return std::move(ended).value().outcome;
  }
};

bool succeeded(const AttemptOutcome& outcome) { return outcome.end == AttemptEnd::kSucceeded; }
bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Contract: U-2. The result: a file, a last line that is JSON, one that is text, nothing.
TEST(Program, Results) {
  in_runtime([] {
    Bench bench;
    EXPECT_EQ(bench.end(script("echo noise; echo '{\"a\": 1}' > $ROTA_RESULT")).result, "{\"a\": 1}\n");
    EXPECT_EQ(bench.end(script("echo first; echo '[1, 2]'")).result, "[1, 2]");
    EXPECT_EQ(bench.end(script("echo first; printf 'say \"hi\"'")).result, "\"say \\\"hi\\\"\"");
    EXPECT_EQ(bench.end(script("echo only on stderr >&2")).result, "null");
    EXPECT_EQ(bench.end(script("true")).result, "null");
    EXPECT_EQ(bench.end(script(": > $ROTA_RESULT; echo 7")).result, "7");
    EXPECT_EQ(bench.end(arguments({"echo", "a  b"})).result, "\"a  b\"");
    EXPECT_TRUE(bench.events.all.empty());
    // Contract: Y-9. What JSON cannot carry is reported.
    EXPECT_EQ(bench.end(script("printf 'a\\377\\n'")).result, "\"a\\ufffd\"");
    ASSERT_EQ(bench.events.all.size(), 1U);
    EXPECT_TRUE(contains(bench.events.all.front(), "is not UTF-8")) << bench.events.all.front();
    const AttemptOutcome plain = bench.end(script("true"));
    EXPECT_TRUE(succeeded(plain));
    EXPECT_EQ(plain.message, "");
    EXPECT_EQ(plain.log_path, "");
    // Nothing is left but the logs.
    for (const auto& entry : std::filesystem::directory_iterator(bench.folder.path())) {
      EXPECT_EQ(entry.path().extension(), ".log");
    }
  });
}

// Contract: U-2. A result that is not JSON, or too large, fails the task, and the message says why.
TEST(Program, BadResults) {
  in_runtime([] {
    Bench bench;
    bench.place.result_bytes = 100;
    AttemptOutcome end = bench.end(script("echo '{oops' > $ROTA_RESULT"));
    EXPECT_FALSE(succeeded(end));
    EXPECT_TRUE(contains(end.message, "the result in $ROTA_RESULT: not valid JSON")) << end.message;
    end = bench.end(script("seq 100 > $ROTA_RESULT"));
    EXPECT_FALSE(succeeded(end));
    EXPECT_TRUE(contains(end.message, "has 292 bytes; at most 100")) << end.message;
    // Contract: Y-9. The last line as a result: all of it, or a failure; never null.
    end = bench.end(script("printf '%0100d\\n' 0"));
    EXPECT_EQ(end.result, '"' + std::string(100, '0') + '"') << end.message;
    end = bench.end(script("printf '%0101d\\n' 0"));
    EXPECT_FALSE(succeeded(end));
    EXPECT_TRUE(contains(end.message, "the task's result, has more than 100 bytes")) << end.message;
    end = bench.end(script("printf '%0101d' 0; printf '\\n7\\n'"));
    EXPECT_EQ(end.result, "7");
    end = bench.end(script("ln -s /etc/hostname $ROTA_RESULT"));
    EXPECT_FALSE(succeeded(end));
    end = bench.end(
        script("mkfifo $ROTA_RESULT"));  // It has no size, so it counts as not written, and reading it does not block.
    EXPECT_TRUE(succeeded(end));
  });
}

// Contract: U-2, U-3. The environment of a program.
TEST(Program, Environment) {
  in_runtime([] {
    Bench bench;
    model::TaskSpec spec =
        script("echo \"$A|$ROTA_TASK|$ROTA_ATTEMPT|$ROTA_INPUTS|$ROTA_CHECKPOINT|$ROTA_FD|$ROTA_OLD|$(pwd)\"");
    spec.program->environment = {{"A", "x y"}};
    spec.program->directory = "/";
    spec.inputs = R"({"n":[1]})";
    spec.checkpoint = R"({"s":2})";
    EXPECT_EQ(bench.end(spec).result, json_string("x y|1|2|{\"n\":[1]}|{\"s\":2}|3||/"));
    // Inputs that are too large for a variable are in a file.
    model::TaskSpec large = script("echo \"$ROTA_INPUTS|$(wc -c < $ROTA_INPUTS_FILE)\"");
    large.inputs = json_string(std::string(300'000, 'x'));
    EXPECT_EQ(bench.end(large).result, "\"|300002\"");
    // What the task holds.
    ProgramRequest request = bench.request(50, script("echo \"$ROTA_CPUS|$ROTA_MEMORY_BYTES|$CUDA_VISIBLE_DEVICES\""));
    request.resources.cpu_millis = 1500;
    request.resources.memory_bytes = 1024;
    request.resources.devices = 0b1001;
    bench.place.has_devices = true;
    ProgramRun run(bench.guards, bench.place, request, bench.events);
    EXPECT_EQ(run.wait()->outcome.result, "\"2|1024|0,3\"");
  });
}

// Contract: U-2, U-3. The message of a failure: what happened, and the last line of the program's errors.
TEST(Program, Failures) {
  in_runtime([] {
    Bench bench;
    AttemptOutcome end = bench.end(script("echo working; echo 'cannot find x' >&2; exit 4"));
    EXPECT_FALSE(succeeded(end));
    EXPECT_EQ(end.message, "exit status 4; its last words: cannot find x");
    end = bench.end(script("kill -SEGV $$"));
    EXPECT_EQ(end.message, "killed by signal 11 (Segmentation fault)");
    const std::string ready = bench.folder / "ready";
    model::TaskSpec stubborn = script("trap '' TERM; touch " + ready + "; while :; do sleep 1000; done");
    stubborn.program->grace_ms = 50;
    // On a busy machine the limit may pass before the program ignores TERM: then once more.
    for (stubborn.timeout_ms = 50; !std::filesystem::exists(ready); stubborn.timeout_ms *= 2) {
      ASSERT_LT(stubborn.timeout_ms, 120'000) << "it does not start";
      end = bench.end(stubborn);
      EXPECT_EQ(end.failure, model::FailureKind::kTimeout);
    }
    EXPECT_TRUE(end.message.starts_with("ran longer than its limit of ")) << end.message;
    EXPECT_TRUE(end.message.ends_with("; it ignored TERM and was killed")) << end.message;
    // A missing binary.
    end = bench.end(arguments({"rota-no-such-program"}));
    EXPECT_FALSE(succeeded(end));
    EXPECT_TRUE(contains(end.message, "could not start: there is no program 'rota-no-such-program' in PATH"));
    EXPECT_GE(end.started_ns, kClock.offset_ns) << "the attempt to start it has its time";
    end = bench.end(script("rota-no-such-program"));
    EXPECT_TRUE(contains(end.message, "exit status 127; its last words: ")) << end.message;
    end = bench.end(model::TaskSpec{});
    EXPECT_TRUE(contains(end.message, "the task has no program"));
    // The next one runs.
    EXPECT_TRUE(succeeded(bench.end(script("true"))));
  });
}

// Contract: U-3. A program that prints a gigabyte (here, less) neither fills the disk nor stalls; both ends are kept.
TEST(Program, PrintsWithoutEnd) {
  const std::uint64_t much = std::getenv("ROTA_SOAK") != nullptr ? 1'000'000'000 : 30'000'000;
  in_runtime([much] {
    Bench bench;
    const AttemptOutcome end =
        bench.end(script("echo first; yes 0123456789 | head -c " + std::to_string(much) + "; echo; echo last"));
    EXPECT_TRUE(succeeded(end));
    EXPECT_EQ(end.result, "\"last\"");
    const std::string log = testing::read_text(end.log_path);
    EXPECT_LT(log.size(), (1U << 20) + 200);
    EXPECT_TRUE(log.starts_with("first\n0123456789\n"));
    EXPECT_TRUE(log.ends_with("last\n"));
    const std::uint64_t total = much + std::string("first\n\nlast\n").size();
    EXPECT_TRUE(contains(log, std::to_string(total - (1 << 20)) + " bytes of output were dropped here"));
  });
}

// Contract: Y-8. Output that is kept whole: both streams apart, beside the log. There is no result to be too large, and
// output that could not be kept fails the task. Files of an earlier life with the same attempt are not part of it.
TEST(Program, KeepsTheWholeOutput) {
  in_runtime([] {
    Bench bench;
    bench.place.whole_output = true;
    bench.place.output_bytes = 2000;
    bench.place.result_bytes = 100;
    testing::write_text(bench.folder / "1-2.err", "old");
    AttemptOutcome end = bench.end(script("seq 100000; printf '%0200d' 7"));
    EXPECT_TRUE(succeeded(end)) << end.message;
    EXPECT_EQ(end.result, "null");
    std::string all;
    for (int i = 1; i <= 100'000; ++i) all += std::to_string(i) + "\n";
    EXPECT_TRUE(testing::read_text(bench.folder / "1-2.out") == all + std::string(199, '0') + "7");
    EXPECT_FALSE(std::filesystem::exists(bench.folder / "1-2.err"));
    EXPECT_LT(testing::read_text(end.log_path).size(), 2200U);
    end = bench.end(script("echo a; echo b >&2; exit 3"));
    EXPECT_FALSE(succeeded(end));
    EXPECT_EQ(testing::read_text(bench.folder / "2-2.out") + testing::read_text(bench.folder / "2-2.err"), "a\nb\n");
    EXPECT_EQ(testing::read_text(end.log_path).size(), 4U);
    std::filesystem::create_directory(bench.folder / "3-2.err");
    end = bench.end(script("echo c >&2"));
    EXPECT_FALSE(succeeded(end));
    EXPECT_TRUE(contains(end.message, "its output could not be kept, and is not complete")) << end.message;
  });
}

// Contract: U-3. A program that leaves a daemon behind ends when its first process ends; the daemon is killed, and the
// message says so.
TEST(Program, ForksADaemon) {
  in_runtime([] {
    Bench bench;
    model::TaskSpec spec = script(
        "mkfifo f$$; (setsid sh -c \"trap '' HUP TERM; echo up > f$$; sleep 1000\" &); read x < f$$; rm f$$; echo "
        "done");
    spec.program->directory = bench.folder.path();
    const AttemptOutcome end = bench.end(spec);
    EXPECT_TRUE(succeeded(end));
    EXPECT_EQ(end.result, "\"done\"");
    EXPECT_TRUE(contains(end.message, "left 1 process behind, which was killed")) << end.message;
  });
}

// Contract: U-2. Progress, checkpoints, log lines and caches arrive in order; lines that cannot be read are reported
// and have no other effect.
TEST(Program, Lines) {
  in_runtime([] {
    Bench bench;
    const AttemptOutcome end = bench.end(script(
        "echo progress 10 begun >&3; sleep 0.2; echo 'log hello' >&$ROTA_FD; echo nonsense >&3; echo 'cache model m1' "
        ">&3;"
        "echo 'checkpoint {\"step\": 1}' >&3; echo checkpoint /data/c1 >&3; echo progress 20 >&3; echo progress 30 >&3;"
        "printf 'progress 99.5 nearly' >&3"));
    EXPECT_TRUE(succeeded(end));
    // How many of the three last progress lines are reported depends on the time.
    ASSERT_GE(bench.events.all.size(), 7U);
    EXPECT_EQ(bench.events.all.front(), "progress 100 begun");
    std::string last;  // A checkpoint that was held back may follow it.
    for (const std::string& text : bench.events.all) last = text.starts_with("progress") ? text : last;
    EXPECT_EQ(last, "progress 995 nearly");
    std::erase_if(bench.events.all, [](const std::string& text) { return text.starts_with("progress"); });
    ASSERT_EQ(bench.events.all.size(), 5U);
    EXPECT_EQ(bench.events.all[0], "log hello");
    EXPECT_TRUE(contains(bench.events.all[1], "'nonsense': unknown")) << bench.events.all[1];
    EXPECT_EQ(bench.events.all[2], "cached model:m1");
    EXPECT_EQ(bench.events.all[3], "checkpoint {\"step\": 1}");
    EXPECT_EQ(bench.events.all[4], "checkpoint {\"file\":\"/data/c1\"}");
  });
}

// Contract: U-2. A flood of progress is thinned out, and the last value arrives; of a flood of bad lines ten are
// reported.
TEST(Program, FloodOfLines) {
  in_runtime([] {
    Bench bench;
    bench.end(script("for i in $(seq 0 99); do for j in $(seq 0 99); do echo progress $i.0; done; done >&3"));
    EXPECT_LT(bench.events.all.size(), 1000U);
    EXPECT_EQ(bench.events.all.back(), "progress 990 ");
    bench.end(script("yes nonsense | head -n 100000 >&3"));
    EXPECT_EQ(bench.events.all.size(), 11U);
  });
}

// Contract: U-3. Terminated while it runs, and before it runs.
TEST(Program, Terminate) {
  in_runtime([] {
    Bench bench;
    model::TaskSpec patient = script("echo log up >&3; sleep 1000");
    patient.program->grace_ms = 3'600'000;
    Heard events;
    ProgramRun running(bench.guards, bench.place, bench.request(7, patient), events);
    fiber::with_scope([&](fiber::Nursery& n) {
      auto task = n.spawn([&] { return running.wait().value().outcome.message; });
      while (!events.up.load()) ASSERT_TRUE(fiber::sleep_for(1ms).ok());
      running.terminate();
      EXPECT_EQ(task.get(), "killed by signal 15 (Terminated)");
    });
    running.terminate();  // After the end it does nothing.
    model::TaskSpec impatient = script("sleep 1000");
    impatient.program->grace_ms = 0;
    ProgramRun early(bench.guards, bench.place, bench.request(8, impatient), bench.events);
    early.terminate();
    EXPECT_EQ(early.wait().value().outcome.message, "killed by signal 9 (Killed)");
  });
}

// Contract: U-4. Cancelling the task in wait() kills the program.
TEST(Program, CancelledTask) {
  in_runtime([] {
    Bench bench;
    Heard events;
    ProgramRun running(bench.guards, bench.place, bench.request(7, script("echo $$; echo log up >&3; sleep 1000")),
                       events);
    fiber::with_scope([&](fiber::Nursery& n) {
      auto task = n.spawn([&] { return running.wait().code(); });
      while (!events.up.load()) ASSERT_TRUE(fiber::sleep_for(1ms).ok());
      task.cancel();
      task.wait();
    });
  });
}

// Contract: U-3. The log can be read while the program runs.
TEST(Program, LogIsWrittenWhileItRuns) {
  in_runtime([] {
    Bench bench;
    ProgramRun running(bench.guards, bench.place, bench.request(7, script("echo hello; sleep 1000")), bench.events);
    fiber::with_scope([&](fiber::Nursery& n) {
      auto task = n.spawn([&] { return running.wait().ok(); });
      while (testing::read_text(bench.folder / "7-2.log") != "hello\n") ASSERT_TRUE(fiber::sleep_for(1ms).ok());
      running.terminate();
      EXPECT_TRUE(task.get());
    });
  });
}

// Contract: U-2. The outcome says when the program started and ended, in wall time.
TEST(Program, StartAndEndTimes) {
  in_runtime([] {
    Bench bench;
    const std::int64_t before = kClock.at(fiber::now());
    const AttemptOutcome end = bench.end(script("sleep 0.05"));
    EXPECT_GE(end.started_ns, before);
    EXPECT_GE(end.ended_ns - end.started_ns, 50'000'000);
    EXPECT_LE(end.ended_ns, kClock.at(fiber::now()));
  });
}

// Contract: U-2. A program that stands by starts when another one ends: its times say so, however long it was there.
TEST(Program, TimesOfAProgramThatStandsBy) {
  in_runtime([] {
    Bench bench;
    GuardPool guards(1);  // Both programs have the same guard.
    const auto held = [&](std::uint64_t task, const std::string& text, bool stand_by) {
      ProgramRequest request = bench.request(task, script(text));
      request.resources.cpu_millis = 1000;
      request.stand_by = stand_by;
      return request;
    };
    // On a busy machine the first program may end before the guard has the second one, which then starts when it is
    // told to: once more, with a longer first program.
    model::AttemptId next;
    for (int tenths = 1; next.task.is_none(); tenths *= 2) {
      ASSERT_LT(tenths, 1200) << "it has nobody's place";
      const std::string seconds = std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
      Heard events;
      ProgramRun first(guards, bench.place, held(1, "echo log up >&3; sleep " + seconds, false), events);
      Recorded unused;
      ProgramRun second(guards, bench.place, held(2, "true", true), unused);
      fiber::with_scope([&](fiber::Nursery& n) {
        auto task = n.spawn([&] { return first.wait().value(); });
        while (!events.up.load()) ASSERT_TRUE(fiber::sleep_for(1ms).ok());
        auto waiting = n.spawn([&] { return second.wait().value(); });
        const AttemptResult earlier = task.get();
        next = earlier.next;
        if (next.task.is_none()) second.go();
        const AttemptResult later = waiting.get();
        EXPECT_GE(later.outcome.started_ns, earlier.outcome.ended_ns) << "waiting is not running";
        EXPECT_LT(later.outcome.started_ns, later.outcome.ended_ns);
      });
    }
    EXPECT_EQ(next, (model::AttemptId{model::TaskId(2), model::AttemptNumber(2)}));
  });
}

}  // namespace
}  // namespace rota::worker
