// The real registry, links, marks and epoch under the interleaving checker: a cancellation reaches every task, however
// it meets the task's first wait, its asking, its end, or another task's end. Contract: F-8, F-9.
#include <gtest/gtest.h>

#include <memory>

#include "fiber/runtime_core.h"
#include "fiber/token_state.h"
#include "interleave/interleave.h"

namespace rota::fiber::detail {

namespace {

// A task with its fiber, for which parking is a wait until schedule() has set the claim word to Running.
struct TestTask : Fiber {
  explicit TestTask(NurseryCore* nursery) : record([](TaskRecord*, Action) {}, 0, 0) {
    record.nursery = nursery;
    record.id = 1;
    record.meter = 0;
    task = &record;
  }
  TaskRecord record;
};

}  // namespace

// What stands in for the runtime.
void schedule(Fiber* fiber) { fiber->claim.store(kRunning, std::memory_order_release); }
void note_cancellation() {}
void note_event(ThreadWorker* /*worker*/, TaskEvent /*event*/, std::uint64_t /*id*/, std::uint32_t /*detail*/) {}

namespace {

using interleave::check;
using interleave::Execution;
using interleave::Failure;
using interleave::Result;

// A root with a task, the task's nursery, and a task in it: root <- owner <- nursery <- child.
struct Tree {
  Tree() : owner(&root), child(&nursery) {
    root.owner_task = nullptr;
    root.owner = nullptr;
    root.outer = nullptr;
    root.epoch = &epoch;
    root.seen_epoch.store(1, std::memory_order_relaxed);
    nursery.owner_task = &owner.record;
    nursery.owner = nullptr;
    nursery.outer = nullptr;
    nursery.seen_epoch.store(1, std::memory_order_relaxed);
    ensure_linked(&root);
  }
  ~Tree() {
    delete nursery.extras.load();
    delete root.extras.load();
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  // As scope_cancelled().
  bool asks(const TestTask& task) {
    const std::uint32_t now = epoch.load(std::memory_order_seq_cst);
    NurseryCore* scope = task.record.nursery;
    if (scope->seen_epoch.load(std::memory_order_relaxed) == now &&
        task.record.cancel.load(std::memory_order_relaxed) == 0) {
      return false;
    }
    return scope_cancelled_slow(scope, const_cast<TaskRecord*>(&task.record), now);
  }
  // As park() of a task that blocks for the first time; only a cancellation ends the wait. `in_order`: whether the task
  // says that it is about to park before it asks.
  void wait(TestTask& task, bool in_order = true) {
    register_task(&task.record, &task);
    if (in_order) begin_wait(task.claim, true);
    if (asks(task)) {
      withdraw_wait(task.claim);
      return;
    }
    if (!in_order) begin_wait(task.claim, true);
    WakeReason reason{};
    if (!commit_wait(task.claim, true, reason)) return;
    while (task.claim.load(std::memory_order_acquire) != kRunning) sync::cpu_pause();
  }

  sync::Atomic<std::uint32_t> epoch{1};
  RootNursery root;
  TestTask owner;
  NurseryCore nursery;
  TestTask child;
};

Result first_wait(bool in_order, bool from_above) {
  return check({.name = "a first wait meets a cancellation", .preemption_bound = 3, .max_executions = 300'000},
               [=](Execution& ex) {
                 Tree tree;
                 ex.run([&] { tree.wait(tree.child, in_order); },
                        [&] {
                          NurseryCore* top = &tree.nursery;
                          if (from_above) top = &tree.root;
                          cancel_nursery(top, CancelReason::kExplicit);
                        });
                 ROTA_INTERLEAVE_ASSERT(tree.asks(tree.child));
               });
}

// A task blocks for the first time, which links its nursery and enters it in the registry, while its nursery or the one
// around it is cancelled: it does not wait, or it is woken.
TEST(CancelTreeInterleave, AFirstWaitMeetsACancellation) {
  for (const bool from_above : {false, true}) {
    const Result result = first_wait(true, from_above);
    EXPECT_TRUE(result.ok) << result.report;
  }
}
// If it asks before it says that it is about to park, it waits for ever: the checker says so.
TEST(CancelTreeInterleave, AskingTooEarlyIsFatal) {
  const Result result = first_wait(false, true);
  EXPECT_FALSE(result.ok);
}

// The same through the task's handle: only that task's wait ends.
TEST(CancelTreeInterleave, AFirstWaitMeetsACancellationThroughTheHandle) {
  const Result result =
      check({.name = "through the handle", .preemption_bound = 3, .max_executions = 300'000}, [](Execution& ex) {
        Tree tree;
        ex.run([&] { tree.wait(tree.child); },
               [&] {
                 // As cancel_task() does, while it holds the task.
                 tree.child.record.cancel.fetch_or(static_cast<std::uint8_t>(CancelReason::kExplicit));
                 TokensToCancel tokens;
                 cancel_from_handle(&tree.child.record, tokens);
               });
        ROTA_INTERLEAVE_ASSERT(tree.asks(tree.child) && !tree.asks(tree.owner));
      });
  EXPECT_TRUE(result.ok) << result.report;
}

// The epoch: two tasks ask, and remember what they found, while something around them is cancelled. After it, both
// know.
TEST(CancelTreeInterleave, AskingRemembersNothingThatIsOutdated) {
  const Result result =
      check({.name = "the epoch", .preemption_bound = 3, .max_executions = 300'000}, [](Execution& ex) {
        Tree tree;
        TestTask sibling(&tree.nursery);
        sync::Atomic<int> done{0};
        ex.run([&] { (void)tree.asks(sibling); },
               [&] {
                 (void)tree.asks(tree.child);
                 if (done.load(std::memory_order_acquire) == 1) ROTA_INTERLEAVE_ASSERT(tree.asks(tree.child));
               },
               [&] {
                 cancel_nursery(&tree.root, CancelReason::kExplicit);
                 done.store(1, std::memory_order_release);
               });
        ROTA_INTERLEAVE_ASSERT(tree.asks(tree.child) && tree.asks(sibling));
      });
  EXPECT_TRUE(result.ok) << result.report;
}

// A task ends and leaves the registry, whose last entry takes its place, while the other one is being cancelled.
TEST(CancelTreeInterleave, AnEndMeetsACancellation) {
  const Result result = check(
      {.name = "an end meets a cancellation", .preemption_bound = 3, .max_executions = 300'000}, [](Execution& ex) {
        Tree tree;
        TestTask ends(&tree.nursery);
        register_task(&ends.record, &ends);
        ex.run([&] { unregister_task(&ends.record); }, [&] { tree.wait(tree.child); },
               [&] { cancel_nursery(&tree.nursery, CancelReason::kExplicit); });
        const NurseryExtras* extras = tree.nursery.extras.load();
        ROTA_INTERLEAVE_ASSERT(extras->registry.size() == 1 && extras->registry[0].task == &tree.child.record);
        ROTA_INTERLEAVE_ASSERT(tree.child.record.registry.load() == 0 && !ends.record.has_entry());
      });
  EXPECT_TRUE(result.ok) << result.report;
}

// A token with a callback that counts its calls.
std::shared_ptr<TokenHandle> counting_token(sync::Atomic<int>& calls) {
  auto token = std::make_shared<TokenHandle>();
  std::function<void()> callback = [&calls] { calls.fetch_add(1); };
  add_callback(*token->state, callback);
  return token;
}

// A task ends, and its nursery forgets its token, while something around it is being cancelled: between the mark and
// the walk, for instance. If the task has seen the cancellation, the callback has run when the task is gone; in no case
// does it run twice, or without the token being cancelled. Contract: F-8.
TEST(CancelTreeInterleave, AnEndMeetsACancellationAndItsTokenIsCancelled) {
  for (const bool from_above : {false, true}) {
    const Result result = check(
        {.name = "a token at the end of its task", .preemption_bound = 3, .max_executions = 300'000},
        [=](Execution& ex) {
          Tree tree;
          ensure_linked(&tree.nursery);
          sync::Atomic<int> calls{0};
          const std::shared_ptr<TokenHandle> token = counting_token(calls);
          NurseryExtras* extras = extras_of(&tree.nursery);
          extras->task_tokens = std::make_unique<TaskTokens>();
          extras->task_tokens->add(&tree.child.record, token);
          bool saw = false;
          ex.run(
              [&] {
                saw = tree.asks(tree.child);
                drop_task_token(&tree.child.record);
                if (saw) {
                  ROTA_INTERLEAVE_ASSERT(token->state->reason.load(std::memory_order_acquire) != CancelReason::kNone);
                }
              },
              [&] {
                NurseryCore* top = &tree.nursery;
                if (from_above) top = &tree.root;
                cancel_nursery(top, CancelReason::kExplicit);
              });
          const bool cancelled = token->state->reason.load() != CancelReason::kNone;
          ROTA_INTERLEAVE_ASSERT(!saw || cancelled);
          ROTA_INTERLEAVE_ASSERT(calls.load() == (cancelled ? 1 : 0));
        });
    EXPECT_TRUE(result.ok) << result.report;
  }
}

// The same for the token of a scope that closes while the scope around it is being cancelled. Contract: F-8.
TEST(CancelTreeInterleave, ACloseMeetsACancellationAndItsTokenIsCancelled) {
  const Result result = check(
      {.name = "a token at the close of its scope", .preemption_bound = 3, .max_executions = 300'000},
      [](Execution& ex) {
        Tree tree;
        ensure_linked(&tree.nursery);
        sync::Atomic<int> calls{0};
        const std::shared_ptr<TokenHandle> token = counting_token(calls);
        NurseryExtras* extras = extras_of(&tree.nursery);
        extras->scope_token = token;
        bool saw = false;
        ex.run(
            [&] {
              saw = tree.asks(tree.child);
              unlink_nursery(&tree.nursery, extras);  // As close_children() does.
              settle_scope_token(&tree.nursery);
              if (saw) {
                ROTA_INTERLEAVE_ASSERT(token->state->reason.load(std::memory_order_acquire) != CancelReason::kNone);
              }
            },
            [&] { cancel_nursery(&tree.root, CancelReason::kExplicit); });
        const bool cancelled = token->state->reason.load() != CancelReason::kNone;
        ROTA_INTERLEAVE_ASSERT(calls.load() == (cancelled ? 1 : 0));
      });
  EXPECT_TRUE(result.ok) << result.report;
}

}  // namespace
}  // namespace rota::fiber::detail
