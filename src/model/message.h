// The messages between a host and its workers. A bus carries them in the encoding of codec.h, with kMessageVersion in
// front (encode_message()).
//
// Fencing (U-1). Every message about a task names the attempt and the term of the leader that decided it. A worker
// ignores a message with an older term than the newest it knows, or with an older attempt than the newest it knows of
// that task; a host does the same. Therefore a message may be delivered twice or late without harm.
//
// The numbers of tasks and attempts begin again when a log is lost, and repeat when an older copy of it is restored.
// The wall time of the record that assigned an attempt (`assigned_ns`) tells such attempts apart: every message about
// an attempt has it, and it is about another attempt if it differs.
//
// A worker that restarts under its name inherits what was sent to its predecessor and not acknowledged; the host has
// given those attempts up as lost, or will when it hears of the restart. Therefore a message that lets a worker act
// names the incarnation that it is for, and another incarnation ignores it (is_for()).
//
// A control message undoes an earlier one: a pause, a resume. Therefore it says as of which record it was decided
// (`decided_in`), and a worker ignores one that is older than the last that it took for this attempt from this leader.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/enum_names.h"
#include "model/outcome.h"
#include "model/task_spec.h"
#include "rota/model/fields.h"
#include "rota/model/ids.h"
#include "rota/model/resources.h"
#include "rota/model/worker_spec.h"
#include "rota/result.h"

namespace rota::model {

// ------------------------------------------------------------------------------------------------------ to a worker

// One of the tasks that run as one execution: it has its own identity and inputs, and gets its own final report.
struct MergedTask {
  AttemptId id{};
  std::string inputs{};  // JSON.
  ROTA_FIELDS(id, inputs)
  friend auto operator<=>(const MergedTask&, const MergedTask&) = default;
};

// Names that say which task it is across runs; for people, and for the cache of results.
struct TaskIdentity {
  std::string workflow{};
  std::string stage{};
  std::string item{};  // The JSON of its item; empty: its stage has none.
  std::string name{};  // "train[3]"
  ROTA_FIELDS(workflow, stage, item, name)
  friend auto operator<=>(const TaskIdentity&, const TaskIdentity&) = default;
};

struct Assign {
  static constexpr std::string_view kName = "Assign";
  AttemptId id{};
  Term term{};
  TaskIdentity identity{};
  TaskSpec spec{};                   // Without references.
  ResourceUse resources{};           // What it holds at the worker.
  std::vector<MergedTask> merged{};  // Empty, or all merged tasks with the leading one first.
  std::int64_t assigned_ns = 0;      // Of the leading task and of all merged ones.
  Incarnation incarnation{};         // Of the worker that it is for.
  std::vector<StoredFile> files{};   // What is placed into its directory before it starts. By path.
  ROTA_FIELDS(id, term, identity, spec, resources, merged, assigned_ns, incarnation, files)
};

// What a worker is to do with an attempt that it has.
enum class AttemptAction : std::uint8_t {
  kCancel,
  kPreempt,
  kPause,
  kResume,
  kRecall,  // Give it back, as preempted, if it has not started; otherwise it runs on.
};
ROTA_ENUM_NAMES(AttemptAction, kRecall, "cancel", "preempt", "pause", "resume", "recall")
struct ControlAttempt {
  static constexpr std::string_view kName = "ControlAttempt";
  AttemptId id{};
  Term term{};
  AttemptAction action = AttemptAction::kCancel;
  std::int64_t assigned_ns = 0;
  Incarnation incarnation{};     // Of the worker that it is for.
  std::uint64_t decided_in = 0;  // The index of the latest record when the leader decided it.
  ROTA_FIELDS(id, term, action, assigned_ns, incarnation, decided_in)
};

// True if an Assign, a ControlAttempt or a LeaveFleet is for the worker with this incarnation. A message without one is
// for every worker of its name: the host has never heard an incarnation from it.
template <class Message>
[[nodiscard]] bool is_for(const Message& message, Incarnation incarnation) {
  return message.incarnation.is_none() || message.incarnation == incarnation;
}

// The final report of this attempt is durable: the worker may forget it.
struct AcknowledgeReport {
  static constexpr std::string_view kName = "AcknowledgeReport";
  AttemptId id{};
  Term term{};
  std::int64_t assigned_ns = 0;
  ROTA_FIELDS(id, term, assigned_ns)
};

// The host does not know this worker, or this incarnation of it: it must register.
struct RegisterAgain {
  static constexpr std::string_view kName = "RegisterAgain";
  Term term{};
  ROTA_FIELDS(term)
};

// A user drains this worker: it leaves as if it had been told to stop, and ends when it has no tasks.
struct LeaveFleet {
  static constexpr std::string_view kName = "LeaveFleet";
  Term term{};
  Incarnation incarnation{};  // Of the worker that it is for.
  ROTA_FIELDS(term, incarnation)
};

// The position in this list is the number in the encoding: append, never reorder.
using ToWorker = std::variant<Assign, ControlAttempt, AcknowledgeReport, RegisterAgain, LeaveFleet>;

// ---------------------------------------------------------------------------------------------------- from a worker

// An attempt that a worker has.
struct HeldAttempt {
  AttemptId id{};
  std::int64_t assigned_ns = 0;
  ROTA_FIELDS(id, assigned_ns)
  friend auto operator<=>(const HeldAttempt&, const HeldAttempt&) = default;
};

struct Register {
  static constexpr std::string_view kName = "Register";
  Incarnation incarnation{};
  WorkerSpec worker{};
  std::vector<CacheItem> caches{};
  std::vector<HeldAttempt> held{};  // Attempts whose end it has not reported, or whose report is not acknowledged.
  Term term{};                      // The newest that it has heard of; it ignores messages of older ones.
  ROTA_FIELDS(incarnation, worker, caches, held, term)
};

struct Heartbeat {
  static constexpr std::string_view kName = "Heartbeat";
  Incarnation incarnation{};
  ROTA_FIELDS(incarnation)
};

// The worker takes no more tasks and ends when those that it has are done (U-1).
struct Leave {
  static constexpr std::string_view kName = "Leave";
  Incarnation incarnation{};
  ROTA_FIELDS(incarnation)
};

struct Started {
  static constexpr std::string_view kName = "Started";
  std::int64_t started_ns = 0;  // Wall time at the worker.
  ROTA_FIELDS(started_ns)
};
struct Progress {
  static constexpr std::string_view kName = "Progress";
  std::uint32_t permille = 0;
  std::string text{};
  ROTA_FIELDS(permille, text)
};
struct Checkpoint {
  static constexpr std::string_view kName = "Checkpoint";
  std::string json{};
  ROTA_FIELDS(json)
};
// A line for people, from the task or from the worker about the task.
struct LogLine {
  static constexpr std::string_view kName = "LogLine";
  std::string text{};
  ROTA_FIELDS(text)
};
// The task left something at hand on its worker: "model:llama-3".
struct Cached {
  static constexpr std::string_view kName = "Cached";
  std::string item{};
  ROTA_FIELDS(item)
};
// Part of a program's output; sent only by a worker that streams it.
struct Output {
  static constexpr std::string_view kName = "Output";
  bool from_stderr = false;
  std::string bytes{};
  std::uint64_t dropped_bytes =
      0;                       // Written before `bytes` and not sent; `bytes` then begins with a line that says so.
  std::uint64_t position = 0;  // Of `bytes` among all that this attempt sends: a piece may come twice, or late.
  ROTA_FIELDS(from_stderr, bytes, dropped_bytes, position)
};
// The final report: sent again until it is acknowledged.
struct Ended {
  static constexpr std::string_view kName = "Ended";
  AttemptOutcome outcome{};
  ROTA_FIELDS(outcome)
};
using ReportBody = std::variant<Started, Progress, Checkpoint, LogLine, Cached, Output, Ended>;

struct Report {
  static constexpr std::string_view kName = "Report";
  AttemptId id{};
  Term term{};
  ReportBody body{};
  std::int64_t assigned_ns = 0;
  ROTA_FIELDS(id, term, body, assigned_ns)

  [[nodiscard]] bool is_final() const { return std::holds_alternative<Ended>(body); }
};

// The position in this list is the number in the encoding: append, never reorder.
using FromWorker = std::variant<Register, Heartbeat, Leave, Report>;

// --------------------------------------------------------------------------------------------------------- encoding

// Raised with every change of a message's fields: TheBytesAreFrozen in message_test.cc finds one.
inline constexpr std::uint8_t kMessageVersion = 5;

// The version, then the message.
[[nodiscard]] std::string encode_message(const ToWorker& message);
[[nodiscard]] std::string encode_message(const FromWorker& message);
// kUnsupported for another version, with both versions in the sentence; kCorrupt for anything else that is wrong.
[[nodiscard]] Result<ToWorker> decode_to_worker(std::string_view bytes);
[[nodiscard]] Result<FromWorker> decode_from_worker(std::string_view bytes);

}  // namespace rota::model
