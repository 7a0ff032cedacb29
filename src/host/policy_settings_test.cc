#include "host/policy_settings.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

namespace rota::host {
namespace {

// H-4: without a word from anybody the settings are the policy's own defaults.
TEST(PolicySettings, Defaults) {
  SettingsTable table;
  const PolicySettings rows(table);
  EXPECT_EQ(rows.policy(Settings(table)).value(), fleet::Policy{});
}

// H-4: the names of the environment, their units, and where a value came from.
TEST(PolicySettings, FromTheEnvironment) {
  SettingsTable table;
  const PolicySettings rows(table);
  const SettingsLoad load = load_settings(table, {.environment = {{"ORCHESTRATOR_DISPATCH_MODE", "static_worker"},
                                                                  {"ORCHESTRATOR_WORKER_SELECTION", "least_loaded"},
                                                                  {"SCHEDULER_LAMBDA_TRAINING", "0.25"},
                                                                  {"ENABLE_TASK_MERGE", "false"},
                                                                  {"TASK_MERGE_MAX_BATCH_SIZE", "9"},
                                                                  {"TASK_NO_WORKER_GRACE_SEC", "7"},
                                                                  {"ENABLE_ELASTIC_SCALING", "true"},
                                                                  {"ELASTIC_AUTO_POLL_INTERVAL_SEC", "3"},
                                                                  {"ROTA_POLICY_MAX_QUEUE_PER_WORKER", "5"}}});
  ASSERT_TRUE(load.ok()) << load.errors.front();
  const fleet::Policy policy = rows.policy(load.settings).value();
  EXPECT_EQ(policy.mode, fleet::DispatchMode::kStaticWorker);
  EXPECT_EQ(policy.selection, fleet::Selection::kLeastLoaded);
  EXPECT_EQ(policy.lambda_training, fleet::kOne / 4);
  EXPECT_FALSE(policy.merge);
  EXPECT_EQ(policy.merge_most, 9);
  EXPECT_EQ(policy.no_worker_grace_ms, 7000);
  EXPECT_TRUE(policy.elastic.enable);
  EXPECT_EQ(policy.elastic.poll_ms, 3000);
  EXPECT_EQ(policy.max_queue_per_worker, 5);
  EXPECT_TRUE(PolicySettings::is_set(load.settings, rows.max_queue_per_worker()));
  EXPECT_FALSE(PolicySettings::is_set(load.settings, rows.heartbeat_ttl()));
  EXPECT_NE(load.settings.to_text().find("environment SCHEDULER_LAMBDA_TRAINING"), std::string::npos);
}

// A value that makes no sense is refused with the name of its variable.
TEST(PolicySettings, Refused) {
  SettingsTable table;
  const PolicySettings rows(table);
  const SettingsLoad load = load_settings(
      table, {.environment = {{"ORCHESTRATOR_DISPATCH_MODE", "clever"}, {"SCHEDULER_LAMBDA_OTHER", "2"}}});
  ASSERT_EQ(load.errors.size(), 2U);
  EXPECT_NE(load.errors[0].find("ORCHESTRATOR_DISPATCH_MODE"), std::string::npos) << load.errors[0];
}

// Contract: B-8, B-9, B-10 to B-12, B-14, B-17. Every name of the source documents, by name: it changes the member that
// it should, and no other.
TEST(PolicySettings, EveryEnvironmentVariableByName) {
  using fleet::kOne;
  using fleet::Policy;
  struct Case {
    std::string name;
    std::string value;
    std::function<void(Policy&)> change;
  };
  const std::vector<Case> cases = {
      {"ORCHESTRATOR_DISPATCH_MODE", "fixed_pipeline", [](Policy& p) { p.mode = fleet::DispatchMode::kFixedPipeline; }},
      {"ORCHESTRATOR_WORKER_SELECTION", "first_fit", [](Policy& p) { p.selection = fleet::Selection::kFirstFit; }},
      {"SCHEDULER_LAMBDA_INFERENCE", "0.1", [](Policy& p) { p.lambda_inference = kOne / 10; }},
      {"SCHEDULER_LAMBDA_TRAINING", "0.2", [](Policy& p) { p.lambda_training = kOne / 5; }},
      {"SCHEDULER_LAMBDA_OTHER", "1", [](Policy& p) { p.lambda_other = kOne; }},
      {"SCHEDULER_SELECTION_JITTER", "0.002", [](Policy& p) { p.jitter = kOne / 500; }},
      {"ENABLE_CONTEXT_REUSE", "false", [](Policy& p) { p.context_reuse = false; }},
      {"WORKER_CACHE_TTL_SEC", "60", [](Policy& p) { p.cache_ttl_ms = 60'000; }},
      {"ENABLE_STAGE_WEIGHT_STICKINESS", "false", [](Policy& p) { p.stickiness = false; }},
      {"ENABLE_TASK_MERGE", "false", [](Policy& p) { p.merge = false; }},
      {"TASK_MERGE_MAX_BATCH_SIZE", "8", [](Policy& p) { p.merge_most = 8; }},
      {"ENABLE_PREEMPTION", "true", [](Policy& p) { p.preemption = true; }},
      {"ENABLE_FAIR_SHARE", "true", [](Policy& p) { p.fair_share = true; }},
      {"SCHEDULER_ORDER", "critical_path", [](Policy& p) { p.order = fleet::Order::kCriticalPath; }},
      {"RESERVATION_AFTER_SEC", "7", [](Policy& p) { p.reservation_after_ms = 7'000; }},
      {"PREFER_LOCALITY", "true", [](Policy& p) { p.prefer_locality = true; }},
      {"TASK_NO_WORKER_GRACE_SEC", "0", [](Policy& p) { p.no_worker_grace_ms = 0; }},
      {"ENABLE_ELASTIC_SCALING", "true", [](Policy& p) { p.elastic.enable = true; }},
      {"ELASTIC_AUTO_DISABLE_IDLE_SEC", "5", [](Policy& p) { p.elastic.disable_idle_ms = 5'000; }},
      {"ELASTIC_AUTO_DISABLE_QUEUE_MAX", "7", [](Policy& p) { p.elastic.disable_queue_most = 7; }},
      {"ELASTIC_AUTO_ENABLE_QUEUE_THRESHOLD", "9", [](Policy& p) { p.elastic.enable_queue_threshold = 9; }},
      {"ELASTIC_AUTO_MIN_ACTIVE_WORKERS", "3", [](Policy& p) { p.elastic.least_active = 3; }},
      {"ELASTIC_AUTO_POLL_INTERVAL_SEC", "11", [](Policy& p) { p.elastic.poll_ms = 11'000; }},
      {"ELASTIC_AUTO_TOGGLE_COOLDOWN_SEC", "13", [](Policy& p) { p.elastic.cooldown_ms = 13'000; }},
      {"ROTA_POLICY_FLEET_RESOURCES", "tape=1,licence=2", [](Policy& p) { p.fleet = {{"licence", 2}, {"tape", 1}}; }},
      {"ROTA_POLICY_UNDELIVERABLE_BACKOFF_MS", "250", [](Policy& p) { p.undeliverable_backoff_ms = 250; }},
  };
  SettingsTable table;
  const PolicySettings rows(table);
  std::set<std::string> tested;
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    const SettingsLoad load = load_settings(table, {.environment = {{each.name, each.value}}});
    ASSERT_TRUE(load.ok()) << load.errors.front();
    Policy expected;
    each.change(expected);
    EXPECT_EQ(rows.policy(load.settings).value(), expected);
    EXPECT_NE(load.settings.to_text().find("environment " + each.name), std::string::npos);
    tested.insert(each.name);
  }
  // No name is left out: a row has a name of its own (ROTA_...) and perhaps that of the source documents.
  for (const SettingRow& row : table.rows()) {
    for (const std::string& name : row.environment) {
      EXPECT_TRUE(name.starts_with("ROTA_") || tested.contains(name)) << name;
    }
  }
}

// Contract: B-24. A policy that the brain would refuse is an error where it was given, with its name and the reason.
TEST(PolicySettings, WhatTheBrainRefusesIsAnError) {
  SettingsTable table;
  const PolicySettings rows(table);
  const SettingsLoad poll = load_settings(table, {.environment = {{"ELASTIC_AUTO_POLL_INTERVAL_SEC", "0"}}});
  ASSERT_EQ(poll.errors.size(), 1U);
  EXPECT_NE(poll.errors.front().find("ELASTIC_AUTO_POLL_INTERVAL_SEC"), std::string::npos) << poll.errors.front();
  const SettingsLoad names = load_settings(table, {.environment = {{"ROTA_POLICY_FLEET_RESOURCES", "licence=0"}}});
  ASSERT_TRUE(names.ok());
  EXPECT_EQ(rows.policy(names.settings).code(), ErrorCode::kInvalidArgument);
  const SettingsLoad twice =
      load_settings(table, {.environment = {{"ROTA_POLICY_FLEET_RESOURCES", "licence=1,licence=2"}}});
  ASSERT_TRUE(twice.ok());
  EXPECT_EQ(rows.policy(twice.settings).code(), ErrorCode::kInvalidArgument);
  // Whatever a row accepts at its ends, the brain accepts as well.
  for (const SettingRow& row : table.rows()) {
    for (const std::optional<SettingValue>& end : {row.least, row.most}) {
      if (!end || !std::holds_alternative<std::int64_t>(*end)) continue;
      const SettingsLoad load = load_settings(
          table, {.environment = {{row.environment.front(), std::to_string(std::get<std::int64_t>(*end))}}});
      ASSERT_TRUE(load.ok()) << load.errors.front();
      const Result<fleet::Policy> policy = rows.policy(load.settings);
      EXPECT_TRUE(policy.ok()) << row.name << ": " << policy.error().message;
    }
  }
}

}  // namespace
}  // namespace rota::host
