// OpenMP's part of the table, as g++'s libgomp does it: tasks, task dependences, wake-ups.
//
// libgomp's taskyield does nothing and its tasks cannot block, so there is no yield, channel or blocked-task work.
// Beyond 64 queued tasks a thread it runs a new task at once, so 10,000 tasks can never be pending and there is no
// cancel work.
#include <omp.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>

#include "common/bench.h"
#include "common/dag.h"
#include "common/wake.h"

namespace {

using bench::Figures;

// Runs `body` on one thread of a team of `threads`; the others run tasks.
template <typename Body>
void with_threads(unsigned threads, const Body& body) {
  const int team = static_cast<int>(threads);
#pragma omp parallel num_threads(team)
#pragma omp single
  body();
}

std::uint64_t fib(std::uint64_t n) {
  if (n < 2) return n;
  std::uint64_t a = 0;
#pragma omp task shared(a) firstprivate(n)
  a = fib(n - 1);
  const std::uint64_t b = fib(n - 2);
#pragma omp taskwait
  return a + b;
}

Figures run_fib(unsigned threads, std::uint64_t n) {
  std::uint64_t value = 0;
  double ns = 0;
  with_threads(threads, [&] { ns = bench::measure_ns_each(bench::fib_tasks(n), [&] { value = fib(n); }); });
  bench::expect(value, bench::fib_value(n));
  return {ns};
}

Figures run_spawn(unsigned threads, std::uint64_t count) {
  std::atomic<std::uint64_t> ran{0};
  double ns = 0;
  with_threads(threads, [&] {
    ns = bench::measure_ns_each(count, [&] {
      for (std::uint64_t i = 0; i < count; ++i) {
#pragma omp task
        asm volatile("");  // Empty, but a task: the compiler may not drop it.
      }
#pragma omp taskwait
    });
    for (std::uint64_t i = 0; i < count; ++i) {
#pragma omp task shared(ran)
      ran.fetch_add(1, std::memory_order_relaxed);
    }
#pragma omp taskwait
  });
  bench::expect(ran.load(), count);
  return {ns};
}

std::uint64_t skynet(std::uint64_t first, std::uint64_t leaves) {
  if (leaves == 1) return first;
  std::array<std::uint64_t, 10> sums;
  for (std::uint64_t i = 0; i < 10; ++i) {
#pragma omp task shared(sums) firstprivate(i, first, leaves)
    sums[i] = skynet(first + i * (leaves / 10), leaves / 10);
  }
#pragma omp taskwait
  std::uint64_t sum = 0;
  for (const std::uint64_t part : sums) sum += part;
  return sum;
}

Figures run_skynet(unsigned threads, std::uint64_t leaves) {
  bench::require_power_of_ten(leaves);
  std::uint64_t sum = 0;
  double ms = 0;
  with_threads(threads, [&] { ms = bench::measure_ns_each(1'000'000, [&] { sum = skynet(0, leaves); }); });
  bench::expect(sum, bench::skynet_sum(leaves));
  return {ms};
}

// Building and running are one thing here: tasks start while later ones are still being made.
Figures run_dag(unsigned threads, std::uint64_t nodes) {
  const bench::Dag dag(nodes);
  std::vector<std::uint8_t> layers(dag.size);
  std::uint8_t* layer = layers.data();
  double ns = 0;
  with_threads(threads, [&] {
    ns = bench::measure_ns_each(dag.size, [&] {
      for (std::uint32_t i = 0; i < dag.width; ++i) {
#pragma omp task depend(out : layer[i]) firstprivate(i, layer)
        layer[i] = 0;
      }
      for (std::uint32_t i = dag.width; i < dag.size; ++i) {
        const std::uint32_t a = dag.parents[i][0], b = dag.parents[i][1], c = dag.parents[i][2];
#pragma omp task depend(in : layer[a], layer[b], layer[c]) depend(out : layer[i]) firstprivate(i, a, layer)
        layer[i] = static_cast<std::uint8_t>(layer[a] + 1);
      }
#pragma omp taskwait
    });
  });
  std::uint64_t right = 0;
  for (std::uint32_t i = 0; i < dag.size; ++i) right += layers[i] == dag.layer_of(i) ? 1 : 0;
  bench::expect(right, dag.size);
  return {ns, -1};
}

Figures run_dag_fan(unsigned threads, std::uint64_t count) {
  std::atomic<std::uint64_t> ran{0};
  double ns = 0;
  with_threads(threads, [&] {
    ns = bench::measure_ns_each(count, [&] {
      ran = 0;
      char gate = 0;
#pragma omp task depend(out : gate) firstprivate(gate)
      gate = 1;
      for (std::uint64_t i = 0; i < count; ++i) {
#pragma omp task depend(in : gate) shared(ran)
        ran.fetch_add(1, std::memory_order_relaxed);
      }
#pragma omp task depend(out : gate) firstprivate(gate)
      gate = 2;
#pragma omp taskwait
    });
  });
  bench::expect(ran.load(), count);
  return {ns, -1};
}

Figures run_dag_chain(unsigned threads, std::uint64_t count) {
  std::uint64_t steps = 0;
  double ns = 0;
  with_threads(threads, [&] {
    ns = bench::measure_ns_each(count, [&] {
      steps = 0;
      for (std::uint64_t i = 0; i < count; ++i) {
#pragma omp task depend(inout : steps) shared(steps)
        ++steps;
      }
#pragma omp taskwait
    });
  });
  bench::expect(steps, count);
  return {ns, -1};
}

Figures run_wake(unsigned threads, std::uint64_t samples, std::uint64_t gap_ns) {
  if (threads < 2) bench::fail("a wake-up needs two threads");
  Figures figures;
  with_threads(threads, [&] {
    bench::WakeSlot slot;
    figures = bench::measure_wake(slot, samples, gap_ns, [&] {
#pragma omp task shared(slot)
      slot.on_start();
    });
#pragma omp taskwait
  });
  return figures;
}
Figures run_wake_awake(unsigned threads, std::uint64_t samples) { return run_wake(threads, samples, 0); }
Figures run_wake_parked(unsigned threads, std::uint64_t samples) {
  return run_wake(threads, samples, bench::kParkedGapNs);
}

}  // namespace

int main(int argc, char** argv) {
  // Idle threads spin for milliseconds by default; to see one parked they must sleep at once. libgomp reads this
  // before main, hence the second start.
  if (argc > 1 && std::strcmp(argv[1], "wake_parked") == 0 && std::getenv("OMP_WAIT_POLICY") == nullptr) {
    setenv("OMP_WAIT_POLICY", "passive", 1);
    execv("/proc/self/exe", argv);
    bench::fail("cannot start myself again");
  }
  static constexpr bench::Work kWorks[] = {
      {"fib", 30, run_fib},
      {"spawn", 1'000'000, run_spawn},
      {"skynet", 1'000'000, run_skynet},
      {"dag", 100'000, run_dag},
      {"dag_fan", 100'000, run_dag_fan},
      {"dag_chain", 100'000, run_dag_chain},
      {"wake_awake", bench::kWakeAwakeSamples, run_wake_awake},
      {"wake_parked", bench::kWakeParkedSamples, run_wake_parked},
  };
  return bench::main_of(argc, argv, kWorks);
}
