#include <algorithm>

#include "base/log.h"
#include "ledger/etcd_state.h"
#include "rota/fiber/time.h"

namespace rota::ledger::detail {

// ------------------------------------------------------------------------------------------------------------ campaign

Result<std::uint64_t> EtcdState::campaign(kv::Deadline deadline) {
  {
    const sync::MutexLock lock(mutex);
    if (failure) return *failure;
    if (closing || ended) return closed_error();
    if (leading || campaigning) {
      return Error{ErrorCode::kFailedPrecondition,
                   "this ledger leads, has led or campaigns already; open another one to campaign again"};
    }
    campaigning = true;
  }
  net::Backoff pauses = backoff();
  Result<std::uint64_t> outcome = ErrorCode::kInternal;
  for (;;) {
    // A lease is granted only when there is a vacancy: while another host leads, nothing needs to be kept alive.
    std::int64_t lease_id = 0;
    std::chrono::nanoseconds granted_from{0};
    Result<Candidacy> candidacy = [&]() -> Result<Candidacy> {
      ROTA_TRY_ASSIGN(const kv::RangeResult found, store.range({.range = {keys.leader}}, options.call_within));
      if (!found.kvs.empty()) return Candidacy{0, found.kvs.front(), found.revision};
      granted_from = fiber::now();
      ROTA_TRY_ASSIGN(const kv::Lease granted, store.lease_grant(options.lease, options.call_within));
      lease_id = granted.id;
      return stand(lease_id, deadline);
    }();
    if (candidacy.ok() && candidacy->term != 0) {
      {
        const sync::MutexLock lock(mutex);
        lease_from = granted_from;
      }
      Result<void> taken = take_over(candidacy->term, lease_id, deadline);
      if (taken.ok()) {
        outcome = candidacy->term;
        break;
      }
      outcome = std::move(taken).take_error();
    } else if (candidacy.ok()) {
      Result<void> vacant = await_vacancy(candidacy->revision + 1, deadline);
      if (lease_id != 0) (void)store.lease_revoke(lease_id, options.call_within);
      if (vacant.ok()) continue;
      outcome = std::move(vacant).take_error();
      if (outcome.code() == ErrorCode::kDeadlineExceeded) {
        const std::string& name = candidacy->leader.value;
        outcome = Error{ErrorCode::kNotLeader, name + " leads"}.with("leader", name);
        break;
      }
    } else {
      outcome = std::move(candidacy).take_error();
    }
    // Whatever went wrong, a key that was created under this lease must not stay.
    if (lease_id != 0) (void)store.lease_revoke(lease_id, options.call_within);
    const bool again = outcome.code() == ErrorCode::kUnavailable || outcome.code() == ErrorCode::kDeadlineExceeded ||
                       outcome.code() == ErrorCode::kNotLeader || outcome.code() == ErrorCode::kNotFound;
    if (!again || fiber::now() >= deadline.time()) break;
    if (Result<void> waited = pause(pauses, outcome.error()); !waited.ok()) {
      outcome = std::move(waited).take_error();
      break;
    }
  }
  const sync::MutexLock lock(mutex);
  campaigning = false;
  changed.wake_all();
  return outcome;
}

// One transaction, repeated until its outcome is known.
Result<EtcdState::Candidacy> EtcdState::stand(std::int64_t lease_id, kv::Deadline deadline) {
  kv::Txn txn;
  txn.compares = {{.key = keys.leader, .target = kv::Compare::Target::kCreateRevision, .number = 0}};
  txn.success = {kv::Put{keys.leader, options.name, lease_id}};
  txn.failure = {kv::RangeRequest{.range = {keys.leader}}};
  net::Backoff pauses = backoff();
  for (;;) {
    Result<kv::TxnResult> result = store.txn(txn, options.call_within);
    if (!result.ok()) {
      if (!kv::is_unknown_outcome(result.code()) || fiber::now() >= deadline.time()) {
        return std::move(result).take_error();
      }
      ROTA_TRY(pause(pauses, result.error()));
      continue;
    }
    if (result->succeeded) return Candidacy{static_cast<std::uint64_t>(result->revision), {}, result->revision};
    const kv::RangeResult& found = result->results.at(0).range;
    if (found.kvs.empty()) return Error{ErrorCode::kCorrupt, "etcd found a leader and no leader in one transaction"};
    Candidacy candidacy{0, found.kvs.front(), result->revision};
    // The lease is ours alone: an earlier attempt was applied.
    if (candidacy.leader.lease == lease_id) {
      candidacy.term = static_cast<std::uint64_t>(candidacy.leader.create_revision);
    }
    return candidacy;
  }
}

Result<void> EtcdState::await_vacancy(std::int64_t from_revision, kv::Deadline deadline) {
  ROTA_TRY_ASSIGN(const std::unique_ptr<kv::Watch> watch, store.watch({keys.leader}, from_revision, deadline));
  for (;;) {
    Result<std::vector<kv::Event>> events = watch->next(deadline);
    if (!events.ok()) {
      // The history is gone: look again.
      if (kv::is_compacted(events.error())) return {};
      return std::move(events).take_error();
    }
    if (events->back().deleted) return {};
  }
}

Result<void> EtcdState::take_over(std::uint64_t new_term, std::int64_t lease_id, kv::Deadline deadline) {
  {
    const sync::MutexLock lock(mutex);
    term = new_term;
    lease = lease_id;
    changed.wake_all();  // The keeper begins.
  }
  const auto undo = [&](Error error) {
    const sync::MutexLock lock(mutex);
    term = 0;
    lease = 0;
    changed.wake_all();
    return error;
  };
  if (Result<void> loaded = load(new_term, deadline); !loaded.ok()) return undo(std::move(loaded).take_error());
  // Pieces of records that were never appended. This term has written none yet, and no older one can any more.
  std::uint64_t last = 0;
  {
    const sync::MutexLock lock(mutex);
    last = durable;
  }
  const kv::KeyRange unused{EtcdKeys::piece_folder(keys.part_prefix, last + 1, 0),
                            kv::with_prefix(keys.part_prefix).end};
  if (Result<std::int64_t> cleaned = trim(unused); !cleaned.ok()) return undo(std::move(cleaned).take_error());
  // The first leader of this log says where its terms begin.
  if (terms_revision == 0 && options.terms_above != 0) {
    if (Result<void> set = set_terms(options.terms_above); !set.ok()) return undo(std::move(set).take_error());
    const sync::MutexLock lock(mutex);
    terms = options.terms_above;
  }
  const sync::MutexLock lock(mutex);
  if (lease != lease_id) return Error{ErrorCode::kNotLeader, "the lease ended before this host could take over"};
  leading = true;
  changed.wake_all();
  ROTA_LOG(kInfo, "this host leads", {"name", options.name}, {"term", terms + new_term}, {"last_record", last});
  return {};
}

// --------------------------------------------------------------------------------------------------------------- lease

void EtcdState::keep_lease() {
  const std::chrono::nanoseconds interval = std::chrono::nanoseconds(options.lease) / 3;
  std::chrono::nanoseconds wait = interval;
  for (;;) {
    std::int64_t mine = 0;
    bool failed = false;
    {
      const sync::MutexLock lock(mutex);
      while (lease == 0) {
        if (ended || !changed.wait(mutex, "a lease to keep").ok()) return;
      }
      mine = lease;
      const std::chrono::nanoseconds next = fiber::now() + wait;
      while (!ended && !failure && fiber::now() < next) {
        const Result<void> waited = changed.wait_until(mutex, next, "the next renewal of the lease");
        if (!waited.ok() && waited.code() != ErrorCode::kDeadlineExceeded) return;
      }
      if (ended) return;
      failed = failure.has_value();
      if (!failed && lease != mine) continue;
    }
    if (failed) {
      // A ledger that cannot write leaves the lead to others.
      (void)store.lease_revoke(mine, options.call_within);
      return;
    }
    const std::chrono::nanoseconds sent = fiber::now();
    const Result<void> kept = store.lease_keep(mine, std::min(interval, options.call_within));
    heard(kept);
    if (kept.ok()) {
      const sync::MutexLock lock(mutex);
      if (lease == mine) lease_from = sent;
    }
    wait = kept.ok() ? interval : interval / 4;
    if (kept.code() == ErrorCode::kCancelled) return;
    if (kept.code() != ErrorCode::kNotFound) continue;
    bool led = false;
    {
      const sync::MutexLock lock(mutex);
      led = leading;
      if (lease == mine) lease = 0;
    }
    if (led) fail(deposed({}));
  }
}

// ---------------------------------------------------------------------------------------------------------------- tail

Result<bool> EtcdState::absorb(const std::vector<kv::Event>& events) {
  const sync::MutexLock lock(mutex);
  if (leading || lease != 0) return true;  // The campaign reads everything itself.
  for (const kv::Event& event : events) {
    revision = std::max(revision, event.kv.mod_revision);
    if (event.kv.key == keys.leader) {
      leader = event.deleted ? "" : event.kv.value;
    } else if (event.deleted) {
      return false;
    } else if (event.kv.key == keys.head) {
      ROTA_TRY_ASSIGN(const Head head, decode_head(event.kv));
      if (head.last <= durable) continue;
      if (head.first != durable + 1) return false;
      starts.push_back(head.first);
      durable = submitted = head.last;
    } else if (event.kv.key == keys.base) {
      ROTA_TRY_ASSIGN(base, decode_base(event.kv));
      if (base > durable) return false;
      drop_compacted();
    } else if (event.kv.key == keys.snapshot) {
      ROTA_TRY_ASSIGN(const SnapshotRef ref, decode_snapshot(event.kv));
      snapshot = snapshot_queued = ref.index;
    }
  }
  changed.wake_all();
  return true;
}

void EtcdState::follow() {
  net::Backoff pauses = backoff();
  std::unique_ptr<kv::Watch> watch;
  bool reload = false;
  for (;;) {
    std::int64_t from = 0;
    {
      const sync::MutexLock lock(mutex);
      // During a campaign its own reads count; a leader follows nobody.
      while (lease != 0 || leading) {
        watch.reset();
        reload = true;
        if (ended || !changed.wait(mutex, "the end of the leadership").ok()) return;
      }
      if (ended || failure) return;
      from = revision + 1;
    }
    Result<void> step;
    if (std::exchange(reload, false)) {
      watch.reset();
      step = try_load(0);
      reload = !step.ok();
    } else if (watch == nullptr) {
      Result<std::unique_ptr<kv::Watch>> opened = store.watch(kv::with_prefix(keys.meta), from, options.call_within);
      if (opened.ok()) {
        watch = std::move(*opened);
      } else {
        step = std::move(opened).take_error();
      }
    } else {
      Result<std::vector<kv::Event>> events = watch->next(options.lease);
      if (events.ok()) {
        Result<bool> applied = absorb(*events);
        if (!applied.ok()) return fail(applied.error());
        reload = !*applied;
        pauses.reset();
        heard({});
      } else if (events.code() == ErrorCode::kDeadlineExceeded) {
        // A watch replaces a lost connection by itself, so its silence says nothing about the store.
        Result<kv::RangeResult> probe = store.range({.range = {keys.leader}}, options.call_within);
        heard(probe.ok() ? Result<void>() : Result<void>(std::move(probe).take_error()));
      } else {
        step = std::move(events).take_error();
        watch.reset();
      }
    }
    if (!step.ok()) heard(step);
    if (step.ok()) continue;
    if (step.code() == ErrorCode::kCancelled || step.code() == ErrorCode::kClosed) return;
    if (kv::is_compacted(step.error())) {
      reload = true;
    } else if (!kv::is_unknown_outcome(step.code())) {
      return fail(step.error());
    }
    if (!fiber::sleep_for(pauses.next()).ok()) return;
  }
}

}  // namespace rota::ledger::detail
