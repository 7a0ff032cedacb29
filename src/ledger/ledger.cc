#include "ledger/ledger.h"

namespace rota::ledger {

Result<void> Ledger::append(std::span<const Record> records) {
  if (records.empty()) return {};
  Result<void> taken = submit(records);
  while (taken.code() == ErrorCode::kQueueFull) {
    // Whatever fills the queue becomes durable or fails; both make an end of waiting.
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

Result<void> check_submit(std::span<const Record> records, std::uint64_t submitted) {
  std::uint64_t expected = submitted + 1;
  for (const Record& record : records) {
    if (record.index != expected) {
      return Error{ErrorCode::kConflict, "record " + text(record.index) + " was submitted where record " +
                                             text(expected) + " comes next; indices have no gaps"}
          .with("index", text(record.index))
          .with("expected", text(expected));
    }
    if (record.bytes.size() > kMaxRecordBytes) {
      return Error{ErrorCode::kTooLarge, "record " + text(record.index) + " has " + text(record.bytes.size()) +
                                             " bytes; a record has at most " + text(kMaxRecordBytes)};
    }
    ++expected;
  }
  return {};
}

Result<void> check_wait(std::uint64_t index, std::uint64_t submitted) {
  if (index <= submitted) return {};
  return Error{
      ErrorCode::kInvalidArgument,
      "record " + text(index) + " is waited for and was never submitted; the last " + "one was " + text(submitted)};
}

Result<void> check_read(std::uint64_t from, std::uint64_t first) {
  if (from == 0) return Error{ErrorCode::kInvalidArgument, "record 0 is asked for; the first one is 1"};
  if (from >= first) return {};
  return Error{ErrorCode::kNotFound,
               "record " + text(from) + " was compacted away; the first one kept is " + text(first)}
      .with("first_index", text(first));
}

Result<void> check_snapshot(const Snapshot& snapshot, std::uint64_t latest, std::uint64_t last) {
  if (snapshot.index == 0) {
    return Error{ErrorCode::kInvalidArgument, "a snapshot of record 0 is that of nothing; records start at 1"};
  }
  if (snapshot.index <= latest) {
    return Error{ErrorCode::kFailedPrecondition, "a snapshot of record " + text(snapshot.index) +
                                                     " is not newer than the latest one, of record " + text(latest)};
  }
  if (snapshot.index > last) {
    return Error{ErrorCode::kFailedPrecondition,
                 "a snapshot of record " + text(snapshot.index) + ", but the last durable record is " + text(last)};
  }
  if (snapshot.bytes.size() > kMaxSnapshotBytes) {
    return Error{ErrorCode::kTooLarge, "the snapshot has " + text(snapshot.bytes.size()) + " bytes; at most " +
                                           text(kMaxSnapshotBytes) + " are kept"};
  }
  return {};
}

Result<void> check_compact(std::uint64_t up_to, std::uint64_t latest_snapshot) {
  if (up_to <= latest_snapshot) return {};
  return Error{ErrorCode::kFailedPrecondition,
               "records up to " + text(up_to) + " cannot be removed: " +
                   (latest_snapshot == 0 ? "there is no snapshot that stands for them"
                                         : "the latest snapshot stands for those up to " + text(latest_snapshot))};
}

Error closed_error() { return Error{ErrorCode::kClosed, "the ledger is closed"}; }

}  // namespace detail

}  // namespace rota::ledger
