#include "host/policy_settings.h"

#include <cmath>
#include <string>
#include <utility>

namespace rota::host {

using fleet::DispatchMode;
using fleet::Policy;
using fleet::Selection;

namespace {

constexpr std::int64_t kMost = 1'000'000'000'000;

// The row's own name in the environment, and the one that the policy is known by elsewhere.
SettingSpec row(std::string name, std::string environment, std::string meaning, std::string unit = {}) {
  std::string own = "ROTA_" + name;
  for (char& c : own) c = c == '.' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  SettingSpec spec;
  spec.name = std::move(name);
  spec.meaning = std::move(meaning);
  spec.unit = std::move(unit);
  spec.environment = {std::move(own)};
  if (!environment.empty()) spec.environment.push_back(std::move(environment));
  return spec;
}

double fraction(std::int64_t billionths) { return static_cast<double>(billionths) / static_cast<double>(fleet::kOne); }
std::int64_t billionths(double value) {
  return static_cast<std::int64_t>(std::llround(value * static_cast<double>(fleet::kOne)));
}

Setting<std::int64_t> add_count(SettingsTable& table, SettingSpec spec, std::int64_t value, std::int64_t least = 0) {
  return table.add_int(std::move(spec), value, least, kMost);
}

}  // namespace

PolicySettings::PolicySettings(SettingsTable& table)
    : max_queue_(add_count(
          table, row("policy.max_queue_per_worker", "", "tasks that may wait at a worker for what runs there"),
          Policy{}.max_queue_per_worker)),
      heartbeat_ttl_(add_count(table,
                               row("policy.heartbeat_ttl_ms", "", "a worker that is silent for longer is gone", "ms"),
                               Policy{}.heartbeat_ttl_ms, 1)),
      grace_(add_count(table,
                       row("policy.no_worker_grace_sec", "TASK_NO_WORKER_GRACE_SEC",
                           "a task that no live worker could run fails after this", "s"),
                       Policy{}.no_worker_grace_ms / 1000)) {
  const Policy d;
  apply_.push_back([this](const Settings& s, Policy& p) {
    p.max_queue_per_worker = s.get(max_queue_);
    p.heartbeat_ttl_ms = s.get(heartbeat_ttl_);
    p.no_worker_grace_ms = s.get(grace_) * 1000;
  });
  const auto whole = [&](std::int64_t Policy::* member, std::int64_t scale, SettingSpec spec, std::int64_t least = 0) {
    const auto setting = add_count(table, std::move(spec), d.*member / scale, least);
    apply_.push_back([=](const Settings& s, Policy& p) { p.*member = s.get(setting) * scale; });
  };
  const auto part = [&](std::int64_t Policy::* member, SettingSpec spec) {
    const auto setting = table.add_float(std::move(spec), fraction(d.*member), 0, 1);
    apply_.push_back([=](const Settings& s, Policy& p) { p.*member = billionths(s.get(setting)); });
  };
  const auto truth = [&](bool Policy::* member, SettingSpec spec) {
    const auto setting = table.add_bool(std::move(spec), d.*member);
    apply_.push_back([=](const Settings& s, Policy& p) { p.*member = s.get(setting); });
  };
  const auto elastic = [&](std::int64_t fleet::ElasticPolicy::* member, std::int64_t scale, SettingSpec spec) {
    const auto setting = add_count(table, std::move(spec), d.elastic.*member / scale);
    apply_.push_back([=](const Settings& s, Policy& p) { p.elastic.*member = s.get(setting) * scale; });
  };

  const auto mode = table.add_enum(row("policy.mode", "ORCHESTRATOR_DISPATCH_MODE", "how tasks get to workers"), d.mode,
                                   {{"adaptive", DispatchMode::kAdaptive},
                                    {"static_worker", DispatchMode::kStaticWorker},
                                    {"fixed_pipeline", DispatchMode::kFixedPipeline},
                                    {"static_round_robin", DispatchMode::kStaticRoundRobin}});
  const auto selection = table.add_enum(
      row("policy.selection", "ORCHESTRATOR_WORKER_SELECTION", "how one of several workers is chosen"), d.selection,
      {{"score", Selection::kScore},
       {"first_fit", Selection::kFirstFit},
       {"min_satisfying", Selection::kMinSatisfying},
       {"round_robin", Selection::kRoundRobin},
       {"least_loaded", Selection::kLeastLoaded},
       {"random", Selection::kRandom},
       {"affinity", Selection::kAffinity}});
  apply_.push_back([=](const Settings& s, Policy& p) {
    p.mode = s.get(mode);
    p.selection = s.get(selection);
  });
  part(&Policy::lambda_inference,
       row("policy.lambda_inference", "SCHEDULER_LAMBDA_INFERENCE", "throughput (1) against cost (0), of inference"));
  part(&Policy::lambda_training,
       row("policy.lambda_training", "SCHEDULER_LAMBDA_TRAINING", "throughput (1) against cost (0), of training"));
  part(&Policy::lambda_other,
       row("policy.lambda_other", "SCHEDULER_LAMBDA_OTHER", "throughput (1) against cost (0), of other tasks"));
  part(&Policy::jitter, row("policy.jitter", "SCHEDULER_SELECTION_JITTER", "how much chance is in a score"));
  whole(&Policy::aging_interval_ms, 1,
        row("policy.aging_interval_ms", "", "a task that waits so long becomes more urgent", "ms"), 1);
  whole(&Policy::aging_boost, 1, row("policy.aging_boost", "", "by how much"));
  truth(&Policy::prefer_started,
        row("policy.prefer_started", "", "workflows that have started before new ones of the same priority"));
  truth(&Policy::context_reuse, row("policy.context_reuse", "ENABLE_CONTEXT_REUSE", "prefer workers with warm caches"));
  whole(&Policy::cache_ttl_ms, 1000,
        row("policy.cache_ttl_sec", "WORKER_CACHE_TTL_SEC", "how long a cache is taken for warm", "s"));
  truth(&Policy::stickiness, row("policy.stickiness", "ENABLE_STAGE_WEIGHT_STICKINESS",
                                 "a stage that needs another's weights runs where they are"));
  truth(&Policy::merge, row("policy.merge", "ENABLE_TASK_MERGE", "run equal tasks as one"));
  whole(&Policy::merge_most, 1, row("policy.merge_most", "TASK_MERGE_MAX_BATCH_SIZE", "at most so many"), 1);
  truth(&Policy::preemption, row("policy.preemption", "ENABLE_PREEMPTION", "urgent tasks take the place of others"));
  truth(&Policy::fair_share, row("policy.fair_share", "ENABLE_FAIR_SHARE", "users get their share of the fleet"));
  whole(&Policy::backlog_per_worker, 1,
        row("policy.backlog_per_worker", "", "unfinished tasks that count as a full load for one worker"), 1);
  part(&Policy::reject_threshold, row("policy.reject_threshold", "", "beyond this load, submissions are refused"));
  whole(&Policy::retention_ms, 1000, row("policy.retention_sec", "", "how long an ended workflow is remembered", "s"));
  whole(&Policy::result_most_bytes, 1, row("policy.result_most_bytes", "", "of one task's result", "bytes"), 1);
  const auto scaling = table.add_bool(
      row("policy.elastic", "ENABLE_ELASTIC_SCALING", "disable idle workers and enable them again"), d.elastic.enable);
  apply_.push_back([=](const Settings& s, Policy& p) { p.elastic.enable = s.get(scaling); });
  using fleet::ElasticPolicy;
  elastic(&ElasticPolicy::disable_idle_ms, 1000,
          row("policy.elastic_idle_sec", "ELASTIC_AUTO_DISABLE_IDLE_SEC", "idle for so long, then disabled", "s"));
  elastic(
      &ElasticPolicy::disable_queue_most, 1,
      row("policy.elastic_queue_max", "ELASTIC_AUTO_DISABLE_QUEUE_MAX", "and only while at most so many are ready"));
  elastic(
      &ElasticPolicy::enable_queue_threshold, 1,
      row("policy.elastic_queue_threshold", "ELASTIC_AUTO_ENABLE_QUEUE_THRESHOLD", "beyond so many ready, enabled"));
  elastic(&ElasticPolicy::least_active, 1,
          row("policy.elastic_min_active", "ELASTIC_AUTO_MIN_ACTIVE_WORKERS", "never fewer workers than this"));
  elastic(&ElasticPolicy::poll_ms, 1000,
          row("policy.elastic_poll_sec", "ELASTIC_AUTO_POLL_INTERVAL_SEC", "how often that is looked at", "s"));
  elastic(
      &ElasticPolicy::cooldown_ms, 1000,
      row("policy.elastic_cooldown_sec", "ELASTIC_AUTO_TOGGLE_COOLDOWN_SEC", "between two changes of a worker", "s"));
}

fleet::Policy PolicySettings::policy(const Settings& settings) const {
  Policy policy;
  for (const Apply& apply : apply_) apply(settings, policy);
  return policy;
}

}  // namespace rota::host
