// This whole program is metered, the headers of the runtime in it as well: every path through them must bear a tick,
// and with it a switch to another worker, between any two steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "rota/fiber.h"

namespace rota::fiber {
namespace {

static_assert(ROTA_METERED == 1);

// Under ThreadSanitizer a stack costs as much as a thread.
#if defined(__SANITIZE_THREAD__)
constexpr long kLeaves = 100;
#else
constexpr long kLeaves = 2000;
#endif

Config restless(std::size_t workers) {
  Config config;
  config.worker_count = workers;
  config.profile = Profile::kService;
  config.yield_interval = 3;  // A switch every few basic blocks.
  config.default_budget =
      Budget{.ops = 1'000'000, .memory = 1 << 20, .spawn_count = 1000, .channel_ops = 1, .syscalls = 1};
  return config;
}

// NOLINTNEXTLINE(misc-no-recursion)
long sum_below(long first, long leaves) {
  if (leaves == 1) return first;
  return with_scope([=](Nursery& nursery) {
    const long half = leaves / 2;
    Task<long> a = nursery.spawn([=] { return sum_below(first, half); });
    Task<long> b = nursery.spawn([=] { return sum_below(first + half, leaves - half); });
    return a.get() + b.get();
  });
}

// Contract: F-13. Spawns, joins and scopes keep their promises when a metered yield may come anywhere.
TEST(MeteredInside, ForkJoinUnderConstantInterruption) {
  for (const std::size_t workers : {1U, 2U, 8U}) {
    Runtime runtime(restless(workers));
    EXPECT_EQ(runtime.run([] { return sum_below(0, kLeaves); }), kLeaves * (kLeaves - 1) / 2) << workers;
    EXPECT_TRUE(runtime.audit().balanced());
  }
}

// Contract: F-13. The same in the modes that take other paths: deterministic, traced.
TEST(MeteredInside, OtherPaths) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    Config config = restless(4);
    config.deterministic_seed = seed;
    config.trace_events = seed == 2 ? 1000 : 0;
    Runtime runtime(config);
    EXPECT_EQ(runtime.run([] { return sum_below(0, kLeaves / 10); }), kLeaves / 10 * (kLeaves / 10 - 1) / 2);
  }
}

// Contract: F-5, F-13. Failures, cancellation and dropped handles, likewise.
TEST(MeteredInside, FailuresAndCancellation) {
  Runtime runtime(restless(4));
  for (int round = 0; round < 50; ++round) {
    const ErrorCode code = runtime.run([round] {
      Nursery nursery;
      std::vector<Task<int>> tasks;
      for (int i = 0; i < 20; ++i) {
        tasks.push_back(nursery.spawn([i] {
          for (int k = 0; k < i; ++k) yield();
          tick(5);
          return i;
        }));
      }
      nursery.launch([round] {
        if (round % 2 == 0) throw std::runtime_error("planned");
      });
      if (round % 3 == 0) nursery.cancel();
      tasks.erase(tasks.begin() + 5, tasks.end());  // Dropped: the nursery still has them.
      return nursery.close().code();
    });
    // The failure, or the cancellation if it came first.
    if (round % 2 != 0) {
      EXPECT_EQ(code, round % 3 == 0 ? ErrorCode::kCancelled : ErrorCode::kOk);
    } else if (round % 3 != 0) {
      EXPECT_NE(code, ErrorCode::kOk);
    }
  }
}

// Contract: F-13, F-24, F-25. Values whose moves are metered code, and a mutex held across metered yields.
TEST(MeteredInside, ChannelsAndMutexes) {
  struct Slow {
    explicit Slow(int n) : value(n) {}
    Slow(Slow&& other) noexcept : value(other.value) {
      volatile int steps = 0;
      while (steps < 20) steps = steps + 1;  // Under the channel's lock.
    }
    int value;
  };
  for (const std::size_t workers : {1U, 8U}) {
    Runtime runtime(restless(workers));
    runtime.run([] {
      Channel<Slow> channel(2);
      Mutex mutex;
      int inside = 0;
      long sum = 0;
      with_scope([&](Nursery& nursery) {
        for (int p = 0; p < 3; ++p) {
          nursery.launch([&] {
            for (int i = 0; i < 100; ++i) EXPECT_TRUE(channel.send(Slow(i)));
          });
        }
        for (int c = 0; c < 3; ++c) {
          nursery.launch([&] {
            for (int i = 0; i < 100; ++i) {
              const std::optional<Slow> received = channel.receive();
              const std::lock_guard guard(mutex);
              EXPECT_EQ(++inside, 1);
              sum += received->value;
              --inside;
            }
          });
        }
      });
      EXPECT_EQ(sum, 3 * 99 * 100 / 2);
    });
  }
}

// Contract: F-13. No function of which the runtime has a copy carries a tick in this program: the runtime would call
// it under its locks.
TEST(MeteredInside, TheRuntimesCopiesAreLinkedFirst) {
  const auto lines_of = [](const std::string& command) {
    std::vector<std::string> lines;
    FILE* pipe = popen(command.c_str(), "r");
    char line[8192];
    while (pipe != nullptr && std::fgets(line, sizeof(line), pipe) != nullptr) lines.emplace_back(line);
    if (pipe != nullptr) pclose(pipe);
    return lines;
  };
  // Names of weak functions in the runtime; then, in this program, functions that call the tick.
  const std::vector<std::string> weak =
      lines_of(ROTA_NM " " ROTA_RUNTIME_FILE " 2>/dev/null | sed -n 's/.* W //p' | LC_ALL=C sort -u");
  const std::vector<std::string> ticking =
      lines_of(ROTA_OBJDUMP " -d --no-show-raw-insn " + std::filesystem::read_symlink("/proc/self/exe").string() +
               " | awk '/^[0-9a-f]+ <.*>:$/ {name = substr($2, 2, length($2) - 3)} "
               "/(call|bl).*<__sanitizer_cov_trace_pc/ {print "
               "name}' | LC_ALL=C sort -u");
  EXPECT_GT(weak.size(), 20U);
  EXPECT_GT(ticking.size(), 10U);
  for (const std::string& name : ticking) {
    EXPECT_FALSE(std::binary_search(weak.begin(), weak.end(), name)) << name;
  }
}

}  // namespace
}  // namespace rota::fiber
