// Commands from their specification to their result.
#include <csignal>

#include "worker/command.h"
#include "worker/process_testing.h"

namespace rota::worker {
namespace {

using namespace std::chrono_literals;
using testing::Folder;
using testing::in_runtime;

struct Recorded : CommandEvents {
  void on_progress(std::uint32_t permille, const std::string& message) override {
    all.push_back("progress " + std::to_string(permille) + " " + message);
  }
  void on_checkpoint(const std::string& json) override { all.push_back("checkpoint " + json); }
  void on_log(const std::string& text) override { all.push_back("log " + text); }
  void on_cache(const std::string& kind, const std::string& name) override {
    all.push_back("cache " + kind + " " + name);
  }
  std::vector<std::string> all;
};

// A place to run in, and one command after the other.
struct Bench {
  Folder folder;
  Guard guard;
  CommandPlace place{.directory = folder.path(), .environment = {"PATH=/usr/local/bin:/usr/bin:/bin", "ROTA_OLD=1"}};
  Recorded events;
  std::uint64_t next = 1;

  Result<CommandEnd> run(const std::string& spec) {
    events.all.clear();
    CommandRun run(guard, place, {.task = next++, .attempt = 2, .spec = parse_task_spec(spec).value()}, events);
    return run.run();
  }
  CommandEnd end(const std::string& spec) {
    Result<CommandEnd> ended = run(spec);
    EXPECT_TRUE(ended.ok()) << ended.error().to_string();
    return std::move(ended).value();
  }
  // The specification of a script.
  static std::string script(const std::string& text, const std::string& more = "") {
    return "{\"run\":" + json_string(text) + more + "}";
  }
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Contract: U-2. The result: a file, a last line that is JSON, one that is text, nothing.
TEST(Command, Results) {
  in_runtime([] {
    Bench bench;
    EXPECT_EQ(bench.end(Bench::script("echo noise; echo '{\"a\": 1}' > $ROTA_RESULT")).result, "{\"a\": 1}\n");
    EXPECT_EQ(bench.end(Bench::script("echo first; echo '[1, 2]'")).result, "[1, 2]");
    EXPECT_EQ(bench.end(Bench::script("echo first; printf 'say \"hi\"'")).result, "\"say \\\"hi\\\"\"");
    EXPECT_EQ(bench.end(Bench::script("echo only on stderr >&2")).result, "null");
    EXPECT_EQ(bench.end(Bench::script("true")).result, "null");
    EXPECT_EQ(bench.end(Bench::script(": > $ROTA_RESULT; echo 7")).result, "7");
    EXPECT_EQ(bench.end("{\"run\": [\"echo\", \"a  b\"]}").result, "\"a  b\"");
    const CommandEnd plain = bench.end(Bench::script("true"));
    EXPECT_TRUE(plain.success);
    EXPECT_EQ(plain.message, "");
    EXPECT_EQ(plain.log_path, "");
    // Nothing is left but the logs.
    for (const auto& entry : std::filesystem::directory_iterator(bench.folder.path())) {
      EXPECT_EQ(entry.path().extension(), ".log");
    }
  });
}

// Contract: U-2. A result that is none fails the task with a sentence.
TEST(Command, BadResults) {
  in_runtime([] {
    Bench bench;
    bench.place.result_bytes = 100;
    CommandEnd end = bench.end(Bench::script("echo '{oops' > $ROTA_RESULT"));
    EXPECT_FALSE(end.success);
    EXPECT_TRUE(contains(end.message, "the result in $ROTA_RESULT: not valid JSON")) << end.message;
    end = bench.end(Bench::script("seq 100 > $ROTA_RESULT"));
    EXPECT_FALSE(end.success);
    EXPECT_TRUE(contains(end.message, "has 292 bytes; at most 100")) << end.message;
    end = bench.end(Bench::script("ln -s /etc/hostname $ROTA_RESULT"));
    EXPECT_FALSE(end.success);
    end = bench.end(Bench::script("mkfifo $ROTA_RESULT"));  // Has no size: as if not written, and nobody hangs.
    EXPECT_TRUE(end.success);
  });
}

// Contract: U-2, U-3. What a command finds in its environment.
TEST(Command, Environment) {
  in_runtime([] {
    Bench bench;
    const CommandEnd end = bench.end(
        Bench::script("echo \"$A|$ROTA_TASK|$ROTA_ATTEMPT|$ROTA_INPUTS|$ROTA_CHECKPOINT|$ROTA_FD|$ROTA_OLD|$(pwd)\"",
                      ",\"env\":{\"A\":\"x y\"},\"inputs\":{\"n\":[1]},\"checkpoint\":{\"s\":2},\"dir\":\"/\""));
    EXPECT_EQ(end.result, json_string("x y|1|2|{\"n\":[1]}|{\"s\":2}|3||/"));
    // Inputs that no variable can hold are in a file.
    const std::string large = json_string(std::string(300'000, 'x'));
    const CommandEnd filed =
        bench.end(Bench::script("echo \"$ROTA_INPUTS|$(wc -c < $ROTA_INPUTS_FILE)\"", ",\"inputs\":" + large));
    EXPECT_EQ(filed.result, "\"|300002\"");
  });
}

// Contract: U-2, U-3. How failures are told: what happened, and the command's last words.
TEST(Command, Failures) {
  in_runtime([] {
    Bench bench;
    CommandEnd end = bench.end(Bench::script("echo working; echo 'cannot find x' >&2; exit 4"));
    EXPECT_FALSE(end.success);
    EXPECT_EQ(end.message, "exit status 4; its last words: cannot find x");
    end = bench.end(Bench::script("kill -SEGV $$"));
    EXPECT_EQ(end.message, "killed by signal 11 (Segmentation fault)");
    end = bench.end(Bench::script("trap '' TERM; while :; do sleep 1000; done", ",\"timeout_ms\":50,\"grace_ms\":50"));
    EXPECT_EQ(end.message, "ran longer than its limit of 50ms; it ignored TERM and was killed");
    // A missing binary.
    Result<CommandEnd> missing = bench.run("{\"run\": [\"rota-no-such-program\"]}");
    ASSERT_EQ(missing.code(), ErrorCode::kNotFound);
    EXPECT_TRUE(contains(missing.error().message, "there is no program 'rota-no-such-program' in PATH"));
    end = bench.end(Bench::script("rota-no-such-program"));
    EXPECT_TRUE(contains(end.message, "exit status 127; its last words: ")) << end.message;
    missing = bench.run("{}");
    EXPECT_TRUE(contains(missing.error().message, "no \"run\""));
    // The next one runs.
    EXPECT_TRUE(bench.end(Bench::script("true")).success);
  });
}

// Contract: U-3. A command that prints a gigabyte (here, less) neither fills the disk nor stalls; both ends are kept.
TEST(Command, PrintsWithoutEnd) {
  const std::uint64_t much = std::getenv("ROTA_SOAK") != nullptr ? 1'000'000'000 : 30'000'000;
  in_runtime([much] {
    Bench bench;
    const CommandEnd end =
        bench.end(Bench::script("echo first; yes 0123456789 | head -c " + std::to_string(much) + "; echo; echo last"));
    EXPECT_TRUE(end.success);
    EXPECT_EQ(end.result, "\"last\"");
    EXPECT_GT(end.output.total_bytes, much);
    EXPECT_EQ(end.output.dropped_bytes, end.output.total_bytes - (1 << 20));
    const std::string log = testing::read_text(end.log_path);
    EXPECT_LT(log.size(), (1U << 20) + 200);
    EXPECT_TRUE(log.starts_with("first\n0123456789\n"));
    EXPECT_TRUE(log.ends_with("last\n"));
    EXPECT_TRUE(contains(log, std::to_string(end.output.dropped_bytes) + " bytes of output were dropped here"));
  });
}

// Contract: U-3. A command that leaves a daemon behind ends when it ends; the daemon is killed, and it is said.
TEST(Command, ForksADaemon) {
  in_runtime([] {
    Bench bench;
    const CommandEnd end = bench.end(Bench::script(
        "mkfifo f$$; (setsid sh -c \"trap '' HUP TERM; echo up > f$$; sleep 1000\" &); read x < f$$; rm f$$; echo done",
        ",\"dir\":" + json_string(bench.folder.path())));
    EXPECT_TRUE(end.success);
    EXPECT_EQ(end.result, "\"done\"");
    EXPECT_EQ(end.outcome.strays, 1U);
    EXPECT_TRUE(contains(end.message, "left 1 processes behind, which were killed")) << end.message;
  });
}

// Contract: U-2. Progress, checkpoints, log lines and caches arrive in order; bad lines are told of and cost nothing
// else.
TEST(Command, Lines) {
  in_runtime([] {
    Bench bench;
    const CommandEnd end = bench.end(Bench::script(
        "echo progress 10 begun >&3; sleep 0.2; echo 'log hello' >&$ROTA_FD; echo nonsense >&3; echo 'cache model m1' "
        ">&3;"
        "echo 'checkpoint {\"step\": 1}' >&3; echo checkpoint /data/c1 >&3; echo progress 20 >&3; echo progress 30 >&3;"
        "printf 'progress 99.5 nearly' >&3"));
    EXPECT_TRUE(end.success);
    // How many of the three last progress lines are told depends on the time.
    ASSERT_GE(bench.events.all.size(), 7U);
    EXPECT_EQ(bench.events.all.front(), "progress 100 begun");
    EXPECT_EQ(bench.events.all.back(), "progress 995 nearly");
    std::erase_if(bench.events.all, [](const std::string& text) { return text.starts_with("progress"); });
    ASSERT_EQ(bench.events.all.size(), 5U);
    EXPECT_EQ(bench.events.all[0], "log hello");
    EXPECT_TRUE(contains(bench.events.all[1], "'nonsense': unknown")) << bench.events.all[1];
    EXPECT_EQ(bench.events.all[2], "cache model m1");
    EXPECT_EQ(bench.events.all[3], "checkpoint {\"step\": 1}");
    EXPECT_EQ(bench.events.all[4], "checkpoint {\"file\":\"/data/c1\"}");
  });
}

// Contract: U-2. A flood of progress is thinned out, the last one arrives; a flood of nonsense is told of ten times.
TEST(Command, FloodOfLines) {
  in_runtime([] {
    Bench bench;
    bench.end(Bench::script("for i in $(seq 0 99); do for j in $(seq 0 99); do echo progress $i.0; done; done >&3"));
    EXPECT_LT(bench.events.all.size(), 1000U);
    EXPECT_EQ(bench.events.all.back(), "progress 990 ");
    bench.end(Bench::script("yes nonsense | head -n 100000 >&3"));
    EXPECT_EQ(bench.events.all.size(), 11U);
  });
}

// Contract: U-3. Cancelled while it runs, and before it runs.
TEST(Command, Terminate) {
  in_runtime([] {
    Bench bench;
    CommandRun running(
        bench.guard, bench.place,
        {.task = 7, .attempt = 1, .spec = parse_task_spec(Bench::script("echo log up >&3; sleep 1000")).value()},
        bench.events);
    fiber::with_scope([&](fiber::Nursery& n) {
      auto task = n.spawn([&] { return running.run().value().message; });
      while (bench.events.all.empty()) ASSERT_TRUE(fiber::sleep_for(1ms).ok());
      running.terminate(1h);
      EXPECT_EQ(task.get(), "killed by signal 15 (Terminated)");
    });
    running.terminate(1h);  // After the end: nothing.
    CommandRun early(bench.guard, bench.place,
                     {.task = 8, .attempt = 1, .spec = parse_task_spec(Bench::script("sleep 1000")).value()},
                     bench.events);
    early.terminate(0ms);
    EXPECT_EQ(early.run().value().message, "killed by signal 9 (Killed)");
  });
}

// Contract: U-4. A task that is cancelled kills its command; the directory has what it wrote until then.
TEST(Command, CancelledTask) {
  in_runtime([] {
    Bench bench;
    CommandRun running(bench.guard, bench.place,
                       {.task = 7,
                        .attempt = 1,
                        .spec = parse_task_spec(Bench::script("echo $$; echo log up >&3; sleep 1000")).value()},
                       bench.events);
    fiber::with_scope([&](fiber::Nursery& n) {
      auto task = n.spawn([&] { return running.run().code(); });
      while (bench.events.all.empty()) ASSERT_TRUE(fiber::sleep_for(1ms).ok());
      task.cancel();
      task.wait();
    });
  });
}

// Contract: U-3. The log can be read while the command runs.
TEST(Command, LogIsWrittenWhileItRuns) {
  in_runtime([] {
    Bench bench;
    CommandRun running(
        bench.guard, bench.place,
        {.task = 7, .attempt = 1, .spec = parse_task_spec(Bench::script("echo hello; sleep 1000")).value()},
        bench.events);
    fiber::with_scope([&](fiber::Nursery& n) {
      auto task = n.spawn([&] { return running.run().ok(); });
      while (testing::read_text(bench.folder / "7-1.log") != "hello\n") ASSERT_TRUE(fiber::sleep_for(1ms).ok());
      running.terminate(0ms);
      EXPECT_TRUE(task.get());
    });
  });
}

}  // namespace
}  // namespace rota::worker
