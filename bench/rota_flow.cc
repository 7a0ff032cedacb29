// Our part of the table for graphs (P-7): the fast path, the same with priorities and demands, a fan and a chain.
#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "common/dag.h"
#include "rota.h"
#include "rota/flow.h"

namespace {

namespace flow = rota::flow;
using bench::Figures;
using bench::now_ns;

// Builds and runs anew each time; what prepare() does is building. `build(flow)` makes the tasks.
template <typename Build>
Figures measure_flow(unsigned threads, std::uint64_t count, const Build& build) {
  rota::fiber::Config config;
  config.worker_count = threads;
  rota::fiber::Runtime runtime(config);
  return runtime.run([&]() -> Figures {
    double build_ns = 0;
    const double run_ns = bench::measure([&] {
      const std::uint64_t start = now_ns();
      flow::Flow flow;
      build(flow);
      if (!flow.prepare().ok()) bench::fail("the flow was refused");
      const std::uint64_t built = now_ns();
      if (!flow.run(runtime).ok()) bench::fail("the flow failed");
      const std::uint64_t done = now_ns();
      build_ns = static_cast<double>(built - start) / static_cast<double>(count);
      return static_cast<double>(done - built) / static_cast<double>(count);
    });
    return {run_ns, build_ns};
  });
}

Figures layered(unsigned threads, std::uint64_t nodes, bool ordered) {
  const bench::Dag dag(nodes);
  std::vector<std::uint8_t> layer(dag.size);
  std::vector<flow::FlowTask<void>> tasks(dag.size);
  Figures figures = measure_flow(threads, dag.size, [&](flow::Flow& flow) {
    for (std::uint32_t i = 0; i < dag.size; ++i) {
      tasks[i] = flow.task([&dag, &layer, i] {
        layer[i] = i < dag.width ? std::uint8_t{0} : static_cast<std::uint8_t>(layer[dag.parents[i][0]] + 1);
      });
      if (ordered) tasks[i].priority(static_cast<std::int32_t>(i % 4)).demand({.cpu_slots = 1, .ram_mb = i % 3});
      if (i < dag.width) continue;
      for (const std::uint32_t parent : dag.parents[i]) tasks[parent].precede(tasks[i]);
    }
    if (ordered) flow.limits({.cpu_slots_hard = threads, .ram_mb_soft = 1000});
  });
  std::uint64_t right = 0;
  for (std::uint32_t i = 0; i < dag.size; ++i) right += layer[i] == dag.layer_of(i) ? 1 : 0;
  bench::expect(right, dag.size);
  return figures;
}

Figures run_dag(unsigned threads, std::uint64_t nodes) { return layered(threads, nodes, false); }
Figures run_dag_ordered(unsigned threads, std::uint64_t nodes) { return layered(threads, nodes, true); }

Figures run_dag_fan(unsigned threads, std::uint64_t nodes) {
  std::atomic<std::uint64_t> ran{0};
  Figures figures = measure_flow(threads, nodes, [&](flow::Flow& flow) {
    ran = 0;
    const flow::FlowTask<void> first = flow.task([] {});
    const flow::FlowTask<void> last = flow.task([] {});
    for (std::uint64_t i = 0; i < nodes; ++i) {
      const flow::FlowTask<void> task = flow.task([&ran] { ran.fetch_add(1, std::memory_order_relaxed); });
      first.precede(task);
      task.precede(last);
    }
  });
  bench::expect(ran.load(), nodes);
  return figures;
}

Figures run_dag_chain(unsigned threads, std::uint64_t nodes) {
  std::uint64_t steps = 0;
  Figures figures = measure_flow(threads, nodes, [&](flow::Flow& flow) {
    steps = 0;
    flow::FlowTask<void> last = flow.task([&steps] { ++steps; });
    for (std::uint64_t i = 1; i < nodes; ++i) {
      const flow::FlowTask<void> next = flow.task([&steps] { ++steps; });
      last.precede(next);
      last = next;
    }
  });
  bench::expect(steps, nodes);
  return figures;
}

constexpr std::array<bench::Work, 4> kWorks{{
    {"dag", 100'000, run_dag},
    {"dag_ordered", 100'000, run_dag_ordered},
    {"dag_fan", 100'000, run_dag_fan},
    {"dag_chain", 100'000, run_dag_chain},
}};

}  // namespace

namespace bench {
std::span<const Work> rota_flow_works() { return kWorks; }
}  // namespace bench
