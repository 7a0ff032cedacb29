// The graph: dense numbers, names, no cycles, all-or-nothing submissions (G-2).
#include "rota/graph/dag.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

#include "base/prng.h"

namespace rota::graph {
namespace {

using Strings = std::vector<std::string_view>;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

TaskRef must_add(Dag& dag, std::string_view name, const Strings& needs = {}) {
  Result<TaskRef> added = dag.add({name, needs});
  EXPECT_TRUE(added.ok()) << (added.ok() ? "" : added.error().to_string());
  return added.ok() ? *added : TaskRef::none();
}

std::vector<TaskRef> listed(auto range) { return {range.begin(), range.end()}; }

TEST(Dag, NumbersTasksDenselyAndKnowsTheirNeighbours) {
  Dag dag;
  const TaskRef a = must_add(dag, "a"), b = must_add(dag, "b", {"a"}), c = must_add(dag, "c", {"a", "b"});
  EXPECT_EQ(a, TaskRef(1));
  EXPECT_EQ(c, TaskRef(3));
  EXPECT_EQ(dag.find("b"), b);
  EXPECT_EQ(dag.find("d"), TaskRef::none());
  EXPECT_EQ(dag.find(""), TaskRef::none());
  EXPECT_EQ(dag.name(c), "c");
  EXPECT_THAT(listed(dag.children(a)), UnorderedElementsAre(b, c));
  EXPECT_THAT(listed(dag.parents(c)), UnorderedElementsAre(a, b));
  EXPECT_EQ(dag.parent_count(c), 2U);
  dag.check_invariants();
}

// G-2: a wrong submission is refused by name and leaves no trace: the corrected one gets the same number.
TEST(Dag, RefusesWithoutATrace) {
  Dag dag;
  must_add(dag, "a");
  const Strings missing{"a", "nowhere"};
  Result<TaskRef> refused = dag.add({"b", missing});
  ASSERT_EQ(refused.code(), ErrorCode::kNotFound);
  EXPECT_THAT(refused.error().message, HasSubstr("'nowhere'"));
  EXPECT_EQ(dag.add({"a", {}}).code(), ErrorCode::kAlreadyExists);
  const Strings itself{"b"};
  refused = dag.add({"b", itself});
  ASSERT_EQ(refused.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("'b' -> 'b'"));
  EXPECT_EQ(dag.size(), 1U);
  EXPECT_EQ(dag.edges(), 0U);
  EXPECT_EQ(dag.find("b"), TaskRef::none());
  EXPECT_TRUE(listed(dag.children(TaskRef(1))).empty());
  EXPECT_EQ(must_add(dag, "b", {"a"}), TaskRef(2));
  dag.check_invariants();
}

// G-2: a whole graph, given in any order, is accepted or refused as a whole.
TEST(Dag, TakesAWholeGraphOrNothing) {
  Dag dag;
  must_add(dag, "old");
  const Strings ac{"a", "c"}, old{"old"}, b{"b"}, a{"a"}, none;
  const std::vector<Dag::NewTask> fine{{"d", ac}, {"c", b}, {"b", a}, {"a", old}};
  Result<TaskRef> first = dag.add_all(fine);
  ASSERT_TRUE(first.ok()) << first.error().to_string();
  EXPECT_EQ(*first, TaskRef(2));
  EXPECT_LT(dag.order(dag.find("a")), dag.order(dag.find("b")));
  EXPECT_LT(dag.order(dag.find("c")), dag.order(dag.find("d")));
  dag.check_invariants();

  const Strings z{"z"}, yx{"y", "old"}, x{"x"};
  const std::vector<Dag::NewTask> circle{{"w", x}, {"x", z}, {"y", x}, {"z", yx}};
  first = dag.add_all(circle);
  ASSERT_EQ(first.code(), ErrorCode::kInvalidArgument);
  EXPECT_THAT(first.error().message, HasSubstr("'y' -> 'z'"));
  EXPECT_THAT(first.error().message, testing::Not(HasSubstr("'w'")));  // Behind the cycle, not in it.
  const std::vector<Dag::NewTask> twice{{"x", none}, {"x", none}};
  EXPECT_EQ(dag.add_all(twice).code(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(dag.size(), 5U);
  EXPECT_EQ(dag.find("x"), TaskRef::none());
  dag.check_invariants();
}

TEST(Dag, ALongCycleIsNamedByItsEnds) {
  Dag dag;
  std::vector<std::string> names;
  for (int i = 0; i < 1000; ++i) names.push_back(std::to_string(i));
  std::vector<Strings> needs(1000);
  std::vector<Dag::NewTask> tasks;
  for (std::size_t i = 0; i < 1000; ++i) {
    needs[i] = {names[(i + 1) % 1000]};
    tasks.push_back({names[i], needs[i]});
  }
  Result<TaskRef> refused = dag.add_all(tasks);
  ASSERT_FALSE(refused.ok());
  EXPECT_LT(refused.error().message.size(), 400U);
  EXPECT_THAT(refused.error().message, HasSubstr("984 more"));
}

// G-2: an edge between existing tasks is refused exactly if it would close a cycle, and the order stays valid. Compared
// with a reference that searches the whole graph.
RC_GTEST_PROP(DagProperty, LinkRefusesExactlyTheCycles, (std::vector<std::pair<std::uint8_t, std::uint8_t>> pairs)) {
  constexpr std::uint32_t kTasks = 24;
  Dag dag;
  for (std::uint32_t i = 0; i < kTasks; ++i) dag.add(std::span<const TaskRef>());
  std::vector<std::vector<bool>> reaches(kTasks, std::vector<bool>(kTasks, false));
  for (std::uint32_t i = 0; i < kTasks; ++i) reaches[i][i] = true;
  for (const auto& [x, y] : pairs) {
    const std::uint32_t from = x % kTasks, to = y % kTasks;
    const bool closes = reaches[to][from];
    const std::size_t edges = dag.edges();
    RC_ASSERT(dag.link(TaskRef(from + 1), TaskRef(to + 1)).ok() == !closes);
    RC_ASSERT(dag.edges() == edges + (closes ? 0 : 1));
    if (!closes) {
      for (std::uint32_t i = 0; i < kTasks; ++i) {
        for (std::uint32_t j = 0; j < kTasks; ++j)
          reaches[i][j] = reaches[i][j] || (reaches[i][from] && reaches[to][j]);
      }
    }
    dag.check_invariants();
  }
}

// Random submissions, good and bad: the graph contains exactly the accepted ones.
TEST(Dag, RandomSubmissionsAreTakenOrLeaveNothing) {
  std::size_t accepted = 0, refused = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Prng random(seed);
    Dag dag;
    std::vector<std::string> pool;
    for (int i = 0; i < 60; ++i) pool.push_back("task-" + std::to_string(i));
    std::vector<std::string> there;
    std::size_t edges = 0;
    for (int round = 0; round < 40; ++round) {
      std::vector<Strings> needs(random.below(4) + 1);
      std::vector<Dag::NewTask> tasks;
      for (Strings& n : needs) {
        for (std::uint64_t k = random.below(3); k > 0; --k) n.push_back(pool[random.below(pool.size())]);
        tasks.push_back({pool[random.below(pool.size())], n});
      }
      const std::uint32_t size = dag.size();
      if (dag.add_all(tasks).ok()) {
        for (std::size_t i = 0; i < tasks.size(); ++i) {
          there.emplace_back(tasks[i].name);
          edges += needs[i].size();
          for (const std::string_view need : needs[i]) {
            EXPECT_LT(dag.order(dag.find(need)), dag.order(dag.find(tasks[i].name)));
          }
        }
      } else {
        ++refused;
        ASSERT_EQ(dag.size(), size);
      }
      dag.check_invariants();
      ASSERT_EQ(dag.edges(), edges);
      ASSERT_EQ(dag.size(), there.size());
      for (std::size_t i = 0; i < there.size(); ++i) {
        ASSERT_EQ(dag.find(there[i]), TaskRef(static_cast<std::uint32_t>(i + 1)));
      }
    }
    accepted += there.size();
  }
  EXPECT_GT(refused, 1000U);
  EXPECT_GT(accepted, 1000U);
}

// A long chain works: nothing recurses.
TEST(Dag, AMillionInAChain) {
  Dag dag;
  TaskRef last = dag.add(std::span<const TaskRef>());
  for (int i = 1; i < 1'000'000; ++i) last = dag.add({&last, 1});
  EXPECT_FALSE(dag.link(last, TaskRef(1)).ok());
  EXPECT_TRUE(dag.link(TaskRef(1), last).ok());
}

}  // namespace
}  // namespace rota::graph
