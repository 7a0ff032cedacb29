// Predicts what a fleet would do with a workflow: makespan, cost, energy, utilisation and waits (S-3, `rota simulate`).
//
// The brain decides as it does in a host; workers are durations. Each run draws a duration for every attempt from the
// samples of its stage, or around the time that was given. Inputs, conditions and references are left out, because
// results are not known; a stage with a condition counts as one that runs.
//
// Assumptions: a task takes as long on any worker; messages take no time; a worker that fails loses what it ran, and a
// spot machine that was taken away is replaced after `spot_back`.
//
// Cost: that of the decisions. 100,000 tasks on 1,000 workers take seconds. Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fleet/figures.h"
#include "fleet/policy.h"
#include "fleet/record.h"
#include "model/workflow_spec.h"
#include "rota/model/worker_spec.h"
#include "rota/result.h"

namespace rota::sim {

// How long the attempts of each stage take.
struct Durations {
  // Samples by the name of the stage: a run draws one of them for each attempt.
  std::map<std::string, std::vector<std::int64_t>> samples_ns{};
  // For a stage without samples.
  std::int64_t otherwise_ns = 60'000'000'000;
  // Each drawn time is changed by up to this much, up or down: 0.2 is 200,000.
  std::int64_t spread_millionths = 200'000;
};

// A worker that is lost at this time and does not return.
struct PlannedLoss {
  std::string worker{};
  std::int64_t at_ns = 0;
};

struct PredictOptions {
  model::WorkflowSpec workflow{};
  std::vector<model::WorkerSpec> workers{};
  fleet::Policy policy{};
  Durations durations{};
  std::vector<PlannedLoss> losses{};
  std::int64_t spot_millionths_per_hour = 0;  // The probability that a worker is taken away within an hour.
  std::int64_t spot_back_ns = 300'000'000'000;
  std::int64_t runs = 1;
  std::uint64_t seed = 1;
  std::size_t wait_samples = 200;  // Tasks per run whose wait is explained.
  bool keep_log = false;           // Of the first run.
};

struct Prediction {
  std::vector<fleet::Figures> runs{};
  std::map<std::string, std::int64_t> waits_ns{};  // By reason: the waits of the tasks that were sampled, in all runs.
  std::string log{};                               // A log file, if it was asked for.
};

// InvalidArgument if the brain refuses the policy, a worker or the workflow: the error says which and why.
[[nodiscard]] Result<Prediction> predict(const PredictOptions& options);

// The smallest value that is at least as large as `permille` thousandths of them; 0 for none.
[[nodiscard]] std::int64_t quantile(std::vector<std::int64_t> values, std::int64_t permille);

}  // namespace rota::sim
