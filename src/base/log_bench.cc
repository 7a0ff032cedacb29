// The cost of a log call: below the level, and above it into a file that accepts everything.
#include <benchmark/benchmark.h>

#include "base/log.h"

namespace rota {
namespace {

void below_the_level(benchmark::State& state) {
  set_log_level(LogLevel::kWarn);
  std::uint64_t n = 0;
  for (auto _ : state) {
    ROTA_LOG(kInfo, "nobody hears", {"n", ++n});
    benchmark::ClobberMemory();
  }
}
BENCHMARK(below_the_level)->Threads(1)->Threads(2);

void into_the_queue(benchmark::State& state, LogFormat format) {
  if (state.thread_index() == 0) {
    (void)start_log({.format = format, .file = "/dev/null", .queue_bytes = std::size_t{16} << 20}).ok();
  }
  std::uint64_t n = 0;
  for (auto _ : state) ROTA_LOG(kInfo, "task assigned", {"task", ++n}, {"worker", "worker-12"}, {"score", 0.75});
  if (state.thread_index() == 0) {
    stop_log();
    state.counters["lost"] = static_cast<double>(log_stats().lost);
  }
}
BENCHMARK_CAPTURE(into_the_queue, text, LogFormat::kText)->Threads(1)->Threads(2);
BENCHMARK_CAPTURE(into_the_queue, json, LogFormat::kJson)->Threads(1)->Threads(2);

}  // namespace
}  // namespace rota
