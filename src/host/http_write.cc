// Handlers that change something: submissions, control, priorities, workers. Each answers when the decision is durable.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <string>
#include <utility>

#include "base/json_text.h"
#include "fleet/codec.h"
#include "fleet/state.h"
#include "host/follower.h"
#include "host/http_log.h"
#include "host/http_routes.h"
#include "host/http_views.h"
#include "host/http_writing.h"
#include "host/scheduler.h"
#include "model/json.h"
#include "rota/fiber/blocking.h"
#include "workflow/workflow.h"

namespace rota::host {

namespace {

using fleet::State;
using fleet::Workflow;
using model::TaskId;
using model::WorkflowId;

constexpr std::chrono::seconds kFollow{10};
constexpr std::size_t kMostKey = 255;
constexpr std::size_t kReadInPlace = std::size_t{32} << 10;  // About a millisecond.

}  // namespace

Result<fleet::Events> execute(HttpCall& call, fleet::Command command) {
  fleet::Origin origin{.user = call.who->user, .token = call.who->id, .request = call.request_id};
  Result<fleet::Events> events = call.services.host.execute(std::move(command), std::move(origin));
  if (!events.ok() && events.code() == ErrorCode::kClosed) {
    return Error{ErrorCode::kUnavailable,
                 "the host stopped before it answered; whether it accepted the command is not known"};
  }
  // The client's next read sees what this command has changed.
  (void)call.services.host.follower().wait_for(call.services.host.durable_index(), kFollow);
  return events;
}

net::HttpResponse done(HttpCall& call) {
  return json_response(200, to_view_json(DoneView{call.services.host.follower().index()}));
}

// A large file takes a while to read. A helper thread reads it, so that the host's own threads decide meanwhile.
Result<workflow::WorkflowFile> read_body(const HttpCall& call) {
  const auto read = [&call]() -> Result<workflow::WorkflowFile> {
    const std::string* type = call.request.field("content-type");
    if (type != nullptr && *type == kSpecType) {
      workflow::WorkflowFile file;
      Result<model::WorkflowSpec> spec = model::decode<model::WorkflowSpec>(call.request.body);
      if (!spec.ok()) {  // A mistake of the client, not damage of ours.
        return Error{ErrorCode::kInvalidArgument, "the body is not an encoded workflow: " + spec.error().message};
      }
      file.spec = std::move(*spec);
      return file;
    }
    return workflow::read_workflow({.path = "workflow", .text = call.request.body});
  };
  if (call.request.body.size() <= kReadInPlace) return read();
  return fiber::blocking(read);
}

namespace {

std::vector<PlaceView> places_of(const std::vector<workflow::Problem>& problems) {
  std::vector<PlaceView> places;
  for (const workflow::Problem& problem : problems) {
    places.push_back({problem.at.line, problem.at.column, problem.message});
  }
  return places;
}

}  // namespace

// An error of a workflow file, with the place of every problem.
net::HttpResponse file_problem(const workflow::WorkflowFile& file) {
  ProblemView view;
  view.type = "urn:rota:error:ParseError";
  view.title = error_code_info(ErrorCode::kParseError).meaning;
  view.status = 400;
  view.code = "ParseError";
  view.detail = workflow::to_string("workflow", file.problems.front());
  view.errors = places_of(file.problems);
  net::HttpResponse response = json_response(400, to_view_json(view));
  response.fields.front().value = "application/problem+json";
  return response;
}

namespace {

// The key of the header, with or without the quotes of a structured field.
Result<std::string> key_of(const HttpCall& call) {
  const std::string* field = call.request.field("idempotency-key");
  if (field == nullptr) return std::string();
  std::string_view key = *field;
  if (key.size() >= 2 && key.front() == '"' && key.back() == '"') key = key.substr(1, key.size() - 2);
  const bool plain = std::all_of(key.begin(), key.end(), [](char c) { return c > 0x20 && c < 0x7f && c != '"'; });
  if (key.empty() || key.size() > kMostKey || !plain) {
    return Error{ErrorCode::kInvalidArgument, "an Idempotency-Key has 1 to 255 printable ASCII characters"};
  }
  return std::string(key);
}

SubmittedView submitted_view(const fleet::Events& events, const model::WorkflowSpec& spec, std::uint64_t index) {
  SubmittedView view;
  view.index = index;
  for (const fleet::Event& event : events) {
    if (const auto* accepted = std::get_if<fleet::WorkflowAccepted>(&event)) {
      view.workflow = accepted->workflow.to_string();
      view.throttle = accepted->throttle;
    } else if (const auto* warned = std::get_if<fleet::PlacementWarned>(&event)) {
      view.warnings.push_back("no worker can run the stage '" + spec.stages[warned->stage].name +
                              "' now: " + warned->requirement);
    }
  }
  return view;
}

net::HttpResponse submitted(int status, const SubmittedView& view) {
  net::HttpResponse response = json_response(status, to_view_json(view));
  response.fields.push_back({"Location", "/v1/workflows/" + view.workflow});
  if (status == 200) response.fields.push_back({"Idempotency-Replayed", "true"});
  return response;
}

// Whether the workflow was submitted as `spec`. The stages that fan out over results have got their items since.
bool was_submitted_as(const Workflow& workflow, const model::WorkflowSpec& spec) {
  if (workflow.spec == spec) return true;
  model::WorkflowSpec submitted = workflow.spec;
  for (model::Stage& stage : submitted.stages) {
    if (stage.fan_out) stage.items.clear();
  }
  return submitted == spec;
}

// The answer to a submission whose key is known: the first answer again if the first body was the same.
Result<net::HttpResponse> repeated(HttpCall& call, const model::WorkflowSpec& spec, const Error& refusal) {
  const std::string* known = refusal.detail("workflow");
  const std::optional<WorkflowId> id = known == nullptr ? std::nullopt : WorkflowId::parse(*known);
  if (!id) return refusal;
  bool same = false;
  SubmittedView view;
  view.workflow = id->to_string();
  const Result<std::uint64_t> read = call.services.host.follower().read([&](const State& state) {
    const Workflow* workflow = state.find(*id);
    same = workflow != nullptr && was_submitted_as(*workflow, spec);
    if (workflow != nullptr) view.index = workflow->accepted_in;
  });
  if (!read.ok()) return Error{ErrorCode::kUnavailable, "the host is stopping"};
  if (!same) {
    return Error{ErrorCode::kAlreadyExists,
                 "this Idempotency-Key was used for another workflow, or by another user; use a new key"}
        .with("status", "422")
        .with("workflow", *known);
  }
  // The warnings are in the record; if that is no longer kept, they are left out.
  if (const Result<fleet::Record> record = call.services.tail.record(view.index); record.ok()) {
    view = submitted_view(record->events, spec, view.index);
  }
  return submitted(200, view);
}

// The workflow and the task that the path names.
struct Target {
  WorkflowId workflow{};
  TaskId task{};  // None: the whole workflow.
};

// NotFound; PermissionDenied unless the caller is an admin or its owner.
Result<Target> owned_target(HttpCall& call) {
  const std::string& name = call.path[0];
  const bool is_task = call.request.path.starts_with("/v1/tasks/");
  Target target;
  if (is_task) {
    const std::optional<TaskId> id = TaskId::parse(name);
    if (!id) return Error{ErrorCode::kNotFound, "there is no task '" + printable(name) + "' here"};
    target = {id->workflow(), *id};
  } else {
    const std::optional<WorkflowId> id = WorkflowId::parse(name);
    if (!id) return Error{ErrorCode::kNotFound, "there is no workflow '" + printable(name) + "' here"};
    target = {*id, TaskId()};
  }
  bool there = false;
  std::string owner;
  const Result<std::uint64_t> read = call.services.host.follower().read([&](const State& state) {
    const Workflow* workflow = state.find(target.workflow);
    there = workflow != nullptr && (target.task.is_none() || state.find(target.task) != nullptr);
    if (there) owner = workflow->spec.user;
  });
  if (!read.ok()) return Error{ErrorCode::kUnavailable, "the host is stopping"};
  if (!there) {
    return Error{ErrorCode::kNotFound,
                 "there is no " + std::string(is_task ? "task" : "workflow") + " '" + printable(name) + "' here"};
  }
  if (call.who->role != Role::kAdmin && owner != call.who->user) {
    return Error{ErrorCode::kPermissionDenied, target.workflow.to_string() + " belongs to '" + owner +
                                                   "'; the token is for '" + call.who->user + "' and not an admin's"};
  }
  return target;
}

Result<net::HttpResponse> control(HttpCall& call, fleet::Action action) {
  ROTA_TRY_ASSIGN(const Target target, owned_target(call));
  ROTA_TRY(execute(call, fleet::Control{action, target.workflow, target.task}));
  return done(call);
}

// The number of {"priority": 5}.
Result<std::int64_t> priority_in(std::string_view body) {
  const Error wrong{ErrorCode::kInvalidArgument, "the body must be {\"priority\": NUMBER}"};
  if (!model::json_validate(body).ok() || model::json_kind(body) != model::JsonKind::kObject) return wrong;
  const auto members = model::json_members(body);
  if (members.size() != 1 || members[0].first != "priority") return wrong;
  const std::string_view text = members[0].second;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return wrong;
  return value;
}

}  // namespace

namespace routes {

Result<net::HttpResponse> submit_workflow(HttpCall& call) {
  if (call.services.refusing.load()) {
    return Error{ErrorCode::kUnavailable, "the host is stopping and takes no more work; submit it after the restart"};
  }
  ROTA_TRY_ASSIGN(std::string key, key_of(call));
  ROTA_TRY(check_client_key(key));
  ROTA_TRY_ASSIGN(workflow::WorkflowFile file, read_body(call));
  if (!file.ok()) return file_problem(file);
  file.spec.user = call.who->user;
  const bool keyed = !key.empty();
  Result<fleet::Events> events = execute(call, fleet::SubmitWorkflow{std::move(key), file.spec});
  if (!events.ok()) {
    if (keyed && events.code() == ErrorCode::kAlreadyExists) return repeated(call, file.spec, events.error());
    return std::move(events).take_error();
  }
  SubmittedView view = submitted_view(*events, file.spec, 0);
  (void)call.services.host.follower().read([&](const State& state) {
    const Workflow* accepted = state.find(WorkflowId::parse(view.workflow).value_or(WorkflowId()));
    if (accepted != nullptr) view.index = accepted->accepted_in;
  });
  return submitted(201, view);
}

Result<net::HttpResponse> validate_workflow(HttpCall& call) {
  ROTA_TRY_ASSIGN(const workflow::WorkflowFile file, read_body(call));
  ValidationView view;
  view.valid = file.ok();
  if (file.ok()) {
    view.name = file.spec.name;
    view.stages = file.spec.stages.size();
    for (const model::Stage& stage : file.spec.stages) view.tasks += std::max<std::size_t>(stage.items.size(), 1);
  }
  view.errors = places_of(file.problems);
  return json_response(200, to_view_json(view));
}

Result<net::HttpResponse> set_priority(HttpCall& call) {
  ROTA_TRY_ASSIGN(const std::int64_t priority, priority_in(call.request.body));
  ROTA_TRY_ASSIGN(const Target target, owned_target(call));
  ROTA_TRY(execute(call, fleet::SetPriority{target.workflow, target.task, priority}));
  return done(call);
}

Result<net::HttpResponse> pause(HttpCall& call) { return control(call, fleet::Action::kPause); }
Result<net::HttpResponse> resume(HttpCall& call) { return control(call, fleet::Action::kResume); }
Result<net::HttpResponse> cancel(HttpCall& call) { return control(call, fleet::Action::kCancel); }
Result<net::HttpResponse> retry(HttpCall& call) { return control(call, fleet::Action::kRetry); }

Result<net::HttpResponse> forget_workflow(HttpCall& call) {
  ROTA_TRY_ASSIGN(const Target target, owned_target(call));
  ROTA_TRY(execute(call, fleet::ForgetWorkflow{target.workflow}));
  return done(call);
}

Result<net::HttpResponse> drain_worker(HttpCall& call) {
  ROTA_TRY(execute(call, fleet::DrainWorker{call.path[0]}));
  return done(call);
}
Result<net::HttpResponse> enable_worker(HttpCall& call) {
  ROTA_TRY(execute(call, fleet::SetWorkerEnabled{call.path[0], true, true}));
  return done(call);
}
Result<net::HttpResponse> disable_worker(HttpCall& call) {
  ROTA_TRY(execute(call, fleet::SetWorkerEnabled{call.path[0], false, true}));
  return done(call);
}
Result<net::HttpResponse> elastic_worker(HttpCall& call) {
  ROTA_TRY(execute(call, fleet::SetWorkerEnabled{call.path[0], true, false}));
  return done(call);
}

}  // namespace routes

}  // namespace rota::host
