// Shared by the tests of I/O.
#pragma once

#include <gtest/gtest.h>
#include <sched.h>

#include <span>
#include <string>
#include <string_view>

#include "fiber/runtime_core.h"
#include "rota/fiber.h"

namespace rota::fiber::testing {

// The number of rounds; ThreadSanitizer makes each about fifty times as slow.
constexpr int rounds(int usual) { return ROTA_TSAN ? (usual + 19) / 20 : usual; }

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Reads `size` bytes; the test fails if it cannot.
inline std::string read_text(Descriptor& from, std::size_t size) {
  std::string text(size, '\0');
  const Result<void> read = from.read_exactly(std::as_writable_bytes(std::span(text)));
  EXPECT_TRUE(read.ok()) << read.error().to_string();
  return text;
}

// Reads to the end of the stream.
inline std::string read_to_end(Descriptor& from) {
  std::string text;
  char buffer[1000];
  for (;;) {
    const Result<std::size_t> count = from.read_some(std::as_writable_bytes(std::span(buffer)));
    if (!count.ok()) {
      ADD_FAILURE() << count.error().to_string();
      return text;
    }
    if (*count == 0) return text;
    text.append(buffer, *count);
  }
}

// Fills the buffers, so that writes to it wait.
inline std::size_t fill(Descriptor& to) {
  const std::string block(4096, 'x');
  std::size_t total = 0;
  for (;;) {
    const Result<std::size_t> count = to.write_some(bytes_of(block), Deadline::at(std::chrono::nanoseconds(0)));
    if (!count.ok()) {
      EXPECT_EQ(count.code(), ErrorCode::kDeadlineExceeded) << count.error().to_string();
      return total;
    }
    total += *count;
  }
}

// Lets other tasks run until the task waits, or is a few instructions away from it.
template <class T>
void until_blocked(const Task<T>& task) {
  while (task.state() != TaskState::kBlocked) yield();
}

// Called from outside: returns when all thread workers sleep.
inline void until_all_sleep(Runtime& runtime) {
  detail::RuntimeCore* core = runtime.core();
  while (detail::ParkingLot::sleepers(core->lot.word().load()) < core->worker_count) sched_yield();
}

}  // namespace rota::fiber::testing
