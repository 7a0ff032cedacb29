// The real links between tokens under the interleaving checker: a cancellation meets a link that is being made, a
// handle that is being dropped, and a callback that is being removed. Contract: F-8.
#include <gtest/gtest.h>

#include <memory>

#include "fiber/token_state.h"
#include "interleave/interleave.h"

namespace rota::fiber::detail {

// What stands in for the runtime. No test here waits for a token; a thread that waits for a callback waits for the
// condition.
std::uintptr_t token_thread() {  // A different one for each call: no thread here removes the callback that it runs.
  static std::uintptr_t calls = 0;
  return ++calls;
}
void wait_for_callback(TokenState& token) { token.idle.wait(token.mutex); }
void run_callback(std::function<void()> call) noexcept { call(); }
void release_token(std::shared_ptr<TokenHandle> token) noexcept { token.reset(); }
void close_done(ChannelCore* /*done*/) noexcept {}
void free_done(ChannelCore* /*done*/) noexcept {}

namespace {

using interleave::check;
using interleave::Execution;
using interleave::Result;

using Handle = std::unique_ptr<TokenHandle>;
Handle make() { return std::make_unique<TokenHandle>(); }
bool is_cancelled(const Handle& token) {
  return token->state->reason.load(std::memory_order_acquire) != CancelReason::kNone;
}

// The root is cancelled while a child is linked to it: the child is cancelled in the end.
TEST(TokenInterleave, ALinkMeetsACancellation) {
  const Result result = check({.name = "link and cancel"}, [](Execution& ex) {
    Handle root = make();
    Handle child = make();
    ex.run([&] { link_token(child->state, root->state); }, [&] { cancel_token(root->state, CancelReason::kExplicit); });
    ROTA_INTERLEAVE_ASSERT(is_cancelled(child));
    ROTA_INTERLEAVE_ASSERT(root->state->children.empty() && child->state->parents.empty());
  });
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_TRUE(result.exhaustive) << result.report;
}

// Root, middle, leaf: the middle's handle is dropped while the root is cancelled. The leaf is cancelled in any case.
TEST(TokenInterleave, ADroppedHandleInBetween) {
  const Result result = check({.name = "dropped in between"}, [](Execution& ex) {
    Handle root = make();
    Handle middle = make();
    Handle leaf = make();
    link_token(middle->state, root->state);
    link_token(leaf->state, middle->state);
    ex.run([&] { middle.reset(); }, [&] { cancel_token(root->state, CancelReason::kExplicit); });
    ROTA_INTERLEAVE_ASSERT(is_cancelled(leaf));
    ROTA_INTERLEAVE_ASSERT(root->state->children.empty());
  });
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_TRUE(result.exhaustive) << result.report;
}

// Leaf and middle are dropped by two threads: nothing is left at the root, whoever is last.
TEST(TokenInterleave, TwoDropsLeaveNothing) {
  const Result result = check({.name = "two drops"}, [](Execution& ex) {
    Handle root = make();
    Handle middle = make();
    Handle leaf = make();
    link_token(middle->state, root->state);
    link_token(leaf->state, middle->state);
    ex.run([&] { middle.reset(); }, [&] { leaf.reset(); });
    ROTA_INTERLEAVE_ASSERT(root->state->children.empty());
  });
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_TRUE(result.exhaustive) << result.report;
}

// The root goes away while its child, which only it has, loses its own child: nobody touches what is gone.
TEST(TokenInterleave, TheRootGoesWhileALeafIsDropped) {
  const Result result = check({.name = "root and leaf go"}, [](Execution& ex) {
    Handle root = make();
    Handle middle = make();
    Handle leaf = make();
    link_token(middle->state, root->state);
    link_token(leaf->state, middle->state);
    middle.reset();
    ex.run([&] { root.reset(); }, [&] { leaf.reset(); });
  });
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_TRUE(result.exhaustive) << result.report;
}

// A callback is removed while its token is cancelled: it runs and remove says false, or it never runs and remove says
// true. In the first case it has ended when remove returns.
TEST(TokenInterleave, ARemovalMeetsACancellation) {
  const Result result = check({.name = "remove and cancel"}, [](Execution& ex) {
    Handle token = make();
    sync::Plain<int> calls{0};
    std::function<void()> callback = [&calls] { calls.set(calls.get() + 1); };
    const std::uint64_t id = add_callback(*token->state, callback);
    bool removed = false;
    int seen = -1;
    ex.run(
        [&] {
          removed = remove_callback(*token->state, id);
          seen = calls.get();  // A data race, if it could still be running.
        },
        [&] { cancel_token(token->state, CancelReason::kExplicit); });
    ROTA_INTERLEAVE_ASSERT(seen == (removed ? 0 : 1) && calls.get() == seen);
  });
  EXPECT_TRUE(result.ok) << result.report;
}

// Two cancellers find the same token: it is cancelled once.
TEST(TokenInterleave, TwoCancellersFindOneToken) {
  const Result result = check({.name = "two cancellers"}, [](Execution& ex) {
    const auto token = std::make_shared<TokenHandle>();
    sync::Atomic<int> calls{0};
    std::function<void()> callback = [&calls] { calls.fetch_add(1); };
    add_callback(*token->state, callback);
    const auto cancel = [&token] {
      TokensToCancel tokens;
      tokens.add(token, CancelReason::kParent);
    };
    ex.run(cancel, cancel);
    ROTA_INTERLEAVE_ASSERT(calls.load() == 1);
  });
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_TRUE(result.exhaustive) << result.report;
}

}  // namespace
}  // namespace rota::fiber::detail
