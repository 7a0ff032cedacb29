// A join that may be cancelled, under the interleaving checker: the real steps on the claim word and the join word,
// with everything else of the runtime left out. Contract: F-1, F-2, F-9.
#include <gtest/gtest.h>

#include "fiber/wait_word.h"
#include "interleave/interleave.h"

namespace rota::fiber::detail {
namespace {

using interleave::check;
using interleave::Execution;
using interleave::Failure;
using interleave::Result;

// Mistakes that can be planted.
struct Flaws {
  bool withdraw_unpublished = false;  // The waiter takes itself out of the join word without having been in it.
  bool leave_early = false;           // The waiter does not wait for the finisher's attempt on it.
  bool mark_late = false;             // The canceller looks for the wait first, and sets its mark then.
};

// One fiber that joins one task. The thread that claims the wait continues as the fiber, like the thread worker that
// takes it from the deque. The canceller reaches the claim word through the nursery's registry, whose lock keeps it
// alive; only the protocol keeps alive what the finisher touches of the fiber, for which `frame` stands.
class Joining {
 public:
  explicit Joining(Flaws flaws) : flaws_(flaws) {
    record_.join.store(kJoinNone, std::memory_order_relaxed);
    record_.cancel.store(0, std::memory_order_relaxed);
  }

  // The worker on which the fiber runs, through park().
  void wait() {
    begin_wait(claim_, true);
    if (marked_.load(std::memory_order_seq_cst)) {
      withdraw_wait(claim_);
      go_on(WakeReason::kCancelled);
      return;
    }
    context_ = 1;  // The switch to another stack.
    const bool published = publish_waiter(&record_, kWaiter);
    if (published) published_ = true;
    WakeReason reason{};
    if (!commit_wait(claim_, published, reason)) go_on(reason);
  }
  // The worker on which the task ends.
  void finish() {
    result_ = 7;
    if (finish_join(&record_) != kWaiter) return;
    const bool claimed = claim_wait(claim_);
    frame_.get();
    if (claimed) {
      go_on(WakeReason::kDone);
    } else {
      release_waiter(&record_);
    }
  }
  void cancel() {
    if (!flaws_.mark_late) marked_.store(true, std::memory_order_seq_cst);
    if (cancel_wait(claim_)) go_on(WakeReason::kCancelled);
    if (flaws_.mark_late) marked_.store(true, std::memory_order_seq_cst);
  }

  void expect_went_on_once() const { ROTA_INTERLEAVE_ASSERT(went_on_.load() == 1); }

 private:
  static constexpr std::uintptr_t kWaiter = 64;

  // The fiber, from where park() returns to where join_slow() does.
  void go_on(WakeReason reason) {
    if (reason == WakeReason::kDone || published_.get()) ROTA_INTERLEAVE_ASSERT(context_.get() == 1);
    if (reason == WakeReason::kDone) {
      ROTA_INTERLEAVE_ASSERT(record_.join.load(std::memory_order_acquire) == kJoinDone);
      ROTA_INTERLEAVE_ASSERT(result_.get() == 7);
    } else if (published_.get() || flaws_.withdraw_unpublished) {
      if (!flaws_.leave_early) withdraw_waiter(&record_, kWaiter);
    }
    frame_ = 0;  // The fiber returns; its frame is used again.
    went_on_.fetch_add(1, std::memory_order_relaxed);
  }

  const Flaws flaws_;
  TaskRecord record_;
  ClaimWord claim_{kRunning};
  sync::Plain<int> context_{0};
  sync::Plain<bool> published_{false};
  sync::Plain<int> frame_{1};
  sync::Plain<int> result_{0};
  sync::Atomic<bool> marked_{false};
  sync::Atomic<int> went_on_{0};
};

Result run(Flaws flaws) {
  return check({.name = "a join, its end and its cancellation"}, [=](Execution& ex) {
    Joining joining(flaws);
    ex.run([&] { joining.wait(); }, [&] { joining.finish(); }, [&] { joining.cancel(); });
    joining.expect_went_on_once();
  });
}

TEST(WaitWordInterleave, AJoinGoesOnOnceWhoeverEndsIt) {
  const Result result = run({});
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_TRUE(result.exhaustive) << result.report;
}

// Without a finisher the cancellation alone must end the wait: it finds the wait, or the waiter sees its mark.
Result only_cancelled(Flaws flaws) {
  return check({.name = "a join that is only cancelled"}, [=](Execution& ex) {
    Joining joining(flaws);
    ex.run([&] { joining.wait(); }, [&] { joining.cancel(); });
    joining.expect_went_on_once();
  });
}
TEST(WaitWordInterleave, ACancellationIsNeverMissed) {
  const Result result = only_cancelled({});
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_TRUE(result.exhaustive) << result.report;
}
TEST(WaitWordInterleave, AMarkSetTooLateIsMissed) {
  const Result result = only_cancelled({.mark_late = true});
  EXPECT_EQ(result.failure, Failure::kAssertion) << result.report;
}

// A waiter that was cancelled before it had published waited for a finisher that knew nothing of it.
TEST(WaitWordInterleave, WithdrawingWhatWasNotPublishedHangs) {
  const Result result = run({.withdraw_unpublished = true});
  EXPECT_FALSE(result.ok);
  EXPECT_TRUE(result.failure == Failure::kLivelock || result.failure == Failure::kDeadlock) << result.report;
}

TEST(WaitWordInterleave, LeavingBeforeTheFinisherIsDoneIsARace) {
  const Result result = run({.leave_early = true});
  EXPECT_EQ(result.failure, Failure::kDataRace) << result.report;
}

}  // namespace
}  // namespace rota::fiber::detail
