// What every C++ program of bench/ shares: the command line, the clock, and one way of measuring.
//
// A program is called as `<program> <work> <threads> [size]`. It does the work once to warm up, then a fixed number of
// times, and prints one line: one number for each figure of the work, `-` for a figure it does not have. On stderr it
// prints `result N`, what the work computed, so that a test can compare it with what it must be. A wrong result, or a
// work that it does not know, ends it with a sentence and status 1 or 2.
//
// Thread safety: none but now_ns() and the spins; the rest is called from main.
#pragma once

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace bench {

inline constexpr std::size_t kRepetitions = 3;              // After one to warm up; the median counts.
inline constexpr std::uint64_t kEnoughNs = 2'000'000'000u;  // No further repetition after this long.

inline std::uint64_t now_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(t.tv_nsec);
}

inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

inline void spin_for_ns(std::uint64_t ns) {
  for (const std::uint64_t end = now_ns() + ns; now_ns() < end;) spin_pause();
}

[[noreturn]] inline void fail(const std::string& sentence) {
  std::fprintf(stderr, "%s\n", sentence.c_str());
  std::exit(1);
}

// The work computed `got`; ends the program unless that is right.
inline void expect(std::uint64_t got, std::uint64_t want) {
  std::fprintf(stderr, "result %llu\n", static_cast<unsigned long long>(got));
  if (got != want) fail("wrong result: " + std::to_string(got) + ", expected " + std::to_string(want));
}

// The value below which the share `p` of `values` lies. REQUIRES: not empty.
inline double percentile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(p * last + 0.5)];
}
inline double median(std::vector<double> values) { return percentile(std::move(values), 0.5); }

// Runs `once` to warm up and then kRepetitions times (fewer, but at least once, if that takes long): the median of what
// it returns.
inline double measure(const std::function<double()>& once) {
  once();
  std::vector<double> values;
  const std::uint64_t start = now_ns();
  do {
    values.push_back(once());
  } while (values.size() < kRepetitions && now_ns() - start < kEnoughNs);
  return median(std::move(values));
}
// The same for work that does not time itself: nanoseconds divided by `count`.
inline double measure_ns_each(std::uint64_t count, const std::function<void()>& work) {
  return measure([&] {
    const std::uint64_t start = now_ns();
    work();
    return static_cast<double>(now_ns() - start) / static_cast<double>(count);
  });
}

inline double resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  double total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

// fib(n) as every program computes it: each call with n >= 2 spawns and joins exactly one task.
inline std::uint64_t fib_value(std::uint64_t n) {
  std::uint64_t a = 0, b = 1;
  for (; n > 0; --n) {
    a = std::exchange(b, a + b);
  }
  return a;
}
inline std::uint64_t fib_tasks(std::uint64_t n) { return fib_value(n + 1) - 1; }

// skynet over `leaves` (a power of ten): the sum of the leaves' ordinals.
inline std::uint64_t skynet_sum(std::uint64_t leaves) { return leaves * (leaves - 1) / 2; }
inline void require_power_of_ten(std::uint64_t leaves) {
  for (; leaves % 10 == 0 && leaves > 1; leaves /= 10) {
  }
  if (leaves != 1) fail("skynet needs a power of ten");
}

// The figures of one run, in the order that the work's rows name them; a negative one means "none".
using Figures = std::vector<double>;

struct Work {
  const char* name;
  std::uint64_t default_size;
  Figures (*run)(unsigned threads, std::uint64_t size);
};

inline int main_of(int argc, char** argv, std::span<const Work> works) {
  if (argc < 3 || argc > 4) {
    std::fprintf(stderr, "usage: %s <work> <threads> [size]\nworks:", argv[0]);
    for (const Work& work : works) std::fprintf(stderr, " %s", work.name);
    std::fprintf(stderr, "\n");
    return 2;
  }
  for (const Work& work : works) {
    if (std::strcmp(work.name, argv[1]) != 0) continue;
    const unsigned long threads = std::strtoul(argv[2], nullptr, 10);
    const std::uint64_t size = argc == 4 ? std::strtoull(argv[3], nullptr, 10) : work.default_size;
    if (threads < 1 || threads > 256 || size < 1) fail("threads must be 1 to 256 and the size at least 1");
    const char* separator = "";
    for (const double figure : work.run(static_cast<unsigned>(threads), size)) {
      if (figure < 0) {
        std::printf("%s-", separator);
      } else {
        std::printf("%s%.6g", separator, figure);
      }
      separator = " ";
    }
    std::printf("\n");
    return 0;
  }
  std::fprintf(stderr, "no such work here: %s\n", argv[1]);
  return 2;
}

}  // namespace bench
