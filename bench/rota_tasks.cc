// Our part of the table, as far as tasks do not wait for each other's messages: P-1 to P-4, P-8 polling, P-9.
#include <array>
#include <atomic>
#include <cstdint>

#include "common/wake.h"
#include "rota.h"

namespace {

namespace fiber = rota::fiber;
using bench::Figures;
using bench::now_ns;
using bench::on_workers;

// Two tasks a worker take turns; worker time a switch. The pairs' parents meet first, so that each worker has one pair:
// a yield with nothing else to run would not switch.
Figures run_yield(unsigned threads, std::uint64_t count) {
  return on_workers(threads, [&]() -> Figures {
    std::atomic<std::uint64_t> yields{0};
    const double ns = bench::measure([&] {
      yields = 0;
      std::atomic<unsigned> arrived{0};
      std::atomic<std::uint64_t> start_ns{0};
      const auto pair = [&] {
        arrived.fetch_add(1);
        while (arrived.load() < threads) bench::spin_pause();
        start_ns = now_ns();
        fiber::with_scope([&](fiber::Nursery& scope) {
          for (int i = 0; i < 2; ++i) {
            scope.launch([&] {
              for (std::uint64_t n = 0; n < count; ++n) fiber::yield();
              yields.fetch_add(count);
            });
          }
        });
      };
      fiber::with_scope([&](fiber::Nursery& scope) {
        for (unsigned i = 1; i < threads; ++i) scope.launch(pair);
        pair();
      });
      return static_cast<double>(now_ns() - start_ns) / static_cast<double>(2 * count);
    });
    bench::expect(yields.load(), 2 * count * threads);
    return {ns};
  });
}

std::uint64_t fib(std::uint64_t n) {
  if (n < 2) return n;
  const auto [a, b] = fiber::both([n] { return fib(n - 2); }, [n] { return fib(n - 1); });
  return a + b;
}

Figures run_fib(unsigned threads, std::uint64_t n) {
  return on_workers(threads, [&]() -> Figures {
    std::uint64_t value = 0;
    const double ns = bench::measure_ns_each(bench::fib_tasks(n), [&] { value = fib(n); });
    bench::expect(value, bench::fib_value(n));
    return {ns};
  });
}

Figures run_spawn(unsigned threads, std::uint64_t count) {
  return on_workers(threads, [&]() -> Figures {
    const double ns = bench::measure_ns_each(count, [&] {
      fiber::with_scope([&](fiber::Nursery& scope) {
        for (std::uint64_t i = 0; i < count; ++i) scope.launch([] {});
      });
    });
    std::atomic<std::uint64_t> ran{0};
    fiber::with_scope([&](fiber::Nursery& scope) {
      for (std::uint64_t i = 0; i < count; ++i) scope.launch([&] { ran.fetch_add(1, std::memory_order_relaxed); });
    });
    bench::expect(ran.load(), count);
    return {ns};
  });
}

std::uint64_t skynet(std::uint64_t first, std::uint64_t leaves) {
  if (leaves == 1) return first;
  return fiber::with_scope([first, leaves](fiber::Nursery& scope) {
    const std::uint64_t part = leaves / 10;
    std::array<fiber::Task<std::uint64_t>, 10> children;
    for (std::uint64_t i = 0; i < 10; ++i) {
      children[i] = scope.spawn([first, part, i] { return skynet(first + i * part, part); });
    }
    std::uint64_t sum = 0;
    for (std::uint64_t i = 10; i-- > 0;) sum += children[i].get();  // The newest first: it is still at hand.
    return sum;
  });
}

Figures run_skynet(unsigned threads, std::uint64_t leaves) {
  bench::require_power_of_ten(leaves);
  return on_workers(threads, [&]() -> Figures {
    std::uint64_t sum = 0;
    const double ms = bench::measure_ns_each(1'000'000, [&] { sum = skynet(0, leaves); });
    bench::expect(sum, bench::skynet_sum(leaves));
    return {ms};
  });
}

Figures run_cancel_polling(unsigned threads, std::uint64_t count) {
  const auto poll = [] {
    while (!fiber::is_cancelled()) fiber::yield();
  };
  return bench::measure_cancel(threads, count, poll, [] {});
}

// As many as there are other workers poll, without giving way; the rest are queued, and end there.
Figures run_cancel_queued(unsigned threads, std::uint64_t count) {
  return on_workers(threads, [&]() -> Figures {
    std::uint64_t acknowledged = 0;
    const double us = bench::measure([&] {
      std::atomic<unsigned> polling{0};
      std::atomic<bool> launched{false};
      fiber::Nursery scope;
      for (std::uint64_t i = 0; i < count; ++i) {
        scope.launch([&] {
          // With the profile `service` launching may yield to a task that is launched already.
          while (!launched.load()) fiber::yield();
          polling.fetch_add(1);
          while (!fiber::is_cancelled()) bench::spin_pause();
        });
      }
      launched = true;
      while (polling.load() < threads - 1) bench::spin_pause();
      const std::uint64_t requested_ns = now_ns();
      scope.cancel();
      acknowledged = scope.close().code() == rota::ErrorCode::kCancelled ? count : 0;
      return static_cast<double>(now_ns() - requested_ns) / 1000;
    });
    bench::expect(acknowledged, count);
    return {us};
  });
}

Figures run_wake(unsigned threads, std::uint64_t samples, std::uint64_t gap_ns) {
  if (threads < 2) bench::fail("a wake-up needs two threads");
  return on_workers(threads, [&]() -> Figures {
    bench::WakeSlot slot;
    return fiber::with_scope([&](fiber::Nursery& scope) {
      return bench::measure_wake(slot, samples, gap_ns, [&] { scope.launch([&] { slot.on_start(); }); });
    });
  });
}
Figures run_wake_awake(unsigned threads, std::uint64_t samples) { return run_wake(threads, samples, 0); }
Figures run_wake_parked(unsigned threads, std::uint64_t samples) {
  return run_wake(threads, samples, bench::kParkedGapNs);
}

constexpr bench::Work kWorks[] = {
    {"yield", 2'000'000, run_yield},
    {"fib", 35, run_fib},
    {"spawn", 1'000'000, run_spawn},
    {"skynet", 1'000'000, run_skynet},
    {"cancel_polling", 10'000, run_cancel_polling},
    {"cancel_queued", 10'000, run_cancel_queued},
    {"wake_awake", bench::kWakeAwakeSamples, run_wake_awake},
    {"wake_parked", bench::kWakeParkedSamples, run_wake_parked},
};

}  // namespace

std::span<const bench::Work> bench::rota_task_works() { return kWorks; }
