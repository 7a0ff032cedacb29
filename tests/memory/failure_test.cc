// Each allocation fails in turn (F-19): the runtime neither crashes, hangs nor leaks, and at most one task ends.
//
// The allocator of this program counts and fails on request. For each step of everything.cc, on a real and on a
// deterministic runtime, in profiles with and without budgets, the n-th allocation fails, for n from 1 until a run
// needs fewer; then every n-th. The run in the test suite takes some of the n; ROTA_EVERY_ALLOCATION=1 takes all.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>

#include "everything.h"

namespace {

std::atomic<bool> g_counting{false};
std::atomic<std::uint64_t> g_count{0};
std::atomic<std::uint64_t> g_fail_at{0};  // 0: none.
std::atomic<bool> g_repeat{false};        // Every g_fail_at-th fails.
std::atomic<std::uint64_t> g_failed{0};

bool fails() {
  if (!g_counting.load(std::memory_order_relaxed)) return false;
  const std::uint64_t count = g_count.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::uint64_t at = g_fail_at.load(std::memory_order_relaxed);
  if (at == 0 || (g_repeat.load(std::memory_order_relaxed) ? count % at != 0 : count != at)) return false;
  g_failed.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void* allocate(std::size_t bytes) {
  if (fails()) throw std::bad_alloc();
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void* allocate(std::size_t bytes, std::size_t alignment) {
  if (fails()) throw std::bad_alloc();
  if (void* memory = memalign(alignment, bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes == 0 ? 1 : bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes == 0 ? 1 : bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
// The runtime's task records.
extern "C" void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return fails() ? nullptr : memalign(alignment, bytes);
}

namespace {

using namespace rota::fiber;

// What a run ended with.
struct Outcome {
  std::uint64_t allocations = 0;
  std::uint64_t failed = 0;  // Allocations that failed.
  int bystanders_lost = 0;   // Tasks that have nothing to do with the step, and ended.
};

Outcome run(const everything::Step& step, Config config, std::uint64_t fail_at, bool repeat) {
  Outcome result;
  g_count = 0;
  g_failed = 0;
  g_fail_at = fail_at;
  g_repeat = repeat;
  g_counting = true;
  try {
    rota::Result<std::unique_ptr<Runtime>> made = Runtime::create(config);
    if (made.ok()) {
      Runtime& runtime = **made;
      const auto body = [&] {
        try {
          step.run(runtime);
        } catch (...) {  // Whatever failed is the outcome of this task.
        }
      };
      // Three others wait, are woken, and count.
      Task<int> others[3];
      int started = 0;
      for (Task<int>& other : others) {
        try {
          other = runtime.spawn([] {
            int rounds = 0;
            for (; rounds < 3; ++rounds) {
              if (!sleep_for(std::chrono::microseconds(5)).ok()) break;
              yield();
            }
            return rounds;
          });
          ++started;
        } catch (...) {
        }
      }
      try {
        runtime.run(body);
      } catch (...) {
      }
      if (config.deterministic_seed) runtime.shutdown();
      result.bystanders_lost = 3 - started;
      for (int i = 0; i < 3; ++i) {
        if (!others[i].valid()) continue;
        try {
          if (others[i].get() != 3) ++result.bystanders_lost;
        } catch (...) {
          ++result.bystanders_lost;
        }
      }
      runtime.shutdown();
      if (!runtime.audit().balanced()) ADD_FAILURE() << "the books do not balance";
    }
  } catch (...) {
    // Without the runtime there is nothing to look at.
  }
  g_counting = false;
  result.allocations = g_count;
  result.failed = g_failed;
  return result;
}

Config config_of(int kind) {
  Config config;
  config.worker_count = 2;
  config.stack_bytes = 65536;
  config.local_queue_size = 16;
  if (kind % 2 == 1) config.deterministic_seed = 7;
  if (kind / 2 == 1) {
    config.profile = Profile::kCluster;
    config.default_budget = Budget{1'000'000, 1 << 20, 1000, 1000, 1000};
  }
  if (kind == 4) config.trace_events = 256;
  return config;
}

class EachAllocation : public testing::TestWithParam<int> {};

// Contract: F-19. An allocation failure anywhere in the runtime ends at most one task.
TEST_P(EachAllocation, FailsInTurn) {
  const bool all = std::getenv("ROTA_EVERY_ALLOCATION") != nullptr;
  const everything::Step& step = everything::kSteps[GetParam()];
  alarm(all ? 3600 : 600);  // A hang ends the program, whose last message says where.
  for (int kind = 0; kind < 5; ++kind) {
    const Config config = config_of(kind);
    const std::uint64_t total = run(step, config, 0, false).allocations;
    const std::uint64_t stride = all ? 1 : std::max<std::uint64_t>(1, total / 23);
    for (const bool repeat : {false, true}) {
      for (std::uint64_t n = 1; n <= total; n += stride) {
        SCOPED_TRACE(testing::Message() << step.name << ", kind " << kind << ", n " << n << (repeat ? ", every" : ""));
        if (std::getenv("ROTA_SHOW_ALLOCATION") != nullptr) {
          std::fprintf(stderr, "%s kind %d n %ju%s\n", step.name, kind, n, repeat ? " every" : "");
        }
        const Outcome outcome = run(step, config, n, repeat);
        if (!repeat) {
          EXPECT_LE(outcome.bystanders_lost, 1);
        }
      }
    }
    EXPECT_EQ(run(step, config, 0, false).bystanders_lost, 0) << step.name << " leaves a runtime that works";
  }
  alarm(0);
}
INSTANTIATE_TEST_SUITE_P(Of, EachAllocation, testing::Range(0, everything::kStepCount), [](const auto& step) {
  std::string name = everything::kSteps[step.param].name;
  std::erase(name, ' ');
  return name;
});

// Contract: F-19. A process whose memory is used up looks at an error that was made from a code alone, for the first
// time.
TEST(MemoryFailureDeathTest, AnErrorThatIsOnlyACodeNeedsNoMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // A process of its own.
  EXPECT_EXIT(
      {
        const rota::Result<void> closed(rota::ErrorCode::kClosed);
        g_fail_at = 1;
        g_repeat = true;
        g_counting = true;
        const bool right = closed.error().code == rota::ErrorCode::kClosed && !closed.error().message.empty();
        g_counting = false;
        std::_Exit(right ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
