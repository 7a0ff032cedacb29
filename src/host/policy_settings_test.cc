#include "host/policy_settings.h"

#include <gtest/gtest.h>

namespace rota::host {
namespace {

// H-4: without a word from anybody the settings are the policy's own defaults.
TEST(PolicySettings, Defaults) {
  SettingsTable table;
  const PolicySettings rows(table);
  EXPECT_EQ(rows.policy(Settings(table)), fleet::Policy{});
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
  const fleet::Policy policy = rows.policy(load.settings);
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

}  // namespace
}  // namespace rota::host
