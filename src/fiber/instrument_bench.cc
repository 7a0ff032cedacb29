// What an inserted tick costs (docs/metering.md), in the places where metered code may run.
#include <benchmark/benchmark.h>

#include "rota/fiber.h"

extern "C" void __sanitizer_cov_trace_pc();

namespace rota::fiber {
namespace {

constexpr int kTicks = 1'000'000;

void ticks(benchmark::State& state) {
  for (auto _ : state) {
    for (int i = 0; i < kTicks; ++i) __sanitizer_cov_trace_pc();
  }
  state.SetItemsProcessed(state.iterations() * kTicks);
}

void outside(benchmark::State& state) { ticks(state); }
BENCHMARK(outside)->Name("inserted tick, outside the runtime");

void in_profile(benchmark::State& state, Profile profile) {
  Config config;
  config.worker_count = 1;
  config.profile = profile;
  Runtime runtime(config);
  runtime.run([&state] { ticks(state); });
}
BENCHMARK_CAPTURE(in_profile, open, Profile::kOpen)->Name("inserted tick, profile open");
BENCHMARK_CAPTURE(in_profile, service, Profile::kService)->Name("inserted tick, profile service, alone");

// With another task that yields at once: each interval costs two switches.
void shared(benchmark::State& state) {
  Config config;
  config.worker_count = 1;
  config.profile = Profile::kService;
  Runtime runtime(config);
  runtime.run([&state] {
    bool stop = false;
    with_scope([&](Nursery& nursery) {
      nursery.launch([&stop] {
        while (!stop) yield();
      });
      ticks(state);
      stop = true;
    });
  });
}
BENCHMARK(shared)->Name("inserted tick, profile service, two tasks");

}  // namespace
}  // namespace rota::fiber
