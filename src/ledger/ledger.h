// Ledger: where decisions become durable. One interface for every home of the log (L-1).
//
//   ledger->submit(records);                 // queued; the next batch can be decided meanwhile
//   ...
//   ROTA_TRY(ledger->wait_durable(last));    // now, and only now, may what these records say leave the process
//
// A record is an index and bytes; what is in the bytes is fleet's business. Indices start at 1 and have no gaps. A
// snapshot is the state after the record of its index; compaction removes records that a snapshot stands for.
//
//          compacted            kept, durable           submitted
//      1 ............. first_index() ..... last_index() ......... submitted_index()
//                            ^ at or before the latest snapshot's index + 1
//
// Promises of every home:
//   (1) A record that wait_durable() answered for is there after any crash, with the same bytes; in a home that was
//       opened relaxed, after any crash of the process.
//   (2) What is there is a prefix of what was submitted, in order: nothing is invented, reordered or left out.
//   (3) A failed write or sync is fatal for the object: each waiter gets the error, every later change is refused with
//       it, and reading goes on as far as it can. Opening anew recovers, by (1) and (2). A record whose wait failed may
//       be there or not.
//   (4) Anything refused (wrong index, too large, no room) changes nothing.
//
// Waiting parks the calling fiber, never its worker; a thread outside a runtime blocks. A fiber that is cancelled while
// it waits gets Cancelled; what it waited for goes on.
//
// Thread safety: everything from any thread or fiber, except that close() and the destructor come after all else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rota/result.h"

namespace rota::ledger {

struct Record {
  std::uint64_t index = 0;
  std::string bytes{};
  bool operator==(const Record&) const = default;
};

struct Snapshot {
  std::uint64_t index = 0;  // Of the last record that is in it. > 0.
  std::string bytes{};
  bool operator==(const Snapshot&) const = default;
};

inline constexpr std::size_t kMaxRecordBytes = std::size_t{16} << 20;
inline constexpr std::size_t kMaxSnapshotBytes = std::size_t{4} << 30;
// One read() ends before the record that would take it beyond this, unless that is its first.
inline constexpr std::size_t kMaxReadBytes = std::size_t{32} << 20;

class Ledger {
 public:
  Ledger() = default;
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;
  virtual ~Ledger() = default;

  // Takes the records for writing and returns. They are copied. All or none:
  //   Conflict   the first index is not submitted_index() + 1, or a later one is not its predecessor + 1
  //   TooLarge   one is above kMaxRecordBytes
  //   QueueFull  what waits to be written has reached its bound; wait_durable(submitted_index()) and try again
  //   Closed     after close(); after a failed write, the error of that
  virtual Result<void> submit(std::span<const Record> records) = 0;
  // Returns when every record up to `index` is durable. InvalidArgument if it was never submitted.
  virtual Result<void> wait_durable(std::uint64_t index) = 0;
  // Both in one; waits for room instead of QueueFull.
  Result<void> append(std::span<const Record> records);

  // Durable records in order, from `from`, at most `max_records` and about kMaxReadBytes; none beyond last_index().
  // NotFound if `from` is before first_index(), Corrupt with the index if a record is not what was written.
  virtual Result<std::vector<Record>> read(std::uint64_t from, std::size_t max_records) = 0;

  // The oldest record kept; last_index() + 1 if there is none.
  [[nodiscard]] virtual std::uint64_t first_index() const = 0;
  // The newest durable record; 0 if there was never one.
  [[nodiscard]] virtual std::uint64_t last_index() const = 0;
  [[nodiscard]] virtual std::uint64_t submitted_index() const = 0;

  // Returns when it is durable and is what latest_snapshot() gives; the one before is then gone. Records go on
  // meanwhile. FailedPrecondition unless it is newer than the latest one and at most last_index().
  virtual Result<void> save_snapshot(Snapshot snapshot) = 0;
  virtual Result<std::optional<Snapshot>> latest_snapshot() = 0;

  // Removes the records up to `up_to`, a piece at a time, so that records go on meanwhile; their space is used again.
  // FailedPrecondition beyond the latest snapshot; nothing happens for what is gone already.
  virtual Result<void> compact(std::uint64_t up_to) = 0;

  // A copy at a moment during the call, at `path`, durable and checked; records go on meanwhile. AlreadyExists if there
  // is something. A failure leaves nothing at `path`.
  virtual Result<void> backup(const std::string& path) = 0;

  // Writes what was submitted, and ends. Idempotent. The error, if not all of it is durable.
  virtual Result<void> close() = 0;
};

namespace detail {

// What every home checks in the same way, with the same sentences.
Result<void> check_submit(std::span<const Record> records, std::uint64_t submitted);
Result<void> check_wait(std::uint64_t index, std::uint64_t submitted);
Result<void> check_read(std::uint64_t from, std::uint64_t first);
Result<void> check_snapshot(const Snapshot& snapshot, std::uint64_t latest, std::uint64_t last);
Result<void> check_compact(std::uint64_t up_to, std::uint64_t latest_snapshot);
Error closed_error();

}  // namespace detail

}  // namespace rota::ledger
