// Budgets as values: charging, adding, comparing (F-10).
#include "rota/fiber/budget.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "rota/fiber/meter.h"

namespace rc {
template <>
struct Arbitrary<rota::fiber::Budget> {
  static Gen<rota::fiber::Budget> arbitrary() {
    using rota::fiber::Budget;
    return gen::build<Budget>(gen::set(&Budget::ops), gen::set(&Budget::memory), gen::set(&Budget::spawn_count),
                              gen::set(&Budget::channel_ops), gen::set(&Budget::syscalls));
  }
};
}  // namespace rc

namespace rota::fiber {

void PrintTo(const Budget& b, std::ostream* out) {
  *out << '{' << b.ops << ' ' << b.memory << ' ' << b.spawn_count << ' ' << b.channel_ops << ' ' << b.syscalls << '}';
}

namespace {

// Contract: F-10. Each operation costs what the table says.
TEST(Budget, CostsOfOperations) {
  EXPECT_EQ(kCostOfOp, (Budget{1, 0, 0, 0, 0}));
  EXPECT_EQ(cost_of_allocation(100), (Budget{1, 100, 0, 0, 0}));
  EXPECT_EQ(kCostOfSpawn, (Budget{1, 0, 1, 0, 0}));
  EXPECT_EQ(kCostOfChannelOp, (Budget{1, 0, 0, 1, 0}));
  EXPECT_EQ(kCostOfSyscall, (Budget{1, 0, 0, 0, 1}));
}

// Contract: F-10. One component too small, and nothing is taken from any.
TEST(Budget, ChargeIsAllOrNothing) {
  const Budget full{10, 10, 10, 10, 10};
  const Budget costs[] = {{11, 0, 0, 0, 0}, {0, 11, 0, 0, 0}, {0, 0, 11, 0, 0}, {0, 0, 0, 11, 0}, {5, 5, 5, 5, 11}};
  for (const Budget& cost : costs) {
    Budget budget = full;
    EXPECT_FALSE(budget.charge(cost));
    EXPECT_EQ(budget, full);
  }
  Budget budget = full;
  EXPECT_TRUE(budget.charge({10, 9, 8, 7, 6}));
  EXPECT_EQ(budget, (Budget{0, 1, 2, 3, 4}));
}

// Contract: F-10.
TEST(Budget, AddingSaturates) {
  Budget budget = Budget::unlimited();
  EXPECT_EQ(budget += (Budget{1, 1, 1, 1, 1}), Budget::unlimited());
  Budget small{1, 2, 3, 4, 5};
  EXPECT_EQ(small + Budget::unlimited(), Budget::unlimited());
  EXPECT_EQ((small + Budget{1, 1, 1, 1, 1}), (Budget{2, 3, 4, 5, 6}));
}

TEST(Budget, ComparesComponentByComponent) {
  const Budget a{1, 5, 1, 1, 1};
  const Budget b{5, 1, 1, 1, 1};
  EXPECT_EQ(a <=> b, std::partial_ordering::unordered);
  EXPECT_FALSE(a.covers(b));
  EXPECT_FALSE(b.covers(a));
  EXPECT_LT(min(a, b), a);
  EXPECT_LT(min(a, b), b);
  EXPECT_GT(a + b, a);
  EXPECT_EQ(a <=> a, std::partial_ordering::equivalent);
}

// Contract: F-10. For any two budgets: the smaller one can be charged to both; what a charge took can be added back.
RC_GTEST_PROP(BudgetProperty, ChargeAndAdd, (Budget a, Budget b)) {
  const Budget least = min(a, b);
  RC_ASSERT(a.covers(least) && b.covers(least));
  Budget rest = a;
  RC_ASSERT(rest.charge(least));
  RC_ASSERT(rest + least == a);
  Budget tried = a;
  RC_ASSERT(tried.charge(b) == a.covers(b));
  if (!a.covers(b)) RC_ASSERT(tried == a);
  RC_ASSERT((a + b).covers(a) && (a + b).covers(b));
  RC_ASSERT((a <= b) == b.covers(a));
}

TEST(Budget, OutsideOfTasksNothingIsMetered) {
  tick(1'000'000'000);
  EXPECT_EQ(current_budget(), Budget::unlimited());
  EXPECT_TRUE(recharge({.ops = 1}).ok());
  MeteredResource resource;
  void* memory = resource.allocate(1000);
  resource.deallocate(memory, 1000);
  const MeterHold hold;
}

TEST(Budget, ComponentsHaveNames) {
  EXPECT_EQ(to_string(Component::kOps), "ops");
  EXPECT_EQ(to_string(Component::kSyscalls), "syscalls");
}

}  // namespace
}  // namespace rota::fiber
