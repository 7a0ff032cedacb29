// Tokens: links, callbacks, waiting for one, and the tokens of tasks and scopes (F-6, F-8).
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "fiber/testing.h"
#include "rota/fiber.h"

namespace rota::fiber {
namespace {

using namespace std::chrono_literals;

// Contract: F-8. A token in the middle of a chain passes a cancellation on, even if its handle is gone.
TEST(Token, ALinkOutlivesTheHandleInBetween) {
  CancelToken root;
  std::optional<CancelToken> mid;
  mid.emplace(std::initializer_list<CancelToken>{root});
  CancelToken leaf({*mid});
  mid.reset();
  root.cancel();
  EXPECT_TRUE(leaf.is_cancelled());
  EXPECT_EQ(leaf.reason(), CancelReason::kParent);
}

// Contract: F-8. The same for a chain of any length, of which only the ends are held; nothing recurses over it.
TEST(Token, AChainOfAnyLengthIsKept) {
  constexpr int kLength = 200'000;
  const auto chain = [](const CancelToken& root) {
    CancelToken last = root;
    for (int i = 0; i < kLength; ++i) last = CancelToken({last});
    return last;
  };
  CancelToken root;
  CancelToken leaf = chain(root);
  root.cancel();
  EXPECT_TRUE(leaf.is_cancelled());
  // Dropped without being cancelled, from either end.
  std::optional<CancelToken> top(std::in_place);
  std::optional<CancelToken> bottom(chain(*top));
  top.reset();
  EXPECT_FALSE(bottom->is_cancelled());
  bottom.reset();
  top.emplace();
  bottom.emplace(chain(*top));
  bottom.reset();
  top.reset();
}

// Contract: F-8. A callback runs although nobody holds its token any more: the link to the parent is still there.
TEST(Token, ACallbackOutlivesTheHandle) {
  CancelToken root;
  int calls = 0;
  {
    CancelToken child({root});
    child.on_cancel([&calls] { ++calls; });
    CancelToken grandchild({CancelToken({root})});
    grandchild.on_cancel([&calls] { ++calls; });
  }
  root.cancel();
  EXPECT_EQ(calls, 2);
}

// Contract: F-8. A token with several parents, one of which was dropped, is cancelled by any other.
TEST(Token, AnyOfSeveralParents) {
  CancelToken first;
  std::optional<CancelToken> second(std::in_place);
  CancelToken third;
  CancelToken child({first, *second, third});
  second.reset();
  EXPECT_FALSE(child.is_cancelled());
  third.cancel();
  EXPECT_EQ(child.reason(), CancelReason::kParent);
  EXPECT_FALSE(first.is_cancelled());
}

// Counts what a callback captured, to see when the runtime lets go of it.
struct Counted {
  explicit Counted(std::shared_ptr<int> alive) : alive_(std::move(alive)) {}
  void operator()() const {}
  std::shared_ptr<int> alive_;
};

// Contract: F-8. A long-lived parent keeps nothing of a child that nobody can notice any more.
TEST(Token, AParentForgetsItsUnobservedChildren) {
  CancelToken root;
  auto alive = std::make_shared<int>(0);
  for (int i = 0; i < 1000; ++i) {
    CancelToken request({root});
    const std::uint64_t id = request.on_cancel(Counted(alive));
    CancelToken below({request});
    if (i % 2 == 0) {
      EXPECT_TRUE(request.off_cancel(id));
    } else {
      request.cancel();
    }
  }
  EXPECT_EQ(alive.use_count(), 1);
  root.cancel();
}

// Contract: F-8. Adding and removing a callback is O(1): with a search, this takes minutes.
TEST(Token, HundredThousandCallbacks) {
  constexpr int kCount = ROTA_TSAN ? 20'000 : 200'000;
  CancelToken token;
  int calls = 0;
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < kCount; ++i) ids.push_back(token.on_cancel([&calls] { ++calls; }));
  for (int i = 0; i < kCount; i += 2) EXPECT_TRUE(token.off_cancel(ids[i]));
  for (int i = 0; i < kCount; i += 2) EXPECT_FALSE(token.off_cancel(ids[i])) << "removed twice";
  for (int i = 0; i < kCount; i += 4) ids[i] = token.on_cancel([&calls] { calls += 2; });  // In slots used before.
  EXPECT_FALSE(token.off_cancel(ids[2])) << "another callback's slot";
  EXPECT_FALSE(token.off_cancel(0));
  token.cancel();
  EXPECT_EQ(calls, kCount / 2 + kCount / 4 * 2);
  EXPECT_FALSE(token.off_cancel(ids[1]));
}

// Contract: F-8. Callbacks run in the order in which they were added.
TEST(Token, CallbacksRunInOrder) {
  CancelToken token;
  std::vector<int> order;
  const std::uint64_t first = token.on_cancel([&] { order.push_back(0); });
  token.on_cancel([&] { order.push_back(1); });
  EXPECT_TRUE(token.off_cancel(first));
  token.on_cancel([&] { order.push_back(2); });
  token.on_cancel([&] { order.push_back(3); });
  token.cancel();
  EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

// Contract: F-8. Links, handles, callbacks and cancellations from several threads at once: each callback of a token
// below the cancelled one runs exactly once.
TEST(Token, ManyThreadsLinkDropAndCancel) {
  for (int round = 0; round < (ROTA_TSAN ? 50 : 500); ++round) {
    CancelToken root;
    std::atomic<int> calls{0};
    constexpr int kThreads = 3;
    constexpr int kEach = 20;
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&root, &calls] {
        for (int i = 0; i < kEach; ++i) {
          CancelToken mid({root});
          CancelToken leaf({mid});
          leaf.on_cancel([&calls] { calls.fetch_add(1); });
        }
      });
    }
    threads.emplace_back([&root] { root.cancel(); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(calls.load(), kThreads * kEach);
  }
}

// Contract: F-8. A token can be waited for: by a task, with a limit, and by a thread.
TEST(Token, CanBeWaitedFor) {
  in_all_modes([] {
    CancelToken token;
    with_scope([&token](Nursery& scope) {
      Task<CancelReason> waits = scope.spawn([&token] { return token.wait(); });
      Task<bool> in_vain = scope.spawn([&token] { return token.wait_for(1us); });
      EXPECT_FALSE(in_vain.get());
      while (waits.state() != TaskState::kBlocked) yield();
      EXPECT_TRUE(token.cancel());
      EXPECT_EQ(waits.get(), CancelReason::kExplicit);
    });
    EXPECT_EQ(token.wait(), CancelReason::kExplicit) << "already cancelled";
    EXPECT_TRUE(token.wait_for(0s));
    EXPECT_EQ(token.wait(std::nothrow).value(), CancelReason::kExplicit);
  });
  CancelToken token;
  EXPECT_FALSE(token.wait_for(1us));
  std::thread canceller([&token] { token.cancel(); });
  EXPECT_EQ(token.wait(), CancelReason::kExplicit);
  canceller.join();
}

// Contract: F-8, F-9. A task that waits for a token is woken when the task is cancelled, with and without exceptions.
TEST(Token, AWaitForItIsACancellationPoint) {
  in_all_modes([] {
    CancelToken never;
    Nursery scope;
    Task<void> throws = scope.spawn([&never] { never.wait(); });
    Task<ErrorCode> returns = scope.spawn([&never] { return never.wait(std::nothrow).code(); });
    while (throws.state() != TaskState::kBlocked || returns.state() != TaskState::kBlocked) yield();
    scope.cancel();
    (void)scope.close();
    EXPECT_EQ(throws.state(), TaskState::kCancelled);
    EXPECT_EQ(returns.get(), ErrorCode::kCancelled);
  });
}

// Contract: F-8, F-24. A select with a token: the token's case is performed once it is cancelled, the others before.
TEST(Token, InASelect) {
  in_all_modes([] {
    CancelToken stop;
    Channel<int> numbers(1);
    (void)numbers.send(3);
    int got = 0;
    CancelReason why = CancelReason::kNone;
    const auto once = [&] {
      return select(on_receive(numbers, [&](std::optional<int> n) { got = n.value_or(-1); }),
                    on_cancelled(stop, [&](CancelReason reason) { why = reason; }));
    };
    EXPECT_EQ(once(), 0U);
    EXPECT_EQ(got, 3);
    with_scope([&](Nursery& scope) {
      Task<std::size_t> waits = scope.spawn(once);
      while (waits.state() != TaskState::kBlocked) yield();
      stop.cancel();
      EXPECT_EQ(waits.get(), 1U);
    });
    EXPECT_EQ(why, CancelReason::kExplicit);
    EXPECT_EQ(once(), 1U) << "a cancelled token stays ready";
    EXPECT_EQ(select(on_cancelled(stop), otherwise()), 0U);
  });
}

// Contract: F-8, F-14. Waiting for a token needs no capability for channels and costs no channel operation.
TEST(Token, AWaitCostsNothing) {
  Runtime runtime({.worker_count = 1, .profile = Profile::kService});
  runtime.run([] {
    const Grant nothing{.budget = Budget{.ops = 1000}, .capabilities = Capabilities{}};
    CancelToken token;
    with_scope([&](Nursery& scope) {
      Task<bool> waits = scope.spawn(nothing, [&token] { return token.wait_for(1ms); });
      EXPECT_FALSE(waits.get());
    });
  });
}

// Contract: F-6. A task exposes its token: the same one inside and outside, whenever it is asked for.
TEST(TaskToken, IsTheTasksOwn) {
  in_all_modes([] {
    with_scope([](Nursery& scope) {
      Event go;
      std::optional<CancelToken> inside;
      Task<void> task = scope.spawn([&] {
        inside = current_token();
        go.wait();
      });
      CancelToken outside = task.cancel_token();  // Before it runs, or while it runs.
      while (task.state() != TaskState::kBlocked) yield();
      EXPECT_EQ(outside, *inside);
      EXPECT_EQ(outside, task.cancel_token());
      EXPECT_FALSE(outside.is_cancelled());
      task.cancel();
      EXPECT_EQ(outside.reason(), CancelReason::kExplicit);
      task.wait();
      EXPECT_TRUE(task.cancel_token().is_cancelled()) << "of a task that has ended";
      go.set();
      Task<int> fine = scope.spawn([] { return 1; });
      CancelToken unused = fine.cancel_token();
      EXPECT_EQ(fine.get(), 1);
      EXPECT_FALSE(unused.is_cancelled());
    });
  });
}

// Contract: F-6, F-9. The token of a task that was never run, and of one whose surrounding scope is cancelled.
TEST(TaskToken, IsCancelledWithAScopeAround) {
  in_all_modes([] {
    CancelToken of_task;
    CancelToken of_scope;
    Nursery scope;
    Task<void> task = scope.spawn([&] {
      with_scope([&](Nursery& inner) {
        Task<void> below = inner.spawn([] { Event().wait(); });
        of_task = below.cancel_token();
        of_scope = inner.token();
        EXPECT_EQ(of_task.wait(std::nothrow).code(), ErrorCode::kCancelled);
      });
    });
    while (task.state() != TaskState::kBlocked) yield();
    EXPECT_FALSE(of_task.is_cancelled());
    EXPECT_FALSE(of_scope.is_cancelled());
    scope.cancel();
    EXPECT_TRUE(task.cancel_token().is_cancelled());
    (void)scope.close();
    EXPECT_TRUE(of_task.is_cancelled());
    EXPECT_TRUE(of_scope.is_cancelled());
  });
}

// Contract: F-8. Many threads ask for a task's token while the task ends and its nursery goes away.
TEST(TaskToken, CanBeAskedForWhileTheTaskEnds) {
  Runtime runtime({.worker_count = 2});
  for (int round = 0; round < (ROTA_TSAN ? 100 : 1000); ++round) {
    Task<int> task;
    std::atomic<bool> spawned{false};
    std::thread observer([&] {
      while (!spawned.load()) std::this_thread::yield();
      for (int i = 0; i < 3; ++i) {
        (void)task.cancel_token().is_cancelled();
        (void)task.state();
      }
      task.cancel();
    });
    runtime.run([&] {
      Nursery scope;
      task = scope.spawn([] { return 1; });
      spawned = true;
      (void)scope.close();
    });
    observer.join();
    EXPECT_TRUE(is_terminal(task.state()));
  }
}

// How a task that polls is cancelled, and the reason that its token then has: the one that check_cancelled() reports.
struct CancelledBy {
  const char* name;
  CancelReason reason;
  void (*cancel)(Nursery& outer, Nursery& inner, Task<void>& task);
};
constexpr CancelledBy kCancelledBy[] = {
    {"its nursery", CancelReason::kExplicit, [](Nursery&, Nursery& inner, Task<void>&) { inner.cancel(); }},
    {"a scope around", CancelReason::kParent, [](Nursery& outer, Nursery&, Task<void>&) { outer.cancel(); }},
    {"its handle", CancelReason::kExplicit, [](Nursery&, Nursery&, Task<void>& task) { task.cancel(); }},
    {"a sibling", CancelReason::kFailure,
     [](Nursery&, Nursery& inner, Task<void>&) { inner.launch([] { throw std::runtime_error("fails"); }); }},
};

// Contract: F-8. A task ends as soon as it sees that it is cancelled, often before the canceller, which has set its
// mark, has found the task's token. The token is cancelled nevertheless, for the same reason, before the task is gone,
// and its callback runs exactly once.
TEST(TaskToken, ACallbackRunsOnceHoweverTheEndMeetsTheCancellation) {
  Runtime runtime({.worker_count = 2});
  constexpr int kRounds = ROTA_TSAN || ROTA_ASAN ? 300 : 3000;
  for (const CancelledBy& by : kCancelledBy) {
    SCOPED_TRACE(by.name);
    std::vector<std::atomic<int>> calls(kRounds);
    for (int round = 0; round < kRounds && !::testing::Test::HasFailure(); ++round) {
      runtime.run([&] {
        Nursery outer;
        outer.launch([&] {
          CancelToken token;
          std::atomic<bool> ready{false};
          Nursery inner;
          Task<void> task = inner.spawn([&] {
            token = current_token();
            token.on_cancel([&calls, round] { calls[static_cast<std::size_t>(round)] += 1; });
            ready = true;
            while (!is_cancelled()) yield();
          });
          while (!ready.load()) yield();
          by.cancel(outer, inner, task);
          (void)inner.close();
          EXPECT_EQ(token.reason(), by.reason);
          // The canceller may still be calling it.
          while (token.is_cancelled() && calls[static_cast<std::size_t>(round)] == 0) std::this_thread::yield();
        });
        (void)outer.close();
      });
    }
    if (::testing::Test::HasFailure()) return;
    EXPECT_TRUE(std::all_of(calls.begin(), calls.end(), [](const auto& count) { return count.load() == 1; }));
  }
}

// Contract: F-6. A scope exposes its parent, its deadline (the earliest around it) and its token.
TEST(ScopeView, ParentDeadlineAndToken) {
  in_all_modes([] {
    Nursery outer;
    EXPECT_FALSE(outer.deadline().has_value());
    ASSERT_TRUE(outer.parent().has_value());
    EXPECT_FALSE(outer.parent()->parent().has_value()) << "the root has no parent";
    const auto start = now();
    (void)with_deadline(1h, [&](Nursery& middle) {
      EXPECT_EQ(middle.parent(), Scope(outer.core()));
      EXPECT_EQ(current_scope(), Scope(middle.core()));
      ASSERT_TRUE(middle.deadline().has_value());
      EXPECT_GE(*middle.deadline(), start + 1h);
      (void)with_deadline(2h, [&](Nursery& inner) {
        EXPECT_EQ(inner.deadline(), middle.deadline()) << "the earlier one";
        EXPECT_EQ(inner.parent(), Scope(middle.core()));
        Task<void> child = inner.spawn([&] {
          EXPECT_EQ(current_scope(), Scope(inner.core())) << "it has opened none itself";
          EXPECT_EQ(current_scope().deadline(), middle.deadline());
        });
        child.get();
      });
      (void)with_deadline(1ns, [&](Nursery& inner) {
        EXPECT_LT(*inner.deadline(), *middle.deadline());
        const CancelToken token = inner.token();
        EXPECT_EQ(token, inner.token());
        (void)token.wait(std::nothrow);  // Ended by the token, or by the cancellation of the waiting task.
        EXPECT_EQ(token.reason(), CancelReason::kTimeout);
      });
    });
    CancelToken token = outer.token();
    EXPECT_FALSE(token.is_cancelled());
    outer.cancel();
    EXPECT_TRUE(token.is_cancelled());
    (void)outer.close();
  });
}

}  // namespace
}  // namespace rota::fiber
