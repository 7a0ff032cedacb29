// LogTail: the durable log for readers: records as JSON for lists and streams, and counters for metrics (H-1, H-2,
// H-6).
//
//   ledger ──► run(): counts every record; while there are streams, keeps the last ones as JSON ──► lines()
//
// A stream that is behind what is kept reads the ledger for itself, page by page. The brain is never asked.
//
// The counters begin with the first record that the ledger has when the host starts. They are those of a recount of the
// log, unless records were compacted before they were counted; `missed` says how many.
//
// Bounds: kMostLines and kMostBytes kept; kPage records per call of lines().
//
// Thread safety: run() once; everything else from any task.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/sync.h"
#include "fleet/event.h"
#include "fleet/record.h"
#include "host/attempt_log.h"
#include "host/follower.h"
#include "ledger/ledger.h"
#include "rota/fiber/sync.h"
#include "rota/result.h"

namespace rota::host {

// {"record":7,"term":1,"wall_ns":...,"command":{...},"origin":{...},"events":[...]}: as `rota replay --records` prints
// it. Without `origin` if nobody asked for the command.
[[nodiscard]] std::string record_to_json(const fleet::Record& record);

// What happened so far, by records.
struct LogCounters {
  template <class E>
  using By = std::array<std::uint64_t, model::enumerator_count<E>>;

  std::uint64_t index = 0;    // Of the last record that was counted.
  std::uint64_t records = 0;  // Counted.
  std::uint64_t missed = 0;   // Compacted before they could be counted.
  std::uint64_t workflows_accepted = 0;
  By<fleet::Outcome> workflows_ended{};
  By<fleet::Why> assignments{};  // Executions that were sent to a worker.
  std::uint64_t merged = 0;      // Tasks that ran in the execution of another one.
  std::uint64_t reuse_hits = 0;
  std::uint64_t succeeded = 0;
  std::uint64_t skipped = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t preempted = 0;  // Told to stop for another task.
  By<model::FailureKind> failed{};
  By<fleet::RequeueReason> requeues{};
  By<fleet::WorkerChange> worker_changes{};

  void see(const fleet::Record& record);
};

class LogTail {
 public:
  static constexpr std::size_t kMostLines = 4096;
  static constexpr std::size_t kMostBytes = std::size_t{4} << 20;
  static constexpr std::size_t kPage = 256;

  struct Line {
    std::uint64_t index = 0;
    std::string json{};
  };
  using Lines = std::vector<std::shared_ptr<const Line>>;

  // REQUIRES: both outlive it.
  LogTail(Follower& follower, ledger::Ledger& ledger) : follower_(follower), ledger_(ledger) {}

  // Follows the log until the host stops or the task is cancelled.
  void run();

  // The records from `from` on, at most `most` and kPage; none if there is none yet. Closed if `from` was compacted.
  Result<Lines> lines(std::uint64_t from, std::size_t most = kPage);
  // The same, and waits until run() has seen the first one. Timeout, Cancelled; Unavailable when the host stops.
  Result<Lines> wait_lines(std::uint64_t from, std::chrono::nanoseconds limit);
  // One record of the ledger. Closed if it was compacted.
  Result<fleet::Record> record(std::uint64_t index);
  // The records from `from` to `to`. Closed if the first was compacted.
  Result<std::vector<fleet::Record>> records(std::uint64_t from, std::uint64_t to);

  // While one exists, the last records are kept as JSON.
  class Stream {
   public:
    explicit Stream(LogTail& tail) : tail_(tail) { tail_.streams_.fetch_add(1); }
    ~Stream() { tail_.streams_.fetch_sub(1); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

   private:
    LogTail& tail_;
  };
  [[nodiscard]] std::uint64_t streams() const { return streams_.load(); }

  [[nodiscard]] LogCounters counters();
  // Of the records that were counted.
  [[nodiscard]] AttemptLog& attempts() { return attempts_; }
  [[nodiscard]] std::uint64_t first_index() const { return ledger_.first_index(); }

 private:
  void follow();
  Result<void> count_up_to(std::uint64_t index);
  void keep(const fleet::Record& record);
  void tell(bool end);
  [[nodiscard]] Error gone(std::uint64_t from) const;

  Follower& follower_;
  ledger::Ledger& ledger_;
  sync::Atomic<std::uint64_t> streams_{0};
  AttemptLog attempts_;
  sync::Mutex mutex_;
  LogCounters counters_ ROTA_GUARDED_BY(mutex_){};
  std::deque<std::shared_ptr<const Line>> kept_ ROTA_GUARDED_BY(mutex_){};  // Consecutive.
  std::size_t kept_bytes_ ROTA_GUARDED_BY(mutex_) = 0;
  // Set, and replaced, when counters_.index advances. One for all streams, so that streams that wait cost nothing.
  std::shared_ptr<fiber::Event> more_ ROTA_GUARDED_BY(mutex_) = std::make_shared<fiber::Event>();
  bool ended_ ROTA_GUARDED_BY(mutex_) = false;
};

}  // namespace rota::host
