// What the cases share.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

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
