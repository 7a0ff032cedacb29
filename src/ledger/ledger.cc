#include "ledger/ledger.h"

namespace rota::ledger {

Result<void> Ledger::append(std::span<const RecordBytes> records) {
  if (records.empty()) return {};
  Result<void> taken = submit(records);
  while (taken.code() == ErrorCode::kQueueFull) {
    // The records in the queue become durable or fail; both end the wait.
    ROTA_TRY(wait_durable(submitted_index()));
    taken = submit(records);
  }
  if (!taken.ok()) return taken;
  return wait_durable(records.back().index);
}

namespace detail {

namespace {

std::string text(std::uint64_t number) { return std::to_string(number); }

}  // namespace

Result<void> check_submit(std::span<const RecordBytes> records, std::uint64_t submitted) {
  std::uint64_t expected = submitted + 1;
  for (const RecordBytes& record : records) {
    if (record.index != expected) {
      return Error{ErrorCode::kConflict, "record " + text(record.index) + " was submitted, but the next index is " +
                                             text(expected) + "; indices have no gaps"}
          .with("index", text(record.index))
          .with("expected", text(expected));
    }
    if (record.bytes.size() > kMaxRecordBytes) {
      return Error{ErrorCode::kTooLarge, "record " + text(record.index) + " has " + text(record.bytes.size()) +
                                             " bytes; the limit is " + text(kMaxRecordBytes)};
    }
    ++expected;
  }
  return {};
}

Result<void> check_wait(std::uint64_t index, std::uint64_t submitted) {
  if (index <= submitted) return {};
  return Error{ErrorCode::kInvalidArgument,
               "record " + text(index) +
                   " was never submitted, so it cannot be waited for; the last submitted record is " + text(submitted)};
}

Result<void> check_read(std::uint64_t from, std::uint64_t first) {
  if (from == 0) return Error{ErrorCode::kInvalidArgument, "there is no record 0; records start at 1"};
  if (from >= first) return {};
  return Error{ErrorCode::kNotFound,
               "record " + text(from) + " was compacted; the first stored record is " + text(first)}
      .with("first_index", text(first));
}

Result<void> check_snapshot(const Snapshot& snapshot, std::uint64_t latest, std::uint64_t last) {
  if (snapshot.index == 0) {
    return Error{ErrorCode::kInvalidArgument, "a snapshot cannot have index 0; records start at 1"};
  }
  if (snapshot.index <= latest) {
    return Error{ErrorCode::kFailedPrecondition, "a snapshot of record " + text(snapshot.index) +
                                                     " is not newer than the latest one, of record " + text(latest)};
  }
  if (snapshot.index > last) {
    return Error{ErrorCode::kFailedPrecondition, "the snapshot is of record " + text(snapshot.index) +
                                                     ", but the last durable record is " + text(last)};
  }
  if (snapshot.bytes.size() > kMaxSnapshotBytes) {
    return Error{ErrorCode::kTooLarge,
                 "the snapshot has " + text(snapshot.bytes.size()) + " bytes; the limit is " + text(kMaxSnapshotBytes)};
  }
  return {};
}

Result<void> check_compact(std::uint64_t up_to, std::uint64_t latest_snapshot) {
  if (up_to <= latest_snapshot) return {};
  return Error{ErrorCode::kFailedPrecondition,
               "records up to " + text(up_to) + " cannot be removed: " +
                   (latest_snapshot == 0 ? "no snapshot covers them"
                                         : "the latest snapshot covers records up to " + text(latest_snapshot))};
}

Error closed_error() { return Error{ErrorCode::kClosed, "the ledger is closed"}; }

}  // namespace detail

}  // namespace rota::ledger
