// The state and the tasks of an EtcdLedger. etcd_ledger.h has the protocol and its argument.
//
//   one root task ── writer: batches        (etcd_writer.cc)
//                 ├─ keeper: the lease      (etcd_election.cc)
//                 ├─ tail: a follower's watch (etcd_election.cc)
//                 └─ one task per job: reads, campaigns, snapshots, compactions (etcd_reader.cc, etcd_writer.cc)
// Callers, on any thread, queue jobs and wait; the tasks alone talk to the store.
//
// Invariants, under `mutex`:
//   (1) base <= durable <= submitted; the queue and the batch in flight are durable + 1 ... submitted
//   (2) starts are the first indices of the batches in the store, in order; the first is at most base + 1
//   (3) the cached records are consecutive and end at durable
//   (4) after a failure nothing is written, and `durable` does not change
// The revisions below belong to the writer (head) and to the holder of `maintenance` (the others) while this
// ledger leads, and to the task that loads before.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/sync.h"
#include "fiber/condition.h"
#include "ledger/etcd_format.h"
#include "ledger/etcd_ledger.h"
#include "net/redis_connection.h"  // Backoff.
#include "rota/fiber/sync.h"
#include "rota/fiber/task.h"

namespace rota::ledger::detail {

struct EtcdState : std::enable_shared_from_this<EtcdState> {
  EtcdState(kv::Store& the_store, EtcdLedgerOptions the_options)
      : store(the_store), options(std::move(the_options)), keys(options.prefix) {}

  kv::Store& store;
  const EtcdLedgerOptions options;
  const EtcdKeys keys;
  fiber::Task<void> root{};
  fiber::Mutex maintenance{};  // Held by one snapshot or compaction at a time.

  std::int64_t head_revision = 0;
  std::int64_t base_revision = 0;
  std::int64_t snapshot_revision = 0;
  std::int64_t terms_revision = 0;

  mutable sync::Mutex mutex;
  fiber::Condition changed;  // Any of the following.
  std::deque<std::function<void()>> jobs ROTA_GUARDED_BY(mutex);
  std::deque<RecordBytes> queue ROTA_GUARDED_BY(mutex);
  std::size_t queue_bytes ROTA_GUARDED_BY(mutex) = 0;
  bool incomplete_copy ROTA_GUARDED_BY(mutex) = false;
  bool in_flight ROTA_GUARDED_BY(mutex) = false;
  std::deque<std::uint64_t> starts ROTA_GUARDED_BY(mutex);
  std::deque<RecordBytes> cache ROTA_GUARDED_BY(mutex);
  std::size_t cached_bytes ROTA_GUARDED_BY(mutex) = 0;
  std::uint64_t base ROTA_GUARDED_BY(mutex) = 0;
  std::uint64_t durable ROTA_GUARDED_BY(mutex) = 0;
  std::uint64_t submitted ROTA_GUARDED_BY(mutex) = 0;
  std::uint64_t snapshot ROTA_GUARDED_BY(mutex) = 0;
  std::uint64_t snapshot_queued ROTA_GUARDED_BY(mutex) = 0;
  std::int64_t revision ROTA_GUARDED_BY(mutex) = 0;  // Of the store when the above was read.
  std::string leader ROTA_GUARDED_BY(mutex);
  std::uint64_t terms ROTA_GUARDED_BY(mutex) = 0;  // Added to `term` for the host.
  std::int64_t lease ROTA_GUARDED_BY(mutex) = 0;   // Set from the campaign on.
  std::uint64_t term ROTA_GUARDED_BY(mutex) = 0;   // Likewise.
  bool campaigning ROTA_GUARDED_BY(mutex) = false;
  bool leading ROTA_GUARDED_BY(mutex) = false;  // Stays set after a failure.
  bool closing ROTA_GUARDED_BY(mutex) = false;
  bool ended ROTA_GUARDED_BY(mutex) = false;  // The tasks end, and nothing more is done.
  std::chrono::nanoseconds close_by ROTA_GUARDED_BY(mutex) = std::chrono::nanoseconds::max();
  std::optional<Error> failure ROTA_GUARDED_BY(mutex);
  // When the lease was granted or renewed last: before the request was sent, so that it ends no later than this and its
  // length.
  std::chrono::nanoseconds lease_from ROTA_GUARDED_BY(mutex){0};
  std::chrono::nanoseconds answered_at ROTA_GUARDED_BY(mutex){0};  // The store's last answer that heard() was told of.
  std::optional<Error> silence ROTA_GUARDED_BY(mutex);             // Set while the store does not answer.

  // ---- etcd_ledger.cc
  void run(fiber::Nursery& scope);
  void end() ROTA_EXCLUDES(mutex);
  void fail(const Error& error) ROTA_EXCLUDES(mutex);
  // Notes whether the store answered a call, and logs when that changes.
  void heard(const Result<void>& answer) ROTA_EXCLUDES(mutex);
  Result<void> check_open() const ROTA_REQUIRES(mutex);
  [[nodiscard]] Error not_leader() const ROTA_REQUIRES(mutex);
  // Runs `work` in a task of the ledger and waits for it.
  template <class T>
  Result<T> perform(std::function<Result<T>()> work) ROTA_EXCLUDES(mutex);

  // ---- etcd_election.cc
  Result<std::uint64_t> campaign(kv::Deadline deadline);
  struct Candidacy {
    std::uint64_t term = 0;  // 0: `leader` leads.
    kv::KeyValue leader{};
    std::int64_t revision = 0;
  };
  Result<Candidacy> stand(std::int64_t lease_id, kv::Deadline deadline);
  Result<void> await_vacancy(std::int64_t from_revision, kv::Deadline deadline);
  Result<void> take_over(std::uint64_t new_term, std::int64_t lease_id, kv::Deadline deadline);
  void keep_lease();
  void follow();
  // Applies changes of meta/. False: the keys must be read again.
  Result<bool> absorb(const std::vector<kv::Event>& events) ROTA_EXCLUDES(mutex);

  // ---- etcd_reader.cc
  // Reads meta/ and the keys of the batches. If `expected_term` is not 0: NotLeader unless that term still leads.
  Result<void> load(std::uint64_t expected_term, kv::Deadline deadline);
  Result<void> try_load(std::uint64_t expected_term);
  Result<void> check_complete() ROTA_EXCLUDES(mutex);
  Result<std::vector<RecordBytes>> read_records(std::uint64_t from, std::size_t max_records);
  Result<std::optional<Snapshot>> read_snapshot();
  // A read that is repeated for a while if the store does not answer.
  Result<kv::RangeResult> get(const kv::RangeRequest& request);
  // NotFound if a piece is missing; Corrupt if the contents are not those that were written.
  Result<std::string> read_pieces(const std::string& folder, const Pieces& pieces);
  void drop_compacted() ROTA_REQUIRES(mutex);

  // ---- etcd_writer.cc
  void write_batches();
  std::vector<RecordBytes> take_group() ROTA_REQUIRES(mutex);
  // Success: the records are in the log. Then `deposition` may say that they are the last ones.
  Result<void> append_group(const std::vector<RecordBytes>& group, std::optional<Error>& deposition);
  Result<void> save_snapshot(const Snapshot& what);
  Result<void> compact(std::uint64_t up_to);
  Result<void> set_terms(std::uint64_t value);
  // Changes `key`, whose mod_revision is `at`, and does `more`, in one fenced transaction whose outcome is known
  // when it returns success. NotLeader: this ledger is deposed, and the change was not applied or cannot be told.
  Result<void> advance(const std::string& key, std::int64_t& at, const std::string& value, std::vector<kv::Op> more);
  // A fenced change that may be applied more than once.
  Result<std::int64_t> repeatable(std::vector<kv::Op> ops);
  Result<Pieces> write_pieces(const std::string& folder, std::string_view bytes);
  // Deletes the keys of the range, trim_keys at a time; returns the revision of the last deletion, 0 if there was none.
  Result<std::int64_t> trim(kv::KeyRange range);
  [[nodiscard]] kv::Compare fence() const;
  // The error of a fenced transaction whose comparison failed, with the leader that it found.
  [[nodiscard]] Error deposed(const kv::RangeResult& found);
  // Waits before an unanswered transaction is sent again. An error ends the attempts.
  Result<void> pause(net::Backoff& pauses, const Error& last);
  [[nodiscard]] net::Backoff backoff() const { return {options.retry_after, options.retry_most, 1}; }
};

template <class T>
Result<T> EtcdState::perform(std::function<Result<T>()> work) {
  // Reports that the work ended without a result, if its task is cancelled or never runs.
  struct Slot {
    explicit Slot(std::shared_ptr<EtcdState> the_state) : state(std::move(the_state)) {}
    std::shared_ptr<EtcdState> state;
    std::optional<Result<T>> outcome{};  // Under the mutex.
    bool dropped = false;                // Likewise.
  };
  struct Worker {
    Worker(std::shared_ptr<Slot> the_slot, std::function<Result<T>()> the_work)
        : slot(std::move(the_slot)), work(std::move(the_work)) {}
    Worker(const Worker&) = delete;
    Worker& operator=(const Worker&) = delete;
    ~Worker() {
      const sync::MutexLock lock(slot->state->mutex);
      slot->dropped = true;
      slot->state->changed.wake_all();
    }
    std::shared_ptr<Slot> slot;
    std::function<Result<T>()> work;
  };
  auto slot = std::make_shared<Slot>(shared_from_this());
  auto worker = std::make_shared<Worker>(slot, std::move(work));
  std::function<void()> job = [worker] {
    Result<T> result = worker->work();
    const sync::MutexLock lock(worker->slot->state->mutex);
    worker->slot->outcome.emplace(std::move(result));
    worker->slot->state->changed.wake_all();
  };
  worker.reset();
  bool refused = false;
  {
    const sync::MutexLock lock(mutex);
    refused = ended;
    if (!refused) {
      jobs.push_back(std::move(job));
      changed.wake_all();
    }
  }
  if (refused) return closed_error();  // `job` is destroyed without the mutex.
  const sync::MutexLock lock(mutex);
  while (!slot->outcome) {
    if (slot->dropped) return closed_error();
    ROTA_TRY(changed.wait(mutex, "the replicated ledger"));
  }
  return std::move(*slot->outcome);
}

}  // namespace rota::ledger::detail
