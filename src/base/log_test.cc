// The log: what a line looks like, that none is lost in silence, and that trouble is written before the process ends.
#include "base/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "base/log_format.h"
#include "base/sync.h"

namespace rota {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::MatchesRegex;

struct TaskTag {
  static constexpr std::string_view kPrefix = "task";
};

std::string read_all(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

// A log file of its own for a test, and the log as it was afterwards.
class LogFileTest : public testing::Test {
 protected:
  LogFileTest()
      : path_(testing::TempDir() + "/rota_log_test_" + std::to_string(::getpid()) + ".log"), level_(log_level()) {
    std::filesystem::remove(path_);
  }
  ~LogFileTest() override {
    EXPECT_TRUE(start_log({.level = level_, .synchronous = true}).ok());
    std::filesystem::remove(path_);
  }
  std::string path_;

 private:
  LogLevel level_;
};

TEST(LogTest, BelowTheLevelNothingIsEvaluated) {
  const LogCapture capture(LogLevel::kWarn);
  int evaluated = 0;
  ROTA_LOG(kInfo, "quiet", {"n", ++evaluated});
  EXPECT_EQ(evaluated, 0);
  ROTA_LOG(kWarn, "loud", {"n", ++evaluated});
  EXPECT_EQ(evaluated, 1);
  EXPECT_EQ(capture.lines().size(), 1U);
  EXPECT_FALSE(log_enabled(LogLevel::kInfo));
  EXPECT_TRUE(log_enabled(LogLevel::kFatal));
  set_log_level(LogLevel::kOff);
  ROTA_LOG(kFatal, "not even this");
  EXPECT_EQ(capture.lines().size(), 1U);
}

TEST(LogTest, TextLinesShowEveryKindOfField) {
  ManualClock clock;
  clock.advance(1234567us);
  const LogCapture capture(LogLevel::kTrace, LogFormat::kText, &clock);
  const std::string name = "a b";
  ROTA_LOG(kInfo, "registered", {"worker", Id<TaskTag>(7)}, {"name", name}, {"bare", "x.y"}, {"n", -5},
           {"big", std::numeric_limits<std::uint64_t>::max()}, {"ok", true}, {"share", 0.5}, {"grace", 1500ms},
           {"code", ErrorCode::kNotFound}, {"empty", ""}, {"id", StringId<TaskTag>("s")});
  ASSERT_EQ(capture.lines().size(), 1U);
  EXPECT_THAT(capture.lines()[0],
              MatchesRegex("2024-01-01T00:00:01\\.234567Z info  registered worker=task-7 name=\"a b\" bare=x\\.y n=-5 "
                           "big=18446744073709551615 ok=true share=0\\.5 grace=1s500ms code=NotFound empty=\"\" id=s "
                           "\\(log_test\\.cc:[0-9]+\\)"));
}

TEST(LogTest, JsonLinesAreJson) {
  ManualClock clock;
  const LogCapture capture(LogLevel::kTrace, LogFormat::kJson, &clock);
  ROTA_LOG(kError, "it \"broke\"\n", {"worker", Id<TaskTag>(7)}, {"plain", Id<int>(8)}, {"n", -5}, {"ok", false},
           {"x", std::numeric_limits<double>::infinity()}, {"time", 1}, {"grace", 2s}, {"path", "\xff"});
  ASSERT_EQ(capture.lines().size(), 1U);
  EXPECT_THAT(
      capture.lines()[0],
      testing::StartsWith(
          R"({"time":"2024-01-01T00:00:00.000000Z","level":"error","message":"it \"broke\"\n","worker":"task-7",)"
          R"("plain":8,"n":-5,"ok":false,"x":null,"time_":1,"grace":"2s","path":"\ufffd","at":"log_test.cc:)"));
  EXPECT_THAT(capture.lines()[0], testing::EndsWith("\"}"));
}

TEST(LogTest, ALineIsOneLineOfBoundedLength) {
  for (const LogFormat format : {LogFormat::kText, LogFormat::kJson}) {
    const LogCapture capture(LogLevel::kTrace, format);
    const std::string noise(1'000'000, '\n');
    ROTA_LOG(kInfo, noise, {"a", noise});
    ROTA_LOG(kInfo, "short", {"a", std::string(1'000'000, 'x')}, {"b", 1});
    ROTA_LOG(kInfo, "two\nlines", {"c", "d\ne"});
    ASSERT_EQ(capture.lines().size(), 3U);
    for (const std::string& line : capture.lines()) EXPECT_LE(line.size(), kLogLineMaxBytes);
    EXPECT_THAT(capture.lines()[0], HasSubstr("cut"));
    EXPECT_THAT(capture.lines()[1], HasSubstr("cut"));
    EXPECT_THAT(capture.lines()[2], HasSubstr("two\\nlines"));
    EXPECT_THAT(capture.lines()[2], HasSubstr("d\\ne"));
  }
}

TEST(LogTest, TimesOfAllAgesAreWritten) {
  const auto text = [](WallTime time) {
    std::string out;
    append_time(out, time);
    return out;
  };
  EXPECT_EQ(text(WallTime(0s)), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(text(WallTime(951782399s + 999999us)), "2000-02-28T23:59:59.999999Z");
  EXPECT_EQ(text(WallTime(951782400s)), "2000-02-29T00:00:00.000000Z");
  EXPECT_EQ(text(WallTime(-1us)), "1969-12-31T23:59:59.999999Z");
}

TEST(LogTest, CapturesNestAndRestore) {
  const LogLevel before = log_level();
  {
    const LogCapture outer;
    ROTA_LOG(kInfo, "one");
    {
      const LogCapture inner(LogLevel::kError);
      ROTA_LOG(kInfo, "unseen");
      ROTA_LOG(kError, "two");
      EXPECT_TRUE(inner.contains("two"));
    }
    ROTA_LOG(kInfo, "three");
    EXPECT_EQ(outer.lines().size(), 2U);
    EXPECT_FALSE(outer.contains("two"));
    EXPECT_TRUE(outer.contains("three"));
  }
  EXPECT_EQ(log_level(), before);
}

TEST_F(LogFileTest, ManyThreadsWriteWholeLinesInTheirOwnOrder) {
  constexpr int kThreads = 4;
  constexpr int kLines = 2000;
  ASSERT_TRUE(start_log({.file = path_, .queue_bytes = std::size_t{4} << 20}).ok());
  const LogStats before = log_stats();
  {
    std::vector<sync::Thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([t] {
        for (int i = 0; i < kLines; ++i) ROTA_LOG(kInfo, "line", {"t", t}, {"i", i});
      });
    }
  }
  flush_log();
  EXPECT_EQ(log_stats().lines - before.lines, static_cast<std::uint64_t>(kThreads * kLines));
  EXPECT_EQ(log_stats().lost, before.lost);
  std::ifstream in(path_);
  std::string line;
  std::vector<int> next(kThreads, 0);
  while (std::getline(in, line)) {
    int t = -1;
    int i = -1;
    ASSERT_EQ(std::sscanf(line.c_str() + line.find("t="), "t=%d i=%d", &t, &i), 2) << line;
    EXPECT_EQ(i, next[static_cast<std::size_t>(t)]++) << line;
  }
  EXPECT_EQ(next, std::vector<int>(kThreads, kLines));
}

TEST_F(LogFileTest, AFullQueueDropsAndSaysSoButKeepsErrors) {
  // The output is a pipe of 4 KiB that nobody reads yet. A first line longer than that leaves the log's thread stuck in
  // write(), so the queue fills and a line is lost. An error has to wait for the reader; it is not lost.
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::fcntl(ends[1], F_SETPIPE_SZ, 4096), 4096);
  ASSERT_TRUE(start_log({.file = "/proc/self/fd/" + std::to_string(ends[1]), .queue_bytes = 1}).ok());
  const LogStats before = log_stats();
  ROTA_LOG(kInfo, "plug", {"x", std::string(6000, 'p')});
  for (int ready = 0; ready < 4096;) ASSERT_EQ(::ioctl(ends[0], FIONREAD, &ready), 0);
  const std::string filler(1000, 'x');
  int logged = 0;
  while (log_stats().lost == before.lost) {
    ROTA_LOG(kInfo, "filler", {"n", logged++}, {"x", filler});
    ASSERT_LT(logged, 1000) << "the queue has no bound";
  }
  std::string text;
  sync::Thread reader([&] {
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(n));
  });
  ROTA_LOG(kError, "important", {"x", filler}, {"y", filler});  // Longer than what dropped: it cannot fit by chance.
  ROTA_LOG(kInfo, "after");
  const LogStats after = log_stats();
  EXPECT_EQ(after.lines - before.lines + after.lost - before.lost, static_cast<std::uint64_t>(logged) + 3);
  EXPECT_EQ(after.lost - before.lost, 1U);
  ASSERT_TRUE(start_log({.synchronous = true}).ok());  // Lets go of the pipe.
  ::close(ends[1]);
  reader.join();
  ::close(ends[0]);
  EXPECT_EQ(count(text, "filler"), static_cast<std::size_t>(logged) - 1);
  EXPECT_EQ(count(text, "important"), 1U);
  EXPECT_EQ(count(text, "warn  log lines were lost: the queue was full lost=1 "), 1U);
  EXPECT_LT(text.find("lost=1"), text.find("important"));
  EXPECT_LT(text.find("important"), text.find("after"));
}

TEST_F(LogFileTest, ANonBlockingStderrLosesNothing) {
  // stderr becomes a pipe that refuses to block; the reader begins only when it is full.
  constexpr int kLines = 2000;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
  const int kept = ::dup(STDERR_FILENO);
  ASSERT_EQ(::dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
  ::close(ends[1]);
  std::string text;
  sync::Thread reader([&] {
    for (int ready = 0; ready < 60'000;) ASSERT_EQ(::ioctl(ends[0], FIONREAD, &ready), 0);
    char buffer[4096];
    for (ssize_t n = 0; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<std::size_t>(n));
  });
  ASSERT_TRUE(start_log({.synchronous = true}).ok());
  for (int i = 0; i < kLines; ++i) ROTA_LOG(kInfo, "line", {"i", i});
  ::dup2(kept, STDERR_FILENO);
  ::close(kept);
  reader.join();
  ::close(ends[0]);
  EXPECT_EQ(count(text, "info  line i="), static_cast<std::size_t>(kLines));
}

TEST_F(LogFileTest, AFatalLineIsWrittenWithAllBeforeItWhenTheCallReturns) {
  ASSERT_TRUE(start_log({.file = path_}).ok());
  for (int i = 0; i < 100; ++i) ROTA_LOG(kInfo, "before");
  ROTA_LOG(kFatal, "the end");
  const std::string text = read_all(path_);
  EXPECT_EQ(count(text, "before"), 100U);
  EXPECT_THAT(text, HasSubstr("fatal the end"));
}

TEST_F(LogFileTest, SynchronousLinesAreWrittenAtOnce) {
  ASSERT_TRUE(start_log({.file = path_, .synchronous = true}).ok());
  ROTA_LOG(kInfo, "now");
  EXPECT_THAT(read_all(path_), HasSubstr("now"));
  stop_log();
  stop_log();
  ROTA_LOG(kInfo, "still");
  EXPECT_THAT(read_all(path_), HasSubstr("still"));
}

TEST_F(LogFileTest, AMovedFileIsOpenedAnew) {
  ASSERT_TRUE(start_log({.file = path_}).ok());
  ROTA_LOG(kInfo, "old");
  const std::string moved = path_ + ".1";
  std::filesystem::rename(path_, moved);
  ROTA_LOG(kInfo, "still old");
  ASSERT_TRUE(reopen_log().ok());
  ROTA_LOG(kInfo, "new");
  flush_log();
  EXPECT_EQ(count(read_all(moved), "old"), 2U);
  EXPECT_EQ(count(read_all(path_), "new"), 1U);
  std::filesystem::remove(moved);
}

TEST_F(LogFileTest, AFileThatCannotBeOpenedChangesNothing) {
  ASSERT_TRUE(start_log({.file = path_, .synchronous = true}).ok());
  const auto bad = start_log({.file = "/nonexistent/rota.log"});
  EXPECT_EQ(bad.code(), ErrorCode::kIoError);
  EXPECT_THAT(bad.error().message, HasSubstr("/nonexistent/rota.log cannot be opened"));
  ROTA_LOG(kInfo, "here");
  EXPECT_THAT(read_all(path_), HasSubstr("here"));
}

TEST_F(LogFileTest, AFullDiskIsCountedAndToldOnce) {
  testing::internal::CaptureStderr();
  ASSERT_TRUE(start_log({.file = "/dev/full", .synchronous = true}).ok());
  const LogStats before = log_stats();
  ROTA_LOG(kInfo, "one");
  ROTA_LOG(kInfo, "two");
  EXPECT_EQ(log_stats().write_errors - before.write_errors, 2U);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "rota: the log file /dev/full cannot be written; lines are being lost\n");
}

TEST(LogTest, AClockThatLogsDoesNotRecurse) {
  class Chatty : public Clock {
   public:
    [[nodiscard]] Instant now() const noexcept override { return {}; }
    [[nodiscard]] WallTime wall() const noexcept override {
      ROTA_LOG(kInfo, "tick");
      return {};
    }
    Result<void> sleep_until(Instant) override { return {}; }
  } clock;
  const LogCapture capture(LogLevel::kTrace, LogFormat::kText, &clock);
  ROTA_LOG(kInfo, "outer");
  EXPECT_EQ(capture.lines().size(), 1U);
}

using LogFileDeathTest = LogFileTest;

TEST_F(LogFileDeathTest, AFailedAssertionIsPrecededByTheLog) {
  EXPECT_DEATH(
      {
        (void)start_log({.file = path_});
        ROTA_LOG(kInfo, "wakes the thread");
        flush_log();
        ROTA_LOG(kInfo, "gathers in the queue");
        ROTA_PANIC("bug");
      },
      "bug");
  EXPECT_THAT(read_all(path_), HasSubstr("gathers in the queue"));
}

TEST_F(LogFileDeathTest, AProcessThatEndsHasWrittenItsLog) {
  EXPECT_EXIT(
      {
        (void)start_log({.file = path_});
        for (int i = 0; i < 1000; ++i) ROTA_LOG(kInfo, "line");
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_EQ(count(read_all(path_), "line"), 1000U);
}

TEST_F(LogFileDeathTest, AnUnconfiguredLogWarnsOnStderrAndIsOtherwiseSilent) {
  EXPECT_EXIT(
      {
        set_log_level(LogLevel::kWarn);
        ROTA_LOG(kInfo, "chatter");
        ROTA_LOG(kWarn, "trouble");
        std::_Exit(0);
      },
      testing::ExitedWithCode(0), "^[^\n]* warn  trouble \\(log_test.cc:[0-9]+\\)\n$");
}

}  // namespace
}  // namespace rota
