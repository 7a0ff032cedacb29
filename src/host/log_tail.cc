#include "host/log_tail.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "fleet/stored_record.h"
#include "fleet/text.h"
#include "rota/fiber/error.h"
#include "rota/fiber/time.h"

namespace rota::host {

namespace {

constexpr std::chrono::hours kWaitAtMost{1};
constexpr std::chrono::seconds kCountAgainAfter{1};

}  // namespace

std::string record_to_json(const fleet::Record& record) {
  std::string line =
      "{\"record\":" + std::to_string(record.index) + ",\"term\":" + std::to_string(record.term.value()) +
      ",\"wall_ns\":" + std::to_string(record.wall_ns) + ",\"command\":" + fleet::to_json(record.command);
  if (!record.origin.user.empty()) line += ",\"origin\":" + fleet::fields_to_json(record.origin);
  line += ",\"events\":[";
  for (std::size_t i = 0; i < record.events.size(); ++i) {
    line += (i == 0 ? "" : ",") + fleet::to_json(record.events[i]);
  }
  return line + "]}";
}

void LogCounters::see(const fleet::Record& record) {
  index = record.index;
  ++records;
  for (const fleet::Event& event : record.events) {
    const auto of = [](auto value) { return static_cast<std::size_t>(value); };
    if (std::holds_alternative<fleet::WorkflowAccepted>(event)) {
      ++workflows_accepted;
    } else if (const auto* ended = std::get_if<fleet::WorkflowEnded>(&event)) {
      ++workflows_ended[of(ended->outcome)];
    } else if (const auto* assigned = std::get_if<fleet::TaskAssigned>(&event)) {
      ++assignments[of(assigned->reasoning.why)];
      merged += assigned->members.size();
      reuse_hits += assigned->reasoning.reuse_hits;
    } else if (std::holds_alternative<fleet::TaskSucceeded>(event)) {
      ++succeeded;
    } else if (std::holds_alternative<fleet::TaskSkipped>(event)) {
      ++skipped;
    } else if (std::holds_alternative<fleet::TaskCancelled>(event)) {
      ++cancelled;
    } else if (const auto* failure = std::get_if<fleet::TaskFailed>(&event)) {
      ++failed[of(failure->kind)];
    } else if (const auto* requeued = std::get_if<fleet::TaskRequeued>(&event)) {
      ++requeues[of(requeued->reason)];
    } else if (const auto* stop = std::get_if<fleet::StopRequested>(&event)) {
      if (stop->reason == fleet::StopReason::kPreempt) ++preempted;
    } else if (const auto* changed = std::get_if<fleet::WorkerChanged>(&event)) {
      ++worker_changes[of(changed->change)];
    }
  }
}

void LogTail::run() {
  try {
    follow();
  } catch (const fiber::Cancelled&) {
  }
  tell(true);
}

void LogTail::follow() {
  for (;;) {
    std::uint64_t next = 0;
    {
      const sync::MutexLock lock(mutex_);
      next = counters_.index + 1;
    }
    const Result<void> reached = follower_.wait_for(next, kWaitAtMost);
    if (!reached.ok() && reached.code() == ErrorCode::kTimeout) continue;
    if (!reached.ok()) return;
    if (const Result<void> counted = count_up_to(follower_.index()); !counted.ok()) {
      // A replicated ledger that cannot be reached now.
      if (counted.code() == ErrorCode::kUnavailable || counted.code() == ErrorCode::kDeadlineExceeded) {
        if (!fiber::sleep_for(kCountAgainAfter).ok()) return;
        continue;
      }
      if (counted.code() != ErrorCode::kCancelled) {
        ROTA_LOG(kError, "records cannot be read for metrics and streams", {"why", counted.error().message});
      }
      return;
    }
  }
}

void LogTail::tell(bool end) {
  std::shared_ptr<fiber::Event> told = std::make_shared<fiber::Event>();
  {
    const sync::MutexLock lock(mutex_);
    ended_ = ended_ || end;
    more_.swap(told);
  }
  told->set();
}

Result<void> LogTail::count_up_to(std::uint64_t index) {
  for (;;) {
    std::uint64_t next = 0;
    {
      const sync::MutexLock lock(mutex_);
      next = counters_.index + 1;
    }
    if (next > index) return {};
    Result<std::vector<ledger::RecordBytes>> page = ledger_.read(next, std::min<std::size_t>(index - next + 1, kPage));
    if (!page.ok() && page.code() == ErrorCode::kNotFound) {
      const std::uint64_t first = ledger_.first_index();
      const sync::MutexLock lock(mutex_);
      // A ledger that was compacted before the start has its first record further on: nothing was missed by this host.
      if (counters_.index > 0 && first > next) counters_.missed += first - next;
      counters_.index = std::max(first, next) - 1;
      kept_.clear();
      kept_bytes_ = 0;
      if (counters_.index >= index) return {};
      continue;  // With the records that are left.
    }
    if (!page.ok()) return std::move(page).take_error();
    if (page->empty()) return {};
    for (const ledger::RecordBytes& bytes : *page) {
      ROTA_TRY_ASSIGN(const fleet::Record record, fleet::decode_stored_record(bytes.bytes));
      keep(record);
    }
    tell(false);
  }
}

void LogTail::keep(const fleet::Record& record) {
  attempts_.see(record);
  std::shared_ptr<const Line> line;
  if (streams_.load() > 0) line = std::make_shared<const Line>(Line{record.index, record_to_json(record)});
  const sync::MutexLock lock(mutex_);
  counters_.see(record);
  if (line == nullptr || (!kept_.empty() && kept_.back()->index + 1 != line->index)) {
    kept_.clear();
    kept_bytes_ = 0;
  }
  if (line == nullptr) return;
  kept_bytes_ += line->json.size();
  kept_.push_back(std::move(line));
  while (kept_.size() > kMostLines || (kept_bytes_ > kMostBytes && kept_.size() > 1)) {
    kept_bytes_ -= kept_.front()->json.size();
    kept_.pop_front();
  }
}

Error LogTail::gone(std::uint64_t from) const {
  return Error{ErrorCode::kClosed, "record " + std::to_string(from) + " is no longer kept; the oldest is " +
                                       std::to_string(ledger_.first_index()) +
                                       ". Read the state (for example /v1/workflows) and continue after its index"}
      .with("first", std::to_string(ledger_.first_index()))
      .with("last", std::to_string(ledger_.last_index()));
}

Result<LogTail::Lines> LogTail::lines(std::uint64_t from, std::size_t most) {
  most = std::min(most, kPage);
  if (from < ledger_.first_index()) return gone(from);
  Lines lines;
  {
    const sync::MutexLock lock(mutex_);
    if (!kept_.empty() && kept_.front()->index <= from && from <= kept_.back()->index) {
      auto at = kept_.begin() + static_cast<std::ptrdiff_t>(from - kept_.front()->index);
      for (; at != kept_.end() && lines.size() < most; ++at) lines.push_back(*at);
      return lines;
    }
  }
  const std::uint64_t last = follower_.index();
  if (from > last) return lines;
  Result<std::vector<ledger::RecordBytes>> page = ledger_.read(from, std::min<std::size_t>(last - from + 1, most));
  if (!page.ok()) return page.code() == ErrorCode::kNotFound ? gone(from) : std::move(page).take_error();
  for (const ledger::RecordBytes& bytes : *page) {
    ROTA_TRY_ASSIGN(const fleet::Record record, fleet::decode_stored_record(bytes.bytes));
    lines.push_back(std::make_shared<const Line>(Line{record.index, record_to_json(record)}));
  }
  return lines;
}

Result<LogTail::Lines> LogTail::wait_lines(std::uint64_t from, std::chrono::nanoseconds limit) {
  const auto until = fiber::now() + limit;
  for (;;) {
    std::shared_ptr<fiber::Event> more;
    {
      const sync::MutexLock lock(mutex_);
      if (counters_.index < from) {
        if (ended_) return Error{ErrorCode::kUnavailable, "the host is stopping"};
        more = more_;
      }
    }
    if (more == nullptr) return lines(from);
    try {
      if (!more->wait_for(until - fiber::now())) return ErrorCode::kTimeout;
    } catch (const fiber::Cancelled&) {
      return ErrorCode::kCancelled;
    }
  }
}

Result<fleet::Record> LogTail::record(std::uint64_t index) {
  if (index < ledger_.first_index()) return gone(index);
  ROTA_TRY_ASSIGN(const std::vector<ledger::RecordBytes> page, ledger_.read(index, 1));
  if (page.empty()) return Error{ErrorCode::kNotFound, "there is no record " + std::to_string(index) + " yet"};
  return fleet::decode_stored_record(page.front().bytes);
}

Result<std::vector<fleet::Record>> LogTail::records(std::uint64_t from, std::uint64_t to) {
  std::vector<fleet::Record> records;
  while (from <= to) {
    if (from < ledger_.first_index()) return gone(from);
    ROTA_TRY_ASSIGN(const std::vector<ledger::RecordBytes> page,
                    ledger_.read(from, static_cast<std::size_t>(to - from + 1)));
    if (page.empty()) break;
    for (const ledger::RecordBytes& bytes : page) {
      ROTA_TRY_ASSIGN(fleet::Record record, fleet::decode_stored_record(bytes.bytes));
      from = record.index + 1;
      records.push_back(std::move(record));
    }
  }
  return records;
}

LogCounters LogTail::counters() {
  const sync::MutexLock lock(mutex_);
  return counters_;
}

}  // namespace rota::host
