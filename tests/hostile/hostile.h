// What the cases share.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <utility>

#include "rota/fiber.h"

namespace hostile {

using namespace rota::fiber;
using namespace std::chrono_literals;
using rota::Error;
using rota::ErrorCode;
using rota::Result;

// The code with which `f` fails, or kOk.
template <class F>
ErrorCode code_of(F&& f) {
  try {
    std::forward<F>(f)();
  } catch (const MemoryBudgetExhausted&) {
    return ErrorCode::kMemoryBudgetExhausted;
  } catch (const FiberError& error) {
    return error.code();
  } catch (const std::bad_alloc&) {
    return ErrorCode::kResourceExhausted;
  }
  return ErrorCode::kOk;
}

// Runs `wait` in a scope until its deadline passes, which calls the callbacks. Never does the task itself call them, as
// it would if the deadline passed before they are registered: then everything is repeated with more time.
template <class Wait, class... Callbacks>
void at_deadline(Wait&& wait, Callbacks&&... callbacks) {
  enum class State { kRegisters, kWaits, kTooLate };
  std::atomic<State> state{State::kTooLate};
  // Outside of the scope's body: the scope waits for the callbacks, its body does not.
  const auto call = [&state](auto& callback) {
    State expected = State::kRegisters;
    if (!state.compare_exchange_strong(expected, State::kTooLate) && expected == State::kWaits) callback();
  };
  for (std::chrono::nanoseconds limit = 1ms; state.load() == State::kTooLate; limit *= 2) {
    state = State::kRegisters;
    EXPECT_FALSE(with_deadline(limit, [&](Nursery& nursery) {
                   ((void)nursery.token().on_cancel([&call, &callbacks] { call(callbacks); }), ...);
                   State expected = State::kRegisters;
                   if (state.compare_exchange_strong(expected, State::kWaits)) wait();
                   while (check_cancelled().ok()) yield();
                   return 1;
                 }).has_value());
  }
}

// While it lives, no more address space can be mapped.
class NoMoreMemory {
 public:
  NoMoreMemory() {
    getrlimit(RLIMIT_AS, &before_);
    rlimit none = before_;
    none.rlim_cur = 1 << 20;
    setrlimit(RLIMIT_AS, &none);
  }
  ~NoMoreMemory() { setrlimit(RLIMIT_AS, &before_); }
  // False in an emulator (qemu-user), which ignores the limit: it would be its own as well.
  static bool works() {
    const NoMoreMemory limit;
    rlimit now{};
    getrlimit(RLIMIT_AS, &now);
    return now.rlim_cur == 1 << 20;
  }
  NoMoreMemory(const NoMoreMemory&) = delete;
  NoMoreMemory& operator=(const NoMoreMemory&) = delete;

 private:
  rlimit before_{};
};

#if ROTA_ASAN || ROTA_TSAN
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace hostile
