// oneTBB's part of the table: fork-join, flat spawns, skynet, tbb::flow, cancellation of a task group, wake-ups.
//
// TBB tasks neither yield nor block, so it has no yield, channel, blocked-task or blocked-cancel work.
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_invoke.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>

#include "common/bench.h"
#include "common/dag.h"
#include "common/wake.h"

namespace {

using bench::Figures;
using bench::now_ns;

// Runs `body` with `threads` threads in all, this one included.
template <typename Body>
auto with_threads(unsigned threads, const Body& body) {
  oneapi::tbb::global_control limit(oneapi::tbb::global_control::max_allowed_parallelism, threads);
  oneapi::tbb::task_arena arena(static_cast<int>(threads));
  return arena.execute(body);
}

// parallel_invoke and not a task_group: it is TBB's faster way to fork and join two calls.
std::uint64_t fib(std::uint64_t n) {
  if (n < 2) return n;
  std::uint64_t a = 0, b = 0;
  oneapi::tbb::parallel_invoke([&] { b = fib(n - 2); }, [&] { a = fib(n - 1); });
  return a + b;
}

Figures run_fib(unsigned threads, std::uint64_t n) {
  return with_threads(threads, [&]() -> Figures {
    std::uint64_t value = 0;
    const double ns = bench::measure_ns_each(bench::fib_tasks(n), [&] { value = fib(n); });
    bench::expect(value, bench::fib_value(n));
    return {ns};
  });
}

Figures run_spawn(unsigned threads, std::uint64_t count) {
  return with_threads(threads, [&]() -> Figures {
    oneapi::tbb::task_group group;
    const double ns = bench::measure_ns_each(count, [&] {
      for (std::uint64_t i = 0; i < count; ++i) group.run([] {});
      group.wait();
    });
    std::atomic<std::uint64_t> ran{0};
    for (std::uint64_t i = 0; i < count; ++i) group.run([&] { ran.fetch_add(1, std::memory_order_relaxed); });
    group.wait();
    bench::expect(ran.load(), count);
    return {ns};
  });
}

// The last child goes through run_and_wait: still a task, and a fifth faster for TBB than spawning all ten.
std::uint64_t skynet(std::uint64_t first, std::uint64_t leaves) {
  if (leaves == 1) return first;
  std::array<std::uint64_t, 10> sums;
  oneapi::tbb::task_group group;
  for (std::uint64_t i = 0; i < 9; ++i) {
    group.run([&sums, i, first, leaves] { sums[i] = skynet(first + i * (leaves / 10), leaves / 10); });
  }
  group.run_and_wait([&] { sums[9] = skynet(first + 9 * (leaves / 10), leaves / 10); });
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  return sum;
}

Figures run_skynet(unsigned threads, std::uint64_t leaves) {
  bench::require_power_of_ten(leaves);
  return with_threads(threads, [&]() -> Figures {
    std::uint64_t sum = 0;
    const double ms = bench::measure_ns_each(1'000'000, [&] { sum = skynet(0, leaves); });
    bench::expect(sum, bench::skynet_sum(leaves));
    return {ms};
  });
}

Figures run_dag(unsigned threads, std::uint64_t nodes) {
  using Node = oneapi::tbb::flow::continue_node<oneapi::tbb::flow::continue_msg>;
  const bench::Dag dag(nodes);
  return with_threads(threads, [&]() -> Figures {
    std::vector<std::uint8_t> layer(dag.size);
    double build_ns = 0;
    const double run_ns = bench::measure([&] {
      const std::uint64_t start = now_ns();
      oneapi::tbb::flow::graph graph;
      std::deque<Node> flow;
      for (std::uint32_t i = 0; i < dag.size; ++i) {
        flow.emplace_back(graph, [&dag, &layer, i](const oneapi::tbb::flow::continue_msg&) {
          layer[i] = i < dag.width ? std::uint8_t{0} : static_cast<std::uint8_t>(layer[dag.parents[i][0]] + 1);
        });
        if (i < dag.width) continue;
        for (const std::uint32_t parent : dag.parents[i]) oneapi::tbb::flow::make_edge(flow[parent], flow[i]);
      }
      const std::uint64_t built = now_ns();
      for (std::uint32_t i = 0; i < dag.width; ++i) flow[i].try_put({});
      graph.wait_for_all();
      const std::uint64_t done = now_ns();
      build_ns = static_cast<double>(built - start) / dag.size;
      return static_cast<double>(done - built) / dag.size;
    });
    std::uint64_t right = 0;
    for (std::uint32_t i = 0; i < dag.size; ++i) right += layer[i] == dag.layer_of(i) ? 1 : 0;
    bench::expect(right, dag.size);
    return {run_ns, build_ns};
  });
}

using FlowNode = oneapi::tbb::flow::continue_node<oneapi::tbb::flow::continue_msg>;

// Builds with build(graph, nodes), which returns where it starts, and runs; anew each time.
template <typename Build>
Figures measure_graph(unsigned threads, std::uint64_t count, const Build& build) {
  return with_threads(threads, [&]() -> Figures {
    double build_ns = 0;
    const double run_ns = bench::measure([&] {
      const std::uint64_t start = now_ns();
      oneapi::tbb::flow::graph graph;
      std::deque<FlowNode> nodes;
      FlowNode& first = build(graph, nodes);
      const std::uint64_t built = now_ns();
      first.try_put({});
      graph.wait_for_all();
      const std::uint64_t done = now_ns();
      build_ns = static_cast<double>(built - start) / static_cast<double>(count);
      return static_cast<double>(done - built) / static_cast<double>(count);
    });
    return {run_ns, build_ns};
  });
}

Figures run_dag_fan(unsigned threads, std::uint64_t count) {
  std::atomic<std::uint64_t> ran{0};
  const auto nothing = [](const oneapi::tbb::flow::continue_msg&) {};
  Figures figures = measure_graph(threads, count, [&](auto& graph, auto& nodes) -> FlowNode& {
    ran = 0;
    FlowNode& first = nodes.emplace_back(graph, nothing);
    FlowNode& last = nodes.emplace_back(graph, nothing);
    for (std::uint64_t i = 0; i < count; ++i) {
      FlowNode& node = nodes.emplace_back(
          graph, [&ran](const oneapi::tbb::flow::continue_msg&) { ran.fetch_add(1, std::memory_order_relaxed); });
      oneapi::tbb::flow::make_edge(first, node);
      oneapi::tbb::flow::make_edge(node, last);
    }
    return first;
  });
  bench::expect(ran.load(), count);
  return figures;
}

Figures run_dag_chain(unsigned threads, std::uint64_t count) {
  std::uint64_t steps = 0;
  Figures figures = measure_graph(threads, count, [&](auto& graph, auto& nodes) -> FlowNode& {
    steps = 0;
    const auto step = [&steps](const oneapi::tbb::flow::continue_msg&) { ++steps; };
    FlowNode& first = nodes.emplace_back(graph, step);
    for (std::uint64_t i = 1; i < count; ++i) {
      FlowNode& before = nodes.back();
      oneapi::tbb::flow::make_edge(before, nodes.emplace_back(graph, step));
    }
    return first;
  });
  bench::expect(steps, count);
  return figures;
}

// The requester is the newest task, so the waiting thread takes it first; the other threads have taken the oldest and
// poll. What is still queued ends without running: TBB has no way to have started them all.
Figures run_cancel_queued(unsigned threads, std::uint64_t count) {
  return with_threads(threads, [&]() -> Figures {
    std::uint64_t acknowledged = 0;
    const double us = bench::measure([&] {
      std::atomic<unsigned> polling{0};
      std::uint64_t requested_ns = 0;
      oneapi::tbb::task_group group;
      for (std::uint64_t i = 0; i < count; ++i) {
        group.run([&] {
          polling.fetch_add(1);
          while (!oneapi::tbb::is_current_task_group_canceling()) bench::spin_pause();
        });
      }
      group.run([&] {
        while (polling.load() < threads - 1) bench::spin_pause();
        requested_ns = now_ns();
        group.cancel();
      });
      acknowledged = group.wait() == oneapi::tbb::canceled ? count : 0;
      return static_cast<double>(now_ns() - requested_ns) / 1000;
    });
    bench::expect(acknowledged, count);
    return {us};
  });
}

Figures run_wake(unsigned threads, std::uint64_t samples, std::uint64_t gap_ns) {
  if (threads < 2) bench::fail("a wake-up needs two threads");
  return with_threads(threads, [&]() -> Figures {
    bench::WakeSlot slot;
    oneapi::tbb::task_group group;
    const Figures figures = bench::measure_wake(slot, samples, gap_ns, [&] { group.run([&] { slot.on_start(); }); });
    group.wait();
    return figures;
  });
}
Figures run_wake_awake(unsigned threads, std::uint64_t samples) { return run_wake(threads, samples, 0); }
Figures run_wake_parked(unsigned threads, std::uint64_t samples) {
  return run_wake(threads, samples, bench::kParkedGapNs);
}

}  // namespace

int main(int argc, char** argv) {
  static constexpr bench::Work kWorks[] = {
      {"fib", 35, run_fib},
      {"spawn", 1'000'000, run_spawn},
      {"skynet", 1'000'000, run_skynet},
      {"dag", 100'000, run_dag},
      {"dag_fan", 100'000, run_dag_fan},
      {"dag_chain", 100'000, run_dag_chain},
      {"cancel_queued", 10'000, run_cancel_queued},
      {"wake_awake", bench::kWakeAwakeSamples, run_wake_awake},
      {"wake_parked", bench::kWakeParkedSamples, run_wake_parked},
  };
  return bench::main_of(argc, argv, kWorks);
}
