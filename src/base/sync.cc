// The futex system call behind rota/detail/sync.h.
#include "rota/detail/sync.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace rota::sync {
namespace {

static_assert(sizeof(Atomic<std::uint32_t>) == sizeof(std::uint32_t) && Atomic<std::uint32_t>::is_always_lock_free,
              "the kernel reads the atomic as a bare 32-bit word");

long futex(Atomic<std::uint32_t>& word, int operation, std::uint32_t value, const timespec* timeout) {
  return ::syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, timeout, nullptr, 0);
}

}  // namespace

void futex_wait(Atomic<std::uint32_t>& word, std::uint32_t expected) {
  // EAGAIN (the word differs) and EINTR both mean: check again. The caller loops anyway.
  futex(word, FUTEX_WAIT, expected, nullptr);
}

bool futex_wait(Atomic<std::uint32_t>& word, std::uint32_t expected, std::chrono::nanoseconds timeout) {
  if (timeout.count() <= 0) return word.load(std::memory_order_relaxed) != expected;
  constexpr std::int64_t kNanosPerSecond = 1'000'000'000;
  timespec spec{};
  spec.tv_sec = static_cast<std::time_t>(timeout.count() / kNanosPerSecond);
  spec.tv_nsec = static_cast<long>(timeout.count() % kNanosPerSecond);
  // FUTEX_WAIT's timeout is relative and measured by CLOCK_MONOTONIC.
  return !(futex(word, FUTEX_WAIT, expected, &spec) == -1 && errno == ETIMEDOUT);
}

int futex_wake(Atomic<std::uint32_t>& word, int count) {
  const long woken = futex(word, FUTEX_WAKE, static_cast<std::uint32_t>(count), nullptr);
  return woken < 0 ? 0 : static_cast<int>(woken);
}

}  // namespace rota::sync
