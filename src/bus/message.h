// What a host and its workers say to each other. Plain values; a bus carries them, whatever it is made of.
//
// Fencing (U-1). Every message about a task names its attempt and the term of the leader that decided on it. A worker
// ignores what has an older term than the newest it has heard of, and what has an older attempt than the newest it
// knows of that task; a host does the same. So a message may be delivered twice, or late, and does no harm.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace rota::bus {

enum class TaskKind : std::uint8_t { kCommand, kHandler };

// One of several tasks that run as one (merged): it has its own identity and inputs, and gets its own reports.
struct ChildTask {
  std::uint64_t task = 0;
  std::uint32_t attempt = 0;
  std::string inputs{};  // JSON.
};

struct Assign {
  std::uint64_t task = 0;
  std::uint32_t attempt = 0;
  std::uint64_t term = 0;
  TaskKind kind = TaskKind::kCommand;
  std::string type{};       // Of a handler.
  std::string spec = "{}";  // JSON, with every reference resolved.
  std::uint64_t cpu_millis = 0;
  std::uint64_t memory_bytes = 0;
  std::uint64_t gpu_mask = 0;  // The devices it gets, by bit.
  std::vector<ChildTask> children{};
  // Who it is, for a task whose specification has "cache" and whose success may be that of an earlier run; for others
  // they are empty. A stage's tasks differ by their items.
  std::string workflow{};
  std::string stage{};
  std::string item{};  // JSON, or empty.
  std::string name{};  // "train[3]", for people.
};

enum class StopKind : std::uint8_t { kCancel, kPreempt, kPause, kResume };
struct Stop {
  std::uint64_t task = 0;
  std::uint32_t attempt = 0;
  std::uint64_t term = 0;
  StopKind kind = StopKind::kCancel;
};

// The final report of this attempt is safe; the worker may forget it.
struct Acknowledge {
  std::uint64_t task = 0;
  std::uint32_t attempt = 0;
  std::uint64_t term = 0;
};

using ToWorker = std::variant<Assign, Stop, Acknowledge>;

enum class ReportKind : std::uint8_t {
  kStarted,
  kProgress,
  kCheckpoint,
  kLog,
  kCache,
  kOutput,  // Some of what a command wrote; only if the worker was told to stream it.
  // Final: sent again until they are acknowledged.
  kSucceeded,
  kFailed,
  kCancelled,
  kPreempted,
};
[[nodiscard]] constexpr bool is_final(ReportKind kind) { return kind >= ReportKind::kSucceeded; }

// Why an attempt failed, as far as it makes a difference to the next one.
enum class FailureCause : std::uint8_t { kError, kTimeout, kMemory };

struct Report {
  std::uint64_t task = 0;
  std::uint32_t attempt = 0;
  std::uint64_t term = 0;
  ReportKind kind = ReportKind::kStarted;
  std::uint32_t permille = 0;                 // kProgress.
  FailureCause cause = FailureCause::kError;  // kFailed.
  std::string text{};                         // kProgress, kLog, kFailed...: for people. kCache: the kind of cache.
                                              // kOutput: the bytes.
  std::string json{};                         // kCheckpoint, kSucceeded: JSON. kCache: the name.
  std::string log_path{};                     // Final: where the output is on the worker, if there is any.
  std::uint64_t cpu_us = 0;                   // Final, of a command.
  std::uint64_t max_rss_bytes = 0;
  bool cached = false;              // kSucceeded: nothing was run, the result is that of an earlier success.
  std::string note{};               // kSucceeded, kFailed: why it was run or not, if the task has "cache".
  bool from_stderr = false;         // kOutput.
  std::uint64_t dropped_bytes = 0;  // kOutput: came before `text`, and were more than is streamed.
};

struct Held {
  std::uint64_t task = 0;
  std::uint32_t attempt = 0;
};

struct Register {
  // Of this life of the worker, and of no other of its lives: the same again means that the message came twice, or that
  // the bus was away. 0: the worker has none, and every registration is a restart.
  std::uint64_t incarnation = 0;
  std::uint64_t cpu_millis = 0;
  std::uint64_t memory_bytes = 0;
  std::uint32_t gpus = 0;
  std::vector<std::string> types{};  // Of the handlers it has.
  bool commands = true;
  std::vector<Held>
      held{};  // What it has not reported the end of; what of it nobody wants any more it is told to stop.
};

struct Heartbeat {
  std::uint64_t running = 0;
  std::uint64_t waiting = 0;
};

using FromWorker = std::variant<Register, Heartbeat, Report>;

}  // namespace rota::bus
