#include "ledger/etcd_ledger.h"

#include <utility>

#include "base/log.h"
#include "ledger/etcd_state.h"
#include "rota/fiber/error.h"
#include "rota/fiber/time.h"

namespace rota::ledger {

namespace detail {

namespace {

constexpr std::chrono::seconds kResignWithin{2};

Result<void> check_options(const EtcdLedgerOptions& options) {
  if (options.prefix.empty() || options.prefix.back() != '/') {
    return Error{ErrorCode::kInvalidArgument, "the prefix of a replicated ledger must end with '/'"};
  }
  if (options.lease.count() <= 0 || options.group_records == 0 || options.group_bytes == 0 ||
      options.piece_bytes == 0 || options.trim_keys == 0 || options.pending_bytes_max == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "lease, group_records, group_bytes, piece_bytes, trim_keys and pending_bytes_max of a replicated "
                 "ledger must be greater than 0"};
  }
  // A batch, its keys and the head are one request.
  if (std::max(options.group_bytes, options.piece_bytes) + options.group_records * 8 + 4096 > kv::kMaxRequestBytes) {
    return Error{ErrorCode::kInvalidArgument,
                 "group_bytes and piece_bytes of a replicated ledger must fit into etcd's "
                 "request limit of 1.5 MiB"};
  }
  return {};
}

}  // namespace

void EtcdState::run(fiber::Nursery& scope) {
  scope.launch([this] { write_batches(); });
  scope.launch([this] { keep_lease(); });
  scope.launch([this] { follow(); });
  for (;;) {
    std::deque<std::function<void()>> some;
    {
      const sync::MutexLock lock(mutex);
      while (jobs.empty() && !ended) {
        if (!changed.wait(mutex, "work for the replicated ledger").ok()) return;
      }
      if (ended) return;
      some.swap(jobs);
    }
    for (std::function<void()>& job : some) scope.launch(std::move(job));
  }
}

void EtcdState::end() {
  std::deque<std::function<void()>> dropped;
  const sync::MutexLock lock(mutex);
  ended = true;
  if (!failure && (!queue.empty() || in_flight)) failure = closed_error();
  dropped.swap(jobs);
  changed.wake_all();
  mutex.unlock();
  dropped.clear();  // Their callers are told, which takes the mutex.
  mutex.lock();
}

void EtcdState::fail(const Error& error) {
  const sync::MutexLock lock(mutex);
  if (failure || ended) return;
  failure = error;
  if (error.code != ErrorCode::kCancelled && error.code != ErrorCode::kClosed) {
    ROTA_LOG(kError, "the replicated ledger accepts no more records", {"prefix", options.prefix},
             {"error", error.message}, {"last_record", durable});
  }
  changed.wake_all();
}

void EtcdState::heard(const Result<void>& answer) {
  if (answer.code() == ErrorCode::kCancelled || answer.code() == ErrorCode::kClosed) return;
  const bool answers = answer.ok() || !kv::is_unknown_outcome(answer.code());
  const sync::MutexLock lock(mutex);
  if (answers) {
    answered_at = fiber::now();
    if (std::exchange(silence, std::nullopt)) ROTA_LOG(kInfo, "etcd answers again", {"prefix", options.prefix});
  } else if (!silence) {
    silence = answer.error();
    ROTA_LOG(kWarn, "etcd does not answer; nothing is accepted until it does, and running tasks continue",
             {"prefix", options.prefix}, {"why", silence->message});
  }
}

Error EtcdState::not_leader() const {
  if (leader.empty()) {
    return Error{ErrorCode::kNotLeader, "this host does not lead, and no other host does at this moment"}.with("leader",
                                                                                                               "");
  }
  return Error{ErrorCode::kNotLeader, "this host does not lead; " + leader + " does"}.with("leader", leader);
}

Result<void> EtcdState::check_open() const {
  if (failure) return *failure;
  if (closing || ended) return closed_error();
  if (!leading) return not_leader();
  return {};
}

}  // namespace detail

using detail::EtcdState;

Result<std::unique_ptr<EtcdLedger>> EtcdLedger::open(kv::Store& store, EtcdLedgerOptions options,
                                                     fiber::Nursery& nursery, kv::Deadline deadline) {
  ROTA_TRY(detail::check_options(options));
  auto state = std::make_shared<EtcdState>(store, std::move(options));
  ROTA_TRY(state->load(0, deadline));
  state->heard({});
  state->root = nursery.spawn([state] {
    try {
      fiber::with_scope([&](fiber::Nursery& scope) { state->run(scope); });
    } catch (const fiber::FiberError&) {
      // Cancelled by close(), or with the nursery.
    }
    state->end();
  });
  return std::unique_ptr<EtcdLedger>(new EtcdLedger(std::move(state)));
}

Result<void> EtcdLedger::mark_copy(kv::Store& store, const std::string& prefix, bool complete, kv::Deadline deadline) {
  const std::string key = detail::EtcdKeys(prefix).copying;
  kv::Txn txn;
  if (complete) {
    txn.success = {kv::DeleteRange{{key}}};
  } else {
    txn.success = {kv::Put{key, "incomplete"}};
  }
  ROTA_TRY(store.txn(txn, deadline));
  return {};
}

EtcdLedger::~EtcdLedger() {
  if (const Result<void> closed = close(); !closed.ok()) {
    ROTA_LOG(kWarn, "the replicated ledger was closed with an error", {"prefix", state_->options.prefix},
             {"error", closed.error().message});
  }
}

Result<void> EtcdLedger::close() {
  EtcdState& s = *state_;
  bool resign = false;
  Result<void> outcome;
  {
    const sync::MutexLock lock(s.mutex);
    if (!std::exchange(s.closing, true)) s.close_by = fiber::now() + s.options.close_within;
    s.changed.wake_all();
    while (!s.failure && !s.ended && (!s.queue.empty() || s.in_flight)) {
      if (!s.changed.wait(s.mutex, "the last records").ok()) break;
    }
    if (s.failure) outcome = *s.failure;
    resign = s.leading && !s.failure && !s.ended;
  }
  if (resign) {
    // At once, instead of at the end of the lease. If it fails, the lease ends by itself.
    (void)s.perform<bool>([&s]() -> Result<bool> {
      std::int64_t lease = 0;
      {
        const sync::MutexLock lock(s.mutex);
        lease = s.lease;
      }
      ROTA_TRY(s.store.lease_revoke(lease, detail::kResignWithin));
      return true;
    });
  }
  s.end();
  s.root.cancel();
  return outcome;
}

Result<std::uint64_t> EtcdLedger::campaign(kv::Deadline deadline) {
  return state_->perform<std::uint64_t>([s = state_.get(), deadline]() -> Result<std::uint64_t> {
    ROTA_TRY_ASSIGN(const std::uint64_t revision, s->campaign(deadline));
    const sync::MutexLock lock(s->mutex);
    return s->terms + revision;
  });
}

Result<void> EtcdLedger::raise_terms(std::uint64_t term) {
  EtcdState& s = *state_;
  {
    const sync::MutexLock lock(s.mutex);
    ROTA_TRY(s.check_open());
  }
  ROTA_TRY(s.perform<bool>([&s, term]() -> Result<bool> {
    std::uint64_t value = 0;
    {
      const sync::MutexLock lock(s.mutex);
      if (term <= s.terms + s.term) return true;
      value = term - s.term;  // The next campaign has a higher revision than this one.
    }
    Result<void> done = s.set_terms(value);
    if (!done.ok()) s.fail(done.error());
    ROTA_TRY(std::move(done));
    return true;
  }));
  return {};
}

std::uint64_t EtcdLedger::term() const {
  const sync::MutexLock lock(state_->mutex);
  return state_->leading ? state_->terms + state_->term : 0;
}

std::string EtcdLedger::leader() const {
  const sync::MutexLock lock(state_->mutex);
  return state_->leader;
}

bool EtcdLedger::holds_lease() const {
  const sync::MutexLock lock(state_->mutex);
  return state_->leading && !state_->failure && fiber::now() < state_->lease_from + state_->options.lease;
}

Result<void> EtcdLedger::check_writable() const {
  const EtcdState& s = *state_;
  const sync::MutexLock lock(s.mutex);
  if (s.failure) return *s.failure;
  if (!s.silence) return {};
  const auto silent = std::chrono::duration_cast<std::chrono::seconds>(fiber::now() - s.answered_at);
  return Error{ErrorCode::kUnavailable, "etcd has not answered for " + std::to_string(silent.count()) +
                                            " s: " + s.silence->message + "; nothing is accepted until it does"};
}

Result<void> EtcdLedger::wait_beyond(std::uint64_t index, kv::Deadline deadline) {
  EtcdState& s = *state_;
  const sync::MutexLock lock(s.mutex);
  while (s.durable <= index) {
    if (s.failure) return *s.failure;
    if (s.closing || s.ended) return detail::closed_error();
    ROTA_TRY(deadline.never()
                 ? s.changed.wait(s.mutex, "the next record of the replicated ledger")
                 : s.changed.wait_until(s.mutex, deadline.time(), "the next record of the replicated ledger"));
  }
  return {};
}

Error EtcdLedger::wait_failure() {
  EtcdState& s = *state_;
  const sync::MutexLock lock(s.mutex);
  while (!s.failure) {
    if (s.closing || s.ended) return detail::closed_error();
    if (Result<void> waited = s.changed.wait(s.mutex, "the end of the leadership"); !waited.ok()) {
      return std::move(waited).take_error();
    }
  }
  return *s.failure;
}

Result<void> EtcdLedger::submit(std::span<const RecordBytes> records) {
  EtcdState& s = *state_;
  const sync::MutexLock lock(s.mutex);
  ROTA_TRY(s.check_open());
  ROTA_TRY(detail::check_submit(records, s.submitted));
  if (records.empty()) return {};
  std::size_t bytes = 0;
  for (const RecordBytes& record : records) bytes += record.bytes.size();
  // A submission that alone exceeds the bound is accepted when nothing is waiting.
  if (!s.queue.empty() && s.queue_bytes + bytes > s.options.pending_bytes_max) {
    return Error{ErrorCode::kQueueFull, std::to_string(s.queue_bytes) +
                                            " bytes are waiting to be written to etcd; the limit is " +
                                            std::to_string(s.options.pending_bytes_max)};
  }
  s.queue.insert(s.queue.end(), records.begin(), records.end());
  s.queue_bytes += bytes;
  s.submitted += records.size();
  s.changed.wake_all();
  return {};
}

Result<void> EtcdLedger::wait_durable(std::uint64_t index) {
  EtcdState& s = *state_;
  const sync::MutexLock lock(s.mutex);
  ROTA_TRY(detail::check_wait(index, s.submitted));
  while (s.durable < index) {
    if (s.failure) return *s.failure;
    if (s.ended) return detail::closed_error();
    ROTA_TRY(s.changed.wait(s.mutex, "a record in the replicated ledger"));
  }
  return {};
}

Result<std::vector<RecordBytes>> EtcdLedger::read(std::uint64_t from, std::size_t max_records) {
  EtcdState& s = *state_;
  {
    const sync::MutexLock lock(s.mutex);
    if (s.closing || s.ended) return detail::closed_error();
    ROTA_TRY(detail::check_read(from, s.base + 1));
    if (from > s.durable || max_records == 0) return std::vector<RecordBytes>();
    // The newest records, which a follower inside this process wants as soon as they are durable.
    if (!s.cache.empty() && from >= s.cache.front().index) {
      std::vector<RecordBytes> found;
      std::size_t bytes = 0;
      for (std::size_t i = from - s.cache.front().index; i < s.cache.size() && found.size() < max_records; ++i) {
        bytes += s.cache[i].bytes.size();
        if (bytes > kMaxReadBytes && !found.empty()) break;
        found.push_back(s.cache[i]);
      }
      return found;
    }
  }
  return s.perform<std::vector<RecordBytes>>([&s, from, max_records] { return s.read_records(from, max_records); });
}

std::uint64_t EtcdLedger::first_index() const {
  const sync::MutexLock lock(state_->mutex);
  return state_->base + 1;
}
std::uint64_t EtcdLedger::last_index() const {
  const sync::MutexLock lock(state_->mutex);
  return state_->durable;
}
std::uint64_t EtcdLedger::submitted_index() const {
  const sync::MutexLock lock(state_->mutex);
  return state_->submitted;
}

Result<void> EtcdLedger::save_snapshot(Snapshot snapshot) {
  EtcdState& s = *state_;
  {
    const sync::MutexLock lock(s.mutex);
    ROTA_TRY(s.check_open());
    ROTA_TRY(detail::check_snapshot(snapshot, s.snapshot_queued, s.durable));
    if (snapshot.bytes.size() > s.options.snapshot_bytes_max) {
      return Error{ErrorCode::kTooLarge, "the snapshot has " + std::to_string(snapshot.bytes.size()) +
                                             " bytes; the limit of a replicated ledger is " +
                                             std::to_string(s.options.snapshot_bytes_max)};
    }
    s.snapshot_queued = snapshot.index;
  }
  auto shared = std::make_shared<Snapshot>(std::move(snapshot));
  ROTA_TRY(s.perform<bool>([&s, shared]() -> Result<bool> {
    Result<void> saved = s.save_snapshot(*shared);
    if (!saved.ok()) s.fail(saved.error());
    ROTA_TRY(std::move(saved));
    return true;
  }));
  return {};
}

Result<std::optional<Snapshot>> EtcdLedger::latest_snapshot() {
  EtcdState& s = *state_;
  {
    const sync::MutexLock lock(s.mutex);
    if (s.closing || s.ended) return detail::closed_error();
  }
  return s.perform<std::optional<Snapshot>>([&s] { return s.read_snapshot(); });
}

Result<void> EtcdLedger::compact(std::uint64_t up_to) {
  EtcdState& s = *state_;
  {
    const sync::MutexLock lock(s.mutex);
    ROTA_TRY(s.check_open());
    ROTA_TRY(detail::check_compact(up_to, s.snapshot));
    if (up_to <= s.base) return {};
  }
  ROTA_TRY(s.perform<bool>([&s, up_to]() -> Result<bool> {
    Result<void> done = s.compact(up_to);
    if (!done.ok()) s.fail(done.error());
    ROTA_TRY(std::move(done));
    return true;
  }));
  return {};
}

Result<void> EtcdLedger::backup(const std::string& path) {
  return Error{ErrorCode::kUnsupported, "cannot back up to " + path +
                                            ": this ledger is in etcd, which makes its own backups; use `etcdctl "
                                            "snapshot save`"};
}

}  // namespace rota::ledger
