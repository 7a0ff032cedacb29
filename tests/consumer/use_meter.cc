// A user's program that is metered as a whole: a loop without end runs out of its budget.
#include <cstdio>

#include "rota/fiber.h"

using namespace rota::fiber;

int main() {
  Runtime runtime({.worker_count = 1, .profile = Profile::kService});
  const bool over = runtime.run([] {
    Nursery nursery(NurseryOptions{.on_exhausted = OnExhausted::kCancel});
    auto task = nursery.spawn(Grant{.budget = Budget{.ops = 10'000}}, [] {
      volatile int x = 0;
      for (;;) x = x + 1;
    });
    try {
      task.get();
    } catch (const BudgetExhausted&) {
      return true;
    }
    return false;
  });
  if (over) std::puts("the endless loop is over");
  return over ? 0 : 1;
}
