// Skynet: a task starts ten tasks, each of which starts ten more, down to a million leaves; each leaf returns its
// number, each task above returns the sum of its ten. Usage: skynet [leaves] [workers]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "rota/fiber.h"

using namespace rota::fiber;

namespace {

long skynet(long first, long leaves) {
  if (leaves == 1) return first;
  return with_scope([=](Nursery& nursery) {
    const long each = leaves / 10;
    Task<long> tasks[10];
    for (int i = 0; i < 10; ++i) {
      tasks[i] = nursery.spawn([=] { return skynet(first + i * each, each); });
    }
    long sum = 0;
    for (int i = 10; i-- > 0;) sum += tasks[i].get();  // The newest first: it is still in this worker's own deque.
    return sum;
  });
}

// A whole number of at least `least`; otherwise ends the program with a message.
long number(const char* text, const char* what, long least, long most) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || value < least || value > most) {
    std::fprintf(stderr, "skynet: %s is '%s'; allowed is a number from %ld to %ld\n", what, text, least, most);
    std::exit(2);
  }
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 3 || (argc > 1 && std::strcmp(argv[1], "--help") == 0)) {
    std::puts("usage: skynet [leaves, a power of ten; 1000000] [workers; one per core]");
    return argc > 3 ? 2 : 0;
  }
  const long leaves = argc > 1 ? number(argv[1], "leaves", 1, 100'000'000) : 1'000'000;
  for (long power = leaves; power > 1; power /= 10) {
    if (power % 10 != 0) {
      std::fprintf(stderr, "skynet: leaves is %ld; it must be a power of ten\n", leaves);
      return 2;
    }
  }
  Config config;
  if (argc > 2) config.worker_count = static_cast<std::size_t>(number(argv[2], "workers", 1, 1024));
  Runtime runtime(config);
  const long expected = leaves * (leaves - 1) / 2;
  for (int round = 1; round <= 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    const long sum = runtime.run([leaves] { return skynet(0, leaves); });
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    if (sum != expected) {
      std::fprintf(stderr, "skynet: the sum is %ld, but it should be %ld\n", sum, expected);
      return 1;
    }
    std::printf("round %d: %ld leaves, sum %ld, %.1f ms\n", round, leaves, sum, took.count());
  }
  const Stats stats = runtime.stats();
  std::printf("%zu workers: %llu tasks spawned, %llu stolen, %llu stacks made\n", runtime.config().worker_count,
              static_cast<unsigned long long>(stats.sum.spawned), static_cast<unsigned long long>(stats.sum.steals),
              static_cast<unsigned long long>(stats.stacks_live + stats.stacks_cached));
  std::puts("Try next: ./dev test, ./dev bench fiber, ./dev contract F, and docs/ARCHITECTURE.md.");
  return 0;
}
