// The table of routes, and what follows from a row.
#include "host/http_routes.h"

#include <algorithm>
#include <charconv>

#include "base/json_text.h"
#include "host/http_log.h"
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
const HttpParameter kSha256{"sha256", In::kPath, "the SHA-256 of the content: 64 hexadecimal digits in lower case"};
const HttpParameter kAt{"at", In::kQuery, "answer with the state as it was after this record of the log",
                        Type::kInteger};
const HttpParameter kWaitIndex{
    "wait_index", In::kQuery, "answer when a record after this one is applied, or when `wait` is over", Type::kInteger};
const HttpParameter kWait{"wait", In::kQuery, "how long `wait_index` waits at most, in seconds (60)", Type::kInteger,
                          60};
const HttpParameter kLimit{"limit", In::kQuery, "the most items of the page (100)", Type::kInteger, 1000};
const HttpParameter kCursor{"cursor", In::kQuery, "next_cursor of the previous page"};

// 30 years: a time in nanoseconds stays within 64 bits.
constexpr std::uint64_t kMostMicroseconds = 1'000'000'000'000'000;

const HttpParameter kFresh{"fresh_ms", In::kQuery, "accept an answer that is at most so many milliseconds old (0)",
                           Type::kInteger, 60'000};

std::vector<HttpParameter> reading(std::vector<HttpParameter> own) {
  own.insert(own.end(), {kAt, kWaitIndex, kWait});
  return own;
}

const std::vector<std::string_view> kWorkflowTypes{"application/yaml",   "application/json", "text/yaml",
                                                   "application/x-yaml", "text/plain",       kSpecType};

HttpRoute control(std::string_view path, std::string_view operation, std::string_view summary,
                  const HttpParameter& what, Access access, Result<net::HttpResponse> (*handler)(HttpCall&)) {
  return {.method = "POST",
          .path = path,
          .access = access,
          .operation = operation,
          .summary = summary,
          .parameters = {what},
          .replies = {json<DoneView>(200, "It is done, and durable.")},
          .decides = true,
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
                   .decides = true,
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
  table.push_back(
      {.method = "GET",
       .path = "/v1/workflows/{id}",
       .operation = "getWorkflow",
       .summary = "A workflow, with its stages and the number of its tasks by state.",
       .parameters = reading({kWorkflow,
                              {.name = "until",
                               .meaning = "ended: answer when the workflow has ended, or when `wait` is over",
                               .type = Type::kChoice,
                               .choices = {"ended"}}}),
       .replies = {json<WorkflowDetailView>(200, "The workflow.")},
       .errors = {404, 410},
       .handler = &routes::get_workflow});
  table.push_back(
      {.method = "GET",
       .path = "/v1/workflows/{id}/graph",
       .operation = "getGraph",
       .summary = "The graph of a workflow: its stages with counts by state and times. With level=task, `tasks` "
                  "has one letter per task: q queued, r ready, a running, p paused, s succeeded, k skipped, "
                  "f failed, c cancelled.",
       .parameters =
           reading({kWorkflow,
                    kFresh,
                    {.name = "level", .meaning = "how much", .type = Type::kChoice, .choices = {"stage", "task"}}}),
       .replies = {json<GraphView>(200, "The graph.")},
       .errors = {404, 410},
       .handler = &routes::get_graph});
  table.push_back(
      {.method = "GET",
       .path = "/v1/workflows/{id}/timeline",
       .operation = "getTimeline",
       .summary = "When the tasks of a workflow waited and ran: each of them if at most 4,000 are visible, otherwise "
                  "`px` buckets per lane. States are numbers: the position of the letter in qrapskfc.",
       .parameters =
           reading({kWorkflow,
                    kFresh,
                    {.name = "from",
                     .meaning = "begin this many microseconds after the submission (0)",
                     .type = Type::kInteger,
                     .most = kMostMicroseconds},
                    {.name = "to",
                     .meaning = "end this many microseconds after the submission (now, or when it ended)",
                     .type = Type::kInteger,
                     .most = kMostMicroseconds},
                    {.name = "px", .meaning = "buckets per lane (1000)", .type = Type::kInteger, .most = 4000},
                    {.name = "lanes",
                     .meaning = "one lane for each of these",
                     .type = Type::kChoice,
                     .choices = {"worker", "stage"}}}),
       .replies = {json<TimelineView>(200, "The timeline.")},
       .errors = {404, 410},
       .handler = &routes::get_timeline});
  table.push_back({.method = "PATCH",
                   .path = "/v1/workflows/{id}",
                   .access = Access::kOwner,
                   .operation = "setWorkflowPriority",
                   .summary = "Change the priority of a workflow: {\"priority\": 5}.",
                   .parameters = {kWorkflow},
                   .accepts = {"application/json"},
                   .body_schema = PriorityView::kSchema,
                   .replies = {json<DoneView>(200, "It is done, and durable.")},
                   .decides = true,
                   .errors = {404, 412, 413, 415},
                   .handler = &routes::set_priority});
  table.push_back({.method = "DELETE",
                   .path = "/v1/workflows/{id}",
                   .access = Access::kAdmin,
                   .operation = "forgetWorkflow",
                   .summary = "Forget a workflow that has ended, before its retention is over.",
                   .parameters = {kWorkflow},
                   .replies = {json<DoneView>(200, "It is done, and durable.")},
                   .decides = true,
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
                   .decides = true,
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
  table.push_back(
      {.method = "GET",
       .path = "/v1/tasks/{id}/logs",
       .operation = "getTaskLogs",
       .summary = "What the program of a task wrote: a part of it; or, with `follow=1` or `Accept: "
                  "text/event-stream`, everything until the attempt has ended.",
       .parameters = reading(
           {kTask,
            {.name = "attempt", .meaning = "of this attempt (the latest)", .type = Type::kInteger},
            {.name = "offset", .meaning = "from this byte on (0)", .type = Type::kInteger},
            {.name = "bytes", .meaning = "at most so many bytes (1 MiB)", .type = Type::kInteger, .most = 1 << 20},
            {.name = "tail",
             .meaning = "the last lines, within the last MiB",
             .type = Type::kInteger,
             .most = 1'000'000},
            {.name = "follow",
             .meaning = "1: continue until the attempt has ended",
             .type = Type::kChoice,
             .choices = {"0", "1"}},
            {"last-event-id", In::kHeader, "a stream continues at this byte"}}),
       .replies = {{200, "The text. `Rota-Log-Next` is the next `offset`, `Rota-Log-Size` the size so far.",
                    "text/plain"},
                   {200, "Events `output` with {\"text\"} and the offset after it as id; then one `end`.",
                    "text/event-stream"}},
       .errors = {404, 410},
       .handler = &routes::get_task_logs});
  table.push_back({.method = "GET",
                   .path = "/v1/decisions",
                   .operation = "listDecisions",
                   .summary = "Which task was sent to which worker, and why, the newest first.",
                   .parameters = reading({kLimit,
                                          kCursor,
                                          {.name = "workflow", .meaning = "only about tasks of this workflow"},
                                          {.name = "worker", .meaning = "only those that chose this worker"}}),
                   .replies = {json<DecisionPage>(200,
                                                  "A page of decisions; it may be short, even empty, and still "
                                                  "have a next one.")},
                   .errors = {404, 410},
                   .handler = &routes::list_decisions});
  table.push_back(
      {.method = "GET",
       .path = "/v1/audit",
       .access = Access::kAdmin,
       .operation = "listAudit",
       .summary = "Who changed what: the records that a user asked for, the newest first.",
       .parameters = reading({kLimit, kCursor, {.name = "user", .meaning = "only what this user asked for"}}),
       .replies = {json<AuditPage>(200,
                                   "A page of records; it may be short, even empty, and still have a "
                                   "next one.")},
       .errors = {404, 410},
       .handler = &routes::list_audit});
  table.push_back(
      {.method = "GET",
       .path = "/v1/queue",
       .operation = "listQueue",
       .summary = "Tasks that are ready and wait for a place, with the reason, by workflow.",
       .parameters = reading(
           {{.name = "limit", .meaning = "the most items of the page (100)", .type = Type::kInteger, .most = 100},
            kCursor}),
       .replies = {json<QueuePage>(200, "A page of the queue.")},
       .errors = {404, 410},
       .handler = &routes::list_queue});
  table.push_back({.method = "GET",
                   .path = "/v1/density",
                   .operation = "getDensity",
                   .summary = "Submissions and active workers over time, as in task_worker_density.json.",
                   .replies = {json<DensityView>(200, "The numbers by bucket of time.")},
                   .errors = {412},
                   .handler = &routes::get_density});
  table.push_back({.method = "GET",
                   .path = "/v1/tasks/{id}/attempts",
                   .operation = "listAttempts",
                   .summary = "The attempts of a task, from the records that are kept.",
                   .parameters = reading({kTask}),
                   .replies = {json<AttemptPage>(200, "The attempts, the first one first.")},
                   .errors = {404, 410},
                   .handler = &routes::list_attempts});
  table.push_back({.method = "POST",
                   .path = "/v1/replays",
                   .access = Access::kSubmit,
                   .operation = "replayLog",
                   .summary =
                       "What another policy, or another fleet, would have done with the log: {\"policy\": "
                       "\"mode=static_worker\", \"fleet\": [\"worker=small count=3 cpu_millis=16000\"]}. It is "
                       "computed beside the host, one at a time, for a log of at most 300,000 records that is kept "
                       "from the first one on.",
                   .accepts = {"application/json"},
                   .body_schema = ReplayRequestView::kSchema,
                   .replies = {json<ReplayView>(200, "What happened, and what would have happened.")},
                   .errors = {412, 413, 415, 429},
                   .handler = &routes::replay});
  table.push_back(
      {.method = "GET",
       .path = "/v1/overview",
       .operation = "getOverview",
       .summary = "What the fleet does: tasks by state, how many wait for which reason, and what needs a person.",
       .parameters = reading({kFresh}),
       .replies = {json<OverviewView>(200, "The overview.")},
       .errors = {404, 410},
       .handler = &routes::get_overview});
  table.push_back(
      {.method = "GET",
       .path = "/v1/history",
       .operation = "getHistory",
       .summary = "How many tasks ran, and how many waited for which reason, at moments all over the log. With `at`, "
                  "the log ends with that record.",
       .parameters = reading(
           {kFresh,
            {.name = "workflow", .meaning = "only of this workflow, by stage, from its submission to its end"},
            {.name = "points", .meaning = "about so many moments (200)", .type = Type::kInteger, .most = 1000}}),
       .replies = {json<HistoryView>(200, "The moments, the first one first.")},
       .errors = {404, 410},
       .handler = &routes::get_history});
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
                      kLimit,
                      {.name = "only",
                       .meaning =
                           "of a stream: `index` sends the index of the newest record, at most five times a second, "
                           "instead of the records",
                       .type = Type::kChoice,
                       .choices = {"records", "index"}}},
       .replies = {json<EventPage>(200, "A page of records; `next_cursor` is the next `from`."),
                   {200, "The stream. A comment or an empty line is sent every 15 s.", "text/event-stream"},
                   {200, "The stream.", "application/x-ndjson"}},
       .errors = {404, 410},
       .handler = &routes::events});
  table.push_back(
      {.method = "GET",
       .path = "/v1/log",
       .operation = "getLog",
       .summary = "Records of the log in their binary form, for the same release of rota: each with its "
                  "length before it, 4 bytes, the highest first. `rota status URL` reads it.",
       .parameters = {{.name = "from", .meaning = "the first record (1)", .type = Type::kInteger},
                      {.name = "limit", .meaning = "at most so many", .type = Type::kInteger, .most = 10'000},
                      {.name = "wait",
                       .meaning = "if there is none yet, wait for one, in seconds (0)",
                       .type = Type::kInteger,
                       .most = 60}},
       .replies = {{200, "Records; none if there are none yet.", kLogType}},
       .errors = {410},
       .handler = &routes::get_log});
  table.push_back({.method = "GET",
                   .path = "/v1/log/snapshot",
                   .operation = "getSnapshot",
                   .summary = "The latest snapshot, for the same release of rota. `Rota-Index` is the last record that "
                              "it includes.",
                   .replies = {{200, "The snapshot.", kLogType}},
                   .errors = {404},
                   .handler = &routes::get_snapshot});
  table.push_back({.method = "GET",
                   .path = "/v1/tokens",
                   .access = Access::kAdmin,
                   .operation = "listTokens",
                   .summary = "The tokens, without their secrets.",
                   .replies = {json<TokenPage>(200, "All tokens.")},
                   .handler = &routes::list_tokens});
  table.push_back({.method = "POST",
                   .path = "/v1/tokens",
                   .access = Access::kAdmin,
                   .operation = "makeToken",
                   .summary = "Make a token. The response is the only place where its secret is shown.",
                   .accepts = {"application/json"},
                   .body_schema = TokenRequestView::kSchema,
                   .replies = {json<NewTokenView>(201, "The token.")},
                   .errors = {409, 413, 415},
                   .handler = &routes::make_token});
  table.push_back({.method = "POST",
                   .path = "/v1/tokens/{name}/rotate",
                   .access = Access::kAdmin,
                   .operation = "rotateToken",
                   .summary = "Give a token a new secret. The old one stays valid for `keep_sec` seconds.",
                   .parameters = {{"name", In::kPath, "the token's name"}},
                   .accepts = {"application/json"},
                   .body_schema = RotateRequestView::kSchema,
                   .replies = {json<NewTokenView>(200, "The token with its new secret.")},
                   .errors = {404, 413, 415},
                   .handler = &routes::rotate_token});
  table.push_back({.method = "POST",
                   .path = "/v1/workers/join",
                   .access = Access::kJoin,
                   .operation = "joinWorker",
                   .summary = "Exchange a join token for the identity of a worker, and for its account at Redis.",
                   .accepts = {"application/json"},
                   .body_schema = JoinRequestView::kSchema,
                   .replies = {json<WorkerAccessView>(200, "What the worker needs; shown once.")},
                   .errors = {412, 413, 415},
                   .handler = &routes::join_worker});
  table.push_back({.method = "POST",
                   .path = "/v1/workers/{name}/renew",
                   .access = Access::kWorker,
                   .operation = "renewWorker",
                   .summary = "Renew the identity of a worker, before it expires.",
                   .parameters = {kWorker},
                   .accepts = {"application/json"},
                   .body_schema = RenewRequestView::kSchema,
                   .replies = {json<WorkerAccessView>(200,
                                                      "The next identity. Without `redis`, the account at Redis "
                                                      "stays as it is and its members are empty.")},
                   .errors = {412, 413, 415},
                   .handler = &routes::renew_worker});
  table.push_back({.method = "GET",
                   .path = "/v1/secrets/{name}",
                   .access = Access::kWorker,
                   .operation = "getSecret",
                   .summary = "The value of a secret, for the worker that now holds a task which names the secret.",
                   .parameters = {{"name", In::kPath, "the secret's name"},
                                  {.name = "task", .meaning = "the task that the worker holds, like wf-1.0"},
                                  {.name = "attempt", .meaning = "its attempt", .type = Type::kInteger},
                                  {.name = "version", .meaning = "the version that the task names; none: the current"}},
                   .replies = {{200, "The value, byte by byte.", "application/octet-stream"}},
                   .errors = {404, 412},
                   .handler = &routes::get_secret});
  table.push_back({.method = "GET",
                   .path = "/v1/files/{sha256}",
                   .access = Access::kFiles,
                   .operation = "getFile",
                   .summary =
                       "The content of a file that a task has stored (`outputs`), or a part of it. Verify it: its "
                       "SHA-256 is its name.",
                   .parameters = {kSha256, {"range", In::kHeader, "one range of bytes: bytes=1000-1999"}},
                   .replies = {{200, "The content.", "application/octet-stream"},
                               {206, "The bytes of the range.", "application/octet-stream"}},
                   .errors = {404, 416},
                   .handler = &routes::get_file});
  table.push_back({.method = "PUT",
                   .path = "/v1/files/{sha256}",
                   .access = Access::kWorker,
                   .operation = "putFile",
                   .summary =
                       "Store the next piece of a content, at most 1 MiB. Without a body: how much the host has, "
                       "which is where the next piece begins. With the last piece the content is verified.",
                   .parameters = {kSha256,
                                  {.name = "bytes", .meaning = "how large the content is", .type = Type::kInteger},
                                  {.name = "offset", .meaning = "where the piece begins (0)", .type = Type::kInteger}},
                   .accepts = {"application/octet-stream"},
                   .replies = {json<UploadView>(200, "The host has this much of it."),
                               json<UploadView>(201, "The content is complete, verified and durable.")},
                   .most_bytes = kMostPieceBytes,
                   .logged = false,
                   .errors = {404, 409, 413, 415, 422, 429, 507},
                   .handler = &routes::put_file});
  table.push_back({.method = "POST",
                   .path = "/v1/files/{sha256}/check",
                   .access = Access::kWorker,
                   .operation = "checkFile",
                   .summary =
                       "Verify a content at the host, because what arrived was damaged. A content that is damaged "
                       "at the host is removed (500, Corrupt), so that it can be stored again.",
                   .parameters = {kSha256},
                   .replies = {json<DoneView>(200, "It is as its name says.")},
                   .errors = {404, 500},
                   .handler = &routes::check_file});
  table.push_back({.method = "DELETE",
                   .path = "/v1/tokens/{name}",
                   .access = Access::kAdmin,
                   .operation = "revokeToken",
                   .summary = "Revoke a token: the next request with it is refused.",
                   .parameters = {{"name", In::kPath, "the token's name"}},
                   .replies = {json<DoneView>(200, "It is revoked.")},
                   .errors = {404},
                   .handler = &routes::delete_token});
  table.push_back({.method = "GET",
                   .path = "/v1/schedules",
                   .operation = "listSchedules",
                   .summary = "The schedules, with the next times at which they are due.",
                   .parameters = reading({}),
                   .replies = {json<SchedulePage>(200, "All schedules, by name.")},
                   .errors = {404},
                   .handler = &routes::list_schedules});
  table.push_back({.method = "POST",
                   .path = "/v1/schedules",
                   .access = Access::kSubmit,
                   .operation = "setSchedule",
                   .summary = "Submit the workflow in the body again and again. A schedule with this name is replaced.",
                   .parameters = {{.name = "name", .meaning = "the name of the schedule (the workflow's)"},
                                  {.name = "cron",
                                   .meaning = "minute, hour, day of month, month and day of week, like 0 3 * * *, or "
                                              "@daily"},
                                  {.name = "tz", .meaning = "the time zone, like Europe/Berlin (UTC)"},
                                  {.name = "missed",
                                   .meaning = "what is done with times that pass while the host is down (last)",
                                   .type = Type::kChoice,
                                   .choices = {"skip", "last", "all"}},
                                  {.name = "overlap",
                                   .meaning = "what is done while a workflow of an earlier time still runs (skip)",
                                   .type = Type::kChoice,
                                   .choices = {"allow", "skip", "queue", "replace"}}},
                   .accepts = kWorkflowTypes,
                   .replies = {json<ScheduleView>(201, "The schedule, durable.")},
                   .errors = {413, 415, 429},
                   .handler = &routes::set_schedule});
  const HttpParameter schedule{"name", In::kPath, "the name of the schedule"};
  table.push_back(control("/v1/schedules/{name}/pause", "pauseSchedule",
                          "Pause a schedule: times that pass are left out.", schedule, Access::kOwner,
                          &routes::pause_schedule));
  table.push_back(control("/v1/schedules/{name}/resume", "resumeSchedule", "Resume a paused schedule.", schedule,
                          Access::kOwner, &routes::resume_schedule));
  table.push_back({.method = "DELETE",
                   .path = "/v1/schedules/{name}",
                   .access = Access::kOwner,
                   .operation = "removeSchedule",
                   .summary = "Remove a schedule. Workflows that it has started continue.",
                   .parameters = {schedule},
                   .replies = {json<DoneView>(200, "It is removed, and durable.")},
                   .errors = {404},
                   .handler = &routes::remove_schedule});
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
                   .path = "/",
                   .access = Access::kOpen,
                   .operation = "getPage",
                   .summary = "The dashboard. It asks for a token, and sends it with every request for data.",
                   .replies = {{200, "The page.", "text/html"}},
                   .handler = &routes::page});
  table.push_back({.method = "GET",
                   .path = "/page/{file}",
                   .access = Access::kOpen,
                   .operation = "getPageFile",
                   .summary = "A file of the dashboard.",
                   .parameters = {{"file", In::kPath, "its name, for example app.js"}},
                   .replies = {{200, "The file.", "text/javascript"}, {200, "The file.", "text/css"}},
                   .errors = {404},
                   .handler = &routes::page_file});
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
