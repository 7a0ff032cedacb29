// Even shares of equal workers.
#include "fleet/draw.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/sanitizers.h"
#include "fleet/brain.h"

namespace rota::fleet {
namespace {

// True if a chi-square test cannot distinguish the counts from even ones. For many degrees of freedom the statistic is
// nearly normal with mean df and variance 2 df; four deviations are exceeded by chance once in 30,000 times.
void expect_even(const std::map<WorkerId, std::uint64_t>& counts, std::uint64_t workers, std::uint64_t draws) {
  const double expected = static_cast<double>(draws) / static_cast<double>(workers);
  double sum = 0;
  std::uint64_t seen = 0;
  for (const auto& [worker, count] : counts) {
    const double off = static_cast<double>(count) - expected;
    sum += off * off / expected;
    ++seen;
  }
  sum += static_cast<double>(workers - seen) * expected;
  const auto degrees = static_cast<double>(workers - 1);
  // The smallest cases have a skewed distribution: 16 is exceeded once in 15,000 times for one degree.
  EXPECT_LT(sum, std::max(16.0, degrees + 4 * std::sqrt(2 * degrees))) << workers << " workers";
}

WorkerSpec plain_worker(std::uint64_t i) {
  WorkerSpec spec;
  spec.name = "w" + std::to_string(i);
  spec.resources.cpu_millis = 4000;
  return spec;
}

// Counts the assignments of tasks that need nothing, so that all workers are candidates for each of them.
std::map<WorkerId, std::uint64_t> shares(Brain& brain, std::uint64_t tasks) {
  SubmitWorkflow submit;
  TaskTemplate& use = submit.workflow.templates.emplace_back();
  use.spec.type = "shell";
  use.spec.program = ProgramSpec{.shell = "true"};
  use.needs.cpu_millis = 0;
  Stage& stage = submit.workflow.stages.emplace_back();
  stage.name = "s";
  stage.items.assign(tasks, "{}");
  const Result<Record> record = brain.execute(submit, 1'000'000'000);
  EXPECT_TRUE(record.ok());
  std::map<WorkerId, std::uint64_t> counts;
  for (const Event& event : record->events) {
    if (const auto* assigned = std::get_if<TaskAssigned>(&event)) ++counts[assigned->worker];
  }
  return counts;
}

Policy policy_of(Selection selection) {
  Policy policy;
  policy.selection = selection;
  policy.merge = false;
  return policy;
}

// Contract: B-9. Identical workers, any number from 2 to 10,000, get even shares; `random` (B-8) as well. 65 and 129
// are one more than whole words of candidates.
TEST(Draw, EqualWorkersGetEvenShares) {
  for (const Selection selection : {Selection::kScore, Selection::kRandom}) {
    for (const std::uint64_t workers : {2U, 3U, 7U, 64U, 65U, 129U, 1000U, 10'000U}) {
      if (kUnderAsan && workers > 129) break;
      SCOPED_TRACE(to_string(selection));
      Brain brain;
      ASSERT_TRUE(brain.execute(SetPolicy{policy_of(selection)}, 1).ok());
      for (std::uint64_t i = 0; i < workers; ++i) {
        ASSERT_TRUE(brain.execute(RegisterWorker{plain_worker(i), {}, {}}, 1).ok());
      }
      const std::uint64_t draws = std::max<std::uint64_t>(2'000, 10 * workers);
      expect_even(shares(brain, draws), workers, draws);
    }
  }
}

// Contract: B-9. Workers of different kinds whose scores are equal share evenly, too, however many there are of each.
TEST(Draw, KindsOfDifferentSizesGetEvenShares) {
  Brain brain;
  ASSERT_TRUE(brain.execute(SetPolicy{policy_of(Selection::kScore)}, 1).ok());
  constexpr std::uint64_t kWorkers = 110;
  for (std::uint64_t i = 0; i < kWorkers; ++i) {
    WorkerSpec spec = plain_worker(i);
    if (i % 11 == 0) spec.labels = {{"rack", "a"}};
    if (i == 5) spec.labels = {{"rack", "b"}};
    ASSERT_TRUE(brain.execute(RegisterWorker{spec, {}, {}}, 1).ok());
  }
  expect_even(shares(brain, 20'000), kWorkers, 20'000);
}

// The largest of n even numbers is below x with the probability x^n.
TEST(Draw, TheLargestOfManyIsDistributedLikeTheLargest) {
  EXPECT_EQ(largest_of(0x8000'0000'0000'0000U, 1), 0x8000'0000'0000'0000U);
  for (const std::uint64_t count : {2U, 3U, 10U, 1000U, 10'000U}) {
    for (const double uniform : {0.001, 0.25, 0.5, 0.75, 0.999}) {
      const double got =
          std::ldexp(static_cast<double>(largest_of(static_cast<std::uint64_t>(std::ldexp(uniform, 64)), count)), -64);
      EXPECT_NEAR(got, std::pow(uniform, 1.0 / static_cast<double>(count)), 1e-8) << uniform << " " << count;
    }
  }
  EXPECT_LT(largest_of(0, 2), largest_of(~0ULL, 2));
}

TEST(Draw, EveryPlaceIsDrawn) {
  EXPECT_EQ(draw_below(0, 7), 0U);
  EXPECT_EQ(draw_below(~0ULL, 7), 6U);
  EXPECT_EQ(draw_below(~0ULL, 1), 0U);
}

}  // namespace
}  // namespace rota::fleet
