// The environment variables (G-10) and the checks of a configuration.
#include "rota/flow/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "rota/fiber.h"
#include "rota/flow/scheduler.h"

namespace rota::flow {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

class Lines final : public ILogger {
 public:
  void log(Level /*level*/, std::string_view message) override { lines.emplace_back(message); }
  std::vector<std::string> lines;
};

SchedulerConfig read(const std::map<std::string, std::string>& variables, Lines& log) {
  return config_from_environment({}, log, [&](const char* name) -> const char* {
    const auto at = variables.find(name);
    return at == variables.end() ? nullptr : at->second.c_str();
  });
}

// G-10: every variable of the source document works under its name.
TEST(Environment, EveryVariableWorks) {
  Lines log;
  const SchedulerConfig config = read({{"STV_SCHEDULER", "simple"},
                                       {"STV_SCHED_WORKERS", "3"},
                                       {"STV_SCHED_CPU_SLOTS", "5"},
                                       {"STV_SCHED_RAM_MB_SOFT", "1000"},
                                       {"STV_SCHED_VRAM_MB_SOFT", "2000"},
                                       {"STV_SCHED_AGING_INTERVAL_MS", "250"},
                                       {"STV_SCHED_AGING_BOOST", "7"},
                                       {"STV_SCHED_PAUSE_TIMEOUT_MS", "900"}},
                                      log);
  EXPECT_EQ(config.kind, SchedulerKind::kSimple);
  EXPECT_EQ(config.workers, 3U);
  EXPECT_EQ(config.budget, (ResourceBudget{.cpu_slots_hard = 5, .ram_mb_soft = 1000, .vram_mb_soft = 2000}));
  EXPECT_EQ(config.aging, (AgingPolicy{.interval_ms = 250, .boost = 7}));
  EXPECT_EQ(config.pause.timeout_ms, 900U);
  EXPECT_THAT(log.lines, SizeIs(0));
  EXPECT_EQ(read({{"STV_SCHEDULER", "threadpool"}}, log).kind, SchedulerKind::kThreadPool);
}

// G-10: an invalid value warns, with the name and what would be right, and changes nothing.
TEST(Environment, AnInvalidValueWarnsAndFallsBack) {
  for (const EnvironmentRow& row : environment_rows()) {
    for (const char* bad : {"", "abc", "-1", "5x", " 5", "99999999999999999999999"}) {
      Lines log;
      const SchedulerConfig config = read({{std::string(row.name), bad}}, log);
      EXPECT_EQ(config.kind, SchedulerKind::kThreadPool);
      EXPECT_EQ(config.workers, 0U);
      EXPECT_EQ(config.budget, SchedulerConfig{}.budget);
      EXPECT_EQ(config.aging, AgingPolicy{});
      EXPECT_EQ(config.pause, PausePolicy{});
      ASSERT_THAT(log.lines, SizeIs(1)) << row.name << "='" << bad << "'";
      EXPECT_THAT(log.lines[0], HasSubstr(std::string(row.name)));
    }
  }
  Lines log;
  EXPECT_EQ(read({{"STV_SCHED_AGING_INTERVAL_MS", "0"}}, log).aging.interval_ms, AgingPolicy{}.interval_ms);
  EXPECT_EQ(read({{"STV_SCHED_WORKERS", "1025"}}, log).workers, 0U);
  EXPECT_THAT(log.lines, SizeIs(2));
}

// G-1: STV_SCHEDULER chooses the implementation: only the simple one runs stages one at a time with any number of
// slots.
TEST(Environment, ChoosesTheScheduler) {
  for (const char* kind : {"simple", "threadpool"}) {
    ASSERT_EQ(setenv("STV_SCHEDULER", kind, 1), 0);
    auto scheduler = create_scheduler({.workers = 2, .budget = {.cpu_slots_hard = 2}});
    unsetenv("STV_SCHEDULER");
    ASSERT_TRUE(scheduler.ok());
    ASSERT_TRUE(
        (*scheduler)
            ->submit({.task_id = "in a fiber?"},
                     [](StageContext& context) { context.output("fiber", fiber::detail::current_worker() != nullptr); })
            .ok());
    ASSERT_TRUE((*scheduler)->wait("in a fiber?").ok());
    EXPECT_EQ(**(*(*scheduler)->outputs("in a fiber?"))->get<bool>("fiber"), std::string(kind) == "threadpool");
  }
}

// Warnings that only the logger receives: each factory uses the given logger.
TEST(Logger, HearsOfObserversThatThrowAndOfTasksThatDoNotPause) {
  for (const bool simple : {true, false}) {
    auto log = std::make_shared<Lines>();
    {
      const SchedulerConfig config{.workers = 2, .pause = {.timeout_ms = 1}};
      auto scheduler = simple ? create_simple_scheduler(config, log) : create_thread_pool_scheduler(config, log);
      ASSERT_TRUE(scheduler.ok());
      (*scheduler)->observe([](const TaskEvent& event) {
        if (event.to == TaskState::kSucceeded) throw std::runtime_error("no thanks");
      });
      ASSERT_TRUE((*scheduler)->submit({.task_id = "a"}, [](StageContext& /*context*/) {}).ok());
      ASSERT_TRUE((*scheduler)->wait("a").ok());
      (*scheduler)->flush_events();
      std::atomic<bool> runs{false};
      ASSERT_TRUE((*scheduler)
                      ->submit({.task_id = "deaf"},
                               [&runs](StageContext& context) {
                                 runs = true;
                                 while (!context.is_cancelled()) {
                                   if (!fiber::sleep_for(std::chrono::microseconds(50)).ok()) return;
                                 }
                               })
                      .ok());
      while (!runs) (void)fiber::sleep_for(std::chrono::microseconds(50));
      EXPECT_EQ((*scheduler)->pause("deaf").code(), ErrorCode::kTimeout);
      EXPECT_FALSE((*scheduler)->wait("deaf").ok());
    }
    ASSERT_THAT(log->lines, SizeIs(2));
    EXPECT_THAT(log->lines[0], HasSubstr("an observer threw at an event of task 'a': no thanks"));
    EXPECT_THAT(log->lines[1], HasSubstr("'deaf' reached no checkpoint within 1 ms"));
  }
}

TEST(Logger, HearsOfWorkersThatTheRuntimeHasNot) {
  fiber::Runtime runtime({.worker_count = 2});
  auto log = std::make_shared<Lines>();
  ASSERT_TRUE(create_thread_pool_scheduler({.workers = 2}, log, runtime).ok());
  ASSERT_TRUE(create_thread_pool_scheduler({}, log, runtime).ok());
  EXPECT_THAT(log->lines, SizeIs(0));
  ASSERT_TRUE(create_thread_pool_scheduler({.workers = 5}, log, runtime).ok());
  ASSERT_THAT(log->lines, SizeIs(1));
  EXPECT_THAT(log->lines[0], HasSubstr("5 workers were requested, but the given runtime has 2"));
}

TEST(SchedulerConfig, RefusesWhatMakesNoSense) {
  EXPECT_EQ(SchedulerConfig{.workers = 5000}.checked().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(SchedulerConfig{.aging = {.interval_ms = 0}}.checked().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(SchedulerConfig{.pause = {.timeout_ms = 0}}.checked().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(create_thread_pool_scheduler({.pause = {.timeout_ms = 0}}).code(), ErrorCode::kInvalidArgument);
  EXPECT_GT(SchedulerConfig{}.checked()->budget.cpu_slots_hard, 0U);
}

}  // namespace
}  // namespace rota::flow
