// The requests of the control socket as HTTP requests; see remote_host.h.
#include <algorithm>
#include <array>
#include <cstdio>
#include <random>
#include <string>
#include <utility>

#include "cli/remote_host.h"
#include "fleet/codec.h"
#include "host/http_log.h"
#include "model/json.h"

namespace rota::cli {

namespace {

using Ask = RemoteHost::Ask;

// Ends the wait a little before the client's own patience does.
constexpr std::chrono::seconds kMore{30};

std::string random_key() {
  std::random_device random;
  std::array<char, 40> text{};
  (void)std::snprintf(text.data(), text.size(), "cli-%08x%08x%08x%08x", random(), random(), random(), random());
  return text.data();
}

// A member of a response that is a JSON object; empty if it is not there.
std::string_view member(const net::HttpResponse& response, std::string_view name) {
  if (!model::json_validate(response.body).ok() || model::json_kind(response.body) != model::JsonKind::kObject)
    return {};
  return model::json_member(response.body, name);
}

std::string text_member(const net::HttpResponse& response, std::string_view name) {
  const std::string_view value = member(response, name);
  return value.data() != nullptr && model::json_kind(value) == model::JsonKind::kString ? model::json_unescape(value)
                                                                                        : std::string();
}

std::string path_of(model::WorkflowId workflow, model::TaskId task) {
  return task.is_none() ? "/v1/workflows/" + workflow.to_string() : "/v1/tasks/" + task.to_string();
}

class Asker {
 public:
  explicit Asker(RemoteHost& host) : host_(host) {}

  Result<host::ControlAnswer> operator()(const host::Ping&) { return done({.target = "/v1/version"}); }

  Result<host::ControlAnswer> operator()(const host::AwaitEnd& await) {
    const std::uint64_t seconds = std::min<std::uint64_t>(await.wait_ms / 1000, 60);
    ROTA_TRY_ASSIGN(const net::HttpResponse response,
                    host_.ask({.target = "/v1/workflows/" + await.workflow.to_string() +
                                         "?until=ended&wait=" + std::to_string(seconds),
                               .within = std::chrono::seconds(seconds) + kMore}));
    host::ControlAnswer answer;
    answer.index = index_of(response);
    const std::string outcome = text_member(response, "outcome");
    for (std::size_t i = 0; i < model::enumerator_count<fleet::Outcome>; ++i) {
      if (fleet::enum_names(fleet::Outcome{})[i] == outcome) answer.outcome = static_cast<fleet::Outcome>(i);
    }
    if (std::string stopped = text_member(response, "stopped"); !stopped.empty()) {
      answer.details.push_back({std::string(host::kStoppedDetail), std::move(stopped)});
    }
    return answer;
  }

  Result<host::ControlAnswer> operator()(const host::Execute& execute) {
    return std::visit([&](const auto& command) { return run(command); }, execute.command);
  }

 private:
  Result<host::ControlAnswer> done(const Ask& ask) {
    ROTA_TRY_ASSIGN(const net::HttpResponse response, host_.ask(ask));
    host::ControlAnswer answer;
    answer.index = index_of(response);
    return answer;
  }

  Result<host::ControlAnswer> run(const fleet::SubmitWorkflow& submit) {
    std::string body;
    model::encode(submit.workflow, body);
    // With a key, the submission can be sent again if the connection is lost.
    Result<net::HttpResponse> response = host_.ask({.method = "POST",
                                                    .target = "/v1/workflows",
                                                    .type = std::string(host::kSpecType),
                                                    .body = std::move(body),
                                                    .key = submit.key.empty() ? random_key() : submit.key});
    if (!response.ok()) {
      Error error = std::move(response).take_error();
      // The key belongs to another workflow: not what is meant by submitting again.
      if (error.code == ErrorCode::kAlreadyExists) error.details.clear();
      return error;
    }
    host::ControlAnswer answer;
    const std::string id = text_member(*response, "workflow");
    const std::optional<model::WorkflowId> workflow = model::WorkflowId::parse(id);
    if (!workflow) return Error{ErrorCode::kCorrupt, "the host accepted the workflow without its id"};
    if (response->field("idempotency-replayed") != nullptr && !submit.key.empty()) {
      return Error{ErrorCode::kAlreadyExists, "the key '" + submit.key + "' was submitted before"}.with("workflow", id);
    }
    answer.workflow = *workflow;
    answer.index = index_of(*response);
    answer.throttle = member(*response, "throttle") == "true";
    const std::string_view warnings = member(*response, "warnings");
    if (warnings.data() != nullptr && model::json_kind(warnings) == model::JsonKind::kArray) {
      for (const std::string_view warning : model::json_elements(warnings)) {
        if (model::json_kind(warning) == model::JsonKind::kString)
          answer.warnings.push_back(model::json_unescape(warning));
      }
    }
    return answer;
  }
  Result<host::ControlAnswer> run(const fleet::Control& control) {
    return done({.method = "POST",
                 .target = path_of(control.workflow, control.task) + "/" + std::string(to_string(control.action))});
  }
  Result<host::ControlAnswer> run(const fleet::SetPriority& priority) {
    return done({.method = "PATCH",
                 .target = path_of(priority.workflow, priority.task),
                 .type = "application/json",
                 .body = "{\"priority\": " + std::to_string(priority.priority) + "}"});
  }
  Result<host::ControlAnswer> run(const fleet::DrainWorker& drain) { return worker(drain.worker, "drain"); }
  Result<host::ControlAnswer> run(const fleet::SetWorkerEnabled& set) {
    return worker(set.worker, !set.enabled ? "disable" : set.held ? "enable" : "elastic");
  }
  Result<host::ControlAnswer> run(const fleet::ForgetWorkflow& forget) {
    return done({.method = "DELETE", .target = path_of(forget.workflow, {})});
  }
  Result<host::ControlAnswer> run(const fleet::SetSchedule& set) {
    const fleet::ScheduleSpec& spec = set.schedule;
    std::string body;
    model::encode(spec.workflow, body);
    return done({.method = "POST",
                 .target = "/v1/schedules?name=" + net::percent_encode(spec.name) +
                           "&cron=" + net::percent_encode(spec.cron) + "&tz=" + net::percent_encode(spec.zone) +
                           "&missed=" + std::string(to_string(spec.missed)) +
                           "&overlap=" + std::string(to_string(spec.overlap)),
                 .type = std::string(host::kSpecType),
                 .body = std::move(body)});
  }
  Result<host::ControlAnswer> run(const fleet::ChangeSchedule& change) {
    const std::string path = "/v1/schedules/" + net::percent_encode(change.name);
    if (change.change == fleet::ScheduleChange::kRemove) return done({.method = "DELETE", .target = path});
    return done({.method = "POST", .target = path + "/" + std::string(to_string(change.change))});
  }
  template <class Other>
  Result<host::ControlAnswer> run(const Other&) {
    return Error{ErrorCode::kUnsupported, "the HTTP interface of a host does not have this command"};
  }
  Result<host::ControlAnswer> worker(const std::string& name, const std::string& action) {
    return done({.method = "POST", .target = "/v1/workers/" + net::percent_encode(name) + "/" + action});
  }

  RemoteHost& host_;
};

}  // namespace

Result<host::ControlAnswer> ask_remote(RemoteHost& host, const host::ControlRequest& request) {
  return std::visit(Asker(host), request);
}

}  // namespace rota::cli
