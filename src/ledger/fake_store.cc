#include "ledger/fake_store.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/sync.h"
#include "fiber/condition.h"
#include "rota/fiber/time.h"

namespace rota::ledger::kv {

namespace {

constexpr std::chrono::milliseconds kDownReply{10};

Error unanswered() { return Error{ErrorCode::kUnavailable, "the simulated store did not answer"}; }
Error invalid(const char* why) {
  return Error{ErrorCode::kInvalidArgument, std::string("the simulated store: ") + why};
}

template <class Number>
bool holds(Compare::Relation relation, const Number& left, const Number& right) {
  switch (relation) {
    case Compare::Relation::kEqual:
      return left == right;
    case Compare::Relation::kGreater:
      return left > right;
    case Compare::Relation::kLess:
      return left < right;
    case Compare::Relation::kNotEqual:
      return left != right;
  }
  return false;
}

}  // namespace

struct FakeStore::World {
  struct Held {
    std::chrono::seconds ttl{};
    std::chrono::nanoseconds ends{};
    std::set<std::string> keys{};
  };
  // The versions of a key in order; a deletion has version 0.
  using Versions = std::deque<KeyValue>;

  mutable sync::Mutex mutex;
  fiber::Condition changed;  // For watches.
  std::map<std::string, Versions> keys ROTA_GUARDED_BY(mutex);
  std::map<std::int64_t, std::vector<Event>> history ROTA_GUARDED_BY(mutex);  // By revision.
  std::map<std::int64_t, Held> leases ROTA_GUARDED_BY(mutex);
  std::int64_t revision ROTA_GUARDED_BY(mutex) = 1;  // As a new etcd.
  std::int64_t compacted ROTA_GUARDED_BY(mutex) = 0;
  std::int64_t next_lease ROTA_GUARDED_BY(mutex) = 1000;
  bool no_space ROTA_GUARDED_BY(mutex) = false;
  bool down ROTA_GUARDED_BY(mutex) = false;
  std::uint64_t txns ROTA_GUARDED_BY(mutex) = 0;
  std::int64_t most_deleted ROTA_GUARDED_BY(mutex) = 0;

  [[nodiscard]] const KeyValue* find(const std::string& key) const ROTA_REQUIRES(mutex) {
    const auto found = keys.find(key);
    if (found == keys.end() || found->second.back().version == 0) return nullptr;
    return &found->second.back();
  }

  static bool contains(const KeyRange& range, const std::string& key) {
    return range.end.empty() ? key == range.key : key >= range.key && key < range.end;
  }

  void end_leases() ROTA_REQUIRES(mutex) {
    const std::chrono::nanoseconds now = fiber::now();
    for (auto lease = leases.begin(); lease != leases.end();) {
      if (lease->second.ends > now) {
        ++lease;
        continue;
      }
      const std::set<std::string> owned = std::move(lease->second.keys);
      lease = leases.erase(lease);
      remove_keys(owned);
    }
  }
  void remove_keys(const std::set<std::string>& owned) ROTA_REQUIRES(mutex) {
    if (owned.empty()) return;
    ++revision;
    for (const std::string& key : owned) remove(key);
    changed.wake_all();
  }
  [[nodiscard]] std::chrono::nanoseconds next_end() const ROTA_REQUIRES(mutex) {
    std::chrono::nanoseconds first = std::chrono::nanoseconds::max();
    for (const auto& [id, lease] : leases) first = std::min(first, lease.ends);
    return first;
  }

  void drop_from_lease(const KeyValue& kv) ROTA_REQUIRES(mutex) {
    if (const auto lease = leases.find(kv.lease); lease != leases.end()) lease->second.keys.erase(kv.key);
  }
  void put(const Put& put) ROTA_REQUIRES(mutex) {
    KeyValue kv{put.key, put.value, revision, revision, 1, put.lease};
    if (const KeyValue* old = find(put.key); old != nullptr) {
      kv.create_revision = old->create_revision;
      kv.version = old->version + 1;
      drop_from_lease(*old);
    }
    if (put.lease != 0) leases.at(put.lease).keys.insert(put.key);
    history[revision].push_back({false, kv});
    keys[put.key].push_back(std::move(kv));
  }
  void remove(const std::string& key) ROTA_REQUIRES(mutex) {
    drop_from_lease(*find(key));
    KeyValue gone;
    gone.key = key;
    gone.mod_revision = revision;
    history[revision].push_back({true, gone});
    keys[key].push_back(std::move(gone));
  }
  std::vector<std::string> alive(const KeyRange& range) const ROTA_REQUIRES(mutex) {
    std::vector<std::string> found;
    for (auto at = keys.lower_bound(range.key); at != keys.end() && contains(range, at->first); ++at) {
      if (at->second.back().version != 0) found.push_back(at->first);
    }
    return found;
  }

  Result<RangeResult> read(const RangeRequest& request) const ROTA_REQUIRES(mutex) {
    if (request.range.key.empty()) return invalid("key is not provided");
    if (request.revision > revision) return invalid("required revision is a future revision");
    if (request.revision != 0 && request.revision < compacted) return compacted_error(compacted, "the range");
    const std::int64_t at_revision = request.revision == 0 ? revision : request.revision;
    RangeResult result;
    result.revision = revision;
    const KeyRange& range = request.range;
    for (auto at = keys.lower_bound(range.key); at != keys.end() && contains(range, at->first); ++at) {
      const Versions& versions = at->second;
      const auto version = std::find_if(versions.rbegin(), versions.rend(),
                                        [&](const KeyValue& kv) { return kv.mod_revision <= at_revision; });
      if (version == versions.rend() || version->version == 0) continue;
      if (request.limit != 0 && result.kvs.size() == static_cast<std::size_t>(request.limit)) {
        result.more = true;
        break;
      }
      result.kvs.push_back(*version);
      if (request.keys_only) result.kvs.back().value.clear();
    }
    return result;
  }

  [[nodiscard]] bool compare(const Compare& c) const ROTA_REQUIRES(mutex) {
    const KeyValue* kv = find(c.key);
    const KeyValue none;
    if (c.target == Compare::Target::kValue) return kv != nullptr && holds(c.relation, kv->value, c.value);
    if (kv == nullptr) kv = &none;
    const std::int64_t number = c.target == Compare::Target::kVersion          ? kv->version
                                : c.target == Compare::Target::kCreateRevision ? kv->create_revision
                                                                               : kv->mod_revision;
    return holds(c.relation, number, c.number);
  }

  // Refuses before anything changes, as etcd does.
  static Result<void> check(const std::vector<Op>& ops, std::size_t& bytes, bool& puts_something) {
    if (ops.size() > kMaxTxnOps) return invalid("too many operations in txn request");
    std::set<std::string> put_keys;
    for (const Op& op : ops) {
      if (const auto* put = std::get_if<Put>(&op)) {
        if (put->key.empty()) return invalid("key is not provided");
        if (!put_keys.insert(put->key).second) return invalid("duplicate key given in txn request");
        bytes += put->key.size() + put->value.size() + 16;
        puts_something = true;
      } else if (const auto* gone = std::get_if<DeleteRange>(&op)) {
        if (gone->range.key.empty()) return invalid("key is not provided");
      }
    }
    return {};
  }

  Result<TxnResult> execute(const Txn& txn) ROTA_REQUIRES(mutex) {
    std::size_t bytes = 0;
    bool puts_something = false;
    ROTA_TRY(check(txn.success, bytes, puts_something));
    ROTA_TRY(check(txn.failure, bytes, puts_something));
    if (bytes > kMaxRequestBytes) return Error{ErrorCode::kTooLarge, "the simulated store: request is too large"};
    if (no_space && puts_something) return Error{ErrorCode::kNoSpace, "the simulated store: database space exceeded"};
    TxnResult result;
    result.succeeded = std::all_of(txn.compares.begin(), txn.compares.end(),
                                   [&](const Compare& c) ROTA_REQUIRES(mutex) { return compare(c); });
    const std::vector<Op>& ops = result.succeeded ? txn.success : txn.failure;
    for (const Op& op : ops) {
      const auto* put = std::get_if<Put>(&op);
      if (put != nullptr && put->lease != 0 && !leases.contains(put->lease)) {
        return Error{ErrorCode::kNotFound, "the simulated store: requested lease not found"};
      }
    }
    const std::int64_t before = revision++;
    std::int64_t deleted = 0;
    for (const Op& op : ops) {
      OpResult one;
      if (const auto* put_op = std::get_if<Put>(&op)) {
        put(*put_op);
      } else if (const auto* gone = std::get_if<DeleteRange>(&op)) {
        for (const std::string& key : alive(gone->range)) {
          remove(key);
          ++one.deleted;
        }
        deleted += one.deleted;
      } else {
        ROTA_TRY_ASSIGN(one.range, read(std::get<RangeRequest>(op)));
      }
      result.results.push_back(std::move(one));
    }
    if (!history.contains(revision)) revision = before;  // Nothing changed.
    for (OpResult& one : result.results) one.range.revision = revision;
    result.revision = revision;
    ++txns;
    most_deleted = std::max(most_deleted, deleted);
    changed.wake_all();
    return result;
  }

  Result<void> compact(std::int64_t to) ROTA_REQUIRES(mutex) {
    if (to > revision) return invalid("required revision is a future revision");
    if (to <= compacted) return compacted_error(compacted, "the compaction");
    compacted = to;
    history.erase(history.begin(), history.lower_bound(to));
    for (auto at = keys.begin(); at != keys.end();) {
      Versions& versions = at->second;
      while (versions.size() > 1 && versions[1].mod_revision <= to) versions.pop_front();
      if (versions.front().version == 0 && versions.front().mod_revision <= to) versions.pop_front();
      at = versions.empty() ? keys.erase(at) : std::next(at);
    }
    changed.wake_all();
    return {};
  }
};

class FakeWatch final : public Watch {
 public:
  FakeWatch(std::shared_ptr<FakeStore::World> world, KeyRange range, std::int64_t revision)
      : world_(std::move(world)), range_(std::move(range)), next_revision_(revision) {}

  Result<std::vector<Event>> next(Deadline deadline) override {
    FakeStore::World& world = *world_;
    const sync::MutexLock lock(world.mutex);
    for (;;) {
      world.end_leases();
      if (next_revision_ < world.compacted) return compacted_error(world.compacted, "the watch");
      std::vector<Event> events;
      // A cluster that is down delivers nothing.
      for (auto at = world.history.lower_bound(next_revision_); !world.down && at != world.history.end(); ++at) {
        for (const Event& event : at->second) {
          if (FakeStore::World::contains(range_, event.kv.key)) events.push_back(event);
        }
      }
      if (!world.down) next_revision_ = world.revision + 1;
      if (!events.empty()) return events;
      const std::chrono::nanoseconds until = std::min(deadline.time(), world.next_end());
      Result<void> waited = until == std::chrono::nanoseconds::max()
                                ? world.changed.wait(world.mutex, "a change in the simulated store")
                                : world.changed.wait_until(world.mutex, until, "a change in the simulated store");
      if (waited.ok() || (waited.code() == ErrorCode::kDeadlineExceeded && fiber::now() < deadline.time())) continue;
      return std::move(waited).take_error();
    }
  }

 private:
  const std::shared_ptr<FakeStore::World> world_;
  const KeyRange range_;
  std::int64_t next_revision_;
};

class FakeClient final : public Store {
 public:
  FakeClient(std::shared_ptr<FakeStore::World> world, FakeStore::Plan plan, std::chrono::nanoseconds latency)
      : world_(std::move(world)), plan_(std::move(plan)), latency_(latency) {}

  Result<RangeResult> range(const RangeRequest& request, Deadline deadline) override {
    return call(CallKind::kRange, nullptr, deadline,
                [&](FakeStore::World& world) ROTA_REQUIRES(world.mutex) { return world.read(request); });
  }
  Result<TxnResult> txn(const Txn& txn, Deadline deadline) override {
    return call(CallKind::kTxn, &txn, deadline,
                [&](FakeStore::World& world) ROTA_REQUIRES(world.mutex) { return world.execute(txn); });
  }
  Result<Lease> lease_grant(std::chrono::seconds ttl, Deadline deadline) override {
    return call(CallKind::kLeaseGrant, nullptr, deadline,
                [&](FakeStore::World& world) ROTA_REQUIRES(world.mutex) -> Result<Lease> {
                  if (ttl.count() <= 0) return invalid("a lease needs a time above 0");
                  if (world.no_space) {
                    return Error{ErrorCode::kNoSpace, "the simulated store: database space exceeded"};
                  }
                  const std::int64_t id = world.next_lease++;
                  world.leases[id] = {ttl, fiber::now() + ttl, {}};
                  world.changed.wake_all();  // Waiting watches must know when it ends.
                  return Lease{id, ttl};
                });
  }
  Result<void> lease_keep(std::int64_t lease, Deadline deadline) override {
    return call(CallKind::kLeaseKeep, nullptr, deadline,
                [&](FakeStore::World& world) ROTA_REQUIRES(world.mutex) -> Result<void> {
                  const auto found = world.leases.find(lease);
                  if (found == world.leases.end()) return no_lease(lease);
                  found->second.ends = fiber::now() + found->second.ttl;
                  return {};
                });
  }
  Result<void> lease_revoke(std::int64_t lease, Deadline deadline) override {
    return call(CallKind::kLeaseRevoke, nullptr, deadline,
                [&](FakeStore::World& world) ROTA_REQUIRES(world.mutex) -> Result<void> {
                  const auto found = world.leases.find(lease);
                  if (found == world.leases.end()) return no_lease(lease);
                  const std::set<std::string> owned = std::move(found->second.keys);
                  world.leases.erase(found);
                  world.remove_keys(owned);
                  return {};
                });
  }
  Result<std::unique_ptr<Watch>> watch(const KeyRange& range, std::int64_t revision, Deadline deadline) override {
    return call(CallKind::kWatch, nullptr, deadline,
                [&](FakeStore::World& world) ROTA_REQUIRES(world.mutex) -> Result<std::unique_ptr<Watch>> {
                  const std::int64_t from = revision == 0 ? world.revision + 1 : revision;
                  return std::unique_ptr<Watch>(std::make_unique<FakeWatch>(world_, range, from));
                });
  }
  Result<void> compact(std::int64_t revision, Deadline deadline) override {
    return call(CallKind::kCompact, nullptr, deadline,
                [&](FakeStore::World& world) ROTA_REQUIRES(world.mutex) { return world.compact(revision); });
  }

 private:
  static Error no_lease(std::int64_t lease) {
    return Error{ErrorCode::kNotFound, "the lease " + std::to_string(lease) + " has expired or was revoked"};
  }

  template <class F>
  auto call(CallKind kind, const Txn* txn, Deadline deadline, F&& f) -> std::invoke_result_t<F, FakeStore::World&> {
    const Fault fault = plan_ ? plan_(kind, txn) : Fault::kNone;
    if (latency_.count() > 0) ROTA_TRY(fiber::sleep_for(latency_));
    std::invoke_result_t<F, FakeStore::World&> result = unanswered();
    bool down = false;
    {
      FakeStore::World& world = *world_;
      const sync::MutexLock lock(world.mutex);
      world.end_leases();
      run_late(world);
      down = world.down;
      if (!down && (fault == Fault::kNone || fault == Fault::kUnanswered)) result = apply(f, world);
      if (!down && fault == Fault::kLate && txn != nullptr) late_.push_back({*txn, 2});
    }
    if (down) ROTA_TRY(fiber::sleep_for(std::min<std::chrono::nanoseconds>(kDownReply, left(deadline))));
    if (latency_.count() > 0) ROTA_TRY(fiber::sleep_for(latency_));
    if (fault != Fault::kNone) return unanswered();
    return result;
  }

  // REQUIRES: the world's mutex. The analysis does not see that the parameter of `f` is this world.
  template <class F>
  static auto apply(F& f, FakeStore::World& world) ROTA_NO_THREAD_SAFETY_ANALYSIS {
    return f(world);
  }

  static std::chrono::nanoseconds left(Deadline deadline) {
    return std::max(std::chrono::nanoseconds(0), deadline.time() - fiber::now());
  }

  // Transactions that were under way in the network when their client gave them up.
  void run_late(FakeStore::World& world) ROTA_REQUIRES(world.mutex) {
    for (auto at = late_.begin(); at != late_.end();) {
      if (--at->calls_left > 0) {
        ++at;
        continue;
      }
      (void)world.execute(at->txn);
      at = late_.erase(at);
    }
  }

  struct Late {
    Txn txn;
    int calls_left;
  };

  const std::shared_ptr<FakeStore::World> world_;
  const FakeStore::Plan plan_;
  const std::chrono::nanoseconds latency_;
  std::deque<Late> late_;  // Under the world's mutex.
};

FakeStore::FakeStore() : world_(std::make_shared<World>()) {}
FakeStore::~FakeStore() = default;

std::unique_ptr<Store> FakeStore::client(Plan plan, std::chrono::nanoseconds latency) {
  return std::make_unique<FakeClient>(world_, std::move(plan), latency);
}

void FakeStore::expire_leases() {
  const sync::MutexLock lock(world_->mutex);
  for (auto& [id, lease] : world_->leases) lease.ends = std::chrono::nanoseconds::min();
  world_->end_leases();
}
void FakeStore::compact_all() {
  const sync::MutexLock lock(world_->mutex);
  (void)world_->compact(world_->revision);
}
void FakeStore::set_no_space(bool on) {
  const sync::MutexLock lock(world_->mutex);
  world_->no_space = on;
}
void FakeStore::set_down(bool on) {
  const sync::MutexLock lock(world_->mutex);
  world_->down = on;
  world_->changed.wake_all();
}
FakeStore::Stats FakeStore::stats() const {
  const sync::MutexLock lock(world_->mutex);
  Stats stats;
  stats.revision = world_->revision;
  stats.txns = world_->txns;
  stats.most_deleted = world_->most_deleted;
  for (const auto& [key, versions] : world_->keys) {
    stats.keys += versions.back().version != 0 ? 1 : 0;
    stats.old_versions += versions.size() - (versions.back().version != 0 ? 1 : 0);
  }
  return stats;
}

}  // namespace rota::ledger::kv
