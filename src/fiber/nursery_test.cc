// Structured concurrency (F-4 to F-7) and cancellation (F-8, F-9).
#include "rota/fiber/nursery.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "rota/fiber.h"

namespace rota::fiber {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

ErrorCode code_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const FiberError& error) {
    return error.code();
  }
  return ErrorCode::kOk;
}

// Every test of this suite runs on real workers and under two seeds of deterministic mode.
class NurseryOn : public ::testing::TestWithParam<int> {
 protected:
  static Config config() {
    Config c;
    c.worker_count = GetParam() == 0 ? 2 : 3;
    if (GetParam() > 0) c.deterministic_seed = static_cast<std::uint64_t>(GetParam());
    return c;
  }
  template <class F>
  auto run(F&& f) {
    return runtime_.run(std::forward<F>(f));
  }
  Runtime runtime_{config()};
};
INSTANTIATE_TEST_SUITE_P(Modes, NurseryOn, ::testing::Values(0, 1, 2), [](const auto& mode) {
  return mode.param == 0 ? std::string("Threads") : "Seed" + std::to_string(mode.param);
});

// Contract: F-4. A spawn into a nursery that is not open is refused, from inside a child and after the close.
TEST_P(NurseryOn, RefusesSpawnsUnlessOpen) {
  run([] {
    Nursery nursery;
    EXPECT_EQ(nursery.state(), NurseryState::kOpen);
    EXPECT_TRUE(nursery.close().ok());
    EXPECT_EQ(nursery.state(), NurseryState::kClosed);
    EXPECT_EQ(code_of([&] { (void)nursery.spawn([] {}); }), ErrorCode::kNurseryNotActive);
    EXPECT_EQ(nursery.try_spawn([] {}).code(), ErrorCode::kNurseryNotActive);
    EXPECT_EQ(nursery.close().code(), ErrorCode::kFailedPrecondition) << "closed twice";

    Nursery cancelled;
    cancelled.cancel();
    EXPECT_EQ(cancelled.state(), NurseryState::kCancelling);
    EXPECT_EQ(cancelled.try_spawn([] {}).code(), ErrorCode::kNurseryNotActive);
    EXPECT_EQ(cancelled.close().code(), ErrorCode::kCancelled);
    EXPECT_EQ(cancelled.state(), NurseryState::kCancelled);

    Nursery closing;
    ErrorCode seen = ErrorCode::kOk;
    NurseryState state = NurseryState::kOpen;
    closing.launch([&] {
      while (closing.state() == NurseryState::kOpen) yield();
      state = closing.state();
      seen = closing.try_spawn([] {}).code();
    });
    EXPECT_TRUE(closing.close().ok());
    EXPECT_EQ(state, NurseryState::kClosing);
    EXPECT_EQ(seen, ErrorCode::kNurseryNotActive);
  });
}

// Contract: F-4. On no path does a task outlive its nursery: normal, throw, cancel, deadline.
TEST_P(NurseryOn, NoTaskOutlivesIt) {
  for (int path = 0; path < 4; ++path) {
    run([path] {
      sync::Atomic<int> alive{0};
      const auto child = [&alive] {
        alive.fetch_add(1);
        (void)sleep_for(milliseconds(1));
        yield();
        alive.fetch_sub(1);
      };
      const auto body = [&](Nursery& n) {
        for (int i = 0; i < 20; ++i) n.launch(child);
        yield();
        if (path == 1) throw std::runtime_error("body");
        if (path == 2) n.cancel();
        if (path == 3) (void)sleep_for(hours(1));
      };
      switch (path) {
        case 0:
          with_scope(body);
          break;
        case 1:
          EXPECT_THROW(with_scope(body), std::runtime_error);
          break;
        case 2:
          EXPECT_THROW(with_scope(body), Cancelled);
          break;
        case 3:
          EXPECT_FALSE(with_deadline(milliseconds(2), body));
          break;
        default:
          break;
      }
      EXPECT_EQ(alive.load(), 0) << "path " << path;
    });
  }
}

// Contract: F-5. A body that waits is interrupted by a child's failure; what the scope ends with is the failure.
TEST_P(NurseryOn, AFailureComesBeforeTheCancellationThatItCauses) {
  run([] {
    const auto failing = [] {
      yield();
      throw std::logic_error("child");
    };
    const auto waits_for_a_sibling = [&](Nursery& n) {
      Task<void> sibling = n.spawn([] { (void)sleep_for(hours(1)); });
      n.launch(failing);
      sibling.get();
    };
    const auto waits_itself = [&](Nursery& n) {
      n.launch(failing);
      if (!sleep_for(hours(1)).ok()) throw Cancelled(CancelReason::kFailure);
    };
    EXPECT_THROW(with_scope(waits_for_a_sibling), std::logic_error);
    EXPECT_THROW(with_scope(waits_itself), std::logic_error);
    EXPECT_THROW(with_deadline(hours(2), waits_for_a_sibling), std::logic_error);
    EXPECT_THROW(with_scope(NurseryOptions{}, waits_itself), std::logic_error);
    // Another exception of the body's own is the body's.
    EXPECT_THROW(with_scope([&](Nursery& n) {
                   n.launch(failing);
                   (void)sleep_for(hours(1));
                   throw std::runtime_error("body");
                 }),
                 std::runtime_error);
  });
}

// Contract: F-5. The first failure cancels the siblings, blocked and queued ones too, and is what closing reports.
TEST_P(NurseryOn, FirstFailureCancelsSiblings) {
  run([] {
    sync::Atomic<int> started{0};
    sync::Atomic<int> cancelled{0};
    try {
      with_scope([&](Nursery& n) {
        for (int i = 0; i < 10; ++i) {
          n.launch([&] {
            started.fetch_add(1);
            if (sleep_for(hours(1)).code() == ErrorCode::kCancelled) cancelled.fetch_add(1);
          });
        }
        n.launch([&] {
          while (started.load() < 10) yield();  // One that is still queued would end without running.
          (void)sleep_for(milliseconds(1));
          throw std::logic_error("first");
        });
        // The body waits as well and is interrupted.
        EXPECT_EQ(sleep_for(hours(1)).code(), ErrorCode::kCancelled);
        EXPECT_EQ(n.cancel_reason(), CancelReason::kFailure);
      });
      ADD_FAILURE() << "the failure was lost";
    } catch (const std::logic_error& error) {
      EXPECT_STREQ(error.what(), "first");
    }
    EXPECT_EQ(cancelled.load(), 10);
  });
}

// Contract: F-5. Failure is reported before cancellation, cancellation before success.
TEST_P(NurseryOn, ReportsFailureBeforeCancellationBeforeSuccess) {
  run([] {
    Nursery both;
    both.launch([] { throw FiberError(Error{ErrorCode::kNotFound, "gone"}); });
    while (both.state() == NurseryState::kOpen) yield();
    both.cancel();
    EXPECT_EQ(both.close().code(), ErrorCode::kNotFound);
    Nursery cancelled;
    cancelled.launch([] {});
    cancelled.cancel();
    const Result<void> closed = cancelled.close();
    EXPECT_EQ(closed.code(), ErrorCode::kCancelled);
    EXPECT_EQ(*closed.error().detail("reason"), "Explicit");
    Nursery fine;
    fine.launch([] {});
    EXPECT_TRUE(fine.close().ok());
  });
}

// Contract: F-5. A body that throws cancels all children, waits, and its own exception propagates.
TEST_P(NurseryOn, ThrowingBodyCancelsWaitsRethrows) {
  run([] {
    int ended = 0;
    EXPECT_THROW(with_scope([&](Nursery& n) {
                   n.launch([&ended] {
                     EXPECT_EQ(sleep_for(hours(1)).code(), ErrorCode::kCancelled);
                     ++ended;
                   });
                   yield();
                   throw 7;
                 }),
                 int);
    EXPECT_LE(ended, 1);  // It ran and was woken, or was still queued and never ran.
  });
}

// Contract: F-6. spawn, spawn_cancellable, spawn_all; values through nested scopes.
TEST_P(NurseryOn, SpawnsInEveryWay) {
  run([] {
    const int sum = with_scope([](Nursery& outer) {
      std::vector<std::function<int()>> all;
      for (int i = 0; i < 10; ++i) all.emplace_back([i] { return i; });
      auto tasks = outer.spawn_all(all);
      int total = 0;
      for (auto& task : tasks) total += task.get();
      Task<int> cancellable =
          outer.spawn_cancellable([](CancelToken& token) { return token.is_cancelled() ? -1 : 100; });
      total += with_scope([](Nursery& inner) { return inner.spawn([] { return 1000; }).get(); });
      return total + cancellable.get();
    });
    EXPECT_EQ(sum, 45 + 100 + 1000);
  });
}

// Contract: F-6. A deadline in time gives the value; one that passes gives nothing, also after the body returned.
TEST_P(NurseryOn, DeadlineInTimeAndLate) {
  run([] {
    EXPECT_EQ(with_deadline(hours(1), [](Nursery& n) { return n.spawn([] { return 5; }).get(); }), 5);
    EXPECT_FALSE(with_deadline(milliseconds(1), [](Nursery& n) {
                   n.launch([] { (void)sleep_for(hours(1)); });
                   return 5;  // The body is done at once; its child is not.
                 }).has_value());
    EXPECT_FALSE(with_deadline(milliseconds(0), [](Nursery&) { return 1; }).has_value());
    // A spawn that the expiry refuses is the expiry, not an error of the body.
    EXPECT_FALSE(
        with_deadline(milliseconds(0), [](Nursery& n) { return n.spawn([] { return 1; }).get(); }).has_value());
    EXPECT_FALSE(with_deadline(milliseconds(-5), [](Nursery&) { return 1; }).has_value());
    EXPECT_TRUE(with_deadline(std::chrono::nanoseconds::max(), [](Nursery&) { return 1; }).has_value());
  });
}

// Contract: F-6. The earlier of two nested deadlines counts, whichever it is.
TEST_P(NurseryOn, NestedDeadlinesTakeTheEarlier) {
  run([] {
    const auto start = now();
    std::optional<int> inner_result;
    const auto outer = with_deadline(milliseconds(5), [&](Nursery&) {
      inner_result = with_deadline(hours(1), [](Nursery&) {
        EXPECT_EQ(sleep_for(hours(2)).code(), ErrorCode::kCancelled);
        return 1;
      });
      return 2;
    });
    EXPECT_FALSE(outer.has_value());
    EXPECT_LT(now() - start, hours(1));
    const auto kept = with_deadline(hours(1), [&](Nursery&) {
      EXPECT_FALSE(with_deadline(milliseconds(1), [](Nursery&) {
                     (void)sleep_for(hours(2));
                     return 1;
                   }).has_value());
      EXPECT_TRUE(check_cancelled().ok()) << "the inner expiry is not the outer's";
      return 3;
    });
    EXPECT_EQ(kept, 3);
  });
}

// Contract: F-8. Reasons, callbacks exactly once and only on cancellation, links to several parents.
TEST_P(NurseryOn, TokensCallBackOnceAndLink) {
  run([] {
    CancelToken a;
    CancelToken b;
    CancelToken child({a, b});
    CancelToken grandchild({child});
    int calls = 0;
    grandchild.on_cancel([&calls] { ++calls; });
    const std::uint64_t taken_back = grandchild.on_cancel([&calls] { calls += 100; });
    EXPECT_TRUE(grandchild.off_cancel(taken_back));
    EXPECT_FALSE(grandchild.off_cancel(taken_back));
    EXPECT_FALSE(child.is_cancelled());
    EXPECT_TRUE(child.check().ok());
    EXPECT_TRUE(b.cancel(CancelReason::kTimeout));
    EXPECT_FALSE(b.cancel()) << "the second one is a no-op";
    EXPECT_EQ(b.reason(), CancelReason::kTimeout);
    EXPECT_EQ(child.reason(), CancelReason::kParent);
    EXPECT_EQ(grandchild.reason(), CancelReason::kParent);
    EXPECT_EQ(child.check().code(), ErrorCode::kCancelled);
    EXPECT_FALSE(a.is_cancelled()) << "a child's cancellation is not its parent's";
    a.cancel();
    EXPECT_EQ(calls, 1);
    grandchild.on_cancel([&calls] { ++calls; });  // At once.
    EXPECT_EQ(calls, 2);
    CancelToken never;
    never.on_cancel([&calls] { calls += 1000; });
    CancelToken late({a});
    EXPECT_EQ(late.reason(), CancelReason::kParent);
    EXPECT_EQ(calls, 2);
  });
}

// Contract: F-8. A task's own token is cancelled with it, with its callbacks, and check_cancelled() says why.
TEST_P(NurseryOn, TaskTokensFollowTheTask) {
  run([] {
    with_scope([](Nursery& n) {
      int called = 0;
      sync::Atomic<bool> started{false};
      ErrorCode code = ErrorCode::kOk;
      Task<void> task = n.spawn_cancellable([&](CancelToken& token) {
        token.on_cancel([&called] { ++called; });
        started.store(true);
        while (!token.is_cancelled()) yield();
        const Result<void> checked = check_cancelled();
        code = checked.code();
        EXPECT_EQ(*checked.error().detail("reason"), "Explicit");
      });
      while (!started.load()) yield();
      task.cancel();
      task.wait();
      EXPECT_EQ(called, 1);
      EXPECT_EQ(code, ErrorCode::kCancelled);
      EXPECT_TRUE(check_cancelled().ok());
    });
  });
}

// Contract: F-9. Cancelling reaches every descendant: running, ready, blocked, at any depth, and all have ended when
// the nursery closes. One still queued ends without running.
TEST_P(NurseryOn, CancelReachesEveryDescendant) {
  run([] {
    sync::Atomic<int> started{0};
    sync::Atomic<int> ended{0};
    std::function<void(int)> tree = [&](int depth) {
      started.fetch_add(1);
      if (depth == 0) {
        if (started.load() % 2 == 0) {
          EXPECT_EQ(sleep_for(hours(1)).code(), ErrorCode::kCancelled);
        } else {
          while (!is_cancelled()) yield();
        }
      } else {
        try {
          with_scope([&](Nursery& n) {
            for (int i = 0; i < 3; ++i) n.launch([&tree, depth] { tree(depth - 1); });
          });
        } catch (const Cancelled&) {
        }
        EXPECT_TRUE(is_cancelled());
      }
      ended.fetch_add(1);
    };
    Nursery top;
    top.launch([&tree] { tree(4); });
    while (started.load() < 1 + 3 + 9 + 27 + 81) yield();
    top.cancel();
    EXPECT_EQ(top.close().code(), ErrorCode::kCancelled);
    EXPECT_EQ(ended.load(), started.load());

    Nursery queued;
    bool ran = false;
    Task<void> never = queued.spawn([&ran] { ran = true; });
    queued.cancel();
    (void)queued.close();
    if (never.state() == TaskState::kCancelled) {
      EXPECT_FALSE(ran);
    }
    EXPECT_TRUE(never.is_completed());
  });
}

// Contract: F-9. One worker: a queued task of a cancelled nursery certainly does not run.
TEST(Nursery, QueuedTaskEndsWithoutRunning) {
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    bool ran = false;
    Nursery nursery;
    Task<int> task = nursery.spawn([&ran] {
      ran = true;
      return 1;
    });
    nursery.cancel();
    (void)nursery.close();
    EXPECT_FALSE(ran);
    EXPECT_EQ(task.state(), TaskState::kCancelled);
    EXPECT_THROW((void)task.get(), Cancelled);
  });
}

// Contract: F-9. A join is interrupted, and cancelling one task of several leaves the others alone.
TEST_P(NurseryOn, CancellingOneTaskLeavesSiblings) {
  run([] {
    with_scope([](Nursery& n) {
      Task<ErrorCode> a = n.spawn([] { return sleep_for(hours(1)).code(); });
      Task<ErrorCode> b = n.spawn([] { return sleep_for(milliseconds(2)).code(); });
      sync::Atomic<bool> inside{false};
      Task<bool> nested = n.spawn([&inside] {
        try {
          with_scope([&inside](Nursery& inner) {
            Task<void> sleeper = inner.spawn([&inside] {
              inside.store(true);
              (void)sleep_for(hours(1));
            });
            sleeper.get();
          });
        } catch (const Cancelled&) {
          return true;
        }
        return false;
      });
      while (a.state() != TaskState::kBlocked || !inside.load()) yield();
      a.cancel();
      nested.cancel();
      EXPECT_EQ(a.get(), ErrorCode::kCancelled);
      EXPECT_TRUE(nested.get());
      EXPECT_EQ(b.get(), ErrorCode::kOk);
    });
  });
}

// Bad use gets its error: a nursery outside the runtime, closed by a stranger or in the wrong order.
TEST(Nursery, BadUseIsAnError) {
  EXPECT_EQ(code_of([] { Nursery nursery; }), ErrorCode::kOutsideRuntime);
  EXPECT_EQ(code_of([] { with_scope([](Nursery&) {}); }), ErrorCode::kOutsideRuntime);
  EXPECT_EQ(code_of([] { (void)current_token(); }), ErrorCode::kOutsideRuntime);
  EXPECT_TRUE(check_cancelled().ok());
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    Nursery outer;
    {
      Nursery inner;
      EXPECT_EQ(outer.close().code(), ErrorCode::kFailedPrecondition);
      inner.launch([&inner] { EXPECT_EQ(inner.close().code(), ErrorCode::kFailedPrecondition); });
      EXPECT_TRUE(inner.close().ok());
    }
    EXPECT_TRUE(outer.close().ok());
  });
  // Contract: F-15. The profile `core` spawns nothing.
  Runtime core({.worker_count = 1, .profile = Profile::kCore});
  core.run([] { EXPECT_EQ(code_of([] { with_scope([](Nursery&) {}); }), ErrorCode::kNurseryNotActive); });
}

// A sibling may spawn into the nursery that it lives in, from any worker, while that is open.
TEST_P(NurseryOn, ChildrenSpawnSiblings) {
  run([] {
    sync::Atomic<int> count{0};
    with_scope([&](Nursery& n) {
      std::function<void(int)> grow = [&](int left) {
        count.fetch_add(1);
        for (int i = 0; i < 2 && left > 0; ++i) n.launch([&grow, left] { grow(left - 1); });
      };
      n.launch([&grow] { grow(6); });
      while (count.load() < 127) yield();
    });
    EXPECT_EQ(count.load(), 127);
  });
}

}  // namespace
}  // namespace rota::fiber
