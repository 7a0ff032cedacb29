#include "host/control_server.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "fleet/state.h"
#include "host/follower.h"
#include "host/scheduler.h"
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
         std::holds_alternative<fleet::ForgetWorkflow>(command) ||
         std::holds_alternative<fleet::SetSchedule>(command) || std::holds_alternative<fleet::ChangeSchedule>(command);
}

}  // namespace

void ControlServer::run() {
  try {
    fiber::with_scope([&](fiber::Nursery& nursery) {
      nursery.launch([this] { watch_ends(); });
      for (;;) {
        free_.acquire();
        Result<std::unique_ptr<net::ByteStream>> stream = listener_.accept({});
        if (!stream.ok()) {
          free_.release();
          if (stream.code() == ErrorCode::kClosed || stream.code() == ErrorCode::kCancelled) break;
          ROTA_LOG(kWarn, "control socket", {"why", stream.error().message});
          if (!fiber::sleep_for(kAcceptAgainAfter).ok()) break;
          continue;
        }
        nursery.launch([this, stream = std::shared_ptr<net::ByteStream>(std::move(*stream))] {
          Slot slot{free_};
          serve(*stream, slot);
        });
      }
      nursery.cancel();  // A client that waits for the end of a workflow must not keep the host.
    });
  } catch (const fiber::Cancelled&) {
  }
}

void ControlServer::serve(net::ByteStream& stream, Slot& slot) {
  for (;;) {
    slot.acquire();  // Unless it has it already: a client that has waited got its answer before.
    const Result<std::string> content = read_frame(stream, kIdle);
    if (!content.ok()) {
      if (content.code() == ErrorCode::kTooLarge || content.code() == ErrorCode::kCorrupt) {
        (void)write_frame(stream, encode_control(ControlAnswer::refusal(content.error())), kIdle);
      }
      return;
    }
    const Result<ControlRequest> request = decode_control_request(*content);
    const ControlAnswer reply = request.ok() ? answer(*request, slot) : ControlAnswer::refusal(request.error());
    if (!write_frame(stream, encode_control(reply), kIdle).ok() || !request.ok()) return;
  }
}

ControlAnswer ControlServer::answer(const ControlRequest& request, Slot& slot) {
  if (const auto* await = std::get_if<AwaitEnd>(&request)) return await_end(*await, slot);
  if (const auto* execute = std::get_if<Execute>(&request)) return answer_one(*execute);
  return answer_one(std::get<Ping>(request));
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
  if (const auto* submission = std::get_if<fleet::SubmitWorkflow>(&request.command)) {
    if (const Result<void> usable = check_client_key(submission->key); !usable.ok()) {
      return ControlAnswer::refusal(usable.error());
    }
  }
  const Result<fleet::Events> events = host_.execute(request.command, {.user = "local"});
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

ControlAnswer ControlServer::outcome_of(model::WorkflowId workflow) {
  ControlAnswer reply;
  bool known = false;
  const Result<std::uint64_t> read = host_.follower().read([&](const fleet::State& state) {
    const fleet::Workflow* found = state.find(workflow);
    known = found != nullptr;
    if (!known) return;
    reply.outcome = found->outcome;
    if (found->stopped != fleet::StopCause::kNone) {
      reply.details.push_back({std::string(kStoppedDetail), std::string(to_string(found->stopped))});
    }
  });
  if (!read.ok()) return ControlAnswer::refusal(Error{ErrorCode::kUnavailable, "the host is stopping"});
  if (!known) {
    return ControlAnswer::refusal(
        Error{ErrorCode::kNotFound, "there is no workflow " + workflow.to_string() + " here"});
  }
  reply.index = *read;
  return reply;
}

ControlAnswer ControlServer::await_end(const AwaitEnd& request, Slot& slot) {
  ControlAnswer reply = outcome_of(request.workflow);
  if (!reply.status().ok() || reply.outcome != fleet::Outcome::kRunning || request.wait_ms == 0) return reply;
  if (!free_to_wait_.try_acquire()) return reply;
  slot.release();  // Another client is served meanwhile.
  wait_for_end(request.workflow, std::chrono::milliseconds(std::min(request.wait_ms, AwaitEnd::kMostWaitMs)));
  free_to_wait_.release();
  reply = outcome_of(request.workflow);
  const sync::MutexLock lock(mutex_);
  if (stopping_ && reply.outcome == fleet::Outcome::kRunning) {
    return ControlAnswer::refusal(Error{ErrorCode::kUnavailable, "the host is stopping"});
  }
  return reply;
}

void ControlServer::wait_for_end(model::WorkflowId workflow, std::chrono::nanoseconds limit) {
  const auto event = std::make_shared<fiber::Event>();
  {
    const sync::MutexLock lock(mutex_);
    if (stopping_) return;
    waiting_.emplace(workflow, event);
  }
  somebody_waits_.set();
  // Only now, so that an end before the event was there is not missed.
  if (outcome_of(workflow).outcome == fleet::Outcome::kRunning) (void)event->wait_for(limit);
  const sync::MutexLock lock(mutex_);
  const auto [begin, end] = waiting_.equal_range(workflow);
  const auto found = std::find_if(begin, end, [&](const auto& each) { return each.second == event; });
  if (found != end) waiting_.erase(found);
}

void ControlServer::watch_ends() try {
  Follower& follower = host_.follower();
  for (;;) {
    somebody_waits_.wait();
    const std::uint64_t seen = follower.index();
    std::vector<std::shared_ptr<fiber::Event>> ended;
    const Result<std::uint64_t> read = follower.read([&](const fleet::State& state) {
      const sync::MutexLock lock(mutex_);
      if (waiting_.empty()) somebody_waits_.reset();
      for (auto at = waiting_.begin(); at != waiting_.end();) {
        const fleet::Workflow* workflow = state.find(at->first);
        const bool runs = workflow != nullptr && workflow->outcome == fleet::Outcome::kRunning;
        if (!runs) ended.push_back(std::move(at->second));
        at = runs ? std::next(at) : waiting_.erase(at);
      }
    });
    for (const std::shared_ptr<fiber::Event>& event : ended) event->set();
    const Result<void> more = follower.wait_for((read.ok() ? *read : seen) + 1, std::chrono::hours(1));
    if (more.code() == ErrorCode::kCancelled) return;
    if (more.code() == ErrorCode::kClosed) break;
  }
  Waiting waiting;
  {
    const sync::MutexLock lock(mutex_);
    stopping_ = true;
    waiting.swap(waiting_);
  }
  for (const auto& [workflow, event] : waiting) event->set();
} catch (const fiber::Cancelled&) {
}

}  // namespace rota::host
