// The environment variables (G-10) and the checks of a configuration.
#include "rota/flow/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

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

// G-1: STV_SCHEDULER chooses the implementation: only the simple one runs stages one at a time whatever the slots.
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

TEST(SchedulerConfig, RefusesWhatMakesNoSense) {
  EXPECT_EQ(SchedulerConfig{.workers = 5000}.checked().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(SchedulerConfig{.aging = {.interval_ms = 0}}.checked().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(SchedulerConfig{.pause = {.timeout_ms = 0}}.checked().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(create_thread_pool_scheduler({.pause = {.timeout_ms = 0}}).code(), ErrorCode::kInvalidArgument);
  EXPECT_GT(SchedulerConfig{}.checked()->budget.cpu_slots_hard, 0U);
}

}  // namespace
}  // namespace rota::flow
