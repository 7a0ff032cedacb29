#include "ledger/disk_ledger.h"

#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <utility>

#include "base/log.h"
#include "fiber/baton.h"
#include "fiber/condition.h"
#include "ledger/disk_backup.h"
#include "ledger/disk_format.h"
#include "ledger/disk_store.h"
#include "ledger/file_lock.h"
#include "rota/fiber/blocking.h"

namespace rota::ledger {

namespace detail {

// A long operation that the writer does in steps, between groups. Its caller waits for it, and may return before it is
// done if it is cancelled.
class Chore {
 public:
  virtual ~Chore() = default;
  // Does one step, under the writer's role. True: there is more to do.
  virtual Result<bool> step(DiskStore& store) = 0;

  bool done = false;  // Under the ledger's mutex.
};

namespace {

class SnapshotChore final : public Chore {
 public:
  SnapshotChore(Snapshot snapshot, std::size_t piece_bytes)
      : snapshot_(std::move(snapshot)), piece_bytes_(piece_bytes) {}

  Result<bool> step(DiskStore& store) override {
    if (finished_) return store.remove_garbage();
    if (at_ == 0) ROTA_TRY(store.begin_snapshot());
    if (at_ < snapshot_.bytes.size()) {
      const std::string_view piece = std::string_view(snapshot_.bytes).substr(at_, piece_bytes_);
      ROTA_TRY(store.add_piece(piece));
      at_ += piece.size();
    }
    if (at_ == snapshot_.bytes.size()) {
      ROTA_TRY(store.finish_snapshot(snapshot_));
      finished_ = true;
    }
    return true;
  }
  [[nodiscard]] const Snapshot& snapshot() const { return snapshot_; }
  [[nodiscard]] std::uint64_t finished_index() const { return finished_ ? snapshot_.index : 0; }

 private:
  const Snapshot snapshot_;
  const std::size_t piece_bytes_;
  std::size_t at_ = 0;
  bool finished_ = false;
};

class CompactChore final : public Chore {
 public:
  explicit CompactChore(std::uint64_t up_to) : up_to_(up_to) {}
  Result<bool> step(DiskStore& store) override { return store.remove_records(up_to_); }

 private:
  const std::uint64_t up_to_;
};

constexpr std::chrono::microseconds kSpin{50};
constexpr std::uint32_t kVainSpins = 4;   // After so many unsuccessful spins in a row,
constexpr std::uint32_t kSpinAgain = 16;  // only one in this many is tried.

// Runs a blocking function on a helper thread if the caller is a task.
template <class F>
auto off_worker(F&& f) -> decltype(f()) {
  if (!fiber::in_task()) return f();
  return fiber::blocking(f);
}

Result<void> check_options(const DiskOptions& options) {
  if (options.path.empty()) return Error{ErrorCode::kInvalidArgument, "a ledger on disk needs a path"};
  if (options.pending_bytes_max == 0 || options.checkpoint_pages == 0 || options.piece_bytes == 0 ||
      options.compact_records == 0) {
    return Error{
        ErrorCode::kInvalidArgument,
        "pending_bytes_max, checkpoint_pages, piece_bytes and compact_records of a ledger must be greater than 0"};
  }
  return {};
}

}  // namespace

struct DiskState {
  explicit DiskState(const DiskOptions& chosen) : options(chosen) {}

  [[nodiscard]] bool has_work() const ROTA_REQUIRES(mutex) { return !failure && (!queue.empty() || !chores.empty()); }
  // One round of the writer. Releases the mutex while it writes. REQUIRES: !writing, has_work().
  void write() ROTA_REQUIRES(mutex);
  Result<void> step(Chore& chore) ROTA_REQUIRES(mutex);
  void run_writer() ROTA_EXCLUDES(mutex);
  // Spins briefly for the next group: a caller that was just woken may decide the next record within microseconds, and
  // waking a sleeping thread costs a fifth of a sync. If spinning is usually unsuccessful, as for records that come
  // from processes which need the processor themselves, it is tried only now and then.
  void await_more() ROTA_REQUIRES(mutex);
  // Tells the writer's thread that there is work.
  void notify() ROTA_REQUIRES(mutex) {
    arrivals.fetch_add(1, std::memory_order_relaxed);  // Partner: await_more().
    work.notify_one();
  }
  // The error with which a change is refused, if any.
  Result<void> check_open() const ROTA_REQUIRES(mutex) {
    if (failure) return *failure;
    if (closing) return closed_error();
    if (options.writer == Writer::kThread && fiber::in_deterministic_task()) {
      return Error{ErrorCode::kFailedPrecondition,
                   options.path + ": opened with Writer::kThread; deterministic mode needs Writer::kInPlace"};
    }
    return {};
  }
  // Waits once for progress of the writer; the caller then checks its condition again.
  Result<void> wait() ROTA_REQUIRES(mutex);
  // Queues the chore and waits until it is done.
  Result<void> perform(const std::shared_ptr<Chore>& chore) ROTA_REQUIRES(mutex);

  const DiskOptions options;
  Recovery recovery;
  FileLock lock;
  std::unique_ptr<DiskStore> store;  // Invariant (2).

  mutable sync::Mutex mutex;
  fiber::Condition changed;                 // Waits for `durable`, `failure`, a chore's end, the writer's role.
  sync::CondVar work;                       // Wakes the writer's thread.
  sync::Atomic<std::uint64_t> arrivals{0};  // Counts calls of notify().
  std::uint32_t vain_spins = 0;  // Unsuccessful spins in a row, or spins skipped since. Only the writer uses it.
  Batch queue ROTA_GUARDED_BY(mutex);
  Batch spare ROTA_GUARDED_BY(mutex);  // Keeps its memory for the next group.
  std::deque<std::shared_ptr<Chore>> chores ROTA_GUARDED_BY(mutex);
  std::uint64_t first ROTA_GUARDED_BY(mutex) = 1;
  std::uint64_t durable ROTA_GUARDED_BY(mutex) = 0;
  std::uint64_t submitted ROTA_GUARDED_BY(mutex) = 0;
  std::uint64_t snapshot ROTA_GUARDED_BY(mutex) = 0;         // Index of the latest snapshot.
  std::uint64_t snapshot_queued ROTA_GUARDED_BY(mutex) = 0;  // Index of the newest requested snapshot.
  bool writing ROTA_GUARDED_BY(mutex) = false;
  bool closing ROTA_GUARDED_BY(mutex) = false;   // No more changes are accepted.
  bool stopping ROTA_GUARDED_BY(mutex) = false;  // The thread ends when there is no work left.
  std::optional<Error> failure ROTA_GUARDED_BY(mutex);
  DiskLedger::Stats stats ROTA_GUARDED_BY(mutex);

  sync::Mutex end_mutex;  // Serialises close().
  std::optional<Result<void>> ended ROTA_GUARDED_BY(end_mutex);

  sync::Mutex read_mutex;
  std::unique_ptr<Connection> reader ROTA_GUARDED_BY(read_mutex);

  sync::Thread thread;
};

Result<void> DiskState::step(Chore& chore) {
  mutex.unlock();
  Result<bool> more = chore.step(*store);
  const auto* snapshot_chore = dynamic_cast<SnapshotChore*>(&chore);
  mutex.lock();
  if (!more.ok()) return std::move(more).take_failure();
  first = store->first_index();
  if (snapshot_chore != nullptr) snapshot = std::max(snapshot, snapshot_chore->finished_index());
  if (!*more) {
    chore.done = true;
    chores.pop_front();
  }
  return {};
}

void DiskState::write() {
  constexpr std::size_t kKeptBytes = std::size_t{4} << 20;
  writing = true;
  Batch group = std::exchange(queue, std::move(spare));
  queue.first = submitted + 1;
  Result<void> done;
  if (!group.empty()) {
    mutex.unlock();
    done = store->append(group);
    mutex.lock();
    if (done.ok()) {
      durable = store->last_index();
      ++stats.groups;
      stats.records += group.ends.size();
      stats.largest_group = std::max<std::uint64_t>(stats.largest_group, group.ends.size());
      changed.wake_all();
    }
  }
  if (done.ok() && !chores.empty()) done = step(*std::shared_ptr<Chore>(chores.front()));
  if (done.ok()) {
    mutex.unlock();
    done = store->maintain();
    mutex.lock();
    stats.checkpoints = store->checkpoints();
  }
  if (!done.ok()) {
    failure = std::move(done).take_error();
    ROTA_LOG(kError, "writing to the ledger failed; open it again to recover", {"path", options.path},
             {"error", failure->message}, {"last_record", durable});
  }
  group.bytes.clear();
  group.ends.clear();
  if (group.bytes.capacity() <= kKeptBytes) spare = std::move(group);
  writing = false;
  changed.wake_all();
}

void DiskState::run_writer() {
  const sync::MutexLock guard(mutex);
  for (;;) {
    if (!has_work() && !stopping) await_more();
    while (!has_work() && !stopping) work.wait(mutex);
    if (!has_work()) return;
    write();
  }
}

void DiskState::await_more() {
  using Clock = std::chrono::steady_clock;
  if (vain_spins >= kVainSpins && ++vain_spins % kSpinAgain != 0) return;
  const std::uint64_t seen = arrivals.load(std::memory_order_relaxed);
  mutex.unlock();
  const Clock::time_point end = Clock::now() + kSpin;
  // Relaxed: only a hint. The queue itself is checked under the mutex.
  while (arrivals.load(std::memory_order_relaxed) == seen && Clock::now() < end) sync::cpu_pause();
  vain_spins = arrivals.load(std::memory_order_relaxed) == seen ? vain_spins + 1 : 0;
  mutex.lock();
}

Result<void> DiskState::wait() {
  if (options.writer == Writer::kInPlace && !writing && has_work()) {
    write();
    return {};
  }
  return changed.wait(mutex, "the ledger's writer");
}

Result<void> DiskState::perform(const std::shared_ptr<Chore>& chore) {
  chores.push_back(chore);
  notify();
  while (!chore->done) {
    if (failure) return *failure;
    ROTA_TRY(wait());
  }
  return {};
}

}  // namespace detail

using detail::off_worker;

// -------------------------------------------------------------------------------------------------- opening and ending

DiskLedger::DiskLedger(const DiskOptions& options) : state_(std::make_unique<detail::DiskState>(options)) {}

Result<std::unique_ptr<DiskLedger>> DiskLedger::open(const DiskOptions& options) {
  ROTA_TRY(detail::check_options(options));
  std::unique_ptr<DiskLedger> ledger(new DiskLedger(options));
  ROTA_TRY(off_worker([&] { return ledger->start(); }));
  return ledger;
}

Result<void> DiskLedger::start() {
  detail::DiskState& s = *state_;
  // If anything below fails, close() has nothing to do.
  const auto refused = [&](Error error) {
    const sync::MutexLock end_guard(s.end_mutex);
    s.ended.emplace();
    return error;
  };
  Result<detail::FileLock> lock = detail::FileLock::take(s.options.path + "-lock", s.options.path);
  if (!lock.ok()) return refused(std::move(lock).take_error());
  s.lock = std::move(lock).value();
  Result<std::unique_ptr<detail::DiskStore>> store = detail::DiskStore::open(s.options);
  if (!store.ok()) return refused(std::move(store).take_error());
  s.store = std::move(store).value();
  auto reader = detail::Connection::open(s.options.path, detail::Connection::Mode::kRead, s.options.vfs);
  if (!reader.ok()) return refused(std::move(reader).take_error());
  sqlite3_db_config(reader.value()->raw(), SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  // SQLite opens the log at the first read. Read now, so that reading works even if the disk fails later.
  if (Result<detail::Meta> meta = detail::read_meta(**reader); !meta.ok()) return refused(std::move(meta).take_error());

  s.recovery = s.store->recovery();
  {
    const sync::MutexLock read_guard(s.read_mutex);
    s.reader = std::move(reader).value();
  }
  const sync::MutexLock guard(s.mutex);
  s.first = s.recovery.first_index;
  s.durable = s.submitted = s.recovery.last_index;
  s.snapshot = s.snapshot_queued = s.recovery.snapshot_index;
  s.queue.first = s.submitted + 1;
  if (s.options.writer == Writer::kThread) s.thread = sync::Thread([&s] { s.run_writer(); });
  return {};
}

// Writes the records that were submitted, then closes the file. After a failure nothing is written.
Result<void> DiskLedger::end() {
  detail::DiskState& s = *state_;
  const sync::MutexLock end_guard(s.end_mutex);
  if (s.ended) return *s.ended;
  {
    const sync::MutexLock guard(s.mutex);
    s.closing = s.stopping = true;
    s.notify();
  }
  s.thread.join();
  Result<void> outcome;
  {
    const sync::MutexLock guard(s.mutex);
    while (s.has_work()) s.write();  // In place; a writer's thread has already done it.
    if (s.failure) outcome = *s.failure;
    s.changed.wake_all();
  }
  {
    const sync::MutexLock read_guard(s.read_mutex);
    s.reader.reset();
  }
  if (outcome.ok()) outcome = s.store->close();
  s.store.reset();
  s.lock = detail::FileLock();
  s.ended = outcome;
  return outcome;
}

Result<void> DiskLedger::close() {
  return off_worker([&] { return end(); });
}

DiskLedger::~DiskLedger() {
  if (const Result<void> ended = end(); !ended.ok()) {
    ROTA_LOG(kError, "the ledger was closed with an error", {"path", state_->options.path},
             {"error", ended.error().message});
  }
}

// ------------------------------------------------------------------------------------------------------------- records

Result<void> DiskLedger::submit(std::span<const RecordBytes> records) {
  detail::DiskState& s = *state_;
  const sync::MutexLock guard(s.mutex);
  ROTA_TRY(s.check_open());
  ROTA_TRY(detail::check_submit(records, s.submitted));
  if (records.empty()) return {};
  std::size_t bytes = 0;
  for (const RecordBytes& record : records) bytes += record.bytes.size();
  // A submission that alone exceeds the bound is accepted when nothing is waiting.
  if (!s.queue.empty() && s.queue.bytes.size() + bytes > s.options.pending_bytes_max) {
    return Error{ErrorCode::kQueueFull, s.options.path + ": " + std::to_string(s.queue.bytes.size()) +
                                            " bytes are waiting to be written; the limit is " +
                                            std::to_string(s.options.pending_bytes_max)};
  }
  for (const RecordBytes& record : records) s.queue.add(record.bytes);
  s.submitted += records.size();
  s.notify();
  return {};
}

Result<void> DiskLedger::wait_durable(std::uint64_t index) {
  detail::DiskState& s = *state_;
  const sync::MutexLock guard(s.mutex);
  ROTA_TRY(detail::check_wait(index, s.submitted));
  while (s.durable < index) {
    if (s.failure) return *s.failure;
    ROTA_TRY(s.wait());
  }
  return {};
}

Result<std::vector<RecordBytes>> DiskLedger::read(std::uint64_t from, std::size_t max_records) {
  detail::DiskState& s = *state_;
  const std::uint64_t last = last_index();
  ROTA_TRY(detail::check_read(from, first_index()));
  if (from > last || max_records == 0) return std::vector<RecordBytes>();
  return off_worker([&]() -> Result<std::vector<RecordBytes>> {
    const sync::MutexLock read_guard(s.read_mutex);
    if (s.reader == nullptr) return detail::closed_error();
    detail::Connection& reader = *s.reader;
    std::vector<RecordBytes> found;
    std::size_t bytes = 0;
    ROTA_TRY(reader.transaction([&]() -> Result<void> {
      // Records may have been compacted since; meta is read in the same transaction as the records.
      ROTA_TRY_ASSIGN(const detail::Meta meta, detail::read_meta(reader));
      ROTA_TRY(detail::check_read(from, meta.base + 1));
      const std::uint64_t to = std::min<std::uint64_t>(last, from + std::min<std::uint64_t>(max_records, last) - 1);
      return detail::scan_records(reader, from, to, [&](std::uint64_t index, std::string_view record) {
        bytes += record.size();
        if (bytes > kMaxReadBytes && !found.empty()) return false;
        found.push_back({index, std::string(record)});
        return true;
      });
    }));
    if (found.empty()) {
      return Error{ErrorCode::kCorrupt, s.options.path + ": record " + std::to_string(from) + " is missing"}.with(
          "index", std::to_string(from));
    }
    return found;
  });
}

std::uint64_t DiskLedger::first_index() const {
  const sync::MutexLock guard(state_->mutex);
  return state_->first;
}
std::uint64_t DiskLedger::last_index() const {
  const sync::MutexLock guard(state_->mutex);
  return state_->durable;
}
std::uint64_t DiskLedger::submitted_index() const {
  const sync::MutexLock guard(state_->mutex);
  return state_->submitted;
}
const Recovery& DiskLedger::recovery() const { return state_->recovery; }
DiskLedger::Stats DiskLedger::stats() const {
  const sync::MutexLock guard(state_->mutex);
  return state_->stats;
}

// ------------------------------------------------------------------------------------ snapshots, compaction and backup

Result<void> DiskLedger::save_snapshot(Snapshot snapshot) {
  detail::DiskState& s = *state_;
  const std::uint64_t index = snapshot.index;
  const auto chore = std::make_shared<detail::SnapshotChore>(std::move(snapshot), s.options.piece_bytes);
  const sync::MutexLock guard(s.mutex);
  ROTA_TRY(s.check_open());
  ROTA_TRY(detail::check_snapshot(chore->snapshot(), s.snapshot_queued, s.durable));
  s.snapshot_queued = index;
  return s.perform(chore);
}

Result<std::optional<Snapshot>> DiskLedger::latest_snapshot() {
  detail::DiskState& s = *state_;
  return off_worker([&]() -> Result<std::optional<Snapshot>> {
    const sync::MutexLock read_guard(s.read_mutex);
    if (s.reader == nullptr) return detail::closed_error();
    detail::Connection& reader = *s.reader;
    std::optional<Snapshot> found;
    ROTA_TRY(reader.transaction([&]() -> Result<void> {
      ROTA_TRY_ASSIGN(found, detail::read_snapshot(reader));
      return {};
    }));
    return found;
  });
}

Result<void> DiskLedger::compact(std::uint64_t up_to) {
  detail::DiskState& s = *state_;
  const sync::MutexLock guard(s.mutex);
  ROTA_TRY(s.check_open());
  ROTA_TRY(detail::check_compact(up_to, s.snapshot));
  if (up_to < s.first) return {};
  return s.perform(std::make_shared<detail::CompactChore>(up_to));
}

Result<void> DiskLedger::backup(const std::string& path) {
  detail::DiskState& s = *state_;
  {
    const sync::MutexLock guard(s.mutex);
    if (s.closing) return detail::closed_error();
  }
  return off_worker([&] { return detail::back_up(s.options, path); });
}

}  // namespace rota::ledger
