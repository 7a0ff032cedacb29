// Every setting that a decision depends on. The policy is part of the state, and a change of it is a command in the
// log: a replay decides each command under the policy that was in force.
//
// Fractions are in billionths (kOne is 1): no decision depends on floating point.
#pragma once

#include <compare>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/enum_names.h"
#include "rota/model/fields.h"
#include "rota/model/resources.h"
#include "rota/result.h"

namespace rota::fleet {

// The brain uses the shared vocabulary of model/ without a prefix.
using namespace model;  // NOLINT(*-build-using-namespace)

inline constexpr std::int64_t kOne = 1'000'000'000;

// ORCHESTRATOR_DISPATCH_MODE; the rules of each mode are in dispatch_mode.cc.
enum class DispatchMode : std::uint8_t { kAdaptive, kStaticWorker, kFixedPipeline, kStaticRoundRobin };
ROTA_ENUM_NAMES(DispatchMode, kStaticRoundRobin, "adaptive", "static_worker", "fixed_pipeline", "static_round_robin")

// ORCHESTRATOR_WORKER_SELECTION: how one of the workers that could take a task is chosen.
enum class Selection : std::uint8_t {
  kScore,
  kFirstFit,
  kMinSatisfying,
  kRoundRobin,
  kLeastLoaded,
  kRandom,
  kAffinity,
  kCustom,  // A function of the program that embeds the brain: Brain::use_selector().
};

ROTA_ENUM_NAMES(Selection, kCustom, "score", "first_fit", "min_satisfying", "round_robin", "least_loaded", "random",
                "affinity", "custom")

// SCHEDULER_ORDER: which of the ready tasks with equal effective priorities goes first (B-4, B-25).
enum class Order : std::uint8_t {
  kFifo,          // The one that has been ready for the longest time.
  kCriticalPath,  // The one with the longest path to the end of its workflow.
};
ROTA_ENUM_NAMES(Order, kCriticalPath, "fifo", "critical_path")

struct ElasticPolicy {
  bool enable = false;                      // ENABLE_ELASTIC_SCALING
  std::int64_t disable_idle_ms = 60'000;    // ELASTIC_AUTO_DISABLE_IDLE_SEC
  std::int64_t disable_queue_most = 0;      // ELASTIC_AUTO_DISABLE_QUEUE_MAX
  std::int64_t enable_queue_threshold = 0;  // ELASTIC_AUTO_ENABLE_QUEUE_THRESHOLD
  std::int64_t least_active = 1;            // ELASTIC_AUTO_MIN_ACTIVE_WORKERS
  std::int64_t poll_ms = 30'000;            // ELASTIC_AUTO_POLL_INTERVAL_SEC
  std::int64_t cooldown_ms = 60'000;        // ELASTIC_AUTO_TOGGLE_COOLDOWN_SEC
  ROTA_FIELDS(enable, disable_idle_ms, disable_queue_most, enable_queue_threshold, least_active, poll_ms, cooldown_ms)
  friend auto operator<=>(const ElasticPolicy&, const ElasticPolicy&) = default;
};

struct Policy {
  DispatchMode mode = DispatchMode::kAdaptive;
  Selection selection = Selection::kScore;
  std::int64_t lambda_inference = 400'000'000;  // SCHEDULER_LAMBDA_INFERENCE
  std::int64_t lambda_training = 800'000'000;   // SCHEDULER_LAMBDA_TRAINING
  std::int64_t lambda_other = 500'000'000;      // SCHEDULER_LAMBDA_OTHER
  std::int64_t jitter = 1'000'000;              // SCHEDULER_SELECTION_JITTER

  Order order = Order::kFifo;  // SCHEDULER_ORDER
  std::int64_t aging_interval_ms = 10'000;
  std::int64_t aging_boost = 1;
  bool prefer_started = false;

  bool context_reuse = true;              // ENABLE_CONTEXT_REUSE
  std::int64_t cache_ttl_ms = 3'600'000;  // WORKER_CACHE_TTL_SEC
  bool stickiness = true;                 // ENABLE_STAGE_WEIGHT_STICKINESS
  bool merge = true;                      // ENABLE_TASK_MERGE
  std::int64_t merge_most = 4;            // TASK_MERGE_MAX_BATCH_SIZE
  bool preemption = false;                // ENABLE_PREEMPTION
  bool fair_share = false;                // ENABLE_FAIR_SHARE
  // Of the workers that could take a task, prefer the one where its first predecessor ran, then those in that zone.
  bool prefer_locality = false;

  // A task that waits for this long, and that others behind it in the order would overtake, reserves a worker (B-4).
  std::int64_t reservation_after_ms = 5'000;  // RESERVATION_AFTER_SEC

  // How many tasks may be queued at a worker, so that the next one starts without a round trip. A queued task is not
  // moved to another worker that becomes idle earlier: more than 0 trades placement for speed.
  std::int64_t max_queue_per_worker = 0;
  // Beyond one task per slot, a worker's queue holds no more than it is expected to finish in this time, by the run
  // times that were observed. A queue that waits longer is recalled for a task that is ahead of it (B-4).
  std::int64_t queue_most_ms = 100;
  std::int64_t heartbeat_ttl_ms = 30'000;    // The host reports a worker that is silent for this long as lost.
  std::int64_t no_worker_grace_ms = 60'000;  // TASK_NO_WORKER_GRACE_SEC
  // A worker that an assignment did not reach gets no task for this long.
  std::int64_t undeliverable_backoff_ms = 1'000;

  // Backpressure: usage is unfinished tasks / (live workers * backlog_per_worker).
  std::int64_t backlog_per_worker = 1'000'000;
  std::int64_t reject_threshold = kOne;

  std::int64_t retention_ms = 24LL * 3600 * 1000;  // How long ended workflows and lost workers are kept.
  std::int64_t result_most_bytes = 1 << 20;
  std::int64_t fan_out_most = 10'000;  // Tasks that a stage may have whose list is a result (Y-2).

  // Named counted resources of the whole fleet: {"licence", 2}. A task that needs one of these names takes it from
  // here, wherever it runs. Sorted by name; each count is above 0.
  std::vector<NamedAmount> fleet{};

  ElasticPolicy elastic{};

  ROTA_FIELDS(mode, selection, lambda_inference, lambda_training, lambda_other, jitter, order, aging_interval_ms,
              aging_boost, prefer_started, context_reuse, cache_ttl_ms, stickiness, merge, merge_most, preemption,
              fair_share, prefer_locality, reservation_after_ms, max_queue_per_worker, queue_most_ms, heartbeat_ttl_ms,
              no_worker_grace_ms, undeliverable_backoff_ms, backlog_per_worker, reject_threshold, retention_ms,
              result_most_bytes, fan_out_most, fleet, elastic)
  friend auto operator<=>(const Policy&, const Policy&) = default;
};

// kInvalidArgument with the name of the field and its range, if the brain would refuse this policy (B-24).
[[nodiscard]] Result<void> check_policy(const Policy& policy);

}  // namespace rota::fleet
