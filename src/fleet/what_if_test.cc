// Other courses of logs whose figures can be worked out by hand, and of logs of random fleets.
#include "fleet/what_if.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/sanitizers.h"
#include "fleet/brain.h"
#include "fleet/random_fleet_test.h"
#include "fleet/script_brain_test.h"
#include "model/json.h"

namespace rota::fleet {
namespace {

using testing_support::ScriptBrain;

constexpr std::int64_t kSecond = 1'000'000'000;

Past past_of(const std::vector<Record>& log) {
  Past past;
  Brain brain;
  for (const Record& record : log) {
    const Result<void> same = brain.verify(record);
    EXPECT_TRUE(same.ok()) << same.error().message;
    past.see(record, brain.state());
  }
  return past;
}

Figures changed(const ScriptBrain& script, std::string_view change) {
  const Result<Figures> figures = what_if(past_of(script.log()), change);
  EXPECT_TRUE(figures.ok()) << figures.error().message;
  return figures.ok() ? *figures : Figures();
}

// Two tasks of ten seconds, and one of five that needs both, on two workers of a core; a third hour costs nothing yet.
constexpr std::string_view kTwoAndOne = R"(worker a cpu=1 cost=3.6
worker b cpu=1 cost=7.2
at 100s workflow w
  stage x
  stage y
  stage z needs=x,y
at 110s ok wf-1.0
ok wf-1.1
at 115001ms ok wf-1.2
)";

// S-3: the log's own figures: makespan, cost, utilisation, waits.
TEST(WhatIf, TheLogAsItHappened) {
  const ScriptBrain script(kTwoAndOne);
  const Figures figures = past_of(script.log()).figures(script.state());
  EXPECT_EQ(figures.succeeded, 3U);
  EXPECT_EQ(figures.assignments, 3U);
  EXPECT_EQ(figures.makespan_ns, 15'001'000'000);
  // a (0.001 $/s) and b (0.002 $/s) are there for 15.001 s.
  EXPECT_EQ(figures.cost_up_microdollars, 45'003);
  // z ran 5 s on one of them, x 10 s, y 10.001 s; 25.001 of 30.002 core-seconds.
  EXPECT_EQ(figures.utilisation_millionths, 25'001 * 1'000'000LL / 30'002);
  EXPECT_GE(figures.cost_busy_microdollars, 10'000 + 20'000 + 5'000);
  EXPECT_LE(figures.cost_busy_microdollars, 10'002 + 20'002 + 10'000);
  EXPECT_EQ(figures.wait_mean_ns, 0);
  EXPECT_TRUE(json_validate(to_json(figures)).ok());
}

// S-3: without a change the other course is the log's own.
TEST(WhatIf, TheSamePolicyGivesTheSameCourse) {
  const ScriptBrain script(kTwoAndOne);
  const Past past = past_of(script.log());
  Figures then = past.figures(script.state());
  const Result<Figures> again = what_if(past, "");
  ASSERT_TRUE(again.ok());
  then.records = again->records;  // The policy is set first.
  EXPECT_EQ(to_json(*again), to_json(then));
}

// S-3, W-1: another fleet. One worker fewer: everything in a row on the other. More, or larger ones: no waits.
TEST(WhatIf, AnotherFleet) {
  const ScriptBrain script(kTwoAndOne);
  const Past past = past_of(script.log());
  const auto with = [&](std::vector<std::string_view> texts) {
    std::vector<FleetChange> fleet;
    for (const std::string_view text : texts) {
      const Result<FleetChange> change = parse_fleet_change(text);
      EXPECT_TRUE(change.ok()) << change.error().message;
      fleet.push_back(*change);
    }
    const Result<Figures> figures = what_if(past, "", fleet);
    EXPECT_TRUE(figures.ok()) << figures.error().message;
    return figures.ok() ? *figures : Figures();
  };
  const Figures without = with({"worker=b count=0"});
  EXPECT_EQ(without.succeeded, 3U);
  EXPECT_EQ(without.makespan_ns, 25'001'000'000);
  EXPECT_EQ(without.cost_up_microdollars, 25'001) << "a alone is there, at 0.001 $/s";
  // A single worker of two cores is as fast as two of one.
  EXPECT_EQ(with({"worker=b count=0", "worker=a cpu_millis=2000"}).makespan_ns, 15'001'000'000);
  // One more that costs nothing; the price of the others does not change.
  const Figures more = with({"worker=a", "worker=a cost_microdollars_per_hour=0"});
  EXPECT_EQ(more.makespan_ns, 15'001'000'000);
  EXPECT_EQ(more.cost_up_microdollars, 45'003);
  EXPECT_EQ(with({"worker=a count=3"}).cost_up_microdollars, 45'003 + 2 * 15'001);

  const auto refused = [&](std::string_view text) {
    const Result<FleetChange> change = parse_fleet_change(text);
    return change.ok() ? what_if(past, "", {*change}).error().message : change.error().message;
  };
  EXPECT_NE(refused("worker=c").find("no worker 'c'; it has a, b"), std::string::npos) << refused("worker=c");
  EXPECT_NE(refused("worker=a gpus=1").find("has no GPU"), std::string::npos);
  EXPECT_NE(refused("count=1").find("'worker' is missing"), std::string::npos);
  EXPECT_NE(refused("worker=a count=1001").find("from 0 to 1000"), std::string::npos);
  EXPECT_NE(refused("worker=a cpu_millis=-5").find("cpu_millis must be"), std::string::npos);
}

// S-3: one worker for the whole workflow: everything in a row, half of the fleet idle.
TEST(WhatIf, StaticWorkerRunsItInARow) {
  const ScriptBrain script(kTwoAndOne);
  const Figures figures = changed(script, "mode=static_worker");
  EXPECT_EQ(figures.succeeded, 3U);
  EXPECT_EQ(figures.makespan_ns, 25'001'000'000);
  EXPECT_EQ(figures.utilisation_millionths, 500'000);
  EXPECT_EQ(figures.cost_up_microdollars, 75'003);
  EXPECT_EQ(figures.unfinished, 0U);
  // The second of x and y waited for the first, for 10 s or 10.001 s; z for nothing.
  EXPECT_NEAR(static_cast<double>(figures.wait_mean_ns), 10e9 / 3, 1e6);
  EXPECT_NEAR(static_cast<double>(figures.wait_p95_ns), 10e9, 1e6);
}

// S-3: lambda decides between a dear strong worker and a cheap one.
TEST(WhatIf, LambdaTradesCostForThroughput) {
  const ScriptBrain script(R"(policy lambda_other=900000000
worker cheap cpu=1 cost=3.6
worker dear cpu=8 cost=36
at 100s workflow w
  stage x
at 110s ok wf-1.0
)");
  const Past past = past_of(script.log());
  EXPECT_EQ(past.figures(script.state()).cost_busy_microdollars, 100'000);
  EXPECT_EQ(changed(script, "lambda_other=100000000").cost_busy_microdollars, 10'000);
}

// S-3: attempts that failed fail again, after the time that they took, and the backoff is the policy's of the task.
TEST(WhatIf, FailuresAreKept) {
  const ScriptBrain script(R"(policy heartbeat_ttl_ms=1000000
worker a cpu=1
at 100s workflow w
  stage x attempts=3 backoff=2s
  stage y attempts=1
at 103s fail wf-1.0 boom
at 104s fail wf-1.1 "no such file"
at 105s tick
at 109s ok wf-1.0
)");
  const Past past = past_of(script.log());
  const Figures then = past.figures(script.state());
  EXPECT_EQ(then.succeeded, 1U);
  EXPECT_EQ(then.failed, 1U);
  EXPECT_EQ(then.makespan_ns, 9 * kSecond);
  for (const std::string_view change : {"", "mode=static_round_robin", "selection=first_fit"}) {
    const Figures other = changed(script, change);
    EXPECT_EQ(other.succeeded, 1U) << change;
    EXPECT_EQ(other.failed, 1U) << change;
    EXPECT_EQ(other.makespan_ns, 9 * kSecond) << change;
  }
}

// S-3: what never ran takes the mean of its type; what the log lost with a worker is lost again, at the same time.
TEST(WhatIf, MeansAndLosses) {
  const ScriptBrain script(R"(policy heartbeat_ttl_ms=30000
worker a cpu=1
worker b cpu=1
at 10s workflow w
  stage x items=2 type=sft
  stage y items=2 type=sft priority=-5
at 14s ok wf-1.0
at 16s ok wf-1.1
at 17s lost a
)");
  const Past past = past_of(script.log());
  EXPECT_EQ(past.figures(script.state()).unfinished, 2U);
  const Figures other = changed(script, "");
  EXPECT_EQ(other.unfinished, 0U);
  EXPECT_EQ(other.succeeded, 4U);
  // 4 s and 6 s: five on average. The two of y begin at 14 s and 16 s; the one on a is lost at 17 s and waits for b.
  const bool a_first = other.makespan_ns == (21 + 5 - 10) * kSecond;
  const bool b_first = other.makespan_ns == (19 + 5 - 10) * kSecond;
  EXPECT_TRUE(a_first || b_first) << other.makespan_ns;
}

// S-3: results and checkpoints come with their ends, so that conditions and references find them.
TEST(WhatIf, ResultsAreKept) {
  const ScriptBrain script(R"(worker a cpu=1
at 10s workflow w
  stage x
  stage small needs=x if="${x.result.n} < 5" inputs='{"n": "${x.result.n}"}'
  stage large needs=x if="${x.result.n} > 5"
at 12s checkpoint wf-1.0 '{"step":1}'
at 14s ok wf-1.0 result='{"n":3}'
at 20s ok wf-1.1
)");
  const Figures other = changed(script, "mode=fixed_pipeline");
  EXPECT_EQ(other.succeeded, 2U);
  EXPECT_EQ(other.skipped, 1U);
  EXPECT_EQ(other.makespan_ns, 10 * kSecond);
}

// S-3: what people did is done to the same workflow, also when an earlier one is refused in the other course.
TEST(WhatIf, ControlsFindTheirWorkflow) {
  const ScriptBrain script(R"(worker a cpu=1
at 10s workflow first
  stage x items=4
at 11s workflow second
  stage y items=2
at 12s workflow third
  stage z
at 13s cancel wf-3
at 15s ok wf-1.0
at 20s ok wf-1.1
at 25s ok wf-1.2
at 30s ok wf-1.3
at 35s ok wf-2.0
at 40s ok wf-2.1
)");
  const Figures same = changed(script, "");
  EXPECT_EQ(same.succeeded, 6U);
  EXPECT_EQ(same.cancelled, 1U);
  EXPECT_EQ(same.refused, 0U);
  // Four tasks of four are too many for the second, and for the third: cancelling that one is refused, too.
  const Figures full = changed(script, "backlog_per_worker=4");
  EXPECT_EQ(full.refused, 3U);
  EXPECT_EQ(full.succeeded, 4U);
  EXPECT_EQ(full.cancelled, 0U);
}

// A change that is no policy is refused with what would be right.
TEST(WhatIf, RefusesWhatIsNoPolicy) {
  const Past past;
  EXPECT_EQ(what_if(past, "mode=fastest").code(), ErrorCode::kParseError);
  EXPECT_EQ(what_if(past, "lambda_ohter=1").code(), ErrorCode::kParseError);
  EXPECT_EQ(what_if(past, "lambda_other=2000000000").code(), ErrorCode::kInvalidArgument);
  ASSERT_TRUE(what_if(past, "").ok());
  EXPECT_EQ(what_if(past, "")->makespan_ns, 0);
}

// S-3: logs of random fleets, under each mode: it ends, nothing is counted twice, and it does the same each time.
TEST(WhatIf, RandomFleets) {
  for (std::uint64_t seed = 1; seed <= (kUnderAsan ? 6 : 20); ++seed) {
    RandomFleet::Options options;
    options.workers = static_cast<std::uint32_t>(2 + seed % 4);
    options.policy.preemption = seed % 2 == 0;
    options.policy.max_queue_per_worker = static_cast<std::int64_t>(seed % 3);
    options.policy.elastic.enable = seed % 3 == 0;
    RandomFleet fleet(seed, options);
    Brain brain;
    Past past;
    std::uint64_t tasks = 0;
    for (int i = 0; i < 250; ++i) {
      Result<Record> record = brain.execute(fleet.next(brain), fleet.now_ns());
      if (!record.ok() || record->index == 0) continue;
      past.see(*record, brain.state());
      for (const Event& event : record->events) {
        if (const auto* e = std::get_if<WorkflowAccepted>(&event)) tasks += brain.state().at(e->workflow).tasks.size();
      }
    }
    for (const std::string_view mode : {"adaptive", "static_worker", "fixed_pipeline", "static_round_robin"}) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " " + std::string(mode));
      const std::string change = "mode=" + std::string(mode);
      const Result<Figures> figures = what_if(past, change);
      ASSERT_TRUE(figures.ok()) << figures.error().message;
      EXPECT_EQ(figures->succeeded + figures->skipped + figures->failed + figures->cancelled + figures->unfinished,
                tasks);
      EXPECT_LE(figures->utilisation_millionths, 1'000'000 * (mode == "static_round_robin" ? 8 : 1));
      EXPECT_GE(figures->cost_up_microdollars, figures->cost_busy_microdollars);
      EXPECT_EQ(*figures, *what_if(past, change));
    }
  }
}

}  // namespace
}  // namespace rota::fleet
