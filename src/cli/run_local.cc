#include "cli/run_local.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/settings.h"
#include "host/policy_settings.h"
#include "rota/worker.h"
#include "workflow/fleet_file.h"
#include "workflow/workflow.h"

namespace rota::cli {

namespace {

Result<workflow::FleetFile> workers_of(const std::string& file, std::int64_t jobs) {
  if (file.empty()) {
    model::WorkerSpec local;
    local.name = "local";
    local.resources = machine_resources();
    if (jobs > 0) local.resources.cpu_millis = jobs * 1000;
    return workflow::FleetFile{.workers = {local}};
  }
  ROTA_TRY_ASSIGN(const workflow::Source source, workflow::read_source(file));
  workflow::FleetFile fleet = workflow::read_fleet(source);
  if (!fleet.ok()) return workflow::to_error(source.path, fleet.problems);
  return fleet;
}

// The policy from the settings. Settings that were not set get the values that suit workers in this process.
Result<fleet::Policy> policy_of(const workflow::FleetFile& file) {
  const std::vector<model::WorkerSpec>& workers = file.workers;
  SettingsTable table;
  const host::PolicySettings rows(table);
  const SettingsLoad load = load_settings(table, {.environment = current_environment()});
  ROTA_TRY(load.status());
  ROTA_TRY_ASSIGN(fleet::Policy policy, rows.policy(load.settings));
  const auto chosen = [&](auto setting) { return host::PolicySettings::is_set(load.settings, setting); };
  // Tasks are sent ahead to a single worker, so that it has work while the ledger syncs a group of records. The number
  // is about what it can finish of short tasks in that time.
  if (!chosen(rows.max_queue_per_worker()) && workers.size() == 1) {
    policy.max_queue_per_worker = 16 * (workers.front().resources.cpu_millis / 1000 + 1);
  }
  // One workflow is to end early (B-25): nothing starves, so that a task does not gain priority by waiting.
  if (!chosen(rows.order())) policy.order = fleet::Order::kCriticalPath;
  if (policy.order == fleet::Order::kCriticalPath && !chosen(rows.aging_boost())) policy.aging_boost = 0;
  // The workers cannot get lost while this process runs, even if it was suspended for an hour.
  if (!chosen(rows.heartbeat_ttl())) policy.heartbeat_ttl_ms = 365LL * 24 * 3600 * 1000;
  // No other worker will join.
  if (!chosen(rows.no_worker_grace())) policy.no_worker_grace_ms = 5000;
  // A run can be resumed whenever its user comes back: nothing of it is forgotten.
  if (policy.retention_ms == fleet::Policy{}.retention_ms) policy.retention_ms = 100LL * 365 * 24 * 3600 * 1000;
  // What the fleet file says about the whole fleet comes before the setting.
  if (!file.named.empty()) policy.fleet = file.named;
  ROTA_TRY(fleet::check_policy(policy));
  return policy;
}

}  // namespace

Result<void> use_workers(RunSetup& setup, const std::string& fleet_file, std::int64_t jobs) {
  ROTA_TRY_ASSIGN(workflow::FleetFile fleet, workers_of(fleet_file, jobs));
  ROTA_TRY_ASSIGN(setup.policy, policy_of(fleet));
  setup.workers = std::move(fleet.workers);
  setup.workers_have_a_price = !fleet_file.empty();
  const char* user = std::getenv("USER");  // NOLINT(concurrency-mt-unsafe): no thread was started yet.
  setup.workflow.spec.user = user == nullptr || *user == '\0' ? "local" : user;
  return {};
}

int exit_status_of(fleet::Outcome outcome) {
  switch (outcome) {
    case fleet::Outcome::kSucceeded:
      return 0;
    case fleet::Outcome::kCancelled:
      return exit_status(ErrorCode::kCancelled);
    default:
      return 1;
  }
}

}  // namespace rota::cli
