// The Redis bus alone, on loopback: one message there and one back, and a flood of them. P-14 is measured in bench/,
// with worker processes.
#include <benchmark/benchmark.h>

#include "bus/redis_testing.h"

namespace rota::bus {
namespace {

// Runs body(host, worker) in a runtime.
template <class Body>
void with_fleet(Body&& body) {
  RedisServer server;
  in_runtime([&](fiber::Nursery& nursery) {
    RedisBusOptions options;
    options.url = server.url();
    auto host = RedisHostEnd::open(net::real_network(), options, nursery).value();
    auto worker = RedisWorkerEnd::open(net::real_network(), options, "w", nursery).value();
    exchange_messages(*host, *worker, "w", 0, 100);
    body(*host, *worker);
  });
}

void BM_RoundTrip(benchmark::State& state) {
  with_fleet([&](RedisHostEnd& host, RedisWorkerEnd& worker) {
    for (auto _ : state) {
      host.send("w", assign_of(1)).value();
      worker.acknowledge(worker.receive(kSoon)->id).value();
      worker.send(report_of(1)).value();
      host.acknowledge(host.receive(kSoon)->id).value();
    }
  });
}
BENCHMARK(BM_RoundTrip)->Unit(benchmark::kMicrosecond)->UseRealTime();

// A task's messages are about two each way.
void BM_MessageEachWay(benchmark::State& state) {
  with_fleet([&](RedisHostEnd& host, RedisWorkerEnd& worker) {
    for (auto _ : state) exchange_messages(host, worker, "w", 0, 10'000);
  });
  state.SetItemsProcessed(state.iterations() * 10'000);
}
BENCHMARK(BM_MessageEachWay)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace rota::bus
