// One run of a mixed load through a scheduler, for scripts/bench_m3.py: prints what it measured as one line of JSON.
//
//   m3 simple|threadpool [tasks] [microseconds of work per task]
//
// The load: groups of five tasks, one before three before one, with three priorities, one or two CPU slots, and RAM
// such that the soft limit is reached now and then. All tasks are submitted as one graph.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rota/flow.h"

namespace {

using rota::flow::IScheduler;
using rota::flow::TaskDescriptor;

void work_for(std::chrono::microseconds duration) {
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) {
  }
}

std::vector<IScheduler::Submission> load(int tasks, std::chrono::microseconds work) {
  std::vector<IScheduler::Submission> all;
  const auto stage = [work](rota::flow::StageContext& context) {
    work_for(work);
    context.checkpoint();
  };
  for (int i = 0; i < tasks; ++i) {
    const int group = i / 5 * 5;
    TaskDescriptor task{.task_id = "t" + std::to_string(i), .priority = i % 3};
    task.resource_demand = {.cpu_slots = i % 7 == 0 ? 2U : 1U, .ram_mb = i % 5 == 2 ? 600U : 100U};
    if (i % 5 == 4) {
      for (int k = 1; k <= 3; ++k) task.deps.push_back("t" + std::to_string(group + k));
    } else if (i % 5 != 0) {
      task.deps.push_back("t" + std::to_string(group));
    }
    all.emplace_back(std::move(task), stage);
  }
  return all;
}

double ms(std::chrono::nanoseconds time) { return std::chrono::duration<double, std::milli>(time).count(); }

double percentile(std::vector<double>& values, double p) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(p * static_cast<double>(values.size() - 1) + 0.5)];
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view kind = argc > 1 ? argv[1] : "threadpool";
  const int tasks = argc > 2 ? std::atoi(argv[2]) : 500;
  const std::chrono::microseconds work(argc > 3 ? std::atoi(argv[3]) : 100);
  if ((kind != "simple" && kind != "threadpool") || tasks < 1 || work.count() < 0) {
    std::fprintf(stderr, "usage: m3 simple|threadpool [tasks] [microseconds]\n");
    return 2;
  }
  rota::flow::SchedulerConfig config;
  config.budget = {.cpu_slots_hard = 0, .ram_mb_soft = 1000, .vram_mb_soft = 0};
  config = rota::flow::config_from_environment(config, *rota::flow::default_logger());
  if (config.budget.cpu_slots_hard == 0) config.budget.cpu_slots_hard = 4;
  auto scheduler =
      kind == "simple" ? rota::flow::create_simple_scheduler(config) : rota::flow::create_thread_pool_scheduler(config);
  if (!scheduler.ok()) {
    std::fprintf(stderr, "%s\n", scheduler.error().to_string().c_str());
    return 1;
  }
  const std::clock_t cpu = std::clock();
  const auto start = std::chrono::steady_clock::now();
  if (auto accepted = (*scheduler)->submit_all(load(tasks, work)); !accepted.ok()) {
    std::fprintf(stderr, "%s\n", accepted.error().to_string().c_str());
    return 1;
  }
  (*scheduler)->wait_all();
  const auto makespan = std::chrono::steady_clock::now() - start;
  const double cpu_ms = 1000.0 * static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
  std::vector<double> waits;
  for (const rota::flow::TaskInfo& task : (*scheduler)->report()) waits.push_back(ms(task.queue_wait));
  const rota::flow::SchedulerStats stats = (*scheduler)->stats();
  std::printf(
      "{\"scheduler\": \"%s\", \"tasks\": %d, \"succeeded\": %llu, \"makespan_ms\": %.3f, \"queue_wait_p50_ms\": %.3f, "
      "\"queue_wait_p95_ms\": %.3f, \"cpu_ms\": %.3f, \"cpu_hits\": %llu, \"budget_hits\": %llu}\n",
      std::string(kind).c_str(), tasks, static_cast<unsigned long long>(stats.succeeded), ms(makespan),
      percentile(waits, 0.5), percentile(waits, 0.95), cpu_ms, static_cast<unsigned long long>(stats.cpu_hits),
      static_cast<unsigned long long>(stats.budget_hits));
  return stats.succeeded == static_cast<std::uint64_t>(tasks) ? 0 : 1;
}
