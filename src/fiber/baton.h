// Baton: one fiber or thread waits for one signal, which any fiber or thread gives.
//
//   Baton done;                                   // In the waiter's frame, or shared.
//   ... another thread or task: done.post(); ...
//   if (!done.wait("a backup")) ...               // False: the caller is a task that was cancelled.
//
// A task that waits parks its fiber, so its thread runs other tasks; a plain thread sleeps in the kernel. post() does
// not need to know which of them waits. A baton is posted once and stays posted. Other rooms use this header to wait
// without knowing the runtime; condition.h builds a condition variable from it. The steps on the word, and the argument
// that no wake-up is lost and nobody touches a waiter that is gone, are in baton_word.h.
//
// Lifetime: post() does not touch the baton after the waiter can return from a wait with kPosted, so the waiter may
// destroy the baton then, even while post() has not returned. A waiter that returns with kTimeout or kCancelled must
// make sure in another way that nobody posts to a destroyed baton, for example by sharing it. If several threads post,
// they must share it too.
//
// Deterministic mode: a wait parks like every other wait and a limit is virtual time; tasks of the runtime must post.
//
// Thread safety: post() and is_posted() from any thread; one waiter at a time.
#pragma once

#include <chrono>
#include <cstdint>

#include "rota/detail/sync.h"

namespace rota::fiber {

namespace detail {

struct Fiber;

struct BatonWord {
  sync::Futex state{0};
  sync::Plain<Fiber*> fiber{nullptr};
};

}  // namespace detail

class Baton {
 public:
  enum class End : std::uint8_t { kPosted, kTimeout, kCancelled };

  Baton() = default;
  Baton(const Baton&) = delete;
  Baton& operator=(const Baton&) = delete;

  // Ends the wait, now or when it begins. Further calls have no effect. What the caller did before is visible to the
  // waiter.
  void post();
  [[nodiscard]] bool is_posted() const;

  // Waits for post(). False: the caller is a task that was cancelled, and the wait ended before post(); the caller may
  // wait again. `waits_for` is a literal that completes "the task waits for ..." in deadlock reports.
  [[nodiscard]] bool wait(const char* waits_for) { return wait_until(nullptr, true, waits_for) == End::kPosted; }
  // The same for at most `limit`.
  [[nodiscard]] End wait_for(std::chrono::nanoseconds limit, const char* waits_for) {
    return wait_until(&limit, true, waits_for);
  }
  // Waits for post() even if the calling task is cancelled.
  void wait_uncancellable(const char* waits_for) { (void)wait_until(nullptr, false, waits_for); }

 private:
  End wait_until(const std::chrono::nanoseconds* limit, bool cancellable, const char* waits_for);
  End wait_as_thread(const std::chrono::nanoseconds* limit);

  detail::BatonWord word_;
};

// True if the caller is a task of some runtime, which must not block its thread.
[[nodiscard]] bool in_task();
// True if that runtime is in deterministic mode, where only its own tasks can end a wait.
[[nodiscard]] bool in_deterministic_task();

}  // namespace rota::fiber
