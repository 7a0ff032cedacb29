// An attempt, and how it ended as its worker saw it. The same value is in the worker's final report, in the brain's
// command and on the screen.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "model/enum_names.h"
#include "rota/model/fields.h"
#include "rota/model/ids.h"
#include "rota/model/stored_file.h"

namespace rota::model {

// One attempt at one task.
struct AttemptId {
  TaskId task{};
  AttemptNumber attempt{};
  ROTA_FIELDS(task, attempt)
  friend auto operator<=>(const AttemptId&, const AttemptId&) = default;
};

enum class AttemptEnd : std::uint8_t {
  kSucceeded,
  kFailed,
  kCancelled,
  kPreempted,  // It stopped at a checkpoint, or before it started, and may run again elsewhere.
};
ROTA_ENUM_NAMES(AttemptEnd, kPreempted, "succeeded", "failed", "cancelled", "preempted")

// Why an attempt or a task failed. A worker reports the first three; the brain finds the others.
enum class FailureKind : std::uint8_t {
  kError,        // The program's or the handler's own error.
  kMemory,       // It was killed for memory.
  kTimeout,      // It ran longer than its timeout.
  kWorkerLost,   // Its worker died.
  kReference,    // One of its references does not resolve.
  kUnplaceable,  // No live worker could run it for longer than the grace period.
};
ROTA_ENUM_NAMES(FailureKind, kUnplaceable, "error", "memory", "timeout", "worker_lost", "reference", "unplaceable")

struct AttemptOutcome {
  AttemptEnd end = AttemptEnd::kFailed;
  FailureKind failure = FailureKind::kError;  // kFailed.
  bool final = false;                         // kFailed: another attempt would fail as well.
  bool batch = false;                         // kFailed: the execution of several merged tasks failed as a whole.
  std::string message{};                      // For people; empty for a plain success.
  std::string result{};                       // kSucceeded: JSON; empty is null.
  // Wall time at the worker. Both are 0 if the attempt ended before it started.
  std::int64_t started_ns = 0;
  std::int64_t ended_ns = 0;
  std::int64_t cpu_us = 0;            // Processor time of a program.
  std::int64_t max_rss_bytes = 0;     // Largest resident set of a program.
  std::string log_path{};             // Where its output is on the worker; empty: it wrote none.
  bool reused = false;                // Nothing was run: the result is that of an earlier success (`cache`).
  std::string cache_note{};           // Why it was run or not; empty unless its stage has `cache`.
  std::vector<StoredFile> outputs{};  // kSucceeded: its files, which are stored. By path.
  ROTA_FIELDS(end, failure, final, batch, message, result, started_ns, ended_ns, cpu_us, max_rss_bytes, log_path,
              reused, cache_note, outputs)
  friend auto operator<=>(const AttemptOutcome&, const AttemptOutcome&) = default;

  // The times of the attempt, moved into the period from its assignment to its report. The clocks of two machines
  // differ, and a clock may be set back; the duration is right nevertheless, so it is kept as far as the period allows.
  struct Times {
    std::int64_t started_ns = 0;
    std::int64_t ended_ns = 0;
  };
  // REQUIRES: started_ns != 0, from_ns <= to_ns.
  [[nodiscard]] Times times_within(std::int64_t from_ns, std::int64_t to_ns) const {
    if (ended_ns == 0) return {std::clamp(started_ns, from_ns, to_ns), to_ns};
    const std::int64_t run_ns = std::clamp<std::int64_t>(ended_ns - started_ns, 0, to_ns - from_ns);
    const std::int64_t start_ns = std::clamp(started_ns, from_ns, to_ns - run_ns);
    return {start_ns, start_ns + run_ns};
  }
};

}  // namespace rota::model
