#include <algorithm>

#include "base/hash.h"
#include "base/log.h"
#include "ledger/etcd_state.h"
#include "rota/fiber/time.h"

namespace rota::ledger::detail {

using Target = kv::Compare::Target;

kv::Compare EtcdState::fence() const {
  const sync::MutexLock lock(mutex);
  return {.key = keys.leader, .target = Target::kCreateRevision, .number = static_cast<std::int64_t>(term)};
}

Error EtcdState::deposed(const kv::RangeResult& found) {
  const sync::MutexLock lock(mutex);
  leader = found.kvs.empty() ? "" : found.kvs.front().value;
  return Error{ErrorCode::kNotLeader, "this host was deposed: its term " + std::to_string(term) + " has ended, and " +
                                          (leader.empty() ? "no host leads yet" : leader + " leads now") +
                                          "; its last durable record is " + std::to_string(durable)}
      .with("leader", leader)
      .with("term", std::to_string(term));
}

Result<void> EtcdState::pause(net::Backoff& pauses, const Error& last) {
  if (last.code == ErrorCode::kCancelled) return last;
  {
    const sync::MutexLock lock(mutex);
    if (ended || fiber::now() >= close_by) return last;
  }
  return fiber::sleep_for(pauses.next());
}

Result<void> EtcdState::advance(const std::string& key, std::int64_t& at, const std::string& value,
                                std::vector<kv::Op> more) {
  kv::Txn txn;
  txn.compares = {fence(), {.key = key, .target = Target::kModRevision, .number = at}};
  txn.success = std::move(more);
  txn.success.emplace_back(kv::Put{key, value});
  txn.failure = {kv::RangeRequest{.range = {keys.leader}}, kv::RangeRequest{.range = {key}}};
  net::Backoff pauses = backoff();
  for (bool repeated = false;; repeated = true) {
    Result<kv::TxnResult> result = store.txn(txn, options.call_within);
    if (!result.ok()) {
      if (!kv::is_unknown_outcome(result.code())) return std::move(result).take_error();
      ROTA_TRY(pause(pauses, result.error()));
      continue;
    }
    if (result->succeeded) {
      at = result->revision;
      return {};
    }
    const kv::RangeResult& leads = result->results.at(0).range;
    const kv::RangeResult& now = result->results.at(1).range;
    if (leads.kvs.empty() || leads.kvs.front().create_revision != txn.compares[0].number) return deposed(leads);
    // Argument (D): still the leader, so an earlier attempt was applied.
    if (repeated && !now.kvs.empty() && now.kvs.front().value == value) {
      at = now.kvs.front().mod_revision;
      return {};
    }
    return Error{ErrorCode::kCorrupt, "the key " + key + " in etcd was changed by somebody who does not lead"}.with(
        "key", key);
  }
}

Result<std::int64_t> EtcdState::repeatable(std::vector<kv::Op> ops) {
  kv::Txn txn;
  txn.compares = {fence()};
  txn.success = std::move(ops);
  txn.failure = {kv::RangeRequest{.range = {keys.leader}}};
  net::Backoff pauses = backoff();
  for (;;) {
    Result<kv::TxnResult> result = store.txn(txn, options.call_within);
    if (!result.ok()) {
      if (!kv::is_unknown_outcome(result.code())) return std::move(result).take_error();
      ROTA_TRY(pause(pauses, result.error()));
      continue;
    }
    if (!result->succeeded) return deposed(result->results.at(0).range);
    return result->revision;
  }
}

Result<Pieces> EtcdState::write_pieces(const std::string& folder, std::string_view bytes) {
  Pieces pieces{.count = 0, .bytes = bytes.size(), .sum = hash64(bytes)};
  for (std::size_t at = 0; at < bytes.size(); at += options.piece_bytes) {
    const std::string_view piece = bytes.substr(at, options.piece_bytes);
    ROTA_TRY(repeatable({kv::Put{EtcdKeys::piece(folder, pieces.count), std::string(piece)}}));
    ++pieces.count;
  }
  return pieces;
}

// ------------------------------------------------------------------------------------------------------------- appends

std::vector<RecordBytes> EtcdState::take_group() {
  std::vector<RecordBytes> group;
  std::size_t bytes = 0;
  while (!queue.empty() && group.size() < options.group_records) {
    const std::size_t size = queue.front().bytes.size();
    // A record in pieces is a batch of its own.
    if (!group.empty() && (bytes + size > options.group_bytes || size > options.piece_bytes)) break;
    bytes += size;
    queue_bytes -= size;
    group.push_back(std::move(queue.front()));
    queue.pop_front();
    if (size > options.piece_bytes) break;
  }
  return group;
}

Result<void> EtcdState::append_group(const std::vector<RecordBytes>& group, std::optional<Error>& deposition) {
  const std::uint64_t first = group.front().index;
  std::uint64_t my_term = 0;
  {
    const sync::MutexLock lock(mutex);
    my_term = term;
  }
  std::string batch;
  if (group.front().bytes.size() > options.piece_bytes) {
    ROTA_TRY_ASSIGN(const Pieces pieces,
                    write_pieces(EtcdKeys::piece_folder(keys.part_prefix, first, my_term), group.front().bytes));
    batch = encode_large(my_term, first, pieces);
  } else {
    batch = encode_batch(my_term, group);
  }
  const std::string head = encode_head({my_term, first, group.back().index});
  Result<void> done = advance(keys.head, head_revision, head, {kv::Put{keys.log(first), batch}});
  if (done.code() != ErrorCode::kNotLeader) return done;
  // Deposed. An attempt that was not answered may have been applied before: then the next leader has the records.
  ROTA_TRY_ASSIGN(const kv::RangeResult there, get({.range = {keys.log(first)}}));
  const bool applied = !there.kvs.empty() && there.kvs.front().value == batch;
  if (!applied) return done;
  deposition = std::move(done).take_error();
  return {};
}

void EtcdState::write_batches() {
  for (;;) {
    std::vector<RecordBytes> group;
    {
      const sync::MutexLock lock(mutex);
      while (queue.empty() || failure) {
        if (ended || !changed.wait(mutex, "records for the replicated ledger").ok()) return;
      }
      group = take_group();
      in_flight = true;
    }
    std::optional<Error> deposition;
    Result<void> done = append_group(group, deposition);
    if (done.ok()) {
      const sync::MutexLock lock(mutex);
      starts.push_back(group.front().index);
      durable = group.back().index;
      for (RecordBytes& record : group) {
        cached_bytes += record.bytes.size();
        cache.push_back(std::move(record));
      }
      while (cached_bytes > options.cache_bytes || (options.cache_bytes == 0 && !cache.empty())) {
        cached_bytes -= cache.front().bytes.size();
        cache.pop_front();
      }
      changed.wake_all();
    } else {
      deposition = std::move(done).take_error();
    }
    if (deposition) fail(*deposition);
    const sync::MutexLock lock(mutex);
    in_flight = false;
    changed.wake_all();
  }
}

// ------------------------------------------------------------------------------------------- snapshots and compaction

Result<std::int64_t> EtcdState::trim(kv::KeyRange range) {
  std::int64_t last = 0;
  for (;;) {
    const auto limit = static_cast<std::int64_t>(options.trim_keys);
    ROTA_TRY_ASSIGN(const kv::RangeResult some, get({.range = range, .limit = limit, .keys_only = true}));
    if (some.kvs.empty()) return last;
    range.key = some.kvs.back().key + '\0';
    ROTA_TRY_ASSIGN(last, repeatable({kv::DeleteRange{{some.kvs.front().key, range.key}}}));
    if (!some.more) return last;
  }
}

Result<void> EtcdState::save_snapshot(const Snapshot& what) {
  ROTA_TRY(maintenance.lock(std::nothrow));
  const std::unique_lock held(maintenance, std::adopt_lock);
  SnapshotRef ref;
  ref.index = what.index;
  {
    const sync::MutexLock lock(mutex);
    ref.term = term;
  }
  const std::string folder = EtcdKeys::piece_folder(keys.snap_prefix, ref.index, ref.term);
  ROTA_TRY_ASSIGN(ref.pieces, write_pieces(folder, what.bytes));
  ROTA_TRY(advance(keys.snapshot, snapshot_revision, encode_snapshot(ref), {}));
  {
    const sync::MutexLock lock(mutex);
    snapshot = what.index;
    changed.wake_all();
  }
  // Older snapshots, and pieces of those that were never finished.
  ROTA_TRY(trim({keys.snap_prefix, folder}));
  ROTA_TRY(trim({kv::with_prefix(folder).end, kv::with_prefix(keys.snap_prefix).end}));
  return {};
}

Result<void> EtcdState::set_terms(std::uint64_t value) {
  ROTA_TRY(maintenance.lock(std::nothrow));
  const std::unique_lock held(maintenance, std::adopt_lock);
  return advance(keys.terms, terms_revision, encode_base(value), {});
}

Result<void> EtcdState::compact(std::uint64_t up_to) {
  ROTA_TRY(maintenance.lock(std::nothrow));
  const std::unique_lock held(maintenance, std::adopt_lock);
  {
    const sync::MutexLock lock(mutex);
    if (up_to <= base) return {};
  }
  ROTA_TRY(advance(keys.base, base_revision, encode_base(up_to), {}));
  std::uint64_t keep = up_to + 1;  // The first batch that stays; it may begin before up_to.
  {
    const sync::MutexLock lock(mutex);
    base = up_to;
    drop_compacted();
    if (!starts.empty()) keep = std::min(keep, starts.front());
    changed.wake_all();
  }
  ROTA_TRY(trim(keys.logs(0, keep)));
  ROTA_TRY(trim({keys.part_prefix, EtcdKeys::piece_folder(keys.part_prefix, keep, 0)}));
  // A deletion frees nothing in etcd: its history is removed as well. Somebody else may have done so already.
  Result<void> done = store.compact(base_revision, options.call_within);
  if (!done.ok() && !kv::is_compacted(done.error())) {
    // The next compaction makes up for it.
    ROTA_LOG(kWarn, "etcd's history was not compacted", {"prefix", options.prefix}, {"error", done.error().message});
  }
  return {};
}

}  // namespace rota::ledger::detail
