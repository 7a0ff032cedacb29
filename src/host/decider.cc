#include "host/decider.h"

#include <algorithm>
#include <utility>

#include "base/json_text.h"
#include "base/log.h"
#include "base/sim_hooks.h"
#include "base/units.h"
#include "fleet/codec.h"
#include "host/assignment.h"

namespace rota::host {

using graph::TaskState;
using model::AttemptAction;
using model::AttemptEnd;
using model::TaskId;

namespace {

// A record holds the command and its events. A command whose record could exceed the ledger's limit must be refused
// before it is decided.
constexpr std::size_t kMostCommandBytes = ledger::kMaxRecordBytes / 2;
constexpr std::size_t kMostNoteBytes = 4096;
constexpr std::int64_t kLate = 1'000'000'000;
constexpr std::uint64_t kMostTermGap = std::uint64_t{100} * 365 * 86'400'000;  // Milliseconds in a hundred years.

Result<void> check_size(const fleet::Command& command) {
  if (!std::holds_alternative<fleet::SubmitWorkflow>(command)) return {};
  std::string bytes;
  model::encode(command, bytes);
  if (bytes.size() <= kMostCommandBytes) return {};
  return Error{ErrorCode::kTooLarge, "the workflow has " + std::to_string(bytes.size()) +
                                         " bytes in the log's encoding; at most " + std::to_string(kMostCommandBytes) +
                                         " are allowed. Split it, or keep its data in files"};
}

// The action that carries out a stop of the brain's at the worker.
AttemptAction action_of(fleet::StopReason reason) {
  return reason == fleet::StopReason::kCancel ? AttemptAction::kCancel : AttemptAction::kPreempt;
}

std::string_view name_of(const fleet::Command& command) {
  return std::visit([](const auto& c) { return c.kName; }, command);
}

}  // namespace

Decider::Decider(const HostOptions& options, Recovered recovered, std::optional<model::Term> issued)
    : options_(options),
      issued_(issued.has_value()),
      brain_(std::move(recovered.brain)),
      chain_(recovered.position.chain),
      awaited_(options.await_workers),
      in_order_(options.registration_order.empty()) {
  if (issued) {
    brain_.set_term(*issued);
  } else {
    brain_.set_term(ROTA_GUARD("host: each start has a new term", true)
                        ? recovered.position.term.next()
                        : std::max(recovered.position.term, model::Term(1)));
  }
}

void Decider::begin(std::int64_t wall_ns) {
  wall_ns_ = wall_ns;
  // A host whose log was lost, or restored from an older copy, must not have a term that its workers know already: they
  // would ignore it.
  if (!issued_ && ROTA_GUARD("host: each start has a new term", true)) {
    brain_.set_term(std::max(brain_.term(),
                             model::Term(static_cast<std::uint64_t>(std::max<std::int64_t>(wall_ns, 0)) / 1'000'000)));
  }
  if (options_.policy && *options_.policy != brain_.state().policy()) execute(fleet::SetPolicy{*options_.policy});
  give_back_all();
  brain_.state().each_worker([&](const fleet::Worker& worker) {
    names_.emplace(worker.id, worker.spec.name);
    if (!worker.reachable || worker.left) return;
    unheard_.insert(worker.spec.name);
    silence_.add(worker.spec.name, wall_ns);  // Of this host's life: it gets a full TTL.
    batch_.effects.emplace_back(Presence{worker.spec.name, true});
  });
}

// Workers ended with the process of the previous host. First all of them are disabled, so that a task that is given
// back is not assigned to the next of them; then all tasks are given back; then the workers are lost until they
// register.
void Decider::give_back_all() {
  if (options_.ends_with_host == nullptr) return;
  std::vector<std::string> names;
  std::vector<fleet::ReportUndeliverable> running;
  brain_.state().each_worker([&](const fleet::Worker& worker) {
    if (!worker.reachable || worker.left || !options_.ends_with_host(worker.spec)) return;
    names.push_back(worker.spec.name);
    for (const fleet::Execution& execution : worker.executions) {
      for (const TaskId task : execution.members) running.push_back({task, brain_.state().at(task).attempt});
    }
  });
  struct Toggle {
    std::string name;
    bool held;  // An operator had enabled it.
  };
  std::vector<Toggle> enabled;
  for (const std::string& name : names) {
    const fleet::Worker& worker = *brain_.state().find_worker(name);
    if (!worker.disabled_by_hand) enabled.push_back({name, worker.enabled_by_hand});
    execute(fleet::SetWorkerEnabled{name, false});
  }
  for (const fleet::ReportUndeliverable& report : running) execute(report);
  for (const std::string& name : names) execute(fleet::WorkerLost{name, "it ended with the host"});
  for (const Toggle& toggle : enabled) execute(fleet::SetWorkerEnabled{toggle.name, true, toggle.held});
  // They are not there to receive a message.
  std::erase_if(batch_.effects, [&](const Effect& effect) {
    const auto* to_send = std::get_if<ToSend>(&effect);
    return to_send != nullptr && std::find(names.begin(), names.end(), to_send->worker) != names.end();
  });
}

// ------------------------------------------------------------------------------------------------------------ inputs

void Decider::take(Input input, std::int64_t wall_ns) {
  wall_ns_ = wall_ns;
  if (auto* command = std::get_if<fleet::Command>(&input.what)) {
    if (awaited_ > 0 && std::holds_alternative<fleet::SubmitWorkflow>(*command))
      return held_.push_back(std::move(input));
    execute(std::move(*command), std::move(input.answer), std::move(input.origin));
  } else if (auto* inspection = std::get_if<Inspection>(&input.what)) {
    inspection->look(brain_.state());
    if (!inspection->durable) return input.answer.give(fleet::Events{});
    batch_.effects.emplace_back(Answered{std::move(input.answer), fleet::Events{}});
  } else {
    const auto& delivery = std::get<bus::DeliveryFromWorker>(input.what);
    handle(delivery, input.port);
    if (batch_.received.size() <= input.port) batch_.received.resize(input.port + 1);
    batch_.received[input.port] = delivery.id;
  }
}

bool Decider::tick(std::int64_t wall_ns) {
  wall_ns_ = wall_ns;
  const std::uint64_t before = index();
  if (brain_.next_due_ns() <= wall_ns) execute(fleet::Tick{});
  // A host that looks this late was stopped or blocked, and its workers' messages still wait to be taken.
  if (silence_.next_due_ns(ttl_ns()) <= wall_ns - kLate) silence_.listening_since(wall_ns);
  while (const std::optional<std::string> worker = silence_.take_silent(wall_ns, ttl_ns())) {
    ROTA_SOMETIMES("host: a worker is silent for too long");
    if (!ROTA_GUARD("host: reports silent workers", true)) continue;
    execute(fleet::WorkerLost{*worker, "no heartbeat for " + format_duration(Duration(ttl_ns()))});
  }
  return index() != before;
}

std::int64_t Decider::next_due_ns() const { return std::min(brain_.next_due_ns(), silence_.next_due_ns(ttl_ns())); }
std::int64_t Decider::ttl_ns() const { return brain_.state().policy().heartbeat_ttl_ms * 1'000'000; }

Decider::Output Decider::finish(std::int64_t wall_ns) {
  wall_ns_ = wall_ns;
  if (!back_.empty()) execute(fleet::Heartbeats{std::exchange(back_, {})});
  Output output{std::move(records_), std::move(batch_)};
  records_.clear();
  batch_ = {};
  output.batch.durable = index();
  output.batch.chain = chain_;
  return output;
}

void Decider::handle(const bus::DeliveryFromWorker& delivery, Port port) {
  const auto [heard_on, first] = ports_.try_emplace(delivery.worker, port);
  if (port > heard_on->second) {
    // Two workers of one name on two buses would take it from each other for ever. The earlier bus has the host's own.
    const fleet::Worker* owner = brain_.state().find_worker(delivery.worker);
    if (owner != nullptr && owner->reachable && !owner->left) {
      if (ignored_.insert(delivery.worker).second) {
        ROTA_LOG(kError, "a worker has the name of another one, and is ignored; give each worker a name of its own",
                 {"worker", delivery.worker});
      }
      return;
    }
  }
  heard_on->second = port;
  if (!is_of_earlier_life(delivery)) silence_.heard(delivery.worker, wall_ns_);
  if (const auto unheard = unheard_.find(delivery.worker); unheard != unheard_.end()) {
    unheard_.erase(unheard);
    const fleet::Worker* worker = brain_.state().find_worker(delivery.worker);
    // A registration says which attempts the worker has, and is handled by itself.
    if (worker != nullptr && !std::holds_alternative<model::Register>(delivery.message) &&
        ROTA_GUARD("host: sends again after a restart", true)) {
      ROTA_SOMETIMES("host: sends again after a restart");
      resend(*worker);
    }
  }
  std::visit([&](const auto& message) { on(delivery.worker, message); }, delivery.message);
}

// Such a heartbeat does not prove that the registered process lives.
bool Decider::is_of_earlier_life(const bus::DeliveryFromWorker& delivery) const {
  const auto* heartbeat = std::get_if<model::Heartbeat>(&delivery.message);
  const fleet::Worker* known = brain_.state().find_worker(delivery.worker);
  if (heartbeat == nullptr || known == nullptr || heartbeat->incarnation.is_none()) return false;
  return !known->lives_as(heartbeat->incarnation) && known->lived_as(heartbeat->incarnation);
}

bool Decider::is_registered(const std::string& worker, model::Incarnation incarnation) {
  const fleet::Worker* known = brain_.state().find_worker(worker);
  if (known != nullptr && (incarnation.is_none() || known->lives_as(incarnation))) return true;
  // A message of an earlier life of this worker is late; its sender no longer exists. But a worker that is lost may be
  // that earlier life: a late registration had displaced it after the brain had forgotten its incarnations.
  if (known != nullptr && known->reachable && known->lived_as(incarnation)) return false;
  send(worker, model::RegisterAgain{brain_.term()});
  return false;
}

void Decider::on(const std::string& worker, const model::Register& message) {
  const auto& order = options_.registration_order;
  if (in_order_ || std::find(order.begin(), order.end(), worker) == order.end()) {
    return take_registration(worker, message);
  }
  early_[worker] = message;
  if (early_.size() < order.size()) return;
  in_order_ = true;
  for (const std::string& name : order) take_registration(name, early_.at(name));
  early_.clear();
}

void Decider::take_registration(const std::string& worker, const model::Register& message) {
  // The worker heard a newer term from a host whose log is lost, and whose clock was ahead: it would ignore this host.
  // A term that no clock can have caused is a mistake of the worker's.
  if (message.term > brain_.term() && message.term.value() - brain_.term().value() < kMostTermGap) {
    if (issued_) {
      newer_term_ = message.term;
      return;
    }
    ROTA_LOG(kWarn, "a worker has heard of a newer term; is the clock of this machine behind?", {"worker", worker},
             {"term", message.term.value()});
    brain_.set_term(message.term.next());
  }
  const fleet::Worker* known = brain_.state().find_worker(worker);
  // The same process after an outage of the bus, or the same message twice: the worker still has its tasks, and is sent
  // again what it may have missed.
  const bool again = known != nullptr && known->reachable && known->lives_as(message.incarnation);
  const model::WorkerId id = known == nullptr ? model::WorkerId() : known->id;
  // Attempts that the brain gave up while the worker was silent, or that another log knows, are cancelled: their
  // results would be ignored. First those that are unknown now: the registration may assign a task of the same number.
  std::vector<model::HeldAttempt> held;
  const auto cancel = [&](const model::HeldAttempt& attempt) {
    send(worker, model::ControlAttempt{attempt.id, brain_.term(), AttemptAction::kCancel, attempt.assigned_ns,
                                       message.incarnation, brain_.state().globals().index});
  };
  for (const model::HeldAttempt& attempt : message.held) {
    if (is_wanted(worker, attempt)) {
      held.push_back(attempt);
    } else {
      ROTA_SOMETIMES("host: a worker has an attempt that does not count any more");
      cancel(attempt);
    }
  }
  model::WorkerSpec spec = message.worker;
  spec.name = worker;
  execute(fleet::RegisterWorker{std::move(spec), message.caches, message.incarnation});
  known = brain_.state().find_worker(worker);
  if (known == nullptr) return;
  if (again && known->id == id && ROTA_GUARD("host: sends again after a registration", true)) {
    ROTA_SOMETIMES("host: sends again after a registration");
    resend(*known);
  }
  for (const model::HeldAttempt& attempt : held) {
    if (!is_wanted(worker, attempt)) cancel(attempt);
  }
  if (again || awaited_ == 0 || --awaited_ > 0) return;
  for (Input& input : std::exchange(held_, {})) take(std::move(input), wall_ns_);
}

bool Decider::is_wanted(const std::string& worker, const model::HeldAttempt& attempt) const {
  const fleet::State& state = brain_.state();
  const fleet::Worker* known = state.find_worker(worker);
  const TaskId task = attempt.id.task;
  return known != nullptr && execution_of(state, task) != nullptr && state.at(task).worker == known->id &&
         is_of_this_log(attempt.id, attempt.assigned_ns) && state.at(task).attempt == attempt.id.attempt;
}

bool Decider::is_of_this_log(const model::AttemptId& id, std::int64_t assigned_ns) const {
  const fleet::Task* task = brain_.state().find(id.task);
  // Of an earlier attempt the state does not know when it was assigned; nothing is decided about it any more.
  return task != nullptr && (task->attempt != id.attempt || task->assigned_ns == assigned_ns);
}

void Decider::on(const std::string& worker, const model::Heartbeat& message) {
  if (!is_registered(worker, message.incarnation) || brain_.state().find_worker(worker)->reachable) return;
  ROTA_SOMETIMES("host: a lost worker is heard again");
  back_.push_back(worker);
  // Its tasks were given to others. The registration lists what it still runs, so that this can be stopped.
  send(worker, model::RegisterAgain{brain_.term()});
}

void Decider::on(const std::string& worker, const model::Leave& message) {
  const fleet::Worker* known = brain_.state().find_worker(worker);
  if (known == nullptr || (!message.incarnation.is_none() && !known->lives_as(message.incarnation))) return;
  execute(fleet::DrainWorker{worker});
}

// An assignment may arrive after its attempt was given up, and after the worker has said what it runs.
void Decider::stop_unwanted(const std::string& worker, const model::Report& report) {
  if (!std::holds_alternative<model::Started>(report.body)) return;
  const fleet::Worker* known = brain_.state().find_worker(worker);
  // The leading task of a merged execution may have ended while others of it still count.
  const auto leads = [&](const fleet::Execution& execution) { return execution.lead == report.id.task; };
  if (known == nullptr || is_wanted(worker, {report.id, report.assigned_ns}) ||
      std::any_of(known->executions.begin(), known->executions.end(), leads)) {
    return;
  }
  ROTA_SOMETIMES("host: a worker has started an attempt that does not count any more");
  if (!ROTA_GUARD("host: stops what starts too late", true)) return;
  send(worker, model::ControlAttempt{report.id, brain_.term(), AttemptAction::kCancel, report.assigned_ns,
                                     known->incarnation(), brain_.state().globals().index});
}

void Decider::on(const std::string& worker, const model::Report& report) {
  stop_unwanted(worker, report);
  const model::AcknowledgeReport acknowledgement{report.id, brain_.term(), report.assigned_ns};
  // A task of a log that this one has replaced, or of a workflow that was forgotten: the same number may mean another
  // task here.
  if (!is_of_this_log(report.id, report.assigned_ns)) {
    if (report.is_final()) send(worker, acknowledgement);
    return;
  }
  std::visit(
      [&](const auto& body) {
        if constexpr (requires { on_report(worker, report.id, body); }) on_report(worker, report.id, body);
      },
      report.body);
  batch_.effects.emplace_back(Reported{worker, report});
  // A final report is acknowledged even if it was late, a duplicate or refused, or the worker would send it forever.
  if (ROTA_GUARD("host: acknowledges final reports", report.is_final())) send(worker, acknowledgement);
}

void Decider::on_report(const std::string&, const model::AttemptId& id, const model::Checkpoint& body) {
  execute(fleet::ReportCheckpoint{id.task, id.attempt, body.json});
}

void Decider::on_report(const std::string& worker, const model::AttemptId&, const model::Cached& body) {
  execute(fleet::ReportCaches{worker, {body.item}});
}

void Decider::on_report(const std::string& worker, const model::AttemptId& id, const model::Ended& body) {
  const fleet::Task* task = brain_.state().find(id.task);
  if (body.outcome.end == AttemptEnd::kPreempted && task != nullptr && !task->stopping && !task->recalled()) {
    // The worker returned the task without being asked to: it is stopping. It must not get the task again. The brain
    // may have forgotten the worker since, when the report is late.
    ROTA_SOMETIMES("host: a leaving worker gives a task back");
    const fleet::Worker* holder = brain_.state().find(task->worker);
    if (holder != nullptr && holder->spec.name == worker) execute(fleet::DrainWorker{worker});
    execute(fleet::ReportUndeliverable{id.task, id.attempt});
    return;
  }
  fleet::ReportEnded ended{id.task, id.attempt, body.outcome};
  if (ended.outcome.cache_note.size() > kMostNoteBytes) ended.outcome.cache_note.resize(kMostNoteBytes);
  execute(std::move(ended));
}

// --------------------------------------------------------------------------------------------------------- decisions

void Decider::execute(fleet::Command command, Answer answer, fleet::Origin origin) {
  const bool asked = static_cast<bool>(answer);
  const std::string_view name = name_of(command);
  // A user drains a worker, which must know: it would register again. Asking once more sends the message once more.
  std::optional<std::pair<std::string, model::Incarnation>> drained;
  if (const auto* drain = std::get_if<fleet::DrainWorker>(&command); asked && drain != nullptr) {
    const fleet::Worker* worker = brain_.state().find_worker(drain->worker);
    if (worker != nullptr) drained.emplace(drain->worker, worker->incarnation());
  }
  Result<fleet::Events> events = execute_one(std::move(command), asked, std::move(origin));
  if (!events.ok() && !asked) {
    ROTA_LOG(kDebug, "refused", {"command", name}, {"why", events.error().message});
  }
  if (drained && events.ok()) send(drained->first, model::LeaveFleet{brain_.term(), drained->second});
  if (asked) batch_.effects.emplace_back(Answered{std::move(answer), std::move(events)});
  // This ends: each follow-up ends an attempt that was just decided, and none of them is decided twice.
  while (!follow_ups_.empty()) {
    fleet::Command next = std::move(follow_ups_.front());
    follow_ups_.pop_front();
    if (Result<fleet::Events> done = execute_one(std::move(next), false); !done.ok()) {
      ROTA_LOG(kWarn, "refused", {"command", "of the host"}, {"why", done.error().message});
    }
  }
}

Result<fleet::Events> Decider::execute_one(fleet::Command command, bool wants_events, fleet::Origin origin) {
  ROTA_TRY(check_size(command));
  fleet::Record record;
  ROTA_TRY(brain_.execute(std::move(command), wall_ns_, record));
  fleet::Events events;
  if (record.index == 0) return events;
  record.origin = std::move(origin);
  ledger::RecordBytes& bytes = records_.emplace_back();
  bytes.index = record.index;
  chain_ = fleet::encode_record(record, chain_, bytes.bytes);
  if (wants_events) events = record.events;
  const std::size_t place = batch_.effects.size();
  batch_.effects.emplace_back(fleet::Record{});  // Before the effects that follow from it.
  collect_effects(record);
  batch_.effects[place] = std::move(record);
  return events;
}

// Runs after all events of the record are applied: a task that one record assigned and took back again causes no
// message.
void Decider::collect_effects(const fleet::Record& record) {
  const fleet::State& state = brain_.state();
  for (const fleet::Event& event : record.events) {
    if (const auto* assigned = std::get_if<fleet::TaskAssigned>(&event)) {
      const fleet::Execution* execution = execution_of(state, assigned->task);
      if (execution == nullptr || state.at(assigned->task).attempt != assigned->attempt) continue;
      if (!ROTA_GUARD("host: withholds tasks without devices", is_withheld(*execution))) {
        assign(*execution, state.at(assigned->worker).spec.name);
      }
    } else if (const auto* started = std::get_if<fleet::TaskStarted>(&event)) {
      const fleet::Execution* execution = execution_of(state, started->task);
      if (execution == nullptr || execution->held.gpus == 0) continue;  // The worker has it already.
      assign(*execution, state.at(state.at(started->task).worker).spec.name);
    } else if (const auto* stop = std::get_if<fleet::StopRequested>(&event)) {
      control(stop->task, action_of(stop->reason));
    } else if (const auto* recalled = std::get_if<fleet::RecallRequested>(&event)) {
      control(recalled->task, AttemptAction::kRecall);
    } else if (const auto* paused = std::get_if<fleet::TaskPaused>(&event)) {
      if (state.at(paused->task).paused_from == TaskState::kRunning) control(paused->task, AttemptAction::kPause);
    } else if (const auto* resumed = std::get_if<fleet::TaskResumed>(&event)) {
      const fleet::Task* task = state.find(resumed->task);
      if (task != nullptr && task->state == TaskState::kRunning) control(resumed->task, AttemptAction::kResume);
    } else if (const auto* registered = std::get_if<fleet::WorkerRegistered>(&event)) {
      note_presence(registered->worker);
    } else if (const auto* changed = std::get_if<fleet::WorkerChanged>(&event)) {
      note_presence(changed->worker);
    }
  }
}

void Decider::note_presence(model::WorkerId id) {
  const fleet::State& state = brain_.state();
  if (const fleet::Worker* known = state.find(id)) names_.emplace(id, known->spec.name);
  const auto found = names_.find(id);
  if (found == names_.end()) return;
  const std::string name = found->second;
  if (state.find(id) == nullptr) names_.erase(found);
  // Another machine may have taken the name within the same record.
  const fleet::Worker* worker = state.find_worker(name);
  const bool here = worker != nullptr && worker->reachable && !worker->left;
  if (here) {
    silence_.add(name, wall_ns_);
  } else {
    silence_.remove(name);
    unheard_.erase(name);
  }
  if (worker == nullptr) ports_.erase(name);
  batch_.effects.emplace_back(Presence{name, here});
}

void Decider::send(const std::string& worker, model::ToWorker message) {
  const auto port = ports_.find(worker);
  batch_.effects.emplace_back(
      ToSend{worker, std::move(message), port == ports_.end() ? std::nullopt : std::optional<Port>(port->second)});
}

void Decider::assign(const fleet::Execution& execution, const std::string& worker) {
  Result<model::Assign> message = assignment(brain_.state(), execution, brain_.term());
  if (message.ok()) return send(worker, std::move(*message));
  for (const TaskId member : execution.members) {
    fleet::ReportEnded failed{member, brain_.state().at(member).attempt, {}};
    failed.outcome.failure = model::FailureKind::kReference;
    failed.outcome.message = message.error().message;
    failed.outcome.final = true;
    follow_ups_.emplace_back(std::move(failed));
  }
}

void Decider::control(TaskId id, AttemptAction action) {
  const fleet::State& state = brain_.state();
  const fleet::Task& task = state.at(id);
  const fleet::Execution* execution = execution_of(state, id);
  if (execution == nullptr) return;  // It ended within the same record.
  if (is_withheld(*execution)) {
    // The worker does not know this execution, so a stop takes effect at once.
    ROTA_SOMETIMES("host: a task is stopped that its worker does not have yet");
    if (action == AttemptAction::kCancel || action == AttemptAction::kPreempt || action == AttemptAction::kRecall) {
      fleet::ReportEnded stopped{id, task.attempt, {}};
      stopped.outcome.end = action == AttemptAction::kCancel ? AttemptEnd::kCancelled : AttemptEnd::kPreempted;
      follow_ups_.emplace_back(std::move(stopped));
    }
    return;
  }
  const fleet::Worker& worker = state.at(task.worker);
  send(worker.spec.name,
       model::ControlAttempt{
           {id, task.attempt}, brain_.term(), action, task.assigned_ns, worker.incarnation(), state.globals().index});
}

// An execution whose leading task has ended is left out: the worker reported that end, so it knows the execution.
void Decider::resend(const fleet::Worker& worker) {
  const fleet::State& state = brain_.state();
  if (worker.draining) send(worker.spec.name, model::LeaveFleet{brain_.term(), worker.incarnation()});
  for (const fleet::Execution& execution : worker.executions) {
    if (is_withheld(execution) || !execution.has(execution.lead)) continue;
    assign(execution, worker.spec.name);
    for (const TaskId member : execution.members) {
      const fleet::Task& task = state.at(member);
      if (task.stopping) {
        control(member, action_of(task.stop));
      } else {
        // Also a task that is not paused: the message that resumed it may be what the worker missed.
        control(member, task.state == TaskState::kPaused ? AttemptAction::kPause : AttemptAction::kResume);
      }
      if (task.recalled() && task.at_worker) control(member, AttemptAction::kRecall);
    }
  }
}

}  // namespace rota::host
