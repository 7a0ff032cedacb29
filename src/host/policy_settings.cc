#include "host/policy_settings.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rota::host {

using fleet::DispatchMode;
using fleet::Policy;
using fleet::Selection;

namespace {

// The brain refuses larger values (fleet::check_policy()).
constexpr std::int64_t kMostMs = 100LL * 365 * 24 * 3600 * 1000;

// A row has its own name in the environment (ROTA_...) and, if given, the name that the source documents use.
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

// Every enumerator with its name.
template <class E>
std::vector<std::pair<std::string, E>> all_values() {
  std::vector<std::pair<std::string, E>> values;
  for (const std::string_view name : enum_names(E{})) {
    values.emplace_back(name, static_cast<E>(values.size()));
  }
  return values;
}

Setting<std::int64_t> add_count(SettingsTable& table, SettingSpec spec, std::int64_t value, std::int64_t least = 0,
                                std::int64_t most = kMostMs) {
  return table.add_int(std::move(spec), value, least, most);
}

// "licence=2"
Result<model::NamedAmount> named_amount(const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string count = equals == std::string::npos ? std::string() : text.substr(equals + 1);
  const bool digits = !count.empty() && count.size() <= 9 && count.find_first_not_of("0123456789") == std::string::npos;
  if (equals == 0 || !digits || std::stoll(count) == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "policy.fleet_resources has '" + text + "'; write a name and a count, like licence=2"};
  }
  return model::NamedAmount{text.substr(0, equals), std::stoll(count)};
}

}  // namespace

PolicySettings::PolicySettings(SettingsTable& table)
    : max_queue_(add_count(
          table,
          row("policy.max_queue_per_worker", "", "tasks that may be queued at a worker behind those that it runs"),
          Policy{}.max_queue_per_worker, 0, 1'000'000)),
      heartbeat_ttl_(add_count(
          table,
          row("policy.heartbeat_ttl_ms", "", "a worker without a heartbeat for this long is considered lost", "ms"),
          Policy{}.heartbeat_ttl_ms, 1)),
      grace_(add_count(table,
                       row("policy.no_worker_grace_sec", "TASK_NO_WORKER_GRACE_SEC",
                           "a task that no live worker can ever run fails after this time", "s"),
                       Policy{}.no_worker_grace_ms / 1000, 0, kMostMs / 1000)),
      order_(table.add_enum(
          row("policy.order", "SCHEDULER_ORDER", "which of the ready tasks with equal priorities goes first"),
          Policy{}.order, all_values<fleet::Order>())),
      aging_boost_(add_count(table, row("policy.aging_boost", "", "priority added per aging interval"),
                             Policy{}.aging_boost, 0, 1'000'000)) {
  const Policy d;
  apply_.push_back([this](const Settings& s, Policy& p) {
    p.max_queue_per_worker = s.get(max_queue_);
    p.heartbeat_ttl_ms = s.get(heartbeat_ttl_);
    p.no_worker_grace_ms = s.get(grace_) * 1000;
    p.order = s.get(order_);
    p.aging_boost = s.get(aging_boost_);
    return Result<void>();
  });
  // Most: that of the brain, in units of the setting.
  const auto whole = [&](std::int64_t Policy::* member, std::int64_t scale, SettingSpec spec, std::int64_t least = 0,
                         std::int64_t most = kMostMs) {
    const auto setting = add_count(table, std::move(spec), d.*member / scale, least, most / scale);
    apply_.push_back([=](const Settings& s, Policy& p) {
      p.*member = s.get(setting) * scale;
      return Result<void>();
    });
  };
  const auto part = [&](std::int64_t Policy::* member, SettingSpec spec) {
    const auto setting = table.add_float(std::move(spec), fraction(d.*member), 0, 1);
    apply_.push_back([=](const Settings& s, Policy& p) {
      p.*member = billionths(s.get(setting));
      return Result<void>();
    });
  };
  const auto truth = [&](bool Policy::* member, SettingSpec spec) {
    const auto setting = table.add_bool(std::move(spec), d.*member);
    apply_.push_back([=](const Settings& s, Policy& p) {
      p.*member = s.get(setting);
      return Result<void>();
    });
  };
  const auto elastic = [&](std::int64_t fleet::ElasticPolicy::* member, std::int64_t scale, SettingSpec spec,
                           std::int64_t least = 0, std::int64_t most = kMostMs) {
    const auto setting = add_count(table, std::move(spec), d.elastic.*member / scale, least, most / scale);
    apply_.push_back([=](const Settings& s, Policy& p) {
      p.elastic.*member = s.get(setting) * scale;
      return Result<void>();
    });
  };

  const auto mode = table.add_enum(row("policy.mode", "ORCHESTRATOR_DISPATCH_MODE", "how tasks are bound to workers"),
                                   d.mode, all_values<DispatchMode>());
  // Selection::kCustom, the last one, needs a function of the program that embeds the brain.
  auto selections = all_values<Selection>();
  selections.pop_back();
  const auto selection = table.add_enum(
      row("policy.selection", "ORCHESTRATOR_WORKER_SELECTION", "how a worker is chosen among those that fit"),
      d.selection, std::move(selections));
  apply_.push_back([=](const Settings& s, Policy& p) {
    p.mode = s.get(mode);
    p.selection = s.get(selection);
    return Result<void>();
  });
  part(&Policy::lambda_inference, row("policy.lambda_inference", "SCHEDULER_LAMBDA_INFERENCE",
                                      "weight of throughput (1) against cost (0) for inference tasks"));
  part(&Policy::lambda_training, row("policy.lambda_training", "SCHEDULER_LAMBDA_TRAINING",
                                     "weight of throughput (1) against cost (0) for training tasks"));
  part(&Policy::lambda_other, row("policy.lambda_other", "SCHEDULER_LAMBDA_OTHER",
                                  "weight of throughput (1) against cost (0) for other tasks"));
  part(&Policy::jitter,
       row("policy.jitter", "SCHEDULER_SELECTION_JITTER", "largest jitter added to a score, so that ties rotate"));
  whole(&Policy::aging_interval_ms, 1,
        row("policy.aging_interval_ms", "", "a waiting task gains priority once per this interval", "ms"), 1);
  truth(&Policy::prefer_started, row("policy.prefer_started", "",
                                     "prefer workflows that have already started over new ones of the same priority"));
  truth(&Policy::context_reuse, row("policy.context_reuse", "ENABLE_CONTEXT_REUSE",
                                    "prefer workers that have the models and datasets of a task in their caches"));
  whole(&Policy::cache_ttl_ms, 1000,
        row("policy.cache_ttl_sec", "WORKER_CACHE_TTL_SEC", "a cache hint expires this long after its last use", "s"));
  truth(&Policy::stickiness, row("policy.stickiness", "ENABLE_STAGE_WEIGHT_STICKINESS",
                                 "run a stage that uses a parent's checkpoint or adapter on the parent's worker"));
  truth(&Policy::merge,
        row("policy.merge", "ENABLE_TASK_MERGE", "run mergeable tasks that differ only in data as one execution"));
  whole(&Policy::merge_most, 1,
        row("policy.merge_most", "TASK_MERGE_MAX_BATCH_SIZE", "largest number of tasks merged into one execution"), 1,
        1000);
  truth(&Policy::preemption, row("policy.preemption", "ENABLE_PREEMPTION",
                                 "stop preemptible tasks of lower priority to make room for others"));
  truth(&Policy::fair_share,
        row("policy.fair_share", "ENABLE_FAIR_SHARE", "divide the fleet among users by their weights"));
  whole(&Policy::reservation_after_ms, 1000,
        row("policy.reservation_after_sec", "RESERVATION_AFTER_SEC",
            "a task that waits for this long reserves a worker before others overtake it", "s"));
  whole(&Policy::queue_most_ms, 1,
        row("policy.queue_most_ms", "",
            "time that the tasks queued at a worker, beyond one per slot, are expected to take", "ms"),
        1);
  whole(&Policy::backlog_per_worker, 1,
        row("policy.backlog_per_worker", "", "unfinished tasks per live worker that count as full load"), 1,
        1'000'000'000);
  part(&Policy::reject_threshold, row("policy.reject_threshold", "", "submissions are refused above this load"));
  whole(&Policy::retention_ms, 1000,
        row("policy.retention_sec", "", "an ended workflow is forgotten after this time", "s"));
  whole(&Policy::result_most_bytes, 1, row("policy.result_most_bytes", "", "largest result of a task", "bytes"), 1,
        1 << 30);
  whole(&Policy::fan_out_most, 1,
        row("policy.fan_out_most", "", "most tasks of a stage whose matrix is the result of another"), 1, 1'000'000);
  whole(&Policy::undeliverable_backoff_ms, 1,
        row("policy.undeliverable_backoff_ms", "",
            "a worker that an assignment did not reach gets no task for this long", "ms"),
        1);
  truth(&Policy::prefer_locality,
        row("policy.prefer_locality", "PREFER_LOCALITY",
            "prefer the worker where a task's first predecessor ran, then those in its zone"));
  const auto fleet_wide = table.add_list(
      row("policy.fleet_resources", "", "named counted resources of the whole fleet, such as licence=2"), {});
  apply_.push_back([=](const Settings& s, Policy& p) -> Result<void> {
    for (const std::string& text : s.get(fleet_wide)) {
      ROTA_TRY_ASSIGN(p.fleet.emplace_back(), named_amount(text));
    }
    std::sort(p.fleet.begin(), p.fleet.end());
    return {};
  });
  const auto scaling = table.add_bool(row("policy.elastic", "ENABLE_ELASTIC_SCALING",
                                          "disable idle workers and enable them again when the queue needs them"),
                                      d.elastic.enable);
  apply_.push_back([=](const Settings& s, Policy& p) {
    p.elastic.enable = s.get(scaling);
    return Result<void>();
  });
  using fleet::ElasticPolicy;
  elastic(&ElasticPolicy::disable_idle_ms, 1000,
          row("policy.elastic_idle_sec", "ELASTIC_AUTO_DISABLE_IDLE_SEC",
              "a worker that is idle for this long may be disabled", "s"));
  elastic(&ElasticPolicy::disable_queue_most, 1,
          row("policy.elastic_queue_max", "ELASTIC_AUTO_DISABLE_QUEUE_MAX",
              "workers are disabled only while at most this many tasks are ready"));
  elastic(&ElasticPolicy::enable_queue_threshold, 1,
          row("policy.elastic_queue_threshold", "ELASTIC_AUTO_ENABLE_QUEUE_THRESHOLD",
              "a worker is enabled when more than this many tasks are ready"));
  elastic(&ElasticPolicy::least_active, 1,
          row("policy.elastic_min_active", "ELASTIC_AUTO_MIN_ACTIVE_WORKERS", "smallest number of active workers"), 0,
          1'000'000);
  elastic(&ElasticPolicy::poll_ms, 1000,
          row("policy.elastic_poll_sec", "ELASTIC_AUTO_POLL_INTERVAL_SEC",
              "interval between two checks of the coordinator", "s"),
          1);
  elastic(&ElasticPolicy::cooldown_ms, 1000,
          row("policy.elastic_cooldown_sec", "ELASTIC_AUTO_TOGGLE_COOLDOWN_SEC",
              "shortest time between two changes of one worker", "s"));
}

Result<fleet::Policy> PolicySettings::policy(const Settings& settings) const {
  Policy policy;
  for (const Apply& apply : apply_) ROTA_TRY(apply(settings, policy));
  ROTA_TRY(fleet::check_policy(policy));
  return policy;
}

}  // namespace rota::host
