// What encoding and decoding cost; records are written and hashed for every command.
#include <benchmark/benchmark.h>

#include <string>

#include "fleet/codec.h"
#include "fleet/record.h"

namespace rota::fleet {
namespace {

TaskAssigned assignment() {
  TaskAssigned event;
  event.task = TaskId(WorkflowId(1234), 567);
  event.attempt = AttemptNumber(1);
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

// The record of a usual step: a task succeeded, its worker gets another.
Record usual_record() {
  Record record;
  record.index = 1'000'000;
  record.term = Term(3);
  record.wall_ns = record.logical = 1'700'000'000'000'000'000;
  ReportEnded report{TaskId(WorkflowId(1234), 560), AttemptNumber(1), {}};
  report.outcome.end = AttemptEnd::kSucceeded;
  report.outcome.result = R"({"loss": 0.25, "path": "/data/run-7/out"})";
  report.outcome.started_ns = record.wall_ns - 5'000'000'000;
  report.outcome.ended_ns = record.wall_ns - 1'000'000;
  record.command = report;
  record.events = {TaskSucceeded{report.task, report.attempt}, assignment()};
  record.prior = {1, 2};
  record.post = {3, 4};
  return record;
}

void encode_a_record(benchmark::State& state) {
  const Record record = usual_record();
  Hash128 chain = first_chain();
  std::string out;
  for (auto _ : state) {
    out.clear();
    chain = encode_record(record, chain, out);
  }
  state.counters["bytes"] = static_cast<double>(out.size());
}
BENCHMARK(encode_a_record);

void decode_a_record(benchmark::State& state) {
  std::string bytes;
  LogPosition before{.index = 999'999, .logical = 5};
  encode_record(usual_record(), before.chain, bytes);
  for (auto _ : state) {
    LogPosition position = before;
    auto record = decode_record(bytes, position);
    benchmark::DoNotOptimize(record.ok());
  }
}
BENCHMARK(decode_a_record);

}  // namespace
}  // namespace rota::fleet
