#include <gtest/gtest.h>

#include "rota/fiber.h"

namespace rota::fiber {
namespace {

int fib(int n) {
  if (n < 2) return n;
  return with_scope([n](Nursery& s) {
    Task<int> a = s.spawn([n] { return fib(n - 1); });
    const int b = fib(n - 2);
    return a.get() + b;
  });
}

TEST(Smoke, Fib) {
  for (std::size_t workers : {1U, 2U, 8U}) {
    Runtime runtime({.worker_count = workers});
    EXPECT_EQ(runtime.run([] { return fib(20); }), 6765);
  }
}

TEST(Smoke, Yield) {
  Runtime runtime({.worker_count = 1});
  std::string order;
  runtime.run([&] {
    with_scope([&](Nursery& n) {
      n.launch([&] {
        for (int i = 0; i < 3; ++i) {
          order += 'a';
          yield();
        }
      });
      n.launch([&] {
        for (int i = 0; i < 3; ++i) {
          order += 'b';
          yield();
        }
      });
    });
  });
  EXPECT_EQ(order.size(), 6U);
}

TEST(Smoke, SleepAndCancel) {
  Runtime runtime({.worker_count = 2});
  const auto code = runtime.run([&] {
    return with_scope([&](Nursery& n) {
      auto t = n.spawn([&] { return sleep_for(std::chrono::hours(1)).code(); });
      yield();
      t.cancel();
      return t.get();
    });
  });
  EXPECT_EQ(code, ErrorCode::kCancelled);
}

TEST(Smoke, Deadline) {
  Runtime runtime({.worker_count = 2});
  auto r = runtime.run([&] {
    return with_deadline(std::chrono::milliseconds(5), [&](Nursery& n) {
      n.launch([&] { (void)sleep_for(std::chrono::hours(1)); });
      return 5;
    });
  });
  EXPECT_FALSE(r.has_value());
}

TEST(Smoke, Deterministic) {
  std::uint64_t hashes[3];
  int i = 0;
  for (std::uint64_t seed : {1U, 1U, 2U}) {
    Runtime runtime({.worker_count = 4, .deterministic_seed = seed});
    EXPECT_EQ(runtime.run([] { return fib(10); }), 55);
    hashes[i++] = runtime.event_hash();
  }
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_NE(hashes[0], hashes[2]);
}

TEST(Smoke, Throw) {
  Runtime runtime({.worker_count = 2});
  EXPECT_THROW(runtime.run([&] { with_scope([&](Nursery& n) { n.launch([] { throw std::runtime_error("x"); }); }); }),
               std::runtime_error);
}

}  // namespace
}  // namespace rota::fiber
