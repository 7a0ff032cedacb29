// The real deque under the interleaving checker: every item comes out exactly once, and the taker sees what was written
// before it was pushed. Contract: F-17.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "interleave/interleave.h"
#include "rota/fiber/detail/deque.h"

namespace rota::fiber::detail {
namespace {

using interleave::check;
using interleave::Execution;
using interleave::Result;

// What an item stands for: a plain word written before the push. Reading it unpublished is a data race.
struct Payloads {
  std::array<sync::Plain<int>, 4> written;
  std::array<int, 4> taken{};

  void take(std::uintptr_t item) {
    if (item == 0) return;
    ROTA_INTERLEAVE_ASSERT(written[item].get() == static_cast<int>(item));
    ++taken[item];
  }
  void push(Deque<std::uintptr_t>& deque, std::uintptr_t item) {
    written[item].set(static_cast<int>(item));
    deque.push(item);
  }
};

void expect_proven(const Result& result) {
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_TRUE(result.exhaustive) << result.report;
}

// The last item is fought for by the owner and a thief.
TEST(DequeInterleave, LastItem) {
  expect_proven(check({.name = "last item"}, [](Execution& ex) {
    Deque<std::uintptr_t> deque(2);
    Payloads items;
    ex.run(
        [&] {
          items.push(deque, 1);
          items.take(deque.pop());
        },
        [&] { items.take(deque.steal().item); });
    items.take(deque.pop());
    ROTA_INTERLEAVE_ASSERT(items.taken[1] == 1);
  }));
}

// Two items, an owner that pops both, a thief that tries twice.
TEST(DequeInterleave, OwnerAgainstThief) {
  expect_proven(check({.name = "owner against thief"}, [](Execution& ex) {
    Deque<std::uintptr_t> deque(2);
    Payloads items;
    ex.run(
        [&] {
          items.push(deque, 1);
          items.push(deque, 2);
          items.take(deque.pop());
          items.take(deque.pop());
        },
        [&] {
          items.take(deque.steal().item);
          items.take(deque.steal().item);
        });
    while (const std::uintptr_t item = deque.pop()) items.take(item);
    ROTA_INTERLEAVE_ASSERT(items.taken[1] == 1 && items.taken[2] == 1);
  }));
}

// A join's pop_if() and the FIFO end that the owner uses, against a thief.
TEST(DequeInterleave, PopIfAndTakeTop) {
  expect_proven(check({.name = "pop_if and take_top"}, [](Execution& ex) {
    Deque<std::uintptr_t> deque(2);
    Payloads items;
    ex.run(
        [&] {
          items.push(deque, 1);
          items.push(deque, 2);
          if (deque.pop_if(2)) items.take(2);
          items.take(deque.take_top());
        },
        [&] { items.take(deque.steal().item); });
    while (const std::uintptr_t item = deque.pop()) items.take(item);
    ROTA_INTERLEAVE_ASSERT(items.taken[1] == 1 && items.taken[2] == 1);
  }));
}

// It grows while a thief reads the old buffer.
TEST(DequeInterleave, GrowsUnderAThief) {
  expect_proven(check({.name = "growing"}, [](Execution& ex) {
    Deque<std::uintptr_t> deque(2);
    Payloads items;
    ex.run(
        [&] {
          items.push(deque, 1);
          items.push(deque, 2);
          items.push(deque, 3);
        },
        [&] { items.take(deque.steal().item); });
    while (const std::uintptr_t item = deque.pop()) items.take(item);
    ROTA_INTERLEAVE_ASSERT(items.taken[1] == 1 && items.taken[2] == 1 && items.taken[3] == 1);
  }));
}

// The checker sees what the deque does: the version for a lone owner, used although there is a thief, is caught.
TEST(DequeInterleave, TheLoneOwnersPopIsCaughtUnderAThief) {
  const Result result = check({.name = "planted: no fence"}, [](Execution& ex) {
    Deque<std::uintptr_t> deque(2);
    Payloads items;
    ex.run(
        [&] {
          items.push(deque, 1);
          items.take(deque.pop<true>());
        },
        [&] { items.take(deque.steal().item); });
    ROTA_INTERLEAVE_ASSERT(items.taken[1] <= 1);
  });
  EXPECT_FALSE(result.ok);
}

}  // namespace
}  // namespace rota::fiber::detail
