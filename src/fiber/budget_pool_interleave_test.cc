// The real budget pool under the interleaving checker: what returns to a pool while a task runs out of budget reaches
// the task, the wait ends exactly once, and the accounts balance. Contract: F-11, F-12.
//
// budget_pool.cc is included here, because the steps of a wait are its own functions; park() is spelled out.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>

#include "fiber/budget_pool.cc"
#include "interleave/interleave.h"

namespace rota::detail {
void result_misuse(const char* /*what*/) { std::abort(); }
}  // namespace rota::detail

namespace rota::fiber {
MeterHold::MeterHold() = default;
MeterHold::~MeterHold() = default;
}  // namespace rota::fiber

namespace rota::fiber::detail {

// What stands in for the runtime. No task here calls these.
WakeReason park(ThreadWorker*, Publish, void*, bool, const char*, TaskState) { return WakeReason::kDone; }
const ScopeMeter& scope_meter(const NurseryCore* /*core*/, const RootMeter* /*root*/) {
  static const ScopeMeter scope{.default_child = Budget{.ops = 5}};
  return scope;
}

namespace {

using interleave::check;
using interleave::Execution;
using interleave::Failure;

// A pool of 10 ops that one holder has, and a task that needs 5 of them.
struct PoolTest {
  PoolTest() : pool(reinterpret_cast<RuntimeCore*>(no_runtime.data())) {
    pool.total.ops = 10;
    pool.rest.ops = 10;
    const Reserve all = draw(&pool, pool.total, true);
    ROTA_INTERLEAVE_ASSERT(all.ops == 10);
    pool.grants += 1;  // The task's own grant, of which nothing is left.
    nursery.owner_task = nullptr;
    nursery.owner = nullptr;
    nursery.outer = nullptr;
    record.nursery = &nursery;
    record.meter = 0;
    record.id = 1;
    fiber.task = &record;
    waiter.need.ops = 5;
    waiter.automatic = true;
    waiter.pool = &pool;
    waiter.task = &record;
    waiter.fiber = &fiber;
  }
  // As await_recharge(). `looks_again`: whether it serves itself after it was queued. True: it has what it needs.
  bool await(bool looks_again) {
    {
      std::lock_guard guard(pool.lock);
      enqueue(&pool, &waiter);
    }
    if (looks_again) serve_automatic(&pool);
    begin_wait(fiber.claim, true);
    WakeReason reason = WakeReason::kDone;
    if (commit_wait(fiber.claim, publish_wait(nullptr, &waiter), reason)) {
      while (fiber.claim.load(std::memory_order_acquire) != kRunning) sync::cpu_pause();  // schedule() sets it.
      reason = fiber.reason;
    }
    std::lock_guard guard(pool.lock);
    if (waiter.queued) dequeue(&pool, &waiter);
    return reason == WakeReason::kDone;
  }
  void check_accounts() {
    ROTA_INTERLEAVE_ASSERT(pool.rest + pool.granted + pool.spent == pool.total);
    ROTA_INTERLEAVE_ASSERT(pool.granted == waiter.given && pool.first == nullptr && pool.waiting == 0);
  }

  alignas(RuntimeCore) std::array<std::byte, sizeof(RuntimeCore)> no_runtime{};  // All null; only `meter` is read.
  BudgetPool pool;
  NurseryCore nursery;
  TaskRecord record{[](TaskRecord*, Action) {}, 0, 0};
  Fiber fiber;
  ExhaustedTask waiter;
};

interleave::Result a_return_meets_a_wait(bool looks_again) {
  return check({.name = "a return meets a wait", .preemption_bound = 3, .max_executions = 300'000}, [=](Execution& ex) {
    PoolTest test;
    bool served = false;
    ex.run([&] { served = test.await(looks_again); },
           [&] {
             // The holder ends, and has used 1 of its 10.
             Reserve granted;
             Reserve left;
             granted.ops = 10;
             left.ops = 9;
             give_back(&test.pool, granted, left);
           });
    ROTA_INTERLEAVE_ASSERT(served && test.waiter.given.ops >= 5);
    test.check_accounts();
  });
}

// The only holder returns its grant while a task runs out of budget: the task gets its share, whichever is first.
TEST(BudgetPoolInterleave, AReturnMeetsAWait) {
  const interleave::Result result = a_return_meets_a_wait(true);
  EXPECT_TRUE(result.ok) << result.report;
}
// A task that does not look again after it was queued waits for ever: the checker says so.
TEST(BudgetPoolInterleave, WithoutTheSecondLookItWaitsForEver) {
  const interleave::Result result = a_return_meets_a_wait(false);
  EXPECT_FALSE(result.ok);
}

// The same while the task is cancelled: it is woken once, and what it was given is still accounted for.
TEST(BudgetPoolInterleave, AReturnMeetsACancellation) {
  const interleave::Result result =
      check({.name = "return and cancel", .preemption_bound = 2, .max_executions = 300'000}, [](Execution& ex) {
        PoolTest test;
        bool served = false;
        ex.run([&] { served = test.await(true); },
               [&] {
                 Reserve all;
                 all.ops = 10;
                 give_back(&test.pool, all, all);
               },
               [&] {
                 if (cancel_wake(&test.fiber)) schedule(&test.fiber);
               });
        ROTA_INTERLEAVE_ASSERT(!served || test.waiter.given.ops >= 5);
        test.check_accounts();
      });
  EXPECT_TRUE(result.ok) << result.report;
}

}  // namespace
}  // namespace rota::fiber::detail
