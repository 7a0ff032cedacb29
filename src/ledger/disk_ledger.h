// DiskLedger: the log in one SQLite file, with group commit (L-2).
//
//   submit() ──► queue ──┐                   ┌── wait_durable(), save_snapshot(), compact(): fibers and threads
//                        ▼                   ▼
//                 the writer's role ──► durable, changed
//                        ▲
//   save_snapshot(), compact() ──► chores, a step a round
//
// Whoever has the writer's role takes all that is queued, commits it as one transaction, says so, does one step of the
// oldest chore, and looks at the queue again. So what arrives while one group syncs is the next group, nothing waits
// for a timer, and a long snapshot or compaction costs a record one step of it. With Writer::kThread the role is always
// the thread's; with kInPlace whoever waits takes it while nobody has it.
//
// Reading has a connection of its own and sees what is committed; it is cut at what is durable all the same.
//
// Invariants, under DiskState's mutex:
//   (1) durable <= submitted; the queue and the group that is being written are durable + 1 ... submitted
//   (2) only the one that has set `writing` touches the store
//   (3) once there is a failure nothing is written any more, and durable stays
//   (4) the thread sleeps only while has_work() is false and `stopping` is not set; both change under the mutex, and
//       whoever changes them notifies `work`
// Bounds: the queue by pending_bytes_max (submit() is refused); the chores by their callers, each of which waits for
// its own. Thread safety: as Ledger.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ledger/disk_options.h"
#include "ledger/ledger.h"

namespace rota::ledger {

namespace detail {
struct DiskState;  // disk_ledger.cc
}

class DiskLedger final : public Ledger {
 public:
  // Makes the file if there is none. Recovers: checks every record, cuts a torn tail off, refuses a damaged file.
  //   Conflict     another process has it open; the message says which
  //   Corrupt      with the position: the details have index, and offset if it is in the write-ahead log
  //   DataLoss     the end of the file is missing
  //   Unsupported  it is of a newer format
  //   and what the system has to say: NotFound, PermissionDenied, NoSpace, IoError
  static Result<std::unique_ptr<DiskLedger>> open(const DiskOptions& options);
  // close(), with an error logged. Blocks its thread.
  ~DiskLedger() override;

  Result<void> submit(std::span<const Record> records) override;
  Result<void> wait_durable(std::uint64_t index) override;
  Result<std::vector<Record>> read(std::uint64_t from, std::size_t max_records) override;
  [[nodiscard]] std::uint64_t first_index() const override;
  [[nodiscard]] std::uint64_t last_index() const override;
  [[nodiscard]] std::uint64_t submitted_index() const override;
  Result<void> save_snapshot(Snapshot snapshot) override;
  Result<std::optional<Snapshot>> latest_snapshot() override;
  Result<void> compact(std::uint64_t up_to) override;
  Result<void> backup(const std::string& path) override;
  Result<void> close() override;

  [[nodiscard]] const Recovery& recovery() const;

  struct Stats {
    std::uint64_t groups = 0;         // Transactions with records in them.
    std::uint64_t records = 0;        // In those.
    std::uint64_t largest_group = 0;  // Records.
    std::uint64_t checkpoints = 0;
  };
  [[nodiscard]] Stats stats() const;

 private:
  explicit DiskLedger(const DiskOptions& options);
  Result<void> start();
  Result<void> end();

  const std::unique_ptr<detail::DiskState> state_;
};

}  // namespace rota::ledger
