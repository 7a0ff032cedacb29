// Our part of the table for graphs (P-7): the fast path, the same with priorities and demands, a fan and a chain; and
// the engine (G-9), whose cost per stage must not grow with their number.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
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

// A workflow of a hundred chains in the thread pool: time per stage to accept and to run it, and what it keeps in
// memory. The texts of the workflow are made before that, and not counted.
Figures run_engine(unsigned threads, std::uint64_t stages) {
  constexpr std::uint64_t kChains = 100;
  double accept_ns = 0, bytes = 0;
  std::uint64_t succeeded = 0;
  const double run_ns = bench::measure([&] {
    flow::Workflow workflow{.name = "growth", .stages = {}};
    workflow.stages.reserve(stages);
    for (std::uint64_t i = 0; i < stages; ++i) {
      std::vector<std::string> deps;
      if (i >= kChains) deps.push_back(std::to_string(i - kChains));
      workflow.stages.push_back({.id = std::to_string(i), .run = [](flow::StageContext&) {}, .deps = std::move(deps)});
    }
    auto scheduler = flow::create_thread_pool_scheduler({.workers = threads});
    if (!scheduler.ok()) bench::fail("no scheduler: " + scheduler.error().message);
    flow::WorkflowEngine engine(std::move(*scheduler));
    const double bytes_before = bench::resident_bytes();
    const std::uint64_t start = now_ns();
    const rota::Result<std::string> id = engine.start_workflow(std::move(workflow));
    if (!id.ok()) bench::fail("the workflow was refused: " + id.error().message);
    const std::uint64_t accepted = now_ns();
    engine.scheduler().wait_all();
    const std::uint64_t done = now_ns();
    // The first time counts: later ones reuse the memory.
    bytes = std::max(bytes, (bench::resident_bytes() - bytes_before) / static_cast<double>(stages));
    succeeded = engine.scheduler().stats().succeeded;
    accept_ns = static_cast<double>(accepted - start) / static_cast<double>(stages);
    return static_cast<double>(done - start) / static_cast<double>(stages);
  });
  bench::expect(succeeded, stages);
  return {run_ns, accept_ns, bytes};
}

constexpr std::array<bench::Work, 11> kWorks{{
    {"dag", 100'000, run_dag},
    {"dag_1000", 1'000, run_dag},
    {"dag_10000", 10'000, run_dag},
    {"dag_1000000", 1'000'000, run_dag},
    {"dag_ordered", 100'000, run_dag_ordered},
    {"dag_fan", 100'000, run_dag_fan},
    {"dag_chain", 100'000, run_dag_chain},
    {"engine_1000", 1'000, run_engine},
    {"engine_10000", 10'000, run_engine},
    {"engine_100000", 100'000, run_engine},
    {"engine_1000000", 1'000'000, run_engine},
}};

}  // namespace

namespace bench {
std::span<const Work> rota_flow_works() { return kWorks; }
}  // namespace bench
