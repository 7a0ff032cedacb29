// Programs as processes: how they start and end, and what is left when a guard or the worker is killed.
#include "worker/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include "worker/process_testing.h"

namespace rota::worker {
namespace {

using namespace std::chrono_literals;
using testing::Folder;
using testing::in_runtime;
using testing::shell;
using testing::Started;

// Contract: U-3. Output, exit status, times and use of resources come back.
TEST(Process, RunsAndTells) {
  in_runtime([] {
    GuardPool guards;
    const std::chrono::nanoseconds before = fiber::now();
    Started started(guards, shell("echo hello; echo oops >&2; exit 3"));
    EXPECT_EQ(started.rest(), "hello\noops\n");
    const ProcessEnd outcome = started->wait().value();
    EXPECT_EQ(outcome.kind, ProcessEnd::Kind::kExited);
    EXPECT_EQ(outcome.code, 3);
    EXPECT_FALSE(outcome.success());
    EXPECT_EQ(outcome.strays, 0U);
    EXPECT_GT(outcome.max_rss_bytes, 0);
    EXPECT_EQ(outcome.describe(shell("")), "exit status 3");
    EXPECT_GE(outcome.started_at, before);
    EXPECT_LT(outcome.started_at, outcome.ended_at);
    EXPECT_LE(outcome.ended_at, fiber::now());
  });
}

// Contract: U-3. A program gets its environment, working directory and arguments unchanged, an empty standard input, a
// process group of its own, and no descriptors but 0 to 3.
TEST(Process, SurroundingsAreWhatTheSpecSays) {
  in_runtime([] {
    Folder folder;
    GuardPool guards;
    ProcessSpec spec;
    spec.arguments = {"sh", "-c",
                      "pwd; echo \"$NAME|$1\"; cat; ps -o pgid= -p $$ | tr -d ' '; echo $$; exec python3 -c \"$FDS\"",
                      "sh", "a b'c\"d"};
    spec.environment = {"PATH=/bin:/usr/bin", "NAME=x=y z",
                        "FDS=import fcntl\nfor fd in range(1000):\n  try:\n    fcntl.fcntl(fd, fcntl.F_GETFD)\n"
                        "    print(fd, end=' ')\n  except OSError: pass"};
    spec.directory = folder.path();
    Started started(guards, spec);
    EXPECT_EQ(started.line(), std::filesystem::canonical(folder.path()).string());
    EXPECT_EQ(started.line(), "x=y z|a b'c\"d");
    const std::string group = started.line();
    const std::string pid = started.line();
    EXPECT_EQ(group, pid);
    EXPECT_EQ(pid, std::to_string(started->pid()));
    EXPECT_EQ(started.rest(), "0 1 2 3 ");
    EXPECT_TRUE(started->wait().value().success());
  });
}

// Contract: U-3. Each way in which a start can fail has its own message, and the next program runs.
TEST(Process, WhatCannotStartSaysWhy) {
  in_runtime([] {
    Folder folder;
    testing::write_text(folder / "plain", "echo no\n");
    testing::write_text(folder / "script", "echo no\n");
    testing::write_text(folder / "lost", "#!/no/such/interpreter\n");
    for (const char* name : {"script", "lost"}) ::chmod((folder / name).c_str(), 0755);
    GuardPool guards;
    const auto refused = [&](std::vector<std::string> arguments, const std::string& directory, ErrorCode code,
                             const std::string& part) {
      ProcessSpec spec = shell("");
      spec.arguments = std::move(arguments);
      spec.directory = directory;
      Started started(guards, spec);
      ASSERT_FALSE(started.process.ok()) << part;
      EXPECT_EQ(started.process.code(), code) << started.process.error().to_string();
      EXPECT_NE(started.process.error().message.find(part), std::string::npos) << started.process.error().to_string();
    };
    refused({"rota-no-such-program"}, "", ErrorCode::kNotFound,
            "could not start: there is no program 'rota-no-such-program' in PATH (/usr/local/bin:/usr/bin:/bin)");
    refused({"/no/such/file"}, "", ErrorCode::kNotFound, "there is no file '/no/such/file'");
    refused({folder / "lost"}, "", ErrorCode::kNotFound, "the interpreter in its first line");
    refused({folder / "plain"}, "", ErrorCode::kPermissionDenied, "may not be executed");
    refused({folder.path()}, "", ErrorCode::kPermissionDenied, "may not be executed");
    refused({folder / "script"}, "", ErrorCode::kInvalidArgument, "#!/bin/sh");
    refused({"true"}, "/no/such/directory", ErrorCode::kNotFound, "the directory '/no/such/directory'");
    refused({"true", std::string(3 << 20, 'x')}, "", ErrorCode::kTooLarge, "pass large inputs in a file");
    refused({"true", std::string(17 << 20, 'x')}, "", ErrorCode::kTooLarge, "pass large inputs in a file");
    refused({}, "", ErrorCode::kInvalidArgument, "no program");
    refused({""}, "", ErrorCode::kInvalidArgument, "no program");
    refused({"true", std::string("a\0b", 3)}, "", ErrorCode::kInvalidArgument, "zero byte");
    Started after(guards, shell("echo still here"));
    EXPECT_EQ(after.rest(), "still here\n");
    EXPECT_TRUE(after->wait().value().success());
  });
}

// Contract: U-3. After launch(), which does not wait for the start, wait() returns the error of a failed start.
TEST(Process, LaunchTellsLater) {
  in_runtime([] {
    GuardPool guards;
    const OwnedFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
    const ProcessPipes pipes{null.fd, null.fd, null.fd};
    ProcessSpec spec = shell("exit 5");
    EXPECT_EQ(Process::launch(guards, spec, pipes).value()->wait().value().code, 5);
    spec.arguments = {"rota-no-such-program"};
    const Result<ProcessEnd> outcome = Process::launch(guards, spec, pipes).value()->wait();
    ASSERT_EQ(outcome.code(), ErrorCode::kNotFound);
    EXPECT_NE(outcome.error().message.find("no program 'rota-no-such-program' in PATH (/usr/local/bin"),
              std::string::npos)
        << outcome.error().message;
  });
}

// Contract: U-3. TERM reaches every process of the group, and ends a program that handles it.
TEST(Process, TerminateAsksFirst) {
  in_runtime([] {
    GuardPool guards;
    Started started(guards, shell("trap 'echo bye; exit 7' TERM; sleep 1000 & echo ready; wait"));
    EXPECT_EQ(started.line(), "ready");
    started->terminate(1h);
    EXPECT_EQ(started.rest(), "bye\n");
    const ProcessEnd outcome = started->wait().value();
    EXPECT_EQ(outcome.kind, ProcessEnd::Kind::kExited);
    EXPECT_EQ(outcome.code, 7);
    EXPECT_FALSE(outcome.forced);
  });
}

// Contract: U-3. A program that ignores TERM is killed after the grace period, with all processes that it started.
TEST(Process, TerminateInsists) {
  in_runtime([] {
    GuardPool guards;
    Started started(guards, shell("trap '' TERM; sleep 1000 & echo ready; while :; do sleep 1000; done"));
    EXPECT_EQ(started.line(), "ready");
    started->terminate(50ms);
    EXPECT_EQ(started.rest(), "");  // The end of the stream: no process holds the pipe any more.
    const ProcessEnd outcome = started->wait().value();
    EXPECT_EQ(outcome.kind, ProcessEnd::Kind::kSignalled);
    EXPECT_EQ(outcome.code, SIGKILL);
    EXPECT_TRUE(outcome.forced);
    EXPECT_NE(outcome.describe(shell("")).find("ignored TERM"), std::string::npos);
  });
}

// Contract: U-3. The time limit: TERM, then KILL.
TEST(Process, TimeLimit) {
  in_runtime([] {
    GuardPool guards;
    ProcessSpec spec = shell("sleep 1000");
    spec.timeout = 60ms;
    spec.grace = 1h;
    Started obedient(guards, spec);
    const ProcessEnd outcome = obedient->wait().value();
    EXPECT_EQ(outcome.kind, ProcessEnd::Kind::kTimedOut);
    EXPECT_FALSE(outcome.forced);
    EXPECT_TRUE(outcome.describe(spec).starts_with("ran longer than its limit of 60ms")) << outcome.describe(spec);
    // One that ignores TERM. On a busy machine its limit may pass before it has come to that: then once more.
    spec = shell("trap '' TERM; echo ready; while :; do sleep 1000; done");
    spec.timeout = 60ms;
    spec.grace = 60ms;
    for (bool ready = false; !ready; spec.timeout *= 2) {
      Started stubborn(guards, spec);
      ready = stubborn.rest() == "ready\n";
      const ProcessEnd end = stubborn->wait().value();
      EXPECT_EQ(end.kind, ProcessEnd::Kind::kTimedOut);
      if (ready) {
        EXPECT_TRUE(end.forced);
      }
      ASSERT_LT(spec.timeout, 2min) << "it does not start";
    }
  });
}

char state_of(pid_t pid) {
  const std::string text = testing::read_text("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t at = text.rfind(')');
  return at == std::string::npos ? '?' : text[at + 2];
}

// Contract: U-3. Pause stops the group, resume continues it, and a paused program can be terminated.
TEST(Process, PauseAndResume) {
  in_runtime([] {
    GuardPool guards;
    Started started(guards, shell("sh -c 'echo $$; exec sleep 1000' & wait"));
    const pid_t inner = std::stoi(started.line());
    const auto until = [&](bool stopped) {
      while ((state_of(started->pid()) == 'T') != stopped || (state_of(inner) == 'T') != stopped) {
        ASSERT_TRUE(fiber::sleep_for(1ms).ok());
      }
    };
    started->pause();
    until(true);
    started->resume();
    until(false);
    started->pause();
    until(true);
    started->terminate(1h);
    EXPECT_EQ(started.rest(), "");
    EXPECT_EQ(started->wait().value().code, SIGTERM);
  });
}

// Contract: U-3. The time during which a program is paused does not count against its limit: with a limit shorter than
// the pause, it still gets to its end.
TEST(Process, PausedTimeDoesNotCount) {
  in_runtime([] {
    GuardPool guards;
    ProcessSpec spec = shell("echo ready; read line < \"$FIFO\"; echo $line");
    Folder folder;
    ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
    spec.environment.push_back("FIFO=" + folder / "fifo");
    const OwnedFd fifo(::open((folder / "fifo").c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    // On a busy machine the program may need its whole limit for the little that it does besides: then once more, with
    // a longer limit. It must not time out if it ran for less than the limit.
    for (spec.timeout = 1s;; spec.timeout *= 2) {
      ASSERT_LT(spec.timeout, 2min) << "it does not get to its end";
      const std::chrono::nanoseconds begin = fiber::now();
      Started started(guards, spec);
      if (started.text(6) == "ready\n") {
        started->pause();
        char state = 0;
        while ((state = state_of(started->pid())) != 'T' && state != 'Z' && state != '?') {
          ASSERT_TRUE(fiber::sleep_for(1ms).ok());
        }
      }
      std::chrono::nanoseconds ran = fiber::now() - begin;       // At most so long.
      ASSERT_TRUE(fiber::sleep_for(spec.timeout + 200ms).ok());  // The limit passes meanwhile.
      const std::chrono::nanoseconds resumed = fiber::now();
      started->resume();
      ASSERT_EQ(::write(fifo.fd, "done\n", 5), 5);
      const std::string rest = started.rest();
      const ProcessEnd end = started->wait().value();
      ran += fiber::now() - resumed;
      if (end.success()) {
        EXPECT_EQ(rest, "done\n");
        return;
      }
      ASSERT_EQ(end.kind, ProcessEnd::Kind::kTimedOut);
      ASSERT_GE(ran, spec.timeout) << "paused time counts";
      char left[5];
      (void)!::read(fifo.fd, left, sizeof left);  // Unless the program has read it.
    }
  });
}

// Contract: U-3. Processor time, memory (address space, where there is no cgroup) and open files are limited.
TEST(Process, Limits) {
  in_runtime([] {
    GuardPool guards;
    ProcessSpec burn = shell("while :; do :; done");
    burn.limits.cpu_time_ms = 1000;
    Started burning(guards, burn);
    const ProcessEnd burnt = burning->wait().value();
    EXPECT_EQ(burnt.kind, ProcessEnd::Kind::kOutOfCpu) << burnt.describe(burn);
    EXPECT_GT(burnt.user_time + burnt.system_time, 0ms);

    ProcessSpec eat = shell("exec python3 -c 'x = bytearray(1 << 30); print(len(x))'");
    eat.limits.memory_bytes = 300 << 20;
    Started eating(guards, eat);
    EXPECT_NE(eating.rest().find("MemoryError"), std::string::npos);
    const ProcessEnd eaten = eating->wait().value();
    EXPECT_FALSE(eaten.success());
    EXPECT_NE(eaten.describe(eat).find("its memory limit was 300MiB"), std::string::npos) << eaten.describe(eat);

    ProcessSpec files = shell("ulimit -n");
    files.limits.open_files = 77;
    Started opening(guards, files);
    EXPECT_EQ(opening.rest(), "77\n");
  });
}

// Contract: U-3. A program that leaves processes behind, in its group or as a daemon in a session of its own, has ended
// when its first process has: they are killed and counted.
TEST(Process, LeftoversAreKilled) {
  in_runtime([] {
    GuardPool guards;
    Started started(guards,
                    shell("sleep 1000 & setsid sh -c 'sleep 1000 & echo daemon; sleep 1000; :' & read x < \"$GO\""));
    EXPECT_FALSE(started->wait().value().success());  // $GO is not set.
    // The next one ends when its daemon is there.
    Folder folder;
    ProcessSpec spec = shell(
        "mkfifo up; sleep 1000 & (setsid sh -c 'sleep 1000 & echo daemon; echo > up; exec sleep 1000' &) ; "
        "read x < up; exit 0");
    spec.directory = folder.path();
    Started daemons(guards, spec);
    EXPECT_EQ(daemons.rest(), "daemon\n");  // The end of the stream: all processes that held the pipe are dead.
    const ProcessEnd outcome = daemons->wait().value();
    EXPECT_TRUE(outcome.success());
    EXPECT_GE(outcome.strays, 2U);
    EXPECT_NE(outcome.describe(shell("")).find("left "), std::string::npos);
  });
}

// Contract: U-4. Destroying the handle, as a cancelled task does, kills the group.
TEST(Process, DestroyingKills) {
  in_runtime([] {
    GuardPool guards;
    Started started(guards, shell("trap '' TERM HUP; sleep 1000 & echo ready; while :; do sleep 1000; done"));
    EXPECT_EQ(started.line(), "ready");
    started.process.value().reset();
    EXPECT_EQ(started.rest(), "");
  });
}

// Contract: U-4. A cancelled wait() returns at once, and may be called again.
TEST(Process, CancelledWait) {
  in_runtime([] {
    GuardPool guards;
    Started started(guards, shell("echo ready; exec sleep 1000"));
    EXPECT_EQ(started.line(), "ready");
    fiber::with_scope([&](fiber::Nursery& n) {
      auto waiting = n.spawn([&] { return started->wait().code(); });
      fiber::testing::until_blocked(waiting);
      waiting.cancel();
      waiting.wait();
    });
    started->terminate(0ms);
    EXPECT_EQ(started->wait().value().code, SIGKILL);
  });
}

// Contract: U-4. The guard is killed: its programs die with all processes that they started, wait() reports it, and the
// next program gets a new guard.
TEST(Process, GuardKilled) {
  in_runtime([] {
    GuardPool guards;
    Started started(guards,
                    shell("sleep 1000 & setsid sh -c 'echo ready; sleep 1000; :' & while :; do sleep 1000; done"));
    EXPECT_EQ(started.line(), "ready");
    ASSERT_EQ(guards.pids().size(), 1U);
    ASSERT_EQ(::kill(guards.pids().front(), SIGKILL), 0);
    EXPECT_EQ(started->wait().value().kind, ProcessEnd::Kind::kLost);
    EXPECT_EQ(started.rest(), "");
    for (int i = 0; i < 4; ++i) {  // Each guard of the pool in turn.
      Started after(guards, shell("echo again"));
      EXPECT_EQ(after.rest(), "again\n");
      EXPECT_TRUE(after->wait().value().success());
    }
  });
}

// Contract: U-3. Many programs at once, from several thread workers: each has its own status and output.
TEST(Process, ManyAtOnce) {
  in_runtime(
      [] {
        GuardPool guards;
        fiber::with_scope([&](fiber::Nursery& n) {
          for (int i = 0; i < 200; ++i) {
            n.launch([&guards, i] {
              Started started(guards, shell("echo " + std::to_string(i) + "; exit " + std::to_string(i)));
              EXPECT_EQ(started.rest(), std::to_string(i) + "\n");
              EXPECT_EQ(started->wait().value().code, i);
            });
          }
        });
      },
      4);
}

// Not a test by itself: WorkerKilledLeavesNoOrphans runs this in another process, and kills that process.
TEST(Process, DISABLED_Victim) {
  const char* fifo = std::getenv("ROTA_TEST_FIFO");
  ASSERT_NE(fifo, nullptr);
  in_runtime([fifo] {
    GuardPool guards;
    ProcessSpec spec = shell(
        "exec 9> \"$FIFO\"; trap '' TERM HUP INT\n"
        "sleep 1000 &\n"
        "(setsid sh -c 'trap \"\" TERM HUP; sleep 1000 & echo one >&9; sleep 1000; :' &)\n"
        "(setsid env -i sh -c 'sleep 1000 & echo two >&9; exec /bin/sleep 1000' &)\n"
        "echo three >&9; while :; do sleep 1000; done");
    spec.environment.push_back(std::string("FIFO=") + fifo);
    Started started(guards, spec);
    (void)started->wait();
  });
}

// Contract: U-4. A worker that is killed with KILL leaves no process behind: not the program, not its group, not
// daemons in sessions of their own, even with a cleared environment. All of them hold a pipe open, whose end proves it.
TEST(Process, WorkerKilledLeavesNoOrphans) {
  Folder folder;
  const std::string fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const OwnedFd reader(::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const std::string variable = "ROTA_TEST_FIFO=" + fifo;
  std::string filter = "--gtest_filter=Process.DISABLED_Victim";
  std::string also = "--gtest_also_run_disabled_tests";
  std::string name = "victim";
  char* arguments[] = {name.data(), filter.data(), also.data(), nullptr};
  std::vector<char*> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    // Without the variables that would make it run other tests.
    if (!std::string_view(*entry).starts_with("GTEST_")) environment.push_back(*entry);
  }
  environment.push_back(const_cast<char*>(variable.c_str()));
  environment.push_back(nullptr);
  pid_t victim = 0;
  ASSERT_EQ(::posix_spawn(&victim, "/proc/self/exe", nullptr, nullptr, arguments, environment.data()), 0);
  std::string text;
  const auto read_until = [&](auto&& enough) {
    while (!enough()) {
      pollfd poll{reader.fd, POLLIN, 0};
      if (::poll(&poll, 1, 120'000) <= 0) return false;
      char buffer[100];
      const ssize_t size = ::read(reader.fd, buffer, sizeof buffer);
      if (size == 0) return false;
      if (size > 0) text.append(buffer, static_cast<std::size_t>(size));
    }
    return true;
  };
  ASSERT_TRUE(read_until([&] { return std::count(text.begin(), text.end(), '\n') == 3; })) << text;
  ASSERT_EQ(::kill(victim, SIGKILL), 0);
  ASSERT_EQ(::waitpid(victim, nullptr, 0), victim);
  // POLLHUP without data: no process has the pipe open any more.
  pollfd poll{reader.fd, POLLIN, 0};
  ASSERT_EQ(::poll(&poll, 1, 120'000), 1) << "somebody still lives";
  char byte = 0;
  EXPECT_EQ(::read(reader.fd, &byte, 1), 0);
}

}  // namespace
}  // namespace rota::worker
