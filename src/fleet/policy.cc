#include "fleet/policy.h"

#include "fleet/check.h"

namespace rota::fleet {

namespace {
constexpr std::int64_t kMostMs = 1'000LL * 3600 * 24 * 365 * 100;
}  // namespace

Result<void> check_policy(const Policy& policy) {
  ROTA_TRY(in_range("lambda_inference", policy.lambda_inference, 0, kOne));
  ROTA_TRY(in_range("lambda_training", policy.lambda_training, 0, kOne));
  ROTA_TRY(in_range("lambda_other", policy.lambda_other, 0, kOne));
  ROTA_TRY(in_range("jitter", policy.jitter, 0, kOne));
  ROTA_TRY(in_range("aging_interval_ms", policy.aging_interval_ms, 1, kMostMs));
  ROTA_TRY(in_range("aging_boost", policy.aging_boost, 0, 1'000'000));
  ROTA_TRY(in_range("cache_ttl_ms", policy.cache_ttl_ms, 0, kMostMs));
  ROTA_TRY(in_range("merge_most", policy.merge_most, 1, 1000));
  ROTA_TRY(in_range("max_queue_per_worker", policy.max_queue_per_worker, 0, 1'000'000));
  ROTA_TRY(in_range("queue_most_ms", policy.queue_most_ms, 1, kMostMs));
  ROTA_TRY(in_range("reservation_after_ms", policy.reservation_after_ms, 0, kMostMs));
  ROTA_TRY(in_range("heartbeat_ttl_ms", policy.heartbeat_ttl_ms, 1, kMostMs));
  ROTA_TRY(in_range("no_worker_grace_ms", policy.no_worker_grace_ms, 0, kMostMs));
  ROTA_TRY(in_range("undeliverable_backoff_ms", policy.undeliverable_backoff_ms, 1, kMostMs));
  ROTA_TRY(in_range("backlog_per_worker", policy.backlog_per_worker, 1, 1'000'000'000));
  ROTA_TRY(in_range("reject_threshold", policy.reject_threshold, 0, kOne));
  ROTA_TRY(in_range("retention_ms", policy.retention_ms, 0, kMostMs));
  ROTA_TRY(in_range("result_most_bytes", policy.result_most_bytes, 0, 1 << 30));
  ROTA_TRY(in_range("fan_out_most", policy.fan_out_most, 1, 1'000'000));
  ROTA_TRY(in_range("elastic.disable_idle_ms", policy.elastic.disable_idle_ms, 0, kMostMs));
  ROTA_TRY(in_range("elastic.disable_queue_most", policy.elastic.disable_queue_most, 0, kMostMs));
  ROTA_TRY(in_range("elastic.enable_queue_threshold", policy.elastic.enable_queue_threshold, 0, kMostMs));
  ROTA_TRY(in_range("elastic.least_active", policy.elastic.least_active, 0, 1'000'000));
  ROTA_TRY(in_range("elastic.poll_ms", policy.elastic.poll_ms, 1, kMostMs));
  ROTA_TRY(in_range("elastic.cooldown_ms", policy.elastic.cooldown_ms, 0, kMostMs));
  Amounts fleet;
  fleet.named = policy.fleet;
  if (!fleet.named_is_valid()) {
    return Error{ErrorCode::kInvalidArgument,
                 "the named resources of the fleet need a name and a count above 0, each name once, sorted by name"};
  }
  return amounts_in_range("the fleet's ", fleet);
}

}  // namespace rota::fleet
