#include <algorithm>

#include "base/hash.h"
#include "ledger/etcd_state.h"
#include "rota/fiber/time.h"

namespace rota::ledger::detail {

namespace {

constexpr std::int64_t kPageKeys = 1000;  // Keys without values.
constexpr std::size_t kPageBatches = 16;  // At most piece_bytes each.
constexpr std::int64_t kPagePieces = 4;

Error missing_record(std::uint64_t index) {
  return Error{ErrorCode::kCorrupt, "record " + std::to_string(index) + " is missing in etcd"}.with(
      "index", std::to_string(index));
}

// The smallest key above `key`.
std::string after(std::string key) {
  key.push_back('\0');
  return key;
}

}  // namespace

Result<kv::RangeResult> EtcdState::get(const kv::RangeRequest& request) {
  net::Backoff pauses = backoff();
  const std::chrono::nanoseconds until = fiber::now() + 2 * options.call_within;
  for (;;) {
    Result<kv::RangeResult> result = store.range(request, options.call_within);
    const bool again = result.code() == ErrorCode::kUnavailable || result.code() == ErrorCode::kDeadlineExceeded;
    if (!again || fiber::now() >= until) return result;
    ROTA_TRY(fiber::sleep_for(pauses.next()));
  }
}

Result<void> EtcdState::load(std::uint64_t expected_term, kv::Deadline deadline) {
  net::Backoff pauses = backoff();
  for (;;) {
    Result<void> loaded = try_load(expected_term);
    const bool again = loaded.code() == ErrorCode::kUnavailable || loaded.code() == ErrorCode::kDeadlineExceeded ||
                       (!loaded.ok() && kv::is_compacted(loaded.error()));
    if (loaded.ok()) return check_complete();
    if (!again) return loaded;
    if (fiber::now() >= deadline.time()) return std::move(loaded).take_error().in("reading the ledger in etcd");
    ROTA_TRY(fiber::sleep_for(pauses.next()));
  }
}

Result<void> EtcdState::check_complete() {
  const sync::MutexLock lock(mutex);
  if (!incomplete_copy) return {};
  return Error{
      ErrorCode::kFailedPrecondition,
      "the log under '" + options.prefix +
          "' in etcd is an incomplete copy: the `rota ledger copy` or `rota ledger restore` that makes it still "
          "runs, or was interrupted. Remove it with `etcdctl del --prefix " +
          options.prefix + "` and copy the log again"};
}

Result<void> EtcdState::try_load(std::uint64_t expected_term) {
  ROTA_TRY_ASSIGN(const kv::RangeResult meta, store.range({.range = kv::with_prefix(keys.meta)}, options.call_within));
  const auto find = [&](const std::string& key) -> const kv::KeyValue* {
    const auto found = std::find_if(meta.kvs.begin(), meta.kvs.end(), [&](const auto& kv) { return kv.key == key; });
    return found == meta.kvs.end() ? nullptr : &*found;
  };
  const kv::KeyValue* leader_kv = find(keys.leader);
  if (expected_term != 0 &&
      (leader_kv == nullptr || leader_kv->create_revision != static_cast<std::int64_t>(expected_term))) {
    return Error{ErrorCode::kNotLeader, "the lease ended before this host could take over"};
  }
  Head head_value;
  std::uint64_t base_value = 0;
  SnapshotRef snapshot_value;
  const kv::KeyValue* head_kv = find(keys.head);
  const kv::KeyValue* base_kv = find(keys.base);
  const kv::KeyValue* snapshot_kv = find(keys.snapshot);
  if (head_kv != nullptr) {
    ROTA_TRY_ASSIGN(head_value, decode_head(*head_kv));
  }
  if (base_kv != nullptr) {
    ROTA_TRY_ASSIGN(base_value, decode_base(*base_kv));
  }
  std::uint64_t terms_value = 0;
  const kv::KeyValue* terms_kv = find(keys.terms);
  if (terms_kv != nullptr) {
    ROTA_TRY_ASSIGN(terms_value, decode_base(*terms_kv));
  }
  if (snapshot_kv != nullptr) {
    ROTA_TRY_ASSIGN(snapshot_value, decode_snapshot(*snapshot_kv));
  }
  // At one revision: what is compacted meanwhile does not disturb.
  std::deque<std::uint64_t> found;
  kv::RangeRequest page{
      .range = kv::with_prefix(keys.log_prefix), .limit = kPageKeys, .revision = meta.revision, .keys_only = true};
  for (bool more = true; more;) {
    ROTA_TRY_ASSIGN(const kv::RangeResult some, store.range(page, options.call_within));
    for (const kv::KeyValue& kv : some.kvs) {
      ROTA_TRY_ASSIGN(const std::uint64_t first, EtcdKeys::index_of(keys.log_prefix, kv.key));
      found.push_back(first);
    }
    more = some.more && !some.kvs.empty();
    if (more) page.range.key = after(some.kvs.back().key);
  }
  const bool any = head_value.last > base_value;
  if (any && (found.empty() || found.front() > base_value + 1)) return missing_record(base_value + 1);
  if (any && found.back() != head_value.first) return missing_record(head_value.first);

  const sync::MutexLock lock(mutex);
  incomplete_copy = find(keys.copying) != nullptr;
  if (expected_term == 0 && (lease != 0 || leading)) return {};  // A campaign has begun: its own reads count.
  head_revision = head_kv == nullptr ? 0 : head_kv->mod_revision;
  base_revision = base_kv == nullptr ? 0 : base_kv->mod_revision;
  snapshot_revision = snapshot_kv == nullptr ? 0 : snapshot_kv->mod_revision;
  terms_revision = terms_kv == nullptr ? 0 : terms_kv->mod_revision;
  terms = terms_value;
  base = base_value;
  durable = submitted = head_value.last;
  snapshot = snapshot_queued = snapshot_value.index;
  revision = meta.revision;
  leader = leader_kv == nullptr ? "" : leader_kv->value;
  starts = std::move(found);
  drop_compacted();
  changed.wake_all();
  return {};
}

void EtcdState::drop_compacted() {
  while (starts.size() > 1 && starts[1] <= base + 1) starts.pop_front();
  if (durable == base) starts.clear();
  while (!cache.empty() && cache.front().index <= base) {
    cached_bytes -= cache.front().bytes.size();
    cache.pop_front();
  }
}

Result<std::string> EtcdState::read_pieces(const std::string& folder, const Pieces& pieces) {
  std::string bytes;
  std::uint64_t count = 0;
  kv::RangeRequest page{.range = kv::with_prefix(folder), .limit = kPagePieces};
  for (bool more = true; more && count < pieces.count;) {
    ROTA_TRY_ASSIGN(const kv::RangeResult some, get(page));
    for (const kv::KeyValue& kv : some.kvs) {
      if (kv.key != EtcdKeys::piece(folder, count)) return Error{ErrorCode::kNotFound, "a piece is missing: " + folder};
      bytes += kv.value;
      ++count;
    }
    more = some.more && !some.kvs.empty();
    if (more) page.range.key = after(some.kvs.back().key);
  }
  if (count != pieces.count) return Error{ErrorCode::kNotFound, "a piece is missing: " + folder};
  if (bytes.size() != pieces.bytes || hash64(bytes) != pieces.sum) {
    return Error{ErrorCode::kCorrupt, "the pieces of " + folder + " in etcd are damaged"}.with("key", folder);
  }
  return bytes;
}

Result<std::vector<RecordBytes>> EtcdState::read_records(std::uint64_t from, std::size_t max_records) {
  std::vector<RecordBytes> found;
  std::size_t bytes = 0;
  for (std::uint64_t next = from;;) {
    // The batch that holds `next`, and the end of what is durable.
    std::uint64_t start = 0;
    std::uint64_t end_start = 0;
    std::uint64_t last = 0;
    {
      const sync::MutexLock lock(mutex);
      last = durable;
      if (found.empty()) ROTA_TRY(check_read(from, base + 1));
      if (next > last || found.size() >= max_records) return found;
      const auto above = std::upper_bound(starts.begin(), starts.end(), next);
      if (above == starts.begin()) {
        if (!found.empty()) return found;  // Compacted while this was read.
        return missing_record(next);
      }
      start = *std::prev(above);
      end_start = starts.back() + 1;
    }
    // A batch has at least one record.
    const auto limit = static_cast<std::int64_t>(std::min<std::size_t>(kPageBatches, max_records - found.size()));
    ROTA_TRY_ASSIGN(const kv::RangeResult page, get({.range = keys.logs(start, end_start), .limit = limit}));
    const std::uint64_t before = next;
    bool damaged = page.kvs.empty();
    for (const kv::KeyValue& kv : page.kvs) {
      if (kv.key != keys.log(start)) {
        damaged = true;
        break;
      }
      if (found.size() >= max_records) return found;
      Result<DecodedBatch> decoded = decode_batch(kv);
      if (!decoded.ok() && !found.empty()) return found;  // The next read reports it.
      ROTA_TRY_ASSIGN(DecodedBatch batch, std::move(decoded));
      if (batch.in_pieces) {
        // One record; it is not fetched if it would exceed the size of a read.
        if (!found.empty() && bytes + batch.pieces.bytes > kMaxReadBytes) return found;
        Result<std::string> whole =
            read_pieces(EtcdKeys::piece_folder(keys.part_prefix, batch.first, batch.term), batch.pieces);
        if (whole.code() == ErrorCode::kNotFound) {
          damaged = true;
          break;
        }
        ROTA_TRY_ASSIGN(std::string record, std::move(whole));
        batch.records.push_back(std::move(record));
      }
      if (batch.first != start || batch.records.size() != batch.count) return missing_record(start);
      for (std::uint64_t index = start; index < start + batch.count; ++index) {
        if (index < next) continue;
        if (index > last || found.size() >= max_records) return found;
        std::string& record = batch.records[index - start];
        bytes += record.size();
        if (bytes > kMaxReadBytes && !found.empty()) return found;
        found.push_back({index, std::move(record)});
        next = index + 1;
      }
      start += batch.count;
    }
    if (!damaged && next == before) return missing_record(next);
    if (!damaged) continue;
    // Missing: compacted since, or damage. Compaction moves base before it deletes anything.
    if (!found.empty()) return found;
    ROTA_TRY_ASSIGN(const kv::RangeResult now, get({.range = {keys.base}}));
    std::uint64_t now_base = 0;
    if (!now.kvs.empty()) {
      ROTA_TRY_ASSIGN(now_base, decode_base(now.kvs.front()));
    }
    ROTA_TRY(check_read(from, now_base + 1));
    return missing_record(next);
  }
}

Result<std::optional<Snapshot>> EtcdState::read_snapshot() {
  std::int64_t seen = 0;
  for (;;) {
    ROTA_TRY_ASSIGN(const kv::RangeResult found, get({.range = {keys.snapshot}}));
    if (found.kvs.empty()) return std::optional<Snapshot>();
    ROTA_TRY_ASSIGN(const SnapshotRef ref, decode_snapshot(found.kvs.front()));
    Result<std::string> bytes = read_pieces(EtcdKeys::piece_folder(keys.snap_prefix, ref.index, ref.term), ref.pieces);
    if (bytes.ok()) return std::optional<Snapshot>(Snapshot{ref.index, std::move(*bytes)});
    if (bytes.code() != ErrorCode::kNotFound) return std::move(bytes).take_error();
    // A newer snapshot has replaced it meanwhile, or it is damaged.
    if (std::exchange(seen, found.kvs.front().mod_revision) == found.kvs.front().mod_revision) {
      return Error{ErrorCode::kCorrupt,
                   "the snapshot of record " + std::to_string(ref.index) + " in etcd is incomplete"}
          .with("index", std::to_string(ref.index));
    }
  }
}

}  // namespace rota::ledger::detail
