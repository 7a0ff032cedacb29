// The messages of etcd's gRPC interface (version 3), encoded and decoded by hand: the fields that Rota uses, and no
// others. Fields that a newer etcd adds are skipped.
//
// Decoding returns Corrupt for bytes that are not a message. Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/kv_store.h"
#include "rota/result.h"

namespace rota::ledger::kv {

[[nodiscard]] std::string encode_range(const RangeRequest& request);
[[nodiscard]] std::string encode_txn(const Txn& txn);
[[nodiscard]] std::string encode_lease_grant(std::chrono::seconds ttl);
[[nodiscard]] std::string encode_lease_id(std::int64_t lease);  // LeaseKeepAlive, LeaseRevoke.
[[nodiscard]] std::string encode_watch(const KeyRange& range, std::int64_t revision);
[[nodiscard]] std::string encode_compaction(std::int64_t revision);

struct WatchResponse {
  std::int64_t revision = 0;  // Of the store when it was sent.
  bool created = false;
  bool canceled = false;
  std::int64_t compact_revision = 0;
  std::string cancel_reason{};
  std::vector<Event> events{};
};

Result<RangeResult> decode_range(std::string_view message);
Result<TxnResult> decode_txn(std::string_view message);
Result<Lease> decode_lease(std::string_view message);  // LeaseGrant, LeaseKeepAlive; a ttl of 0: it does not exist.
Result<WatchResponse> decode_watch(std::string_view message);

// What a status of etcd means: refines the code that gRPC's number alone gives, by etcd's sentence.
[[nodiscard]] Error etcd_error(Error error);

}  // namespace rota::ledger::kv
