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

struct WorkflowView {
  static constexpr std::string_view kSchema = "Workflow";
  std::string id{};
  std::string name{};
  std::string user{};
  std::string key{};
  std::int64_t priority = 0;
  std::string outcome{};
  Time submitted{};
  Time ended{};
  std::uint64_t tasks = 0;
  std::uint64_t unfinished = 0;
  std::uint64_t running = 0;
  ROTA_FIELDS(id, name, user, key, priority, outcome, submitted, ended, tasks, unfinished, running)
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

struct WorkflowDetailView : WorkflowView {
  static constexpr std::string_view kSchema = "WorkflowDetail";
  StateCounts states{};
  std::vector<StageView> stages{};
  ROTA_FIELDS_WITH_BASE(WorkflowView, states, stages)
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
  ROTA_FIELDS(id, state, result, checkpoint)
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
  ROTA_FIELDS(task, name, state, reason, sentence, at, facts)
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
  ROTA_FIELDS(name, id, status, resources, zone, cost_microdollars_per_hour, power_milliwatts, capabilities, labels,
              handlers, disabled_by_hand, disabled_elastic, executions, queued, tasks, seen)
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
  ROTA_FIELDS(version, api, index, first_index)
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
