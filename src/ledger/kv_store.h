// kv::Store: a replicated, ordered key-value store with revisions, transactions, leases and watches, as etcd has them.
//
// The replicated ledger (etcd_ledger.h) is written against this interface and sees neither HTTP/2 nor protobuf. There
// are two backends, etcd (etcd_store.h) and one in memory with faults (fake_store.h); kv_conformance.h holds for both.
//
// Every change gets the next revision of the whole store. A key remembers the revision that created it
// (create_revision), the last one that changed it (mod_revision) and how often it was changed since (version); for a
// key that does not exist all three are 0. Reads and transactions are strictly serialisable.
//
// Errors of every function:
//   Unavailable, DeadlineExceeded, Cancelled
//                the outcome of a change is unknown: it was applied, it was not, or it will be applied later
//   NotFound     the lease does not exist; or, with is_compacted(), the revision was removed by compact()
//   NoSpace      the store's quota is used up; the change was not applied
//   TooLarge     the request is above the store's limit (1.5 MiB); it was not applied
//   Overloaded, InvalidArgument, Unauthenticated, PermissionDenied: not applied
// Thread safety: every function from any task; of a Watch, next() from one task at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "net/stream.h"
#include "rota/result.h"

namespace rota::ledger::kv {

using net::Deadline;

inline constexpr std::size_t kMaxTxnOps = 128;
inline constexpr std::size_t kMaxRequestBytes = 1'572'864;

struct KeyValue {
  std::string key{};
  std::string value{};
  std::int64_t create_revision = 0;
  std::int64_t mod_revision = 0;
  std::int64_t version = 0;
  std::int64_t lease = 0;  // 0: none.
  friend bool operator==(const KeyValue&, const KeyValue&) = default;
};

// One key, or the keys from `key` up to but not including `end`.
struct KeyRange {
  std::string key{};
  std::string end{};  // Empty: only `key`.
};
// All keys that begin with `prefix`. REQUIRES: it is not empty and its last byte is not 0xff.
[[nodiscard]] KeyRange with_prefix(std::string prefix);

struct RangeRequest {
  KeyRange range{};
  std::int64_t limit = 0;     // 0: no limit.
  std::int64_t revision = 0;  // 0: the newest.
  bool keys_only = false;
};
struct RangeResult {
  std::vector<KeyValue> kvs{};  // By key.
  bool more = false;            // There are further keys beyond the limit.
  std::int64_t revision = 0;    // Of the store.
};

struct Compare {
  enum class Target : std::uint8_t { kVersion, kCreateRevision, kModRevision, kValue };
  enum class Relation : std::uint8_t { kEqual, kGreater, kLess, kNotEqual };
  std::string key{};
  Target target = Target::kVersion;
  Relation relation = Relation::kEqual;
  std::int64_t number = 0;
  std::string value{};  // For kValue. A key that does not exist equals no value.
};

struct Put {
  std::string key{};
  std::string value{};
  std::int64_t lease = 0;
};
struct DeleteRange {
  KeyRange range{};
};
using Op = std::variant<Put, DeleteRange, RangeRequest>;

// If every comparison holds, the operations of `success` are executed, otherwise those of `failure`; all of them at one
// revision. No key may be put twice.
struct Txn {
  std::vector<Compare> compares{};
  std::vector<Op> success{};
  std::vector<Op> failure{};
};
struct OpResult {
  RangeResult range{};       // Of a RangeRequest.
  std::int64_t deleted = 0;  // Keys that a DeleteRange removed.
};
struct TxnResult {
  bool succeeded = false;
  std::int64_t revision = 0;  // Of the store after the transaction.
  std::vector<OpResult> results{};
};

struct Lease {
  std::int64_t id = 0;
  std::chrono::seconds ttl{0};
};

struct Event {
  bool deleted = false;
  KeyValue kv{};  // Of a deletion only key and mod_revision.
  friend bool operator==(const Event&, const Event&) = default;
};

class Watch {
 public:
  virtual ~Watch() = default;
  Watch() = default;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  // The next changes, at least one, in the order of their revisions; all changes of a revision come together. A lost
  // connection is replaced, and no change is left out or repeated. DeadlineExceeded loses nothing. is_compacted(): the
  // next change was removed by compact() before it was read; this watch has ended.
  virtual Result<std::vector<Event>> next(Deadline deadline) = 0;
};

class Store {
 public:
  virtual ~Store() = default;
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  virtual Result<RangeResult> range(const RangeRequest& request, Deadline deadline) = 0;
  virtual Result<TxnResult> txn(const Txn& txn, Deadline deadline) = 0;
  virtual Result<Lease> lease_grant(std::chrono::seconds ttl, Deadline deadline) = 0;
  // Extends the lease by its full time from now. NotFound: it has ended, and its keys are gone.
  virtual Result<void> lease_keep(std::int64_t lease, Deadline deadline) = 0;
  // Ends the lease and deletes its keys. NotFound: it has ended already.
  virtual Result<void> lease_revoke(std::int64_t lease, Deadline deadline) = 0;
  // The changes of the range from `revision`; 0: from now on.
  virtual Result<std::unique_ptr<Watch>> watch(const KeyRange& range, std::int64_t revision, Deadline deadline) = 0;
  // Removes the history before `revision`; the values at `revision` stay. is_compacted(): done already.
  virtual Result<void> compact(std::int64_t revision, Deadline deadline) = 0;
};

[[nodiscard]] Error compacted_error(std::int64_t revision, const std::string& where);
[[nodiscard]] bool is_compacted(const Error& error);
// True if it is not known whether the change was applied.
[[nodiscard]] bool is_unknown_outcome(ErrorCode code);

}  // namespace rota::ledger::kv
