#include "worker/engine.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "base/json_text.h"
#include "base/log.h"
#include "base/nearest.h"
#include "base/sim_hooks.h"
#include "model/json.h"
#include "rota/fiber/error.h"
#include "rota/fiber/time.h"
#include "worker/handler_attempt.h"
#include "worker/task_check.h"

namespace rota::worker {

using model::AcknowledgeReport;
using model::Assign;
using model::AttemptAction;
using model::AttemptEnd;
using model::AttemptOutcome;
using model::ControlAttempt;
using model::FromWorker;
using model::RegisterAgain;
using model::Report;
using std::chrono::nanoseconds;

namespace {
constexpr nanoseconds kLong = std::chrono::hours(24);
constexpr nanoseconds kRetryAfter = std::chrono::milliseconds(200);  // When the bus cannot be reached.

// The message of `{"$error": "..."}`, by which a batch says that one of its tasks failed; nothing for other results.
std::optional<std::string> child_error(std::string_view value) {
  if (model::json_kind(value) != model::JsonKind::kObject) return std::nullopt;
  const auto members = model::json_members(value);
  if (members.size() != 1 || members.front().first != "$error") return std::nullopt;
  const std::string_view message = members.front().second;
  return model::json_kind(message) == model::JsonKind::kString ? model::json_unescape(message) : std::string(message);
}

AttemptOutcome ended_before_start(AttemptEnd end, std::string message) {
  AttemptOutcome outcome;
  outcome.end = end;
  outcome.message = std::move(message);
  return outcome;
}

}  // namespace

Engine::Engine(const WorkerOptions& options)
    : options_(options), spec_(options.spec), table_(options.spec.resources, options.waiting_most) {
  std::sort(spec_.capabilities.begin(), spec_.capabilities.end());
  std::sort(spec_.labels.begin(), spec_.labels.end());
  spec_.handlers.clear();
}

Engine::~Engine() = default;

Result<void> Engine::handle(std::string type, TaskHandler handler) {
  if (type.empty() || handler == nullptr) {
    return Error{ErrorCode::kInvalidArgument, "a handler needs a type and a function; one of the two is empty"};
  }
  if (handlers_.contains(type)) {
    return Error{ErrorCode::kAlreadyExists, "a handler for '" + printable(type) + "' is registered already"};
  }
  spec_.handlers.insert(std::upper_bound(spec_.handlers.begin(), spec_.handlers.end(), type), type);
  handlers_.emplace(std::move(type), std::move(handler));
  return {};
}

Result<void> Engine::run(bus::WorkerEnd& bus, const Surroundings& surroundings) {
  {
    const sync::MutexLock lock(mutex_);
    if (std::exchange(ran_, true)) {
      return Error{ErrorCode::kFailedPrecondition, "this worker has run already; make a new one"};
    }
    surroundings_ = surroundings;
    for (const model::CacheItem& item : surroundings.cached) caches_.emplace(item.item, item.used_ns);
    wall_offset_ns_.store(surroundings.wall_offset_ns);
  }
  try {
    fiber::with_scope([&](fiber::Nursery& nursery) { serve(bus, nursery); });
  } catch (const fiber::Cancelled&) {
    return ErrorCode::kCancelled;
  } catch (const fiber::FiberError& error) {
    // The scope takes no more tasks from the moment of a cancellation on, so a spawn may learn of it before a wait
    // does.
    if (error.code() != ErrorCode::kNurseryNotActive) throw;
    return ErrorCode::kCancelled;
  }
  return {};
}

// Ends in this order: no more tasks start; running tasks end; their reports are acknowledged, or that takes too long;
// the receiver, the heartbeat and the sender end. If this task is cancelled, all of them are cancelled.
void Engine::serve(bus::WorkerEnd& bus, fiber::Nursery& nursery) {
  nursery_ = &nursery;
  send_registration(bus);
  if (surroundings_.executor != nullptr && options_.expect_programs) {
    nursery.launch([this] { surroundings_.executor->prepare(); });
  }
  nursery.launch([this, &bus] { send_all(bus); });
  nursery.launch([this, &bus] { heartbeat(bus); });
  fiber::Task<void> receiver = nursery.spawn([this, &bus] { receive_all(bus); });
  stopping_.wait();
  drained_.wait();
  (void)acknowledged_.wait_for(2 * options_.heartbeat_every);
  over_.store(true);
  wake_.set();
  receiver.cancel();
  receiver.wait();
  outbox_.close();
}

void Engine::stop() {
  std::vector<std::shared_ptr<Attempt>> queued;
  std::vector<std::shared_ptr<Attempt>> standing_by;
  bool ran = false;
  {
    const sync::MutexLock lock(mutex_);
    if (std::exchange(stop_, true)) return;
    ran = ran_;
    queued = table_.attempts_in(Phase::kQueued);
    standing_by = table_.attempts_in(Phase::kStandingBy);
    note_state();
  }
  if (ran) send(model::Leave{surroundings_.incarnation});  // Otherwise the registration is followed by it.
  for (const auto& attempt : queued) {
    ROTA_SOMETIMES("worker: gives a queued task back when it leaves");
    if (!ROTA_GUARD("worker: gives queued tasks back when it leaves", true)) break;
    end_queued(attempt, ended_before_start(AttemptEnd::kPreempted, "the worker is leaving"));
  }
  for (const auto& attempt : standing_by) attempt->control(AttemptAction::kPreempt);
  stopping_.set();
}

void Engine::stop_tasks() {
  stop();
  std::vector<std::shared_ptr<Attempt>> running;
  {
    const sync::MutexLock lock(mutex_);
    running = table_.attempts_in(Phase::kRunning);
  }
  for (const std::shared_ptr<Attempt>& attempt : running) attempt->control(AttemptAction::kPreempt);
}

void Engine::note_state() {
  if (!stop_ || table_.waiting() + table_.running() > 0) return;
  drained_.set();
  if (table_.count(Phase::kReporting) == 0) acknowledged_.set();
}

// ---------------------------------------------------------------------------------------------------------- messages

void Engine::receive_all(bus::WorkerEnd& bus) {
  for (;;) {
    Result<bus::DeliveryToWorker> delivery = bus.receive(deaf_.load() ? kRetryAfter : kLong);
    if ((delivery.ok() || delivery.code() == ErrorCode::kTimeout) && deaf_.load()) {
      deaf_.store(false);
      wake_.set();  // The registration.
    }
    if (!delivery.ok()) {
      if (delivery.code() == ErrorCode::kCancelled) return;
      if (delivery.code() == ErrorCode::kTimeout) continue;
      if (delivery.code() == ErrorCode::kClosed) {
        // Closed for good, for example because another process has this worker's name: nobody would hear of the end of
        // a task, and its host has given it to another worker.
        stop_tasks();
        acknowledged_.set();
        return;
      }
      if (ROTA_GUARD("worker: registers after an outage", true)) registration_needed_.store(true);
      deaf_.store(true);
      if (!fiber::sleep_for(kRetryAfter).ok()) return;
      continue;
    }
    std::visit([this](auto& message) { on(message); }, delivery->message);
    // If this fails, the message is delivered again, and recognised as known.
    (void)bus.acknowledge(delivery->id);
  }
}

// A message of an older term is late, or it comes from a host that does not know of the newer one: a host that recorded
// nothing had it, and the clock went back since. The registration names the newer term, and the host goes beyond it.
bool Engine::hear(model::Term term) {
  if (table_.hear(term)) return true;
  ROTA_SOMETIMES("worker: hears of an older term");
  registration_needed_.store(true);
  wake_.set();
  return false;
}

void Engine::on(Assign& assign) {
  {
    const sync::MutexLock lock(mutex_);
    const bool is_current = hear(assign.term);
    if (ROTA_GUARD("worker: ignores assignments of an older term", !is_current)) {
      ROTA_SOMETIMES("worker: ignores an assignment of an older term");
      return;
    }
  }
  if (ROTA_GUARD("worker: ignores assignments for an earlier life", !is_for(assign, surroundings_.incarnation))) {
    ROTA_SOMETIMES("worker: ignores an assignment for an earlier life");
    // The host assigns the task again when it hears of the restart. The registration was sent before anything was read.
    ROTA_LOG(kInfo, "an assignment for an earlier process of this worker is ignored", {"worker", spec_.name},
             {"task", assign.identity.name}, {"attempt", assign.id.attempt.value()});
    return;
  }
  take(make_attempt(std::move(assign)));
}

std::string Engine::refusal_of(const Assign& assign) const {
  if (!assign.merged.empty() && assign.merged.front().id != assign.id) {
    return "the list of merged tasks does not begin with the task itself; update the host";
  }
  if (assign.spec.program && surroundings_.executor == nullptr) {
    return "this worker runs handlers only, not programs; start a worker that runs programs";
  }
  if (!assign.spec.program && !handlers_.contains(assign.spec.type)) {
    const std::string_view near = nearest(assign.spec.type, spec_.handlers);
    return "this worker has no handler for '" + printable(assign.spec.type) + "'" +
           (near.empty() ? "" : "; did you mean '" + std::string(near) + "'?");
  }
  const Result<void> valid = validate(assign.spec);
  return valid.ok() ? std::string() : "the task's specification: " + valid.error().message;
}

std::shared_ptr<Attempt> Engine::make_attempt(Assign assign) {
  AttemptHost& self = *this;
  if (std::string why = refusal_of(assign); !why.empty()) {
    return std::make_shared<RefusedAttempt>(self, std::move(assign), std::move(why));
  }
  if (options_.kept_result && assign.merged.empty() && !assign.spec.cache) {
    if (std::optional<KeptResult> kept =
            options_.kept_result(assign.id.task, assign.identity.stage, assign.identity.item);
        kept &&
        (kept->outputs.empty() || (surroundings_.files != nullptr && surroundings_.files->has(kept->outputs)))) {
      return std::make_shared<KeptAttempt>(self, std::move(assign), std::move(*kept));
    }
  }
  if (assign.spec.program) return std::make_shared<ProgramAttempt>(self, std::move(assign), *surroundings_.executor);
  const TaskHandler& handler = handlers_.find(assign.spec.type)->second;
  return std::make_shared<HandlerAttempt>(self, std::move(assign), handler);
}

void Engine::take(const std::shared_ptr<Attempt>& attempt) {
  using Verdict = TaskTable::Verdict;
  Verdict verdict{};
  bool stopping = false;
  std::shared_ptr<Attempt> older;
  std::optional<Report> again;
  {
    const sync::MutexLock lock(mutex_);
    stopping = stop_;
    verdict = table_.offer(attempt);
    if (verdict == Verdict::kAfterOlder) older = table_.find(attempt->id().task)->attempt;
    if (verdict == Verdict::kReportAgain) again = table_.find(attempt->id().task)->final->report;
  }
  if (verdict == Verdict::kKnown) return;
  if (again) return report(std::move(*again));
  if (older != nullptr) return stop_older(older);  // The host has given up the older attempt.
  AttemptOutcome refused;
  if (stopping) {
    refused = ended_before_start(AttemptEnd::kPreempted, "the worker is leaving");
  } else if (!attempt->refusal().empty()) {
    refused.message = attempt->refusal();
  } else if (attempt->stop_reason() != StopReason::kNone) {
    refused = attempt->stopped_before_start();
  } else if (verdict == Verdict::kImpossible) {
    refused.message = "the task needs " + model::to_text(attempt->assign().resources) + "; this worker has only " +
                      model::to_text(spec_.resources);
  } else if (verdict == Verdict::kFull) {
    refused.message =
        std::to_string(options_.waiting_most) + " tasks wait at this worker already, and it takes no more";
  } else {
    return start_ready();
  }
  end_queued(attempt, std::move(refused));
}

// The older attempt is stopped by itself and not by its id, which a newer attempt of another log may share.
void Engine::stop_older(const std::shared_ptr<Attempt>& older) {
  bool queued = false;
  {
    const sync::MutexLock lock(mutex_);
    queued = table_.is_in(Phase::kQueued, older->id());
  }
  older->control(AttemptAction::kCancel);
  if (queued && end_queued(older, older->stopped_before_start())) start_ready();
}

void Engine::on(const ControlAttempt& control) {
  std::shared_ptr<Attempt> attempt;
  bool queued = false;
  {
    const sync::MutexLock lock(mutex_);
    if (!hear(control.term) || !is_for(control, surroundings_.incarnation)) return;
    attempt = table_.find_attempt(control.id, control.assigned_ns);
    if (attempt == nullptr) return;
    if (!attempt->take_in_order(control)) {
      ROTA_SOMETIMES("worker: ignores a late copy of a control message");
      if (ROTA_GUARD("worker: ignores controls that were undone", true)) return;
    }
    queued = table_.is_in(Phase::kQueued, control.id);
    if (control.action == AttemptAction::kCancel) table_.note_cancelled(control.id, control.term);
  }
  if (control.action == AttemptAction::kRecall) {
    // end_queued() looks again: if it has started in the meantime, it runs on.
    if (queued && end_queued(attempt, ended_before_start(AttemptEnd::kPreempted, "recalled"))) start_ready();
    return;
  }
  attempt->control(control.action);
  const bool stops = control.action == AttemptAction::kCancel || control.action == AttemptAction::kPreempt;
  if (!queued || !stops) return;
  if (end_queued(attempt, attempt->stopped_before_start()))
    start_ready();  // It may have been the one that did not fit.
}

void Engine::on(const AcknowledgeReport& acknowledge) {
  const sync::MutexLock lock(mutex_);
  if (!hear(acknowledge.term)) return;
  table_.acknowledge(acknowledge.id, acknowledge.assigned_ns);
  note_state();
}

void Engine::on(const RegisterAgain& again) {
  {
    const sync::MutexLock lock(mutex_);
    if (!hear(again.term)) return;
  }
  // The heartbeat sends it: this task must never wait for room on the bus, or a host that waits for room, too, would
  // wait for ever.
  if (!ROTA_GUARD("worker: registers when it is asked to", true)) return;
  ROTA_SOMETIMES("worker: is asked to register again");
  registration_needed_.store(true);
  wake_.set();
}

void Engine::on(const model::LeaveFleet& leave) {
  {
    const sync::MutexLock lock(mutex_);
    if (!hear(leave.term) || !is_for(leave, surroundings_.incarnation)) return;
  }
  ROTA_LOG(kInfo, "leaving: the host drains this worker; running tasks may end", {"worker", spec_.name});
  stop();
}

// ---------------------------------------------------------------------------------------------------------- attempts

void Engine::start_ready() {
  for (;;) {
    TaskTable::Start next;
    {
      const sync::MutexLock lock(mutex_);
      if (!stop_) next = table_.start_next();
      if (next.attempt == nullptr) break;
      if (next.stood_by) tell_started(*next.attempt, clock().at(fiber::now()));
    }
    if (next.stood_by) {
      next.attempt->go();
    } else {
      send(started(*next.attempt, clock().at(fiber::now())));
      launch(next.attempt);
    }
  }
  std::vector<std::shared_ptr<Attempt>> chosen;
  {
    const sync::MutexLock lock(mutex_);
    if (!stop_) chosen = table_.choose_stand_by();
    for (const std::shared_ptr<Attempt>& attempt : chosen) attempt->stand_by();
  }
  for (const std::shared_ptr<Attempt>& attempt : chosen) launch(attempt);
}

void Engine::launch(const std::shared_ptr<Attempt>& attempt) {
  // Refused while the worker is being cancelled: then nothing more runs, and no report is sent.
  (void)nursery_->try_spawn([this, attempt] { run_attempt(attempt); });
}

Report Engine::started(const Attempt& attempt, std::int64_t started_ns) {
  return {.id = attempt.id(),
          .term = attempt.term(),
          .body = model::Started{started_ns},
          .assigned_ns = attempt.assign().assigned_ns};
}

// Under the lock, and so without waiting: no later report of this attempt can be sent before this one.
void Engine::tell_started(const Attempt& attempt, std::int64_t started_ns) {
  if (table_.set_told_started(attempt.id())) (void)outbox_.try_send(started(attempt, started_ns));
}

void Engine::run_attempt(const std::shared_ptr<Attempt>& attempt) {
  AttemptResult result = attempt->run();
  const std::int64_t started_ns = result.outcome.started_ns;
  const std::int64_t ended_ns = result.outcome.ended_ns;
  std::vector<Report> reports = final_reports(*attempt, std::move(result.outcome));
  std::shared_ptr<Attempt> newer;
  {
    const sync::MutexLock lock(mutex_);
    // It has run in the place of an attempt whose end this worker has not seen yet.
    if (started_ns != 0 && table_.is_in(Phase::kStandingBy, attempt->id())) tell_started(*attempt, started_ns);
    newer = end_attempt(*attempt, &reports);
    if (const std::shared_ptr<Attempt> next = table_.start_in_place(result.next)) {
      ROTA_SOMETIMES("worker: a program starts in the place of another");
      tell_started(*next, ended_ns);
    }
    if (newer == nullptr) note_state();  // Otherwise the newer attempt is still to be queued.
  }
  for (Report& report : reports) send(std::move(report));
  if (newer != nullptr) take(newer);
  start_ready();
}

std::shared_ptr<Attempt> Engine::end_attempt(const Attempt& attempt, std::vector<Report>* reports) {
  std::shared_ptr<Attempt> newer = table_.take_newer(attempt.id().task);
  const nanoseconds now = fiber::now();
  std::vector<Report> kept;  // A loop, because the thread-safety analysis does not see the lock inside a lambda.
  for (Report& report : *reports) {
    if (table_.end(report, now)) kept.push_back(std::move(report));
  }
  *reports = std::move(kept);
  return newer;
}

bool Engine::end_queued(const std::shared_ptr<Attempt>& attempt, AttemptOutcome outcome) {
  std::vector<Report> reports = final_reports(*attempt, std::move(outcome));
  std::shared_ptr<Attempt> newer;
  {
    const sync::MutexLock lock(mutex_);
    if (!table_.is_in(Phase::kQueued, attempt->id())) return false;
    newer = end_attempt(*attempt, &reports);
    if (newer == nullptr) note_state();
  }
  for (Report& report : reports) send(std::move(report));
  if (newer != nullptr) take(newer);
  return true;
}

std::vector<Report> Engine::final_reports(const Attempt& attempt, AttemptOutcome outcome) {
  const std::vector<model::MergedTask>& merged = attempt.assign().merged;
  const model::Term term = attempt.term();
  const std::int64_t assigned_ns = attempt.assign().assigned_ns;
  std::vector<Report> reports;
  if (merged.empty()) {
    reports.push_back({attempt.id(), term, model::Ended{std::move(outcome)}, assigned_ns});
    return reports;
  }
  // A refused assignment: the list of merged tasks does not contain the task itself (refusal_of()).
  if (merged.front().id != attempt.id()) reports.push_back({attempt.id(), term, model::Ended{outcome}, assigned_ns});
  const std::string array = std::exchange(outcome.result, {});
  std::vector<std::string_view> values;
  if (outcome.end == AttemptEnd::kSucceeded) {
    if (model::json_kind(array) == model::JsonKind::kArray) values = model::json_elements(array);
    if (values.size() != merged.size()) {
      outcome.end = AttemptEnd::kFailed;
      outcome.message = "the result of " + std::to_string(merged.size()) +
                        " merged tasks must be a JSON array with one value per task, in their order";
    }
  }
  // One of them may be the reason why all of them failed: the host runs each alone.
  outcome.batch = outcome.end == AttemptEnd::kFailed && merged.size() > 1;
  for (std::size_t i = 0; i < merged.size(); ++i) {
    AttemptOutcome own = outcome;
    if (own.end == AttemptEnd::kSucceeded) {
      if (std::optional<std::string> error = child_error(values[i])) {
        own.end = AttemptEnd::kFailed;
        own.message = std::move(*error);
      } else {
        own.result = values[i];
      }
    }
    reports.push_back({merged[i].id, term, model::Ended{std::move(own)}, assigned_ns});
    outcome.cpu_us = 0;  // The use of resources is reported once, for the leading task.
    outcome.max_rss_bytes = 0;
  }
  return reports;
}

// ------------------------------------------------------------------------------------------------------------ sending

void Engine::report(Report report) {
  if (const auto* cached = std::get_if<model::Cached>(&report.body)) note_cached(cached->item);
  send(std::move(report));
}

// In a cancelled task, which may want to save a checkpoint, a report is still sent if there is room for it.
void Engine::send(FromWorker message) {
  if (outbox_.try_send(std::move(message)).code() != ErrorCode::kWouldBlock) return;
  (void)outbox_.send(std::move(message));
}

void Engine::note_cached(const std::string& item) {
  const sync::MutexLock lock(mutex_);
  caches_[item] = clock().at(fiber::now());
  if (caches_.size() <= kMostCacheItems) return;
  caches_.erase(std::min_element(caches_.begin(), caches_.end(),
                                 [](const auto& a, const auto& b) { return a.second < b.second; }));
}

void Engine::send_all(bus::WorkerEnd& bus) {
  while (std::optional<FromWorker> message = outbox_.receive()) {
    // A message that cannot be sent is dropped. The heartbeat sends final reports, and Leave, again.
    const Result<void> sent = bus.send(std::move(*message));
    if (sent.code() == ErrorCode::kCancelled) return;
    if (!sent.ok() && sent.code() != ErrorCode::kClosed) registration_needed_.store(true);
  }
}

bool Engine::send_registration(bus::WorkerEnd& bus) {
  model::Register hello{.incarnation = surroundings_.incarnation, .worker = spec_};
  bool leaving = false;
  registration_needed_.store(false);  // Before the table is read: a request that arrives later is answered again.
  {
    const sync::MutexLock lock(mutex_);
    leaving = stop_;
    if (ROTA_GUARD("worker: says which attempts it holds", true)) hello.held = table_.held();
    hello.term = table_.term();
    for (const auto& [item, used_ns] : caches_) hello.caches.push_back({item, used_ns});
  }
  bool sent = bus.send(std::move(hello)).ok();
  if (sent && leaving) sent = bus.send(model::Leave{surroundings_.incarnation}).ok();
  if (!sent) registration_needed_.store(true);
  return sent;
}

void Engine::heartbeat(bus::WorkerEnd& bus) {
  for (;;) {
    (void)wake_.wait_for(options_.heartbeat_every);
    wake_.reset();
    if (over_.load()) return;
    if (surroundings_.measure_wall_offset_ns) wall_offset_ns_.store(surroundings_.measure_wall_offset_ns());
    // A worker that cannot read what it is sent must not seem alive: it would be given tasks.
    if (deaf_.load()) continue;
    if (registration_needed_.load() && !send_registration(bus)) continue;
    std::vector<Report> again;
    bool drained = false;
    {
      const sync::MutexLock lock(mutex_);
      drained = stop_ && table_.waiting() + table_.running() == 0;
      const nanoseconds now = fiber::now();
      if (ROTA_GUARD("worker: sends reports again", true)) {
        again = table_.reports_to_resend(now, now - options_.heartbeat_every);
      }
      if (!again.empty()) ROTA_SOMETIMES("worker: sends a final report again");
    }
    // A host forgets a worker that leaves and has no tasks. A heartbeat would make it ask for a registration, which is
    // followed by Leave and by the next heartbeat, and so on, as fast as messages travel.
    if (!drained && !bus.send(model::Heartbeat{surroundings_.incarnation}).ok()) continue;
    for (Report& report : again) {
      if (!bus.send(std::move(report)).ok()) break;
    }
  }
}

}  // namespace rota::worker
