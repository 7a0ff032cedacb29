#include "metered_code.h"

#include <malloc.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "rota/fiber.h"

namespace metered {

Counter g_handled = 0;

void endless(Counter& rounds) {
  for (;;) rounds = rounds + 1;
}

void endless_noexcept(Counter& rounds) noexcept {
  for (;;) rounds = rounds + 1;
}

namespace {
struct Stubborn {
  explicit Stubborn(Counter& counter) : rounds(counter) {}
  ~Stubborn() {
    for (;;) rounds = rounds + 1;
  }
  Counter& rounds;
};

[[gnu::noinline]] void step(Counter& rounds) { rounds = rounds + 1; }

// NOLINTNEXTLINE(misc-no-recursion)
[[gnu::noinline]] std::uint64_t dive_on(Counter& rounds, volatile char* above) {
  volatile char here[40];
  here[0] = above[0];
  rounds = rounds + 1;
  return rounds == 0 ? 0 : dive_on(rounds, here) + static_cast<std::uint64_t>(here[0]);
}
}  // namespace

void dive(Counter& rounds) {
  volatile char surface = 1;
  dive_on(rounds, &surface);
}

void dive_in_a_scope(Counter& rounds) {
  rota::fiber::with_scope([&rounds](rota::fiber::Nursery& nursery) {
    nursery.launch([] {
      Counter mine = 0;
      endless(mine);
    });
    dive(rounds);
  });
}

void endless_destructor(Counter& rounds) { const Stubborn stubborn(rounds); }

void endless_while_unwinding(Counter& rounds) {
  const Stubborn stubborn(rounds);
  throw std::runtime_error("never arrives");
}

void endless_handler(Counter& rounds) {
  try {
    throw std::runtime_error("caught and kept");
  } catch (const std::runtime_error&) {
    for (;;) rounds = rounds + 1;
  }
}

void endless_calls(Counter& rounds) {
  for (;;) step(rounds);
}

void endless_swallowing(Counter& rounds) {
  for (;;) {
    try {
      rota::fiber::tick();
      rounds = rounds + 1;
    } catch (...) {  // NOLINT(bugprone-empty-catch): that is the point.
    }
  }
}

void endless_with_children(Counter& rounds) {
  rota::fiber::with_scope([&rounds](rota::fiber::Nursery& nursery) {
    for (int i = 0; i < 3; ++i) {
      nursery.launch([] {
        Counter mine = 0;
        endless(mine);
      });
    }
    endless(rounds);
  });
}

std::uint64_t count_to(std::uint64_t n) {
  Counter count = 0;
  while (count < n) count = count + 1;
  return count;
}

// NOLINTNEXTLINE(misc-no-recursion): that is what is tested.
std::uint64_t fibonacci(unsigned n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

bool runs_until_cancelled(Counter& rounds) {
  while (!rota::fiber::is_cancelled()) rounds = rounds + 1;
  return true;
}

bool count_alone(bool& inside, std::uint64_t n) {
  const rota::fiber::MeterHold hold;
  if (inside) return false;
  inside = true;
  const bool all = count_to(n) == n;
  inside = false;
  return all;
}

std::size_t hoard(Hoard how, std::size_t bytes) {
  constexpr std::size_t kBlock = 1 << 16;
  std::size_t got = 0;
  switch (how) {
    case Hoard::kNew: {
      std::vector<std::unique_ptr<char[]>> blocks;
      for (; got < bytes; got += kBlock) blocks.push_back(std::make_unique<char[]>(kBlock));
      break;
    }
    case Hoard::kVector: {
      std::vector<char> all;
      for (; got < bytes; got += kBlock) all.resize(got + kBlock);
      break;
    }
    case Hoard::kMalloc: {
      std::vector<void*> blocks;
      for (; got < bytes; got += kBlock) {
        void* block = std::malloc(kBlock);
        if (block == nullptr) break;
        blocks.push_back(block);
      }
      for (void* block : blocks) std::free(block);
      break;
    }
    case Hoard::kRealloc: {
      void* block = nullptr;
      for (; got < bytes; got += kBlock) {
        void* more = std::realloc(block, got + kBlock);
        if (more == nullptr) break;
        block = more;
      }
      std::free(block);
      break;
    }
    case Hoard::kReallocArray: {
      void* block = nullptr;
      for (; got < bytes; got += kBlock) {
        void* more = reallocarray(block, got / kBlock + 1, kBlock);
        if (more == nullptr) break;
        block = more;
      }
      std::free(block);
      break;
    }
    case Hoard::kReturns: {
      for (; got < bytes; got += kBlock) delete[] new char[kBlock];
      break;
    }
  }
  return got;
}

namespace {
struct Allocator {
  const char* name;
  void* (*allocate)(std::size_t bytes);
};
constexpr std::size_t kPage = 4096;
// A text of `bytes` with its final 0, at most 8 MiB, in memory that is not allocated.
const char* text_of(std::size_t bytes) {
  static char text[std::size_t{8} << 20];
  std::memset(text, 'x', bytes - 1);
  text[bytes - 1] = '\0';
  return text;
}
const Allocator kAllocators[] = {
    {"malloc", [](std::size_t bytes) { return std::malloc(bytes); }},
    {"calloc", [](std::size_t bytes) { return std::calloc(1, bytes); }},
    {"realloc", [](std::size_t bytes) { return std::realloc(nullptr, bytes); }},
    {"reallocarray", [](std::size_t bytes) { return reallocarray(nullptr, bytes / kPage, kPage); }},
    {"aligned_alloc", [](std::size_t bytes) { return std::aligned_alloc(kPage, bytes); }},
    {"posix_memalign",
     [](std::size_t bytes) {
       void* block = nullptr;
       return posix_memalign(&block, kPage, bytes) == 0 ? block : nullptr;
     }},
    {"memalign", [](std::size_t bytes) { return memalign(kPage, bytes); }},
    {"valloc", [](std::size_t bytes) { return valloc(bytes); }},
    {"pvalloc", [](std::size_t bytes) { return pvalloc(bytes); }},
    {"nothrow", [](std::size_t bytes) { return ::operator new(bytes, std::nothrow); }},
    {"strdup", [](std::size_t bytes) -> void* { return strdup(text_of(bytes)); }},
    {"strndup", [](std::size_t bytes) -> void* { return strndup(text_of(bytes), bytes); }},
};
}  // namespace

std::vector<std::string> served(std::size_t bytes) {
  std::vector<std::string> names;
  for (const Allocator& allocator : kAllocators) {
    void* volatile block = allocator.allocate(bytes);
    if (block != nullptr) names.emplace_back(allocator.name);
    std::free(block);
  }
  return names;
}

std::vector<std::string> all_allocators() {
  std::vector<std::string> names;
  for (const Allocator& allocator : kAllocators) names.emplace_back(allocator.name);
  return names;
}

void slow_handler(int) { g_handled = count_to(100'000); }

}  // namespace metered
