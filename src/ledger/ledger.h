// Ledger: stores decisions durably. One interface for all places where the log can be kept (L-1).
//
//   ledger->submit(records);                 // queued; the next batch can be decided meanwhile
//   ...
//   ROTA_TRY(ledger->wait_durable(last));    // only now may the effects of these records leave the process
//
// A record is an index and bytes; fleet/ defines the bytes. Indices start at 1 and have no gaps. A snapshot is the
// state after the record of its index; compaction removes records that a snapshot covers.
//
//          compacted            kept, durable           submitted
//      1 ............. first_index() ..... last_index() ......... submitted_index()
//                            ^ at or before the latest snapshot's index + 1
//
// Guarantees of every implementation:
//   (1) A record for which wait_durable() returned success exists after any crash, with the same bytes; in a ledger
//       that was opened relaxed, after any crash of the process.
//   (2) The stored records are a prefix of the submitted ones, in order: none is invented, reordered or left out.
//   (3) A failed write or sync is fatal for the object: each waiter gets the error, every later change is refused with
//       it, and reading continues as far as possible. Opening again recovers, by (1) and (2). A record whose wait
//       failed may or may not exist.
//   (4) A refused call (wrong index, too large, no room) changes nothing.
//
// Waiting parks the calling fiber, never its thread worker; a thread outside a runtime blocks. A task that is cancelled
// while it waits gets Cancelled; the operation it waited for continues.
//
// Thread safety: everything from any thread or fiber, except that close() and the destructor must be the last calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rota/result.h"

namespace rota::ledger {

// An encoded record of the log. fleet::Record is the decoded one.
struct RecordBytes {
  std::uint64_t index = 0;
  std::string bytes{};
  bool operator==(const RecordBytes&) const = default;
};

struct Snapshot {
  std::uint64_t index = 0;  // Of the last record that it includes. > 0.
  std::string bytes{};
  bool operator==(const Snapshot&) const = default;
};

// The submission of a workflow with a million stages is one record of about 50 MiB (P-17).
inline constexpr std::size_t kMaxRecordBytes = std::size_t{128} << 20;
inline constexpr std::size_t kMaxSnapshotBytes = std::size_t{4} << 30;
// A read() ends before the record that would take it beyond this size, unless that is its first.
inline constexpr std::size_t kMaxReadBytes = std::size_t{32} << 20;

class Ledger {
 public:
  Ledger() = default;
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;
  virtual ~Ledger() = default;

  // Queues the records for writing and returns. They are copied. All or none:
  //   Conflict   the first index is not submitted_index() + 1, or a later one is not its predecessor + 1
  //   TooLarge   one is above kMaxRecordBytes
  //   QueueFull  the records waiting to be written have reached the bound; wait_durable(submitted_index()) and retry
  //   Closed     after close(); after a failed write, its error instead
  virtual Result<void> submit(std::span<const RecordBytes> records) = 0;
  // Returns when every record up to `index` is durable. InvalidArgument if `index` was never submitted.
  virtual Result<void> wait_durable(std::uint64_t index) = 0;
  // submit() and wait_durable(); waits for room instead of returning QueueFull.
  Result<void> append(std::span<const RecordBytes> records);

  // Returns durable records in order, from `from`, at most `max_records` and about kMaxReadBytes; none beyond
  // last_index(). NotFound if `from` is before first_index(); Corrupt, with the index, if a record differs from what
  // was written.
  virtual Result<std::vector<RecordBytes>> read(std::uint64_t from, std::size_t max_records) = 0;

  // The oldest stored record; last_index() + 1 if there is none.
  [[nodiscard]] virtual std::uint64_t first_index() const = 0;
  // The newest durable record; 0 if there was none yet.
  [[nodiscard]] virtual std::uint64_t last_index() const = 0;
  [[nodiscard]] virtual std::uint64_t submitted_index() const = 0;
  // Ok, or why nothing that is submitted becomes durable at this moment. Unavailable: it will when the reason is gone.
  [[nodiscard]] virtual Result<void> check_writable() const { return {}; }

  // Returns when the snapshot is durable and latest_snapshot() returns it; the previous one is gone then. Records are
  // written meanwhile. FailedPrecondition unless it is newer than the latest one and at most last_index().
  virtual Result<void> save_snapshot(Snapshot snapshot) = 0;
  virtual Result<std::optional<Snapshot>> latest_snapshot() = 0;

  // Removes the records up to `up_to` in small steps, so that records are written meanwhile; their space is reused.
  // FailedPrecondition beyond the latest snapshot; does nothing for records that are already removed.
  virtual Result<void> compact(std::uint64_t up_to) = 0;

  // Makes a durable, checked copy of one moment during the call at `path`; records are written meanwhile. AlreadyExists
  // if `path` exists. A failure leaves nothing at `path`.
  virtual Result<void> backup(const std::string& path) = 0;

  // Writes the submitted records and closes. Idempotent. Returns the error if not all of them are durable.
  virtual Result<void> close() = 0;
};

namespace detail {

// Checks that every implementation makes in the same way, with the same messages.
Result<void> check_submit(std::span<const RecordBytes> records, std::uint64_t submitted);
Result<void> check_wait(std::uint64_t index, std::uint64_t submitted);
Result<void> check_read(std::uint64_t from, std::uint64_t first);
Result<void> check_snapshot(const Snapshot& snapshot, std::uint64_t latest, std::uint64_t last);
Result<void> check_compact(std::uint64_t up_to, std::uint64_t latest_snapshot);
Error closed_error();

}  // namespace detail

}  // namespace rota::ledger
