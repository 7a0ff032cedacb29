// What the parts of our own program share: how the runtime is started, and how a cancellation is timed.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "common/bench.h"
#include "rota/fiber.h"

namespace bench {

namespace fiber = rota::fiber;

// The works of each part, for main.
std::span<const Work> rota_task_works();
std::span<const Work> rota_waiting_works();
std::span<const Work> rota_kernel_works();
std::span<const Work> rota_flow_works();
std::span<const Work> rota_ledger_works();
std::span<const Work> rota_fleet_works();
std::span<const Work> rota_placement_works();
std::span<const Work> rota_run_works();
std::span<const Work> rota_host_works();
std::span<const Work> rota_redis_works();
std::span<const Work> rota_sim_works();

// A process of the rows over Redis with `count` workers: `rota redis_worker URL NAME COUNT`. Runs until it is killed.
int redis_worker(const char* url, const char* name, unsigned count);

// `open`, or `service` for the metered rows (P-15). Set by main before any work.
inline fiber::Profile profile = fiber::Profile::kOpen;

// Runs `body` as a task on `threads` workers.
template <typename Body>
auto on_workers(unsigned threads, fiber::Config config, const Body& body) {
  config.worker_count = threads;
  config.profile = profile;
  // Every task may spawn, as in `open`.
  if (profile == fiber::Profile::kService && !config.default_budget) {
    config.default_budget = fiber::Budget{1'000'000, std::size_t{256} << 20, 60'000, 60'000, 60'000};
  }
  fiber::Runtime runtime(config);
  return runtime.run([&] { return body(); });
}
template <typename Body>
auto on_workers(unsigned threads, const Body& body) {
  return on_workers(threads, fiber::Config{}, body);
}

// Starts `count` tasks that run until they are cancelled; times the cancellation. `prepare` is called first, in a task.
template <typename Body, typename Prepare>
Figures measure_cancel(unsigned threads, std::uint64_t count, const Body& until_cancelled, const Prepare& prepare) {
  return on_workers(threads, [&]() -> Figures {
    prepare();
    std::atomic<std::uint64_t> started{0}, acknowledged{0};
    const double us = measure([&] {
      started = 0;
      acknowledged = 0;
      fiber::Nursery scope;
      for (std::uint64_t i = 0; i < count; ++i) {
        scope.launch([&] {
          started.fetch_add(1, std::memory_order_relaxed);
          until_cancelled();
          acknowledged.fetch_add(1, std::memory_order_relaxed);
        });
      }
      while (started.load() < count) fiber::yield();
      const std::uint64_t requested_ns = now_ns();
      scope.cancel();
      (void)scope.close();  // Cancelled, as asked.
      return static_cast<double>(now_ns() - requested_ns) / 1000;
    });
    expect(acknowledged.load(), count);
    return {us};
  });
}

}  // namespace bench
