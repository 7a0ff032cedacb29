// The JSON objects of the HTTP interface. Each is a struct with one list of fields, from which both its JSON and its
// schema in /openapi.json are made, so that the two cannot differ.
//
// Every member is always there; what does not exist is null (std::optional, Time) or empty. Times are RFC 3339 in UTC
// with nanoseconds, because a number of nanoseconds since 1970 does not fit into the numbers of JavaScript.
//
// Thread safety: as of any value.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/json_writer.h"
#include "rota/model/fields.h"
#include "rota/model/stored_file.h"

namespace rota::host {

// Wall time; 0 is null.
struct Time {
  std::int64_t ns = 0;
};
// "2026-11-17T05:41:21.123456789Z"
[[nodiscard]] std::string to_rfc3339(std::int64_t wall_ns);

// A value that is JSON already; empty is null.
struct RawJson {
  std::string text{};
};
// An object whose members are texts.
struct TextMap {
  std::vector<std::pair<std::string, std::string>> members{};
};

struct StageView {
  std::string name{};
  std::vector<std::string> needs{};
  std::uint64_t tasks = 0;
  std::uint64_t unfinished = 0;
  ROTA_FIELDS(name, needs, tasks, unfinished)
};

struct StateCounts {
  std::uint64_t queued = 0;
  std::uint64_t ready = 0;
  std::uint64_t running = 0;
  std::uint64_t paused = 0;
  std::uint64_t succeeded = 0;
  std::uint64_t skipped = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  ROTA_FIELDS(queued, ready, running, paused, succeeded, skipped, failed, cancelled)
};

struct WorkflowView {
  static constexpr std::string_view kSchema = "Workflow";
  std::string id{};
  std::string name{};
  std::string user{};
  std::string key{};
  std::int64_t priority = 0;
  std::string outcome{};
  std::string stopped{};  // Why it ended early: "cancel", "deadline" or "fail_fast"; otherwise "none".
  Time submitted{};
  Time ended{};
  std::uint64_t tasks = 0;
  std::uint64_t unfinished = 0;
  std::uint64_t running = 0;
  StateCounts states{};  // Of its tasks.
  bool counted = false;  // False: `states` is not filled in, because the page has too many tasks.
  ROTA_FIELDS(id, name, user, key, priority, outcome, stopped, submitted, ended, tasks, unfinished, running, states,
              counted)
};

struct WorkflowDetailView : WorkflowView {
  static constexpr std::string_view kSchema = "WorkflowDetail";
  std::vector<StageView> stages{};
  ROTA_FIELDS_WITH_BASE(WorkflowView, stages)
};

// A stage in the graph of a workflow.
struct GraphStageView {
  std::string name{};
  std::vector<std::uint64_t> needs{};  // Positions in `stages`.
  std::uint64_t first = 0;             // Its first task is wf-1.<first>;
  std::uint64_t more = 0;              // its other tasks are numbered from here on: wf-1.<more> ...
  std::uint64_t tasks = 0;
  StateCounts states{};
  Time ready{};                        // The first of its tasks became ready.
  Time started{};                      // The first of its tasks started.
  Time ended{};                        // The last of its tasks ended; null until all have.
  std::uint64_t last = 0;              // The task that ended last, or that is running for the longest time.
  std::uint64_t run_microseconds = 0;  // The longest run of one of its tasks.
  ROTA_FIELDS(name, needs, first, more, tasks, states, ready, started, ended, last, run_microseconds)
};

struct GraphView {
  static constexpr std::string_view kSchema = "Graph";
  std::string id{};
  std::string name{};
  std::string outcome{};
  Time submitted{};
  Time ended{};
  Time time{};  // Of the state that this is about.
  std::vector<GraphStageView> stages{};
  std::string tasks{};  // level=task: one letter per task, by its number.
  ROTA_FIELDS(id, name, outcome, submitted, ended, time, stages, tasks)
};

// One row of a timeline. `busy` and `waiting` are flat lists of triples: the number of the bucket, the mean number of
// tasks in it in thousandths, and the code of the state that most needs attention.
struct TimelineLaneView {
  std::string name{};
  std::uint64_t tasks = 0;
  std::vector<std::int64_t> busy{};
  std::vector<std::int64_t> waiting{};
  ROTA_FIELDS(name, tasks, busy, waiting)
};

struct TimelineView {
  static constexpr std::string_view kSchema = "Timeline";
  std::string id{};
  Time from{};
  Time to{};
  Time time{};  // Of the state that this is about.
  std::uint64_t px = 0;
  std::vector<TimelineLaneView> lanes{};
  // If few tasks are visible: each of them as a list: task, lane, attempt, state, and the microseconds after `from` at
  // which it became ready, was assigned, started, and ended. Otherwise empty: the lanes have the buckets.
  std::vector<std::vector<std::int64_t>> spans{};
  ROTA_FIELDS(id, from, to, time, px, lanes, spans)
};

struct AttemptView {
  std::uint64_t attempt = 0;
  std::string worker{};
  Time assigned{};
  Time started{};
  Time ended{};
  std::string end{};  // "succeeded", "failed", "worker_lost", ...; empty: it has not ended.
  std::string message{};
  std::uint64_t assigned_in = 0;  // The records of its assignment and of its end.
  std::uint64_t ended_in = 0;
  ROTA_FIELDS(attempt, worker, assigned, started, ended, end, message, assigned_in, ended_in)
};
struct AttemptPage {
  static constexpr std::string_view kSchema = "AttemptPage";
  std::vector<AttemptView> items{};
  bool complete = true;  // False: earlier attempts are in records that are no longer kept.
  ROTA_FIELDS(items, complete)
};

// Tasks that wait for the same reason.
struct WaitGroupView {
  std::string reason{};
  std::uint64_t tasks = 0;
  std::string example{};   // A task of the group,
  std::string sentence{};  // and why it waits.
  Time oldest{};           // Since when the first of them has been waiting.
  ROTA_FIELDS(reason, tasks, example, sentence, oldest)
};
// Something that a person should look at.
struct AttentionView {
  std::string kind{};  // "failed", "unplaceable", "paused", "worker", "workflow": one that failed in the last 24 h
  std::string subject{};
  std::string text{};
  ROTA_FIELDS(kind, subject, text)
};
struct WorkerCountsView {
  std::uint64_t all = 0;
  std::uint64_t usable = 0;  // They take tasks, now or when one ends.
  std::uint64_t unreachable = 0;
  std::uint64_t disabled = 0;
  std::uint64_t draining = 0;
  std::int64_t cpu_millis = 0;
  std::int64_t cpu_millis_used = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t memory_bytes_used = 0;
  ROTA_FIELDS(all, usable, unreachable, disabled, draining, cpu_millis, cpu_millis_used, memory_bytes,
              memory_bytes_used)
};
struct OverviewView {
  static constexpr std::string_view kSchema = "Overview";
  std::uint64_t index = 0;
  std::uint64_t first_index = 0;
  Time time{};  // Of the state.
  std::uint64_t workflows_running = 0;
  StateCounts states{};  // Of the tasks of workflows that run.
  std::uint64_t ready = 0;
  std::uint64_t wait_p50_ms = 0;  // How long the ready tasks have been waiting.
  std::uint64_t wait_p95_ms = 0;
  std::uint64_t wait_most_ms = 0;
  WorkerCountsView workers{};
  std::vector<WaitGroupView> waiting{};
  std::vector<AttentionView> attention{};
  bool complete = true;  // False: there was too much to look at, and the counts are lower bounds.
  ROTA_FIELDS(index, first_index, time, workflows_running, states, ready, wait_p50_ms, wait_p95_ms, wait_most_ms,
              workers, waiting, attention, complete)
};

// One moment of the log. `values` are triples: the lane, the kind (a position in `kinds`), the number of tasks.
struct HistoryPointView {
  std::uint64_t index = 0;
  std::int64_t time_ms = 0;  // Since 1970.
  std::vector<std::int64_t> values{};
  ROTA_FIELDS(index, time_ms, values)
};
struct HistoryView {
  static constexpr std::string_view kSchema = "History";
  std::vector<std::string> kinds{};  // Reasons to wait, and "running".
  std::vector<std::string>
      lanes{};  // With a workflow: its stages, the first 200. Otherwise empty, and there is one lane.
  std::vector<HistoryPointView> points{};
  bool complete = true;  // False: it does not begin where the log, or the workflow, began.
  ROTA_FIELDS(kinds, lanes, points, complete)
};

struct TaskView {
  static constexpr std::string_view kSchema = "Task";
  std::string id{};
  std::string workflow{};
  std::string name{};
  std::string stage{};
  std::string state{};
  bool skipped = false;
  bool reused = false;
  std::uint64_t attempt = 0;   // The latest; 0: none yet.
  std::uint64_t attempts = 0;  // That count against max_attempts.
  std::optional<std::string> worker{};
  std::int64_t priority = 0;
  Time ready_since{};
  Time assigned{};
  Time started{};
  Time ended{};
  Time next_attempt{};
  std::optional<std::string> failure{};  // "timeout"
  std::string message{};
  ROTA_FIELDS(id, workflow, name, stage, state, skipped, reused, attempt, attempts, worker, priority, ready_since,
              assigned, started, ended, next_attempt, failure, message)
};

struct TaskResultView {
  static constexpr std::string_view kSchema = "TaskResult";
  std::string id{};
  std::string state{};
  RawJson result{};
  RawJson checkpoint{};
  std::vector<model::StoredFile> outputs{};  // Its files; their contents are at /v1/files/{sha256}.
  ROTA_FIELDS(id, state, result, checkpoint, outputs)
};

struct ExplanationView {
  static constexpr std::string_view kSchema = "Explanation";
  std::string task{};
  std::string name{};
  std::string state{};
  std::string reason{};
  std::string sentence{};
  Time at{};
  RawJson facts{};
  std::vector<std::string> ahead{};  // Of a ready task: the first tasks that come before it.
  ROTA_FIELDS(task, name, state, reason, sentence, at, facts, ahead)
};

// What happened, or would have happened under another policy.
struct CourseView {
  std::string name{};
  std::string policy{};
  RawJson figures{};
  std::vector<std::int64_t> running{};  // Tasks that ran, on average, in each bucket; in thousandths.
  std::vector<std::int64_t> ready{};    // Tasks that waited, likewise.
  ROTA_FIELDS(name, policy, figures, running, ready)
};
struct ReplayView {
  static constexpr std::string_view kSchema = "Replay";
  std::uint64_t records = 0;
  std::uint64_t bucket_ms = 0;
  std::vector<CourseView> courses{};
  ROTA_FIELDS(records, bucket_ms, courses)
};
struct ReplayRequestView {
  static constexpr std::string_view kSchema = "ReplayRequest";
  std::string policy{};
  std::vector<std::string> fleet{};  // "worker=small count=3 cpu_millis=16000": fields of fleet::FleetChange.
  ROTA_FIELDS(policy, fleet)
};

struct WorkerView {
  static constexpr std::string_view kSchema = "Worker";
  std::string name{};
  std::string id{};
  std::string status{};
  std::string resources{};
  std::string zone{};
  std::int64_t cost_microdollars_per_hour = 0;
  std::int64_t power_milliwatts = 0;
  std::vector<std::string> capabilities{};
  std::vector<std::string> labels{};
  std::vector<std::string> handlers{};
  bool disabled_by_hand = false;
  bool disabled_elastic = false;
  std::uint64_t executions = 0;
  std::uint64_t queued = 0;
  std::vector<std::string> tasks{};  // The first 1,000.
  Time seen{};
  std::int64_t cpu_millis = 0;
  std::int64_t cpu_millis_used = 0;
  std::int64_t memory_bytes = 0;
  std::int64_t memory_bytes_used = 0;
  std::vector<std::string> caches{};  // What it holds in its cache: the first 100.
  ROTA_FIELDS(name, id, status, resources, zone, cost_microdollars_per_hour, power_milliwatts, capabilities, labels,
              handlers, disabled_by_hand, disabled_elastic, executions, queued, tasks, seen, cpu_millis,
              cpu_millis_used, memory_bytes, memory_bytes_used, caches)
};

struct DecisionView {
  std::uint64_t record = 0;
  Time time{};
  std::string task{};
  std::uint64_t attempt = 0;
  std::string worker{};
  bool queued = false;                 // It waits at the worker.
  std::vector<std::string> members{};  // The other tasks of a merged execution.
  std::string why{};
  RawJson reasoning{};
  ROTA_FIELDS(record, time, task, attempt, worker, queued, members, why, reasoning)
};

// Who changed what.
struct AuditView {
  std::uint64_t record = 0;
  Time time{};
  std::string user{};
  std::string token{};
  std::string request{};
  std::string command{};
  std::string target{};  // The workflow, task, worker or user that it is about.
  std::string action{};  // Of a command that has several.
  ROTA_FIELDS(record, time, user, token, request, command, target, action)
};

struct QueueItemView {
  std::string task{};
  std::string name{};
  std::int64_t priority = 0;
  Time ready_since{};
  std::string reason{};
  std::string sentence{};
  ROTA_FIELDS(task, name, priority, ready_since, reason, sentence)
};

struct DensityView {
  static constexpr std::string_view kSchema = "Density";
  std::uint64_t bucket_sec = 0;
  RawJson submissions{};     // [[start in seconds since 1970, tasks]...]
  RawJson active_workers{};  // Likewise.
  ROTA_FIELDS(bucket_sec, submissions, active_workers)
};

struct ScheduleView {
  static constexpr std::string_view kSchema = "Schedule";
  std::string name{};
  std::string cron{};
  std::string tz{};
  std::string missed{};
  std::string overlap{};
  std::string user{};
  std::string workflow{};  // The name of the workflow that it submits.
  bool paused = false;
  std::uint64_t fired = 0;             // How many workflows it has started.
  std::uint64_t queued = 0;            // Times that wait for the end of earlier workflows.
  std::vector<std::string> running{};  // Its workflows that have not ended.
  std::vector<Time> next{};            // When it is due next.
  ROTA_FIELDS(name, cron, tz, missed, overlap, user, workflow, paused, fired, queued, running, next)
};
struct TokenView {
  std::string name{};
  std::string role{};
  std::string user{};
  Time expires{};
  ROTA_FIELDS(name, role, user, expires)
};
struct TokenRequestView {
  static constexpr std::string_view kSchema = "TokenRequest";
  std::string name{};
  std::string role{};
  std::string user{};
  std::uint64_t expires_sec = 0;  // From now; 0: never.
  ROTA_FIELDS(name, role, user, expires_sec)
};
struct RotateRequestView {
  static constexpr std::string_view kSchema = "RotateRequest";
  std::uint64_t keep_sec = 0;  // How long the old secret stays valid.
  ROTA_FIELDS(keep_sec)
};
struct JoinRequestView {
  static constexpr std::string_view kSchema = "JoinRequest";
  std::string name{};
  ROTA_FIELDS(name)
};
struct RenewRequestView {
  static constexpr std::string_view kSchema = "RenewRequest";
  bool redis = false;  // A new password for Redis as well.
  ROTA_FIELDS(redis)
};
struct WorkerAccessView {
  static constexpr std::string_view kSchema = "WorkerAccess";
  std::string name{};
  std::string identity{};
  Time expires{};
  std::string redis{};
  std::string redis_prefix{};
  std::string redis_user{};
  std::string redis_password{};
  ROTA_FIELDS(name, identity, expires, redis, redis_prefix, redis_user, redis_password)
};
struct NewTokenView {
  static constexpr std::string_view kSchema = "NewToken";
  std::string name{};
  std::string token{};
  ROTA_FIELDS(name, token)
};

struct SubmittedView {
  static constexpr std::string_view kSchema = "Submitted";
  std::string workflow{};
  std::uint64_t index = 0;  // Of the record that accepted it.
  bool throttle = false;
  std::vector<std::string> warnings{};
  ROTA_FIELDS(workflow, index, throttle, warnings)
};

struct PlaceView {
  std::uint64_t line = 0;
  std::uint64_t column = 0;
  std::string message{};
  ROTA_FIELDS(line, column, message)
};

struct ValidationView {
  static constexpr std::string_view kSchema = "Validation";
  bool valid = false;
  std::string name{};
  std::uint64_t stages = 0;
  std::uint64_t tasks = 0;
  std::vector<PlaceView> errors{};
  ROTA_FIELDS(valid, name, stages, tasks, errors)
};

struct DoneView {
  static constexpr std::string_view kSchema = "Done";
  std::uint64_t index = 0;  // What was asked for is done in the state of this record.
  ROTA_FIELDS(index)
};

struct UploadView {
  static constexpr std::string_view kSchema = "Upload";
  std::uint64_t offset = 0;  // How many bytes of the content the host has.
  std::uint64_t bytes = 0;   // How many it will have.
  ROTA_FIELDS(offset, bytes)
};

struct PriorityView {
  static constexpr std::string_view kSchema = "Priority";
  std::int64_t priority = 0;
  ROTA_FIELDS(priority)
};

struct VersionView {
  static constexpr std::string_view kSchema = "Version";
  std::string version{};
  std::string api{};
  std::uint64_t index = 0;
  std::uint64_t first_index = 0;  // The oldest record that is kept.
  bool read_only = false;         // A log is shown, and nothing can be changed (`rota view`).
  std::string role = "leader";    // "follower": another host decides, and this one only answers reads.
  std::string leader{};           // The URL of the host that decides, if hosts share their log; empty: none is known.
  ROTA_FIELDS(version, api, index, first_index, read_only, role, leader)
};

struct HealthView {
  static constexpr std::string_view kSchema = "Health";
  std::string status{};
  ROTA_FIELDS(status)
};

struct ProblemView {
  static constexpr std::string_view kSchema = "Problem";
  std::string type{};
  std::string title{};
  std::int64_t status = 0;
  std::string detail{};
  std::string code{};
  std::vector<PlaceView> errors{};
  TextMap details{};
  ROTA_FIELDS(type, title, status, detail, code, errors, details)
};

// A page of a list; `next_cursor` is null at the end.
template <class T>
struct PageView {
  std::vector<T> items{};
  std::optional<std::string> next_cursor{};
  std::uint64_t index = 0;
  ROTA_FIELDS(items, next_cursor, index)
};
struct WorkflowPage : PageView<WorkflowView> {
  static constexpr std::string_view kSchema = "WorkflowPage";
};
struct TaskPage : PageView<TaskView> {
  static constexpr std::string_view kSchema = "TaskPage";
};
struct WorkerPage : PageView<WorkerView> {
  static constexpr std::string_view kSchema = "WorkerPage";
};
struct DecisionPage : PageView<DecisionView> {
  static constexpr std::string_view kSchema = "DecisionPage";
};
struct AuditPage : PageView<AuditView> {
  static constexpr std::string_view kSchema = "AuditPage";
};
struct QueuePage : PageView<QueueItemView> {
  static constexpr std::string_view kSchema = "QueuePage";
};
struct TokenPage : PageView<TokenView> {
  static constexpr std::string_view kSchema = "TokenPage";
};
struct SchedulePage : PageView<ScheduleView> {
  static constexpr std::string_view kSchema = "SchedulePage";
};
struct EventPage : PageView<RawJson> {
  static constexpr std::string_view kSchema = "EventPage";
};

namespace detail {

template <class T>
concept HasFields = requires(const T& value) { T::fields(value, [](std::string_view, const auto&) {}); };
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};

}  // namespace detail

template <class T>
void write_view(JsonWriter& json, const T& value) {
  if constexpr (std::is_same_v<T, Time>) {
    if (value.ns == 0) {
      json.null();
    } else {
      json.value(to_rfc3339(value.ns));
    }
  } else if constexpr (std::is_same_v<T, RawJson>) {
    json.raw(value.text.empty() ? "null" : value.text);
  } else if constexpr (std::is_same_v<T, TextMap>) {
    json.begin_object();
    for (const auto& [name, text] : value.members) json.field(name, text);
    json.end_object();
  } else if constexpr (detail::HasFields<T>) {
    json.begin_object();
    T::fields(value, [&](std::string_view name, const auto& member) {
      json.key(name);
      write_view(json, member);
    });
    json.end_object();
  } else if constexpr (detail::IsVector<T>::value) {
    json.begin_array();
    for (const auto& element : value) write_view(json, element);
    json.end_array();
  } else if constexpr (detail::IsOptional<T>::value) {
    if (value) {
      write_view(json, *value);
    } else {
      json.null();
    }
  } else {
    json.value(value);
  }
}

template <class T>
[[nodiscard]] std::string to_view_json(const T& value) {
  std::string out;
  JsonWriter json(out);
  write_view(json, value);
  return out;
}

// The schema (JSON Schema 2020-12, as OpenAPI 3.1 uses it).
template <class T>
void write_schema(JsonWriter& json) {
  if constexpr (std::is_same_v<T, Time>) {
    json.begin_object().key("type").begin_array().value("string").value("null").end_array();
    json.field("format", "date-time").end_object();
  } else if constexpr (std::is_same_v<T, RawJson>) {
    json.begin_object().end_object();
  } else if constexpr (std::is_same_v<T, TextMap>) {
    json.begin_object().field("type", "object");
    json.key("additionalProperties").begin_object().field("type", "string").end_object().end_object();
  } else if constexpr (detail::HasFields<T>) {
    const T example{};
    json.begin_object().field("type", "object");
    json.key("required").begin_array();
    T::fields(example, [&](std::string_view name, const auto&) { json.value(name); });
    json.end_array();
    json.key("properties").begin_object();
    T::fields(example, [&](std::string_view name, const auto& member) {
      json.key(name);
      write_schema<std::remove_cvref_t<decltype(member)>>(json);
    });
    json.end_object().end_object();
  } else if constexpr (detail::IsVector<T>::value) {
    json.begin_object().field("type", "array").key("items");
    write_schema<typename T::value_type>(json);
    json.end_object();
  } else if constexpr (detail::IsOptional<T>::value) {
    static_assert(std::is_same_v<typename T::value_type, std::string>, "only texts are optional so far");
    json.begin_object().key("type").begin_array().value("string").value("null").end_array().end_object();
  } else if constexpr (std::is_same_v<T, bool>) {
    json.begin_object().field("type", "boolean").end_object();
  } else if constexpr (std::is_integral_v<T>) {
    json.begin_object().field("type", "integer").end_object();
  } else {
    static_assert(std::is_same_v<T, std::string>);
    json.begin_object().field("type", "string").end_object();
  }
}

}  // namespace rota::host
