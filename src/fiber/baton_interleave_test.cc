// The steps of a Baton under the interleaving checker: a fiber or a thread waits, others post, cancel or let the time
// run out, in every order. The waiter returns exactly once, sees what the poster did, and nobody touches its frame
// afterwards. Contract: F-1, F-9.
//
// `baton_frame_` and `wait_frame_` stand for the memory of the baton and of the fiber's wait: post() reads them
// wherever it touches the baton or the fiber, and the waiter writes them when it returns. An access that is not ordered
// is a data race. If several threads post, they share the baton, and the waiter does not free it.
#include <gtest/gtest.h>

#include "fiber/baton_word.h"
#include "interleave/interleave.h"

namespace rota::fiber::detail {
namespace {

using interleave::check;
using interleave::Execution;
using interleave::Failure;
using interleave::Result;

// Mistakes that can be planted.
struct Flaws {
  bool leave_early = false;     // A cancelled fiber returns without waiting for post() to release it.
  bool announce_late = false;   // A thread stores ThreadWaits without looking whether the baton is posted.
  bool touch_late = false;      // post() touches the frame after its step, when it found a thread.
  bool post_blindly = false;    // A second post() overwrites Released.
  bool wake_unclaimed = false;  // post() resumes a fiber whose wait it could not claim.
};

class Waiting {
 public:
  explicit Waiting(Flaws flaws, bool shared = false) : flaws_(flaws), shared_(shared) {}

  // The waiter is a thread; with `timed`, its time may run out. Then it may wait again, as it does here.
  void wait_as_thread(bool timed) {
    if (flaws_.announce_late) {
      baton_.state.value.store(kBatonThreadWaits, std::memory_order_relaxed);
    } else if (!announce_thread(baton_)) {
      return_posted();
      return;
    }
    while (!baton_posted(baton_)) {
      if (!timed) {
        baton_.state.wait(kBatonThreadWaits);
      } else if (!baton_.state.wait(kBatonThreadWaits, std::chrono::nanoseconds(1)) && withdraw_thread(baton_)) {
        wait_as_thread(false);
        return;
      }
    }
    return_posted();
  }
  // The waiter is a fiber: the thread worker on which it runs, through park().
  void wait_as_fiber() {
    begin_wait(fiber_.claim, true);
    if (marked_.load(std::memory_order_seq_cst)) {
      withdraw_wait(fiber_.claim);
      return_cancelled();
      return;
    }
    const bool announced = announce_fiber(baton_, &fiber_);  // After the switch to another stack.
    if (announced) announced_ = true;
    WakeReason reason{};
    if (!commit_wait(fiber_.claim, announced, reason)) resume(reason);
  }
  void post() {
    result_.store(7, std::memory_order_relaxed);
    if (!shared_) baton_frame_.get();
    std::uint32_t before{};
    if (flaws_.post_blindly) {
      before = baton_.state.value.exchange(kBatonPosted, std::memory_order_acq_rel);
    } else {
      before = post_baton(baton_);
    }
    if (before == kBatonThreadWaits) {
      if (flaws_.touch_late) baton_frame_.get();
      baton_.state.wake_one();
    } else if (before == kBatonFiberWaits) {
      Fiber* fiber = baton_.fiber.get();
      const bool claimed = claim_wake(fiber, WakeReason::kDone);
      wait_frame_.get();
      if (claimed || flaws_.wake_unclaimed) {
        resume(WakeReason::kDone);
      } else {
        release_baton(baton_);
      }
    }
  }
  void cancel() {
    marked_.store(true, std::memory_order_seq_cst);
    if (cancel_wake(&fiber_)) resume(WakeReason::kCancelled);
  }

  void expect_returned_once() const { ROTA_INTERLEAVE_ASSERT(returned_.load() == 1); }

 private:
  // The fiber, from where park() returns.
  void resume(WakeReason reason) {
    if (reason == WakeReason::kDone) {
      return_posted();
    } else if (announced_.get() && !flaws_.leave_early && !withdraw_fiber(baton_)) {
      return_posted();
    } else {
      return_cancelled();
    }
  }
  void return_posted() {
    ROTA_INTERLEAVE_ASSERT(result_.load(std::memory_order_relaxed) == 7);
    wait_frame_ = 0;  // The memory is used again.
    if (!shared_) baton_frame_ = 0;
    returned_.fetch_add(1, std::memory_order_relaxed);
  }
  // A later post() may still touch the baton, but not the fiber's wait.
  void return_cancelled() {
    wait_frame_ = 0;
    returned_.fetch_add(1, std::memory_order_relaxed);
  }

  const Flaws flaws_;
  const bool shared_;  // By several posters.
  BatonWord baton_;
  Fiber fiber_;
  sync::Plain<bool> announced_{false};
  sync::Plain<int> baton_frame_{1};
  sync::Plain<int> wait_frame_{1};
  sync::Atomic<int> result_{0};
  sync::Atomic<bool> marked_{false};
  sync::Atomic<int> returned_{0};
};

Result thread_waits(bool timed, Flaws flaws) {
  return check({.name = "a thread waits for a post"}, [=](Execution& ex) {
    Waiting waiting(flaws);
    ex.run([&] { waiting.wait_as_thread(timed); }, [&] { waiting.post(); });
    waiting.expect_returned_once();
  });
}
Result fiber_waits(Flaws flaws) {
  return check({.name = "a fiber waits for a post and is cancelled"}, [=](Execution& ex) {
    Waiting waiting(flaws);
    ex.run([&] { waiting.wait_as_fiber(); }, [&] { waiting.post(); }, [&] { waiting.cancel(); });
    waiting.expect_returned_once();
  });
}
// Two posts, one of them followed by a cancellation, so that three threads are enough.
Result fiber_waits_for_two(Flaws flaws) {
  return check({.name = "a fiber waits for two posts and is cancelled"}, [=](Execution& ex) {
    Waiting waiting(flaws, true);
    ex.run([&] { waiting.wait_as_fiber(); }, [&] { waiting.post(); },
           [&] {
             waiting.cancel();
             waiting.post();
           });
    waiting.expect_returned_once();
  });
}

void expect_proved(const Result& result) {
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_TRUE(result.exhaustive) << result.report;
}

TEST(BatonInterleave, AThreadIsWokenOnce) {
  expect_proved(thread_waits(false, {}));
  expect_proved(thread_waits(true, {}));
}
TEST(BatonInterleave, AFiberReturnsOnceWhetherPostedOrCancelled) { expect_proved(fiber_waits({})); }
TEST(BatonInterleave, ASecondPostIsHarmless) { expect_proved(fiber_waits_for_two({})); }

TEST(BatonInterleave, AnnouncingByAStoreLosesThePost) {
  const Result result = thread_waits(false, {.announce_late = true});
  EXPECT_FALSE(result.ok);
  EXPECT_EQ(result.failure, Failure::kDeadlock) << result.report;
}
TEST(BatonInterleave, TouchingTheFrameAfterThePostIsARace) {
  const Result result = thread_waits(false, {.touch_late = true});
  EXPECT_EQ(result.failure, Failure::kDataRace) << result.report;
}
TEST(BatonInterleave, ReturningBeforeThePosterHasLetGoIsARace) {
  const Result result = fiber_waits({.leave_early = true});
  EXPECT_EQ(result.failure, Failure::kDataRace) << result.report;
}
TEST(BatonInterleave, ResumingWithoutTheClaimResumesTwice) {
  const Result result = fiber_waits({.wake_unclaimed = true});
  EXPECT_FALSE(result.ok) << "a fiber was resumed by two";
}
TEST(BatonInterleave, ASecondPostThatOverwritesReleasedHangsTheWaiter) {
  const Result result = fiber_waits_for_two({.post_blindly = true});
  EXPECT_FALSE(result.ok);
  EXPECT_TRUE(result.failure == Failure::kLivelock || result.failure == Failure::kDeadlock) << result.report;
}

}  // namespace
}  // namespace rota::fiber::detail
