#include "host/control_server.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "base/log.h"
#include "fleet/state.h"
#include "host/follower.h"
#include "rota/fiber/error.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/sync.h"
#include "rota/fiber/time.h"

namespace rota::host {

namespace {

constexpr std::chrono::milliseconds kAcceptAgainAfter{100};  // After an error, for example too many open files.

bool is_allowed(const fleet::Command& command) {
  return std::holds_alternative<fleet::SubmitWorkflow>(command) || std::holds_alternative<fleet::Control>(command) ||
         std::holds_alternative<fleet::SetPriority>(command) || std::holds_alternative<fleet::SetQuota>(command) ||
         std::holds_alternative<fleet::DrainWorker>(command) ||
         std::holds_alternative<fleet::SetWorkerEnabled>(command) ||
         std::holds_alternative<fleet::ForgetWorkflow>(command);
}

}  // namespace

void ControlServer::run() {
  fiber::Semaphore free(kMostConnections);
  try {
    fiber::with_scope([&](fiber::Nursery& nursery) {
      for (;;) {
        free.acquire();
        Result<std::unique_ptr<net::ByteStream>> stream = listener_.accept({});
        if (!stream.ok()) {
          free.release();
          if (stream.code() == ErrorCode::kClosed || stream.code() == ErrorCode::kCancelled) break;
          ROTA_LOG(kWarn, "control socket", {"why", stream.error().message});
          if (!fiber::sleep_for(kAcceptAgainAfter).ok()) break;
          continue;
        }
        nursery.launch([this, &free, stream = std::shared_ptr<net::ByteStream>(std::move(*stream))] {
          serve(*stream);
          free.release();
        });
      }
      nursery.cancel();  // A client that waits for the end of a workflow must not keep the host.
    });
  } catch (const fiber::Cancelled&) {
  }
}

void ControlServer::serve(net::ByteStream& stream) {
  for (;;) {
    const Result<std::string> content = read_frame(stream, kIdle);
    if (!content.ok()) {
      if (content.code() == ErrorCode::kTooLarge || content.code() == ErrorCode::kCorrupt) {
        (void)write_frame(stream, encode_control(ControlAnswer::refusal(content.error())), kIdle);
      }
      return;
    }
    const Result<ControlRequest> request = decode_control_request(*content);
    const ControlAnswer reply = request.ok() ? answer(*request) : ControlAnswer::refusal(request.error());
    if (!write_frame(stream, encode_control(reply), kIdle).ok() || !request.ok()) return;
  }
}

ControlAnswer ControlServer::answer(const ControlRequest& request) {
  return std::visit([&](const auto& one) { return answer_one(one); }, request);
}

ControlAnswer ControlServer::answer_one(const Ping&) {
  ControlAnswer reply;
  reply.index = host_.follower().index();
  return reply;
}

ControlAnswer ControlServer::answer_one(const Execute& request) {
  if (!is_allowed(request.command)) {
    return ControlAnswer::refusal(
        Error{ErrorCode::kPermissionDenied, "this command is not a user's; the control socket does not accept it"});
  }
  if (refusing_.load() && std::holds_alternative<fleet::SubmitWorkflow>(request.command)) {
    return ControlAnswer::refusal(Error{
        ErrorCode::kUnavailable, "the host is stopping and takes no more work; submit it again after the restart"});
  }
  const Result<fleet::Events> events = host_.execute(request.command);
  if (!events.ok()) {
    return ControlAnswer::refusal(events.code() == ErrorCode::kClosed
                                      ? Error{ErrorCode::kUnavailable,
                                              "the host stopped before it answered; whether it "
                                              "accepted the command is not known"}
                                      : events.error());
  }
  ControlAnswer reply;
  for (const fleet::Event& event : *events) {
    if (const auto* accepted = std::get_if<fleet::WorkflowAccepted>(&event)) {
      reply.workflow = accepted->workflow;
      reply.throttle = accepted->throttle;
    } else if (const auto* warned = std::get_if<fleet::PlacementWarned>(&event)) {
      const auto& stages = std::get<fleet::SubmitWorkflow>(request.command).workflow.stages;
      reply.warnings.push_back("no worker can run the stage '" + stages[warned->stage].name +
                               "' now: " + warned->requirement);
    }
  }
  // The client's next request sees what this one has changed.
  reply.index = host_.durable_index();
  (void)host_.follower().wait_for(reply.index, kIdle);
  return reply;
}

ControlAnswer ControlServer::answer_one(const AwaitEnd& request) {
  const auto until = fiber::now() + std::chrono::milliseconds(std::min(request.wait_ms, AwaitEnd::kMostWaitMs));
  ControlAnswer reply;
  for (;;) {
    bool known = false;
    const Result<std::uint64_t> read = host_.follower().read([&](const fleet::State& state) {
      const fleet::Workflow* workflow = state.find(request.workflow);
      known = workflow != nullptr;
      if (known) reply.outcome = workflow->outcome;
    });
    if (!read.ok()) return ControlAnswer::refusal(Error{ErrorCode::kUnavailable, "the host is stopping"});
    if (!known) {
      return ControlAnswer::refusal(
          Error{ErrorCode::kNotFound, "there is no workflow " + request.workflow.to_string() + " here"});
    }
    reply.index = *read;
    if (reply.outcome != fleet::Outcome::kRunning || fiber::now() >= until) return reply;
    if (host_.follower().wait_for(*read + 1, until - fiber::now()).code() == ErrorCode::kClosed) {
      return ControlAnswer::refusal(Error{ErrorCode::kUnavailable, "the host is stopping"});
    }
  }
}

}  // namespace rota::host
