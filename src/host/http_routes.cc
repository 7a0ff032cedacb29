// The table of routes, and what follows from a row.
#include "host/http_routes.h"

#include <algorithm>
#include <charconv>

#include "base/json_text.h"
#include "host/http_views.h"

namespace rota::host {

namespace {

using In = HttpParameter::In;
using Type = HttpParameter::Type;

template <class T>
HttpReply json(int status, std::string_view meaning) {
  return {status, meaning, "application/json", T::kSchema, &write_schema<T>};
}

const HttpParameter kWorkflow{"id", In::kPath, "the workflow, for example wf-3"};
const HttpParameter kTask{"id", In::kPath, "the task, for example wf-3.0"};
const HttpParameter kWorker{"name", In::kPath, "the worker's name"};
const HttpParameter kAt{"at", In::kQuery, "answer with the state as it was after this record of the log",
                        Type::kInteger};
const HttpParameter kWaitIndex{
    "wait_index", In::kQuery, "answer when a record after this one is applied, or when `wait` is over", Type::kInteger};
const HttpParameter kWait{"wait", In::kQuery, "how long `wait_index` waits at most, in seconds (60)", Type::kInteger,
                          60};
const HttpParameter kLimit{"limit", In::kQuery, "the most items of the page (100)", Type::kInteger, 1000};
const HttpParameter kCursor{"cursor", In::kQuery, "next_cursor of the previous page"};

std::vector<HttpParameter> reading(std::vector<HttpParameter> own) {
  own.insert(own.end(), {kAt, kWaitIndex, kWait});
  return own;
}

const std::vector<std::string_view> kWorkflowTypes{"application/yaml", "application/json", "text/yaml",
                                                   "application/x-yaml", "text/plain"};

HttpRoute control(std::string_view path, std::string_view operation, std::string_view summary,
                  const HttpParameter& what, Access access, Result<net::HttpResponse> (*handler)(HttpCall&)) {
  return {.method = "POST",
          .path = path,
          .access = access,
          .operation = operation,
          .summary = summary,
          .parameters = {what},
          .replies = {json<DoneView>(200, "It is done, and durable.")},
          .errors = {404, 412},
          .handler = handler};
}

std::vector<HttpRoute> make_table() {
  std::vector<HttpRoute> table;
  table.push_back({.method = "POST",
                   .path = "/v1/workflows",
                   .access = Access::kSubmit,
                   .operation = "submitWorkflow",
                   .summary = "Submit a workflow, as YAML or JSON. It runs in the name of the token's user.",
                   .parameters = {{"idempotency-key", In::kHeader,
                                   "a name for this submission: sending it again with the same body returns the first "
                                   "answer, with another body 422"}},
                   .accepts = kWorkflowTypes,
                   .replies = {json<SubmittedView>(201, "Accepted, and durable. `Location` has the workflow."),
                               json<SubmittedView>(200,
                                                   "It was accepted before, with the same key and body: "
                                                   "`Idempotency-Replayed: true`.")},
                   .errors = {413, 415, 422, 429},
                   .handler = &routes::submit_workflow});
  table.push_back({.method = "POST",
                   .path = "/v1/validate",
                   .access = Access::kSubmit,
                   .operation = "validateWorkflow",
                   .summary = "Check a workflow without submitting it: all problems at once, with line and column.",
                   .accepts = kWorkflowTypes,
                   .replies = {json<ValidationView>(200, "What the file contains, or what is wrong with it.")},
                   .errors = {413, 415},
                   .handler = &routes::validate_workflow});
  table.push_back({.method = "GET",
                   .path = "/v1/workflows",
                   .operation = "listWorkflows",
                   .summary = "Workflows, the newest first.",
                   .parameters = reading({kLimit,
                                          kCursor,
                                          {.name = "outcome",
                                           .meaning = "only those",
                                           .type = Type::kChoice,
                                           .choices = {"running", "succeeded", "failed", "cancelled"}},
                                          {.name = "user", .meaning = "only those of this user"},
                                          {.name = "q", .meaning = "only those whose name contains this"}}),
                   .replies = {json<WorkflowPage>(200, "A page of workflows.")},
                   .errors = {404, 410},
                   .handler = &routes::list_workflows});
  table.push_back({.method = "GET",
                   .path = "/v1/workflows/{id}",
                   .operation = "getWorkflow",
                   .summary = "A workflow, with its stages and the number of its tasks by state.",
                   .parameters = reading({kWorkflow}),
                   .replies = {json<WorkflowDetailView>(200, "The workflow.")},
                   .errors = {404, 410},
                   .handler = &routes::get_workflow});
  table.push_back({.method = "PATCH",
                   .path = "/v1/workflows/{id}",
                   .access = Access::kOwner,
                   .operation = "setWorkflowPriority",
                   .summary = "Change the priority of a workflow: {\"priority\": 5}.",
                   .parameters = {kWorkflow},
                   .accepts = {"application/json"},
                   .body_schema = PriorityView::kSchema,
                   .replies = {json<DoneView>(200, "It is done, and durable.")},
                   .errors = {404, 412, 413, 415},
                   .handler = &routes::set_priority});
  table.push_back({.method = "DELETE",
                   .path = "/v1/workflows/{id}",
                   .access = Access::kAdmin,
                   .operation = "forgetWorkflow",
                   .summary = "Forget a workflow that has ended, before its retention is over.",
                   .parameters = {kWorkflow},
                   .replies = {json<DoneView>(200, "It is done, and durable.")},
                   .errors = {404, 412},
                   .handler = &routes::forget_workflow});
  const auto both = [&](std::string_view workflow_path, std::string_view workflow_operation, std::string_view task_path,
                        std::string_view task_operation, std::string_view workflow_summary,
                        std::string_view task_summary, Result<net::HttpResponse> (*handler)(HttpCall&)) {
    table.push_back(control(workflow_path, workflow_operation, workflow_summary, kWorkflow, Access::kOwner, handler));
    table.push_back(control(task_path, task_operation, task_summary, kTask, Access::kOwner, handler));
  };
  both("/v1/workflows/{id}/pause", "pauseWorkflow", "/v1/tasks/{id}/pause", "pauseTask",
       "Pause a workflow. Running programs are stopped where they are.", "Pause a task.", &routes::pause);
  both("/v1/workflows/{id}/resume", "resumeWorkflow", "/v1/tasks/{id}/resume", "resumeTask",
       "Resume a paused workflow.", "Resume a paused task.", &routes::resume);
  both("/v1/workflows/{id}/cancel", "cancelWorkflow", "/v1/tasks/{id}/cancel", "cancelTask",
       "Cancel a workflow. Running programs get TERM, then KILL.", "Cancel a task.", &routes::cancel);
  both("/v1/workflows/{id}/retry", "retryWorkflow", "/v1/tasks/{id}/retry", "retryTask",
       "Run the failed and cancelled tasks of a workflow again.", "Run a failed or cancelled task again.",
       &routes::retry);
  table.push_back(
      {.method = "GET",
       .path = "/v1/tasks",
       .operation = "listTasks",
       .summary = "Tasks, by workflow and place in it. A page may have fewer than `limit` items, even none, "
                  "and still have a next one.",
       .parameters = reading({kLimit,
                              kCursor,
                              {.name = "workflow", .meaning = "only those of this workflow"},
                              {.name = "stage", .meaning = "only those of the stage of this name"},
                              {.name = "state",
                               .meaning = "only those in this state",
                               .type = Type::kChoice,
                               .choices = {"queued", "ready", "running", "paused", "succeeded", "failed", "cancelled"}},
                              {.name = "worker", .meaning = "only those that run, or ran last, there"}}),
       .replies = {json<TaskPage>(200, "A page of tasks.")},
       .errors = {404, 410},
       .handler = &routes::list_tasks});
  table.push_back({.method = "GET",
                   .path = "/v1/tasks/{id}",
                   .operation = "getTask",
                   .summary = "A task.",
                   .parameters = reading({kTask}),
                   .replies = {json<TaskView>(200, "The task.")},
                   .errors = {404, 410},
                   .handler = &routes::get_task});
  table.push_back({.method = "PATCH",
                   .path = "/v1/tasks/{id}",
                   .access = Access::kOwner,
                   .operation = "setTaskPriority",
                   .summary = "Change the priority of a task: {\"priority\": 5}.",
                   .parameters = {kTask},
                   .accepts = {"application/json"},
                   .body_schema = PriorityView::kSchema,
                   .replies = {json<DoneView>(200, "It is done, and durable.")},
                   .errors = {404, 412, 413, 415},
                   .handler = &routes::set_priority});
  table.push_back({.method = "GET",
                   .path = "/v1/tasks/{id}/result",
                   .operation = "getTaskResult",
                   .summary = "The result and the last checkpoint of a task.",
                   .parameters = reading({kTask}),
                   .replies = {json<TaskResultView>(200, "The result; null if there is none yet.")},
                   .errors = {404, 410},
                   .handler = &routes::get_result});
  table.push_back({.method = "GET",
                   .path = "/v1/tasks/{id}/explain",
                   .operation = "explainTask",
                   .summary = "Why a task waits, runs where it does, or ended as it did.",
                   .parameters = reading({kTask}),
                   .replies = {json<ExplanationView>(200, "The reason, as a sentence and as facts.")},
                   .errors = {404, 410},
                   .handler = &routes::explain_task});
  table.push_back({.method = "GET",
                   .path = "/v1/workers",
                   .operation = "listWorkers",
                   .summary = "All workers.",
                   .parameters = reading({}),
                   .replies = {json<WorkerPage>(200, "The workers.")},
                   .errors = {404, 410},
                   .handler = &routes::list_workers});
  table.push_back({.method = "GET",
                   .path = "/v1/workers/{name}",
                   .operation = "getWorker",
                   .summary = "A worker.",
                   .parameters = reading({kWorker}),
                   .replies = {json<WorkerView>(200, "The worker.")},
                   .errors = {404, 410},
                   .handler = &routes::get_worker});
  table.push_back(control("/v1/workers/{name}/drain", "drainWorker",
                          "The worker gets no more tasks, and leaves when it has none.", kWorker, Access::kAdmin,
                          &routes::drain_worker));
  table.push_back(control("/v1/workers/{name}/enable", "enableWorker",
                          "Enable a worker; the elastic coordinator leaves it enabled.", kWorker, Access::kAdmin,
                          &routes::enable_worker));
  table.push_back(control("/v1/workers/{name}/disable", "disableWorker", "Disable a worker: it gets no more tasks.",
                          kWorker, Access::kAdmin, &routes::disable_worker));
  table.push_back(control("/v1/workers/{name}/elastic", "elasticWorker",
                          "Enable a worker, and leave it to the elastic coordinator from now on.", kWorker,
                          Access::kAdmin, &routes::elastic_worker));
  table.push_back(control("/workers/{name}/elastic", "elasticWorkerAlias", "The same as /v1/workers/{name}/elastic.",
                          kWorker, Access::kAdmin, &routes::elastic_worker));
  table.push_back(
      {.method = "GET",
       .path = "/v1/events",
       .operation = "listEvents",
       .summary = "The records of the log: a page as JSON; or, by `Accept`, an endless stream as text/event-stream "
                  "(server-sent events, id = record) or application/x-ndjson (one record a line).",
       .parameters = {{.name = "from",
                       .meaning = "the first record (JSON: the oldest; streams: the next new one)",
                       .type = Type::kInteger},
                      {"last-event-id", In::kHeader, "a stream continues after this record"},
                      kLimit},
       .replies = {json<EventPage>(200, "A page of records; `next_cursor` is the next `from`."),
                   {200, "The stream. A comment or an empty line is sent every 15 s.", "text/event-stream"},
                   {200, "The stream.", "application/x-ndjson"}},
       .errors = {404, 410},
       .handler = &routes::events});
  table.push_back({.method = "GET",
                   .path = "/v1/version",
                   .operation = "getVersion",
                   .summary = "The version of the host, and how far its log goes.",
                   .replies = {json<VersionView>(200, "The version.")},
                   .handler = &routes::version});
  table.push_back({.method = "GET",
                   .path = "/metrics",
                   .operation = "getMetrics",
                   .summary = "Metrics for Prometheus.",
                   .replies = {{200, "The metrics.", "text/plain"}},
                   .handler = &routes::metrics});
  table.push_back({.method = "GET",
                   .path = "/livez",
                   .access = Access::kOpen,
                   .operation = "getLiveness",
                   .summary = "The process answers.",
                   .replies = {json<HealthView>(200, "It does.")},
                   .handler = &routes::live});
  table.push_back({.method = "GET",
                   .path = "/readyz",
                   .access = Access::kOpen,
                   .operation = "getReadiness",
                   .summary = "The host has read its log and accepts work.",
                   .replies = {json<HealthView>(200, "It does.")},
                   .handler = &routes::ready});
  table.push_back({.method = "GET",
                   .path = "/openapi.json",
                   .operation = "getSpecification",
                   .summary = "This specification.",
                   .replies = {{200, "The specification (OpenAPI 3.1).", "application/json"}},
                   .handler = &routes::specification});
  return table;
}

// Matches "/v1/tasks/{id}" against "/v1/tasks/wf-1.0". A value is a segment that is not empty.
bool matches(std::string_view pattern, std::string_view path, std::vector<std::string>& values) {
  values.clear();
  for (;;) {
    const std::size_t brace = pattern.find('{');
    if (brace == std::string_view::npos) return pattern == path;
    if (!path.starts_with(pattern.substr(0, brace))) return false;
    path.remove_prefix(brace);
    pattern.remove_prefix(pattern.find('}') + 1);
    const std::size_t end = std::min(path.find('/'), path.size());
    if (end == 0) return false;
    std::string value(path.substr(0, end));
    // The path keeps an encoded '/', so that it does not look like two segments: here it is one again.
    for (std::size_t at = 0; (at = value.find("%2F", at)) != std::string::npos; ++at) value.replace(at, 3, "/");
    values.push_back(std::move(value));
    path.remove_prefix(end);
  }
}

Error bad_parameter(std::string_view name, const std::string& why) {
  return Error{ErrorCode::kInvalidArgument, "the parameter '" + printable(name) + "' " + why}.with("parameter",
                                                                                                   printable(name));
}

std::optional<std::uint64_t> parse_integer(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::span<const HttpRoute> http_routes() {
  static const std::vector<HttpRoute> table = make_table();
  return table;
}

HttpMatch match_route(std::string_view method, std::string_view path) {
  HttpMatch match;
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  std::vector<std::string> values;
  for (const HttpRoute& route : http_routes()) {
    if (!matches(route.path, path, values)) continue;
    match.allow.append(match.allow.empty() ? "" : ", ").append(route.method == "GET" ? "GET, HEAD" : route.method);
    if (route.method != wanted) continue;
    match.route = &route;
    match.path = values;
  }
  return match;
}

Result<void> check_parameters(const HttpRoute& route, const net::HttpRequest& request) {
  for (std::size_t i = 0; i < request.query.size(); ++i) {
    const auto& [name, value] = request.query[i];
    const auto found = std::find_if(route.parameters.begin(), route.parameters.end(), [&](const HttpParameter& known) {
      return known.in == In::kQuery && known.name == name;
    });
    if (found == route.parameters.end()) return bad_parameter(name, "is not one of this route; /openapi.json has them");
    for (std::size_t j = 0; j < i; ++j) {
      if (request.query[j].first == name) return bad_parameter(name, "is given twice");
    }
    if (found->type == Type::kInteger) {
      const std::optional<std::uint64_t> number = parse_integer(value);
      if (!number || *number > found->most) {
        return bad_parameter(
            name, "must be a number from 0 to " + std::to_string(found->most) + "; found '" + printable(value) + "'");
      }
    }
    if (found->type == Type::kChoice &&
        std::find(found->choices.begin(), found->choices.end(), value) == found->choices.end()) {
      std::string all;
      for (const std::string_view choice : found->choices) all.append(all.empty() ? "" : ", ").append(choice);
      return bad_parameter(name, "must be one of " + all + "; found '" + printable(value) + "'");
    }
  }
  return {};
}

std::optional<std::string> HttpCall::text(std::string_view name) const {
  const std::string* value = request.parameter(name);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<std::uint64_t> HttpCall::integer(std::string_view name) const {
  const std::string* value = request.parameter(name);
  return value == nullptr ? std::nullopt : parse_integer(*value);
}

}  // namespace rota::host
