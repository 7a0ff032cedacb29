// A user's program on the fiber runtime: a scope, tasks, and their results.
#include <cstdio>

#include "rota/fiber.h"

int main() {
  rota::fiber::Runtime runtime({.worker_count = 2});
  const int sum = runtime.run([] {
    return rota::fiber::with_scope([](rota::fiber::Nursery& nursery) {
      rota::fiber::Task<int> a = nursery.spawn([] { return 20; });
      rota::fiber::Task<int> b = nursery.spawn([] { return 22; });
      return a.get() + b.get();
    });
  });
  std::printf("fibers say %d\n", sum);
  return sum == 42 ? 0 : 1;
}
