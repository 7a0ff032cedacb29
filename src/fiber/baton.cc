// Waiting on a Baton as a fiber or as a thread. See baton.h and baton_word.h.
#include "fiber/baton.h"

#include "fiber/baton_word.h"
#include "fiber/runtime_core.h"
#include "fiber/waiting.h"

namespace rota::fiber {

using detail::Fiber;
using detail::kNever;
using detail::Nanoseconds;
using detail::RuntimeCore;
using detail::ThreadWorker;
using detail::WakeReason;

namespace {

struct BatonWait {
  detail::BatonWord* baton;
  Fiber* fiber;
  Nanoseconds deadline;  // kNever without a limit.
  detail::WakeTimer timer{};
  bool announced = false;

  // Runs after the switch. The fiber is not resumed before this returns, so its frame is still there.
  static bool publish(ThreadWorker* worker, void* argument) {
    auto* wait = static_cast<BatonWait*>(argument);
    if (!detail::announce_fiber(*wait->baton, wait->fiber)) return false;
    wait->announced = true;
    if (wait->deadline != kNever) wait->timer.arm(worker->runtime, wait->fiber, wait->deadline);
    return true;
  }
};

}  // namespace

bool Baton::is_posted() const { return detail::baton_posted(word_); }

void Baton::post() {
  sync::Atomic<std::uint32_t>& state = word_.state.value;
  switch (detail::post_baton(word_)) {
    case detail::kBatonThreadWaits:
      sync::futex_wake(state, 1);  // The baton may be gone; only its address is used.
      return;
    case detail::kBatonFiberWaits: {
      Fiber* fiber = word_.fiber.get();
      if (detail::claim_wake(fiber, WakeReason::kDone)) {
        detail::schedule(fiber);
      } else {
        detail::release_baton(word_);
      }
      return;
    }
    default:
      return;
  }
}

Baton::End Baton::wait_until(const std::chrono::nanoseconds* limit, bool cancellable, const char* waits_for) {
  if (is_posted()) return End::kPosted;
  if (!in_task()) return wait_as_thread(limit);
  if (limit != nullptr && limit->count() <= 0) return End::kTimeout;
  ThreadWorker* worker = detail::current_worker();
  RuntimeCore* runtime = worker->runtime;
  BatonWait wait{&word_, worker->fiber, detail::deadline_of(runtime, limit)};
  const WakeReason reason = detail::park(worker, BatonWait::publish, &wait, cancellable, waits_for);
  wait.timer.disarm(runtime);
  if (reason == WakeReason::kDone) return End::kPosted;
  if (wait.announced && !detail::withdraw_fiber(word_)) return End::kPosted;
  return reason == WakeReason::kTimeout ? End::kTimeout : End::kCancelled;
}

Baton::End Baton::wait_as_thread(const std::chrono::nanoseconds* limit) {
  using Clock = std::chrono::steady_clock;
  if (!detail::announce_thread(word_)) return End::kPosted;
  const Clock::time_point start = limit == nullptr ? Clock::time_point() : Clock::now();
  while (!is_posted()) {
    if (limit == nullptr) {
      word_.state.wait(detail::kBatonThreadWaits);
      continue;
    }
    const std::chrono::nanoseconds left = *limit - (Clock::now() - start);
    if (left.count() > 0) {
      word_.state.wait(detail::kBatonThreadWaits, left);
    } else if (detail::withdraw_thread(word_)) {
      return End::kTimeout;
    }
  }
  return End::kPosted;
}

bool in_task() {
  const ThreadWorker* worker = detail::current_worker();
  // Without a task: the loop's own stack, where the closures of ended tasks are destroyed.
  return worker != nullptr && worker->fiber->task != nullptr;
}

bool in_deterministic_task() { return in_task() && detail::current_worker()->runtime->deterministic; }

}  // namespace rota::fiber
