// What encoding and decoding cost; records are written and hashed for every command.
#include <benchmark/benchmark.h>

#include <string>

#include "fleet/codec.h"

namespace rota::fleet {
namespace {

TaskAssigned assignment() {
  TaskAssigned event;
  event.task = TaskId(WorkflowId(1234), 567);
  event.attempt = 1;
  event.worker = WorkerId(37);
  event.devices = 3;
  event.reasoning.why = Why::kScore;
  event.reasoning.candidates = 42;
  event.reasoning.lambda = 400'000'000;
  event.reasoning.throughput = 612'345'678;
  event.reasoning.cost = 250'000'000;
  event.reasoning.jitter = 123'456;
  event.reasoning.score = 95'061'727;
  return event;
}

void encode_assignment(benchmark::State& state) {
  const Event event = assignment();
  std::string out;
  for (auto _ : state) {
    out.clear();
    encode(event, out);
    benchmark::DoNotOptimize(out.data());
  }
  state.counters["bytes"] = static_cast<double>(out.size());
}
BENCHMARK(encode_assignment);

void decode_assignment(benchmark::State& state) {
  std::string bytes;
  encode(Event(assignment()), bytes);
  for (auto _ : state) {
    auto event = decode<Event>(bytes);
    benchmark::DoNotOptimize(event);
  }
}
BENCHMARK(decode_assignment);

void hash_assignment(benchmark::State& state) {
  const TaskAssigned event = assignment();
  for (auto _ : state) benchmark::DoNotOptimize(hash_fields(event));
}
BENCHMARK(hash_assignment);

}  // namespace
}  // namespace rota::fleet
