// The handler for the secrets of tasks (U-7).
//
// A worker gets a secret only while it holds an attempt of a task that names this secret, in this version: a stolen
// identity of a worker opens no more than what the tasks of that worker may read anyway. The value is read from the
// host's folder for each request and is in no log, no record and no cache.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/json_text.h"
#include "base/log.h"
#include "base/secret_file.h"
#include "bus/redis_names.h"
#include "host/follower.h"
#include "host/http_reading.h"
#include "host/http_routes.h"
#include "rota/fiber/blocking.h"
#include "rota/fiber/time.h"

namespace rota::host {

namespace {

// How long the follower may be behind the assignment that the worker has received.
constexpr std::chrono::seconds kMostBehind{10};

struct Wanted {
  std::string name{};
  std::string version{};
  std::string task{};
  std::uint64_t attempt = 0;
  std::string worker{};  // As in the worker's credential.
};

enum class Holding : std::uint8_t { kYes, kNo, kNotYet };

Holding holding(const fleet::State& state, const Wanted& wanted) {
  const std::optional<model::TaskId> id = model::TaskId::parse(wanted.task);
  const fleet::Task* task = id ? state.find(*id) : nullptr;
  if (task == nullptr || task->attempt.value() < wanted.attempt) return Holding::kNotYet;
  if (task->attempt.value() != wanted.attempt || task->worker.is_none()) return Holding::kNo;
  const bool runs = task->state == fleet::TaskState::kRunning ||
                    (task->state == fleet::TaskState::kPaused && task->paused_from == fleet::TaskState::kRunning);
  if (!runs || bus::escape_name(state.at(task->worker).spec.name) != wanted.worker) return Holding::kNo;
  const fleet::Workflow& workflow = state.at(id->workflow());
  const model::TaskSpec& spec =
      workflow.spec.templates[static_cast<std::size_t>(workflow.spec.stages[task->stage].use)].spec;
  const auto names_it = [&](const model::SecretVariable& each) {
    return each.secret == wanted.name && each.version == wanted.version;
  };
  return spec.program && std::any_of(spec.program->secrets.begin(), spec.program->secrets.end(), names_it)
             ? Holding::kYes
             : Holding::kNo;
}

}  // namespace

namespace routes {

Result<net::HttpResponse> get_secret(HttpCall& call) {
  HttpServices& services = call.services;
  const Wanted wanted{call.path[0], call.text("version").value_or(""), call.text("task").value_or(""),
                      call.integer("attempt").value_or(0), call.who->user};
  if (services.secrets.empty()) {
    return Error{ErrorCode::kNotFound, "the host has no folder of secrets; start it with --secrets-dir"};
  }
  if (wanted.task.empty() || wanted.attempt == 0) {
    return Error{ErrorCode::kInvalidArgument, "name the task that the worker holds: ?task=wf-1.0&attempt=1"};
  }
  Follower& follower = services.host.follower();
  Holding held = Holding::kNotYet;
  const std::chrono::nanoseconds until = fiber::now() + kMostBehind;
  for (std::uint64_t index = 0; held == Holding::kNotYet && fiber::now() < until;) {
    const Result<std::uint64_t> read =
        follower.read([&](const fleet::State& state) { held = holding(state, wanted); }, index, until - fiber::now());
    if (read.code() == ErrorCode::kTimeout) break;
    if (!read.ok()) return read.error();
    index = *read + 1;
  }
  if (held != Holding::kYes) {
    ROTA_LOG(kWarn, "a secret was refused", {"secret", printable(wanted.name)}, {"task", printable(wanted.task)},
             {"attempt", wanted.attempt}, {"token", call.who->id}, {"from", call.request.peer});
    return Error{ErrorCode::kPermissionDenied, "this worker does not hold attempt " + std::to_string(wanted.attempt) +
                                                   " of a task '" + printable(wanted.task) +
                                                   "' that names this secret and version"};
  }
  Result<std::string> value =
      fiber::blocking([&] { return read_secret_file(services.secrets, wanted.name, wanted.version); });
  if (!value.ok()) {
    // The path is the administrator's business.
    ROTA_LOG(kWarn, "a secret could not be read", {"secret", printable(wanted.name)}, {"why", value.error().message});
    const bool missing = value.code() == ErrorCode::kNotFound;
    return Error{missing ? ErrorCode::kNotFound : ErrorCode::kFailedPrecondition,
                 missing ? "the host has no secret '" + secret_file_name(wanted.name, wanted.version) + "'"
                         : "the host cannot use its file of this secret; its log says why"};
  }
  ROTA_LOG(kInfo, "a secret was given to a worker", {"secret", wanted.name}, {"version", wanted.version},
           {"task", wanted.task}, {"attempt", wanted.attempt}, {"token", call.who->id}, {"from", call.request.peer});
  net::HttpResponse response;
  response.fields = {{"Content-Type", "application/octet-stream"}};
  response.body = std::move(*value);
  return response;
}

}  // namespace routes

}  // namespace rota::host
