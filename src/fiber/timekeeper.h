// Fires timers while no thread worker is idle (F-6).
//
// An idle thread worker, the poller, sleeps until the next timer and fires it (worker.cc); busy ones fire what is due
// when they yield. While all thread workers are busy in code that never yields, nobody does; therefore this thread
// sleeps until the earliest timer is due, and a little longer (kSlackNs), so that it finds nothing to do while a thread
// worker is idle. A deadline that it fires raises the runtime's cancel epoch, which polling code reads anyway: the hot
// paths pay nothing.
//
// Why no timer is missed. `alarm_` is the time at which the thread wakes by itself. Invariant: whenever there is no
// poller, every timer was added or left by a thread that has yet to call watch(), or the thread is awake and will read
// next() again, or alarm_ <= next() + kSlackNs.
//   - A thread that adds the earliest timer stores next(), then reads the poller. If there is none, it calls watch().
//     A poller that leaves resets the poller, then reads next() and calls watch(). All seq_cst: at least one of the two
//     sees the other, so a timer added while the poller leaves is watched.
//   - watch() reads alarm_, and if it is too late lowers it and wakes the thread. The thread stores alarm_, then reads
//     next() again before it sleeps. All seq_cst: watch() sees the new alarm_, or the thread sees the new timer. A wake
//     between that and the sleep changes `bell_`, whose value the thread read before.
//   - A second caller of watch() that finds alarm_ already lowered by the first relies on the wake that the first is
//     about to make; after it the thread reads next().
// Removing or firing a timer only moves next() to a later time, which keeps the invariant; the thread then wakes once
// in vain. timekeeper_interleave_test.cc runs these steps under the checker.
//
// Thread safety: watch() and stop() from any thread; run() is the thread.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "fiber/timers.h"
#include "rota/detail/sync.h"

namespace rota::fiber::detail {

class Timekeeper {
 public:
  static constexpr Nanoseconds kSlackNs = 100'000;

  // There is a timer at `at` which no thread worker watches.
  void watch(Nanoseconds at) {
    const Nanoseconds due = wake_time(at);
    Nanoseconds alarm = alarm_.load(std::memory_order_seq_cst);
    while (due < alarm) {
      if (!alarm_.compare_exchange_weak(alarm, due, std::memory_order_seq_cst)) continue;
      ring();
      return;
    }
  }
  void stop() {
    stopping_.store(true, std::memory_order_seq_cst);
    ring();
  }

  // Until stop(): sleeps, and calls fire(now) when a timer is due. `next` is Timers::next(), `now` the clock.
  // kLooksAgain is false only in a test that shows that the second look is needed.
  template <bool kLooksAgain = true, class Next, class Now, class Fire>
  void run(const Next& next, const Now& now, const Fire& fire) {
    for (;;) {
      // Before everything that is checked. Acquire, partner: ring()'s release.
      const std::uint32_t rung = bell_.value.load(std::memory_order_acquire);
      if (stopping_.load(std::memory_order_seq_cst)) return;
      const Nanoseconds earliest = next();
      const Nanoseconds due = wake_time(earliest);
      const Nanoseconds time = earliest == kNever ? 0 : now();
      if (due <= time) {
        fire(time);
        continue;
      }
      alarm_.store(due, std::memory_order_seq_cst);
      if (kLooksAgain && next() < earliest) continue;
      if (earliest == kNever) {
        bell_.wait(rung);
      } else {
        bell_.wait(rung, std::chrono::nanoseconds(due - time));
      }
    }
  }

 private:
  static Nanoseconds wake_time(Nanoseconds at) { return at >= kNever - kSlackNs ? kNever : at + kSlackNs; }
  void ring() {
    bell_.value.fetch_add(1, std::memory_order_release);
    bell_.wake_one();
  }

  sync::Atomic<Nanoseconds> alarm_{INT64_MIN};  // Awake until it first sleeps.
  sync::Atomic<bool> stopping_{false};
  sync::Futex bell_;
};

}  // namespace rota::fiber::detail
