// P-16: a workflow of 10,000 tasks, each with lines of its own, read and accepted: 100 ms.
#include <benchmark/benchmark.h>

#include "fleet/state.h"
#include "workflow/workflow.h"

namespace {

std::string ten_thousand(bool json) {
  std::string text = json ? R"({"apiVersion":"rota/v1","spec":{"graph":{)" : "apiVersion: rota/v1\nspec:\n  graph:\n";
  for (int i = 0; i < 10'000; ++i) {
    const std::string name = "task-" + std::to_string(i);
    const std::string need = "task-" + std::to_string(i / 2);
    if (json) {
      text += (i > 0 ? ",\"" : "\"") + name + R"(":{"run":"process ${task.index}","env":{"INPUT":"part-)" +
              std::to_string(i) + R"("},"resources":{"hardware":{"cpu":1,"memory":"512MiB"}})" +
              (i > 0 ? R"(,"needs":[")" + need + "\"]" : "") + "}";
    } else {
      text += "    " + name + ":\n      run: process ${task.index}\n      env:\n        INPUT: part-" +
              std::to_string(i) + "\n      resources:\n        hardware: {cpu: 1, memory: 512MiB}\n" +
              (i > 0 ? "      needs: [" + need + "]\n" : "");
    }
  }
  return json ? text + "}}}" : text;
}

void read(benchmark::State& state, bool json) {
  const rota::workflow::Source source{"f.yaml", ten_thousand(json)};
  for (auto _ : state) {
    const auto file = rota::workflow::read_workflow(source);
    if (!file.ok() || !rota::fleet::plan_workflow(file.spec).ok()) state.SkipWithError("refused");
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(source.text.size()));
}

BENCHMARK_CAPTURE(read, yaml_10000_tasks, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(read, json_10000_tasks, true)->Unit(benchmark::kMillisecond);

}  // namespace
