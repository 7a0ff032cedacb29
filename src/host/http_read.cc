// Handlers that read: lists and single objects, from the follower's copy.
#include <algorithm>
#include <string>
#include <utility>

#include "base/json_text.h"
#include "fleet/explain.h"
#include "fleet/state.h"
#include "host/follower.h"
#include "host/http_api.h"
#include "host/http_reading.h"
#include "host/http_routes.h"
#include "host/http_views.h"
#include "rota/fiber/time.h"

namespace rota::host {

namespace {

using fleet::State;
using fleet::Task;
using fleet::Worker;
using fleet::Workflow;
using model::TaskId;
using model::WorkflowId;

constexpr std::uint64_t kDefaultLimit = 100;
constexpr std::uint64_t kDefaultWaitSeconds = 60;
// How much one request examines: a filter that matches little returns a short page instead of holding the copy.
constexpr std::size_t kMostExamined = 100'000;
constexpr std::size_t kMostTasksOfWorker = 1000;
constexpr std::size_t kMostCachesOfWorker = 100;
constexpr std::size_t kMostAhead = 5;  // Tasks that an explanation names.
// A list of workflows counts the states of this many tasks.
constexpr std::size_t kMostCounted = 500'000;

std::size_t limit_of(const HttpCall& call) {
  return static_cast<std::size_t>(std::max<std::uint64_t>(call.integer("limit").value_or(kDefaultLimit), 1));
}

Error bad_cursor() {
  return Error{ErrorCode::kInvalidArgument, "the cursor is not one that this host gave; begin without it"}.with(
      "parameter", "cursor");
}

void fill(WorkflowView& view, const Workflow& workflow) {
  view.id = workflow.id.to_string();
  view.name = workflow.spec.name;
  view.user = workflow.spec.user;
  view.key = workflow.key;
  view.priority = workflow.priority;
  view.outcome = to_string(workflow.outcome);
  view.stopped = to_string(workflow.stopped);
  view.submitted = {workflow.submitted_ns};
  view.ended = {workflow.ended_ns};
  view.tasks = workflow.tasks.size();
  view.unfinished = workflow.unfinished;
  view.running = workflow.running;
}

// Tasks that were withdrawn (fleet::StageCollapsed) are not counted.
template <class View>
void count_states(View& view, const Workflow& workflow) {
  for (const Task& task : workflow.tasks) {
    if (workflow.is_withdrawn(task)) {
      --view.tasks;
    } else {
      count_state(view.states, task);
    }
  }
}

TaskView task_view(const State& state, const Workflow& workflow, const Task& task) {
  TaskView view;
  view.id = workflow.id_of(task).to_string();
  view.workflow = workflow.id.to_string();
  view.name = workflow.name_of(task);
  view.stage = workflow.spec.stages[task.stage].name;
  view.state = state_name(task.state);
  view.skipped = task.skipped;
  view.attempt = task.attempt.value();
  view.attempts = task.spent;
  if (const Worker* worker = state.find(task.worker); worker != nullptr) view.worker = worker->spec.name;
  view.priority = task.priority;
  view.ready_since = {task.since_ns};
  view.assigned = {task.assigned_ns};
  view.started = {task.started_ns};
  view.ended = {task.ended_ns};
  view.next_attempt = {task.due_ns()};
  if (task.extra != nullptr) {
    view.reused = task.extra->reused;
    view.message = task.extra->message;
    if (task.state == fleet::TaskState::kFailed) view.failure = std::string(to_string(task.extra->kind));
  }
  return view;
}

WorkerView worker_view(const State& state, const Worker& worker) {
  WorkerView view;
  view.name = worker.spec.name;
  view.id = worker.id.to_string();
  view.status = to_string(worker.status(state.policy().max_queue_per_worker));
  view.resources = model::to_text(worker.spec.resources);
  view.zone = worker.spec.zone;
  view.cost_microdollars_per_hour = worker.spec.cost_microdollars_per_hour;
  view.power_milliwatts = worker.spec.power_milliwatts;
  view.capabilities = worker.spec.capabilities;
  for (const model::Label& label : worker.spec.labels) view.labels.push_back(label.key + "=" + label.value);
  view.handlers = worker.spec.handlers;
  view.disabled_by_hand = worker.disabled_by_hand;
  view.disabled_elastic = worker.disabled_elastic;
  view.executions = worker.executions.size();
  view.queued = worker.queued;
  for (const fleet::Execution& execution : worker.executions) {
    for (const TaskId task : execution.members) {
      if (view.tasks.size() == kMostTasksOfWorker) break;
      view.tasks.push_back(task.to_string());
    }
  }
  view.seen = {worker.seen_ns};
  view.cpu_millis = worker.spec.resources.cpu_millis;
  view.cpu_millis_used = worker.used.cpu_millis;
  view.memory_bytes = worker.spec.resources.memory_bytes;
  view.memory_bytes_used = worker.used.memory_bytes;
  for (std::size_t i = 0; i < std::min(worker.caches.size(), kMostCachesOfWorker); ++i) {
    view.caches.push_back(worker.caches[i].item);
  }
  return view;
}

}  // namespace

Error no_such(std::string_view kind, std::string_view name) {
  return Error{ErrorCode::kNotFound, "there is no " + std::string(kind) + " '" + printable(name) + "' here"};
}

Result<const Task*> find_task(const State& state, const std::string& name) {
  const std::optional<TaskId> id = TaskId::parse(name);
  const Task* task = id ? state.find(*id) : nullptr;
  if (task == nullptr) return no_such("task", name);
  return task;
}

void count_state(StateCounts& counts, const Task& task) {
  switch (task.state) {
    case fleet::TaskState::kQueued:
      ++counts.queued;
      break;
    case fleet::TaskState::kReady:
      ++counts.ready;
      break;
    case fleet::TaskState::kRunning:
      ++counts.running;
      break;
    case fleet::TaskState::kPaused:
      ++counts.paused;
      break;
    case fleet::TaskState::kSucceeded:
      ++(task.skipped ? counts.skipped : counts.succeeded);
      break;
    case fleet::TaskState::kFailed:
      ++counts.failed;
      break;
    case fleet::TaskState::kCancelled:
      ++counts.cancelled;
      break;
  }
}

namespace {

// Returns when the workflow of the path has ended, is unknown, or when `wait` is over.
Result<void> wait_for_end(const HttpCall& call) {
  const std::optional<WorkflowId> id = WorkflowId::parse(call.path[0]);
  const auto until = fiber::now() + std::chrono::seconds(call.integer("wait").value_or(kDefaultWaitSeconds));
  Follower& follower = call.services.host.follower();
  for (;;) {
    bool ended = true;
    const Result<std::uint64_t> read = follower.read([&](const State& state) {
      const Workflow* workflow = id ? state.find(*id) : nullptr;
      ended = workflow == nullptr || workflow->outcome != fleet::Outcome::kRunning;
    });
    if (!read.ok()) return Error{ErrorCode::kUnavailable, "the host is stopping"};
    if (ended || fiber::now() >= until) return {};
    if (follower.wait_for(*read + 1, until - fiber::now()).code() == ErrorCode::kClosed) {
      return Error{ErrorCode::kUnavailable, "the host is stopping"};
    }
  }
}

}  // namespace

std::string state_name(graph::TaskState state) { return lower_case(graph::to_string(state)); }

Result<std::uint64_t> read_state(const HttpCall& call, const Follower::Look& look) {
  Follower& follower = call.services.host.follower();
  const auto stopping = [](Error error) {
    if (error.code == ErrorCode::kClosed) return Error{ErrorCode::kUnavailable, "the host is stopping"};
    return error;
  };
  if (const std::optional<std::uint64_t> at = call.integer("at")) {
    if (call.integer("wait_index")) {
      return Error{ErrorCode::kInvalidArgument, "the parameters 'at' and 'wait_index' exclude each other"};
    }
    Result<void> read = follower.read_past(*at, look);
    if (read.ok()) return *at;
    Error error = std::move(read).take_error();
    // What is not there yet is not found; what is no longer there is gone.
    if (error.code == ErrorCode::kNotFound && *at <= follower.index()) {
      error.code = ErrorCode::kClosed;
      return error;
    }
    return stopping(std::move(error));
  }
  if (call.text("until")) ROTA_TRY(wait_for_end(call));
  if (const std::optional<std::uint64_t> after = call.integer("wait_index")) {
    const std::chrono::seconds wait(call.integer("wait").value_or(kDefaultWaitSeconds));
    const Result<void> reached = *after == UINT64_MAX ? Result<void>() : follower.wait_for(*after + 1, wait);
    if (!reached.ok() && reached.code() != ErrorCode::kTimeout) return stopping(reached.error());
  }
  Result<std::uint64_t> index = follower.read(look);
  if (!index.ok()) return stopping(std::move(index).take_error());
  return index;
}

namespace routes {

Result<net::HttpResponse> list_workflows(HttpCall& call) {
  const std::optional<std::string> cursor = call.text("cursor");
  WorkflowId from;
  if (cursor) {
    const std::optional<WorkflowId> parsed = WorkflowId::parse(*cursor);
    if (!parsed) return bad_cursor();
    from = *parsed;
  }
  return answer<WorkflowPage>(call, [&](const State& state, WorkflowPage& page) -> Result<void> {
    const std::optional<std::string> outcome = call.text("outcome");
    const std::optional<std::string> user = call.text("user");
    const std::optional<std::string> part = call.text("q");
    const std::uint64_t last = state.globals().last_workflow.value();
    std::uint64_t id = cursor ? std::min(last, from.value()) : last;
    std::size_t counted = 0;
    for (std::size_t examined = 0; id > 0; --id, ++examined) {
      if (page.items.size() == limit_of(call) || examined == kMostExamined) {
        page.next_cursor = WorkflowId(id).to_string();
        break;
      }
      const Workflow* workflow = state.find(WorkflowId(id));
      if (workflow == nullptr || (outcome && to_string(workflow->outcome) != *outcome) ||
          (user && workflow->spec.user != *user) || (part && workflow->spec.name.find(*part) == std::string::npos)) {
        continue;
      }
      WorkflowView& view = page.items.emplace_back();
      fill(view, *workflow);
      counted += workflow->tasks.size();
      view.counted = counted <= kMostCounted;
      if (!view.counted) continue;
      count_states(view, *workflow);
    }
    return {};
  });
}

Result<net::HttpResponse> get_workflow(HttpCall& call) {
  return answer<WorkflowDetailView>(call, [&](const State& state, WorkflowDetailView& view) -> Result<void> {
    const std::optional<WorkflowId> id = WorkflowId::parse(call.path[0]);
    const Workflow* workflow = id ? state.find(*id) : nullptr;
    if (workflow == nullptr) return no_such("workflow", call.path[0]);
    fill(view, *workflow);
    view.counted = true;
    count_states(view, *workflow);
    for (std::size_t i = 0; i < workflow->spec.stages.size(); ++i) {
      const model::Stage& stage = workflow->spec.stages[i];
      StageView& one = view.stages.emplace_back();
      one.name = stage.name;
      for (const std::uint32_t need : stage.needs) one.needs.push_back(workflow->spec.stages[need].name);
      one.tasks = workflow->stages[i].count;
      one.unfinished = workflow->stages[i].unfinished;
    }
    return {};
  });
}

Result<net::HttpResponse> list_tasks(HttpCall& call) {
  const std::optional<std::string> cursor = call.text("cursor");
  const std::optional<std::string> only = call.text("workflow");
  TaskId from(0);
  if (cursor) {
    const std::optional<TaskId> parsed = TaskId::parse(*cursor);
    if (!parsed) return bad_cursor();
    from = *parsed;
  }
  return answer<TaskPage>(call, [&](const State& state, TaskPage& page) -> Result<void> {
    std::optional<fleet::TaskState> wanted;
    if (const std::optional<std::string> name = call.text("state")) {
      for (int i = 0; i < graph::kTaskStateCount; ++i) {
        if (state_name(static_cast<fleet::TaskState>(i)) == *name) wanted = static_cast<fleet::TaskState>(i);
      }
    }
    const std::optional<std::string> stage = call.text("stage");
    const std::optional<std::string> worker = call.text("worker");
    std::uint64_t id = std::max<std::uint64_t>(from.workflow().value(), 1);
    std::uint64_t last = state.globals().last_workflow.value();
    if (only) {
      const std::optional<WorkflowId> parsed = WorkflowId::parse(*only);
      if (!parsed || state.find(*parsed) == nullptr) return no_such("workflow", *only);
      if (cursor && *parsed != from.workflow()) return bad_cursor();
      id = last = parsed->value();
    }
    const Worker* at = worker ? state.find_worker(*worker) : nullptr;
    if (worker && at == nullptr) return no_such("worker", *worker);
    std::size_t examined = 0;
    for (; id <= last; ++id) {
      const Workflow* workflow = state.find(WorkflowId(id));
      std::size_t index = WorkflowId(id) == from.workflow() ? from.index() : 0;
      if (++examined >= kMostExamined && workflow == nullptr) {
        page.next_cursor = TaskId(WorkflowId(id), 0).to_string();
        return {};
      }
      if (workflow == nullptr) continue;
      for (; index < workflow->tasks.size(); ++index, ++examined) {
        if (page.items.size() == limit_of(call) || examined >= kMostExamined) {
          page.next_cursor = TaskId(WorkflowId(id), static_cast<std::uint32_t>(index)).to_string();
          return {};
        }
        const Task& task = workflow->tasks[index];
        if (workflow->is_withdrawn(task) || (wanted && task.state != *wanted) ||
            (stage && workflow->spec.stages[task.stage].name != *stage) || (at != nullptr && task.worker != at->id)) {
          continue;
        }
        page.items.push_back(task_view(state, *workflow, task));
      }
    }
    return {};
  });
}

Result<net::HttpResponse> get_task(HttpCall& call) {
  return answer<TaskView>(call, [&](const State& state, TaskView& view) -> Result<void> {
    ROTA_TRY_ASSIGN(const Task* task, find_task(state, call.path[0]));
    view = task_view(state, state.at(TaskId::parse(call.path[0])->workflow()), *task);
    return {};
  });
}

Result<net::HttpResponse> get_result(HttpCall& call) {
  return answer<TaskResultView>(call, [&](const State& state, TaskResultView& view) -> Result<void> {
    ROTA_TRY_ASSIGN(const Task* task, find_task(state, call.path[0]));
    view.id = call.path[0];
    view.state = state_name(task->state);
    if (task->extra != nullptr) {
      view.result = {task->extra->result};
      view.checkpoint = {task->extra->checkpoint};
      view.outputs = task->extra->outputs;
    }
    return {};
  });
}

Result<net::HttpResponse> explain_task(HttpCall& call) {
  // The reasoning of a placement is in the record of the assignment, not in the state. If the task is assigned again
  // between the two reads, the second assignment's reasoning is missing from this answer.
  std::uint64_t assigned_in = 0;
  ROTA_TRY(read_state(call, [&](const State& state) {
    const Result<const Task*> task = find_task(state, call.path[0]);
    if (task.ok()) assigned_in = (*task)->assigned_in;
  }));
  std::optional<fleet::Record> record;
  if (assigned_in > 0) {
    if (Result<fleet::Record> kept = call.services.tail.record(assigned_in); kept.ok()) record = std::move(*kept);
  }
  return answer<ExplanationView>(call, [&](const State& state, ExplanationView& view) -> Result<void> {
    ROTA_TRY_ASSIGN(const Task* task, find_task(state, call.path[0]));
    const TaskId id = *TaskId::parse(call.path[0]);
    const fleet::TaskAssigned* assigned =
        record && record->index == task->assigned_in ? fleet::find_assignment(*record, id) : nullptr;
    // The past is explained as of its record, the present as of now: waits have become longer since the last record.
    const std::int64_t now_ns = call.integer("at") ? 0 : call.services.wall_ns();
    ROTA_TRY_ASSIGN(const fleet::Explanation why, fleet::explain(state, id, assigned, now_ns));
    view = {why.task.to_string(),
            why.name,
            state_name(why.state),
            std::string(to_string(why.reason)),
            why.sentence,
            {why.at_ns},
            {},
            {}};
    JsonWriter json(view.facts.text);
    json.begin_array();
    for (const fleet::Fact& fact : why.facts) {
      json.begin_object().field("name", fact.key).key("value");
      if (fact.text) {
        json.value(fact.value);
      } else {
        json.raw(fact.value);
      }
      json.end_object();
    }
    json.end_array();
    if (why.state == fleet::TaskState::kReady) {
      for (const TaskId ahead : fleet::ready_order(state, kMostAhead, id)) view.ahead.push_back(ahead.to_string());
    }
    return {};
  });
}

Result<net::HttpResponse> list_workers(HttpCall& call) {
  return answer<WorkerPage>(call, [](const State& state, WorkerPage& page) -> Result<void> {
    state.each_worker([&](const Worker& worker) { page.items.push_back(worker_view(state, worker)); });
    return {};
  });
}

Result<net::HttpResponse> get_worker(HttpCall& call) {
  return answer<WorkerView>(call, [&](const State& state, WorkerView& view) -> Result<void> {
    const Worker* worker = state.find_worker(call.path[0]);
    if (worker == nullptr) return no_such("worker", call.path[0]);
    view = worker_view(state, *worker);
    return {};
  });
}

}  // namespace routes

}  // namespace rota::host
