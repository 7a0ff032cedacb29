#include "host/decider.h"

#include <algorithm>
#include <utility>

#include "base/json_text.h"
#include "base/log.h"
#include "fleet/codec.h"
#include "host/assignment.h"

namespace rota::host {

using bus::ReportKind;
using graph::TaskState;
using model::TaskId;

namespace {

// A record is the command and its events; beyond the ledger's bound it could not be kept, so it must not be decided.
constexpr std::size_t kMostCommandBytes = ledger::kMaxRecordBytes / 2;
constexpr std::size_t kMostNoteBytes = 4096;

Result<void> check_size(const fleet::Command& command) {
  if (!std::holds_alternative<fleet::SubmitWorkflow>(command)) return {};
  std::string bytes;
  fleet::encode(command, bytes);
  if (bytes.size() <= kMostCommandBytes) return {};
  return Error{ErrorCode::kTooLarge, "the workflow has " + std::to_string(bytes.size()) +
                                         " bytes, in the log's form; the most is " + std::to_string(kMostCommandBytes) +
                                         ". Split it, or keep data in files"};
}

fleet::FailureKind kind_of(bus::FailureCause cause) {
  switch (cause) {
    case bus::FailureCause::kError:
      break;
    case bus::FailureCause::kTimeout:
      return fleet::FailureKind::kTimeout;
    case bus::FailureCause::kMemory:
      return fleet::FailureKind::kMemory;
  }
  return fleet::FailureKind::kError;
}

std::string_view name_of(const fleet::Command& command) {
  return std::visit([](const auto& c) { return c.kName; }, command);
}

}  // namespace

Decider::Decider(const HostOptions& options, Recovered recovered)
    : options_(options),
      brain_(std::move(recovered.brain)),
      chain_(recovered.position.chain),
      awaited_(options.await_workers) {
  brain_.set_term(recovered.position.term + 1);
}

void Decider::begin(std::int64_t wall_ns) {
  wall_ns_ = wall_ns;
  if (options_.policy && *options_.policy != brain_.state().policy()) execute(fleet::SetPolicy{*options_.policy});
  if (options_.workers_end_with_host) return give_back_all();
  brain_.state().each_worker([&](const fleet::Worker& worker) {
    if (worker.reachable && !worker.left) unsure_.insert(worker.spec.name);
  });
}

// They ended with the process. First none of them takes anything, so that what is given back does not go to the next
// of them; then all is given back; then they are gone until they register.
void Decider::give_back_all() {
  std::vector<std::string> names;
  std::vector<fleet::ReportUndeliverable> running;
  brain_.state().each_worker([&](const fleet::Worker& worker) {
    if (!worker.reachable || worker.left) return;
    names.push_back(worker.spec.name);
    for (const fleet::Execution& execution : worker.executions) {
      for (const TaskId task : execution.members) running.push_back({task, brain_.state().at(task).attempt});
    }
  });
  std::vector<std::string> enabled;
  for (const std::string& name : names) {
    if (!brain_.state().find_worker(name)->disabled_by_hand) enabled.push_back(name);
    execute(fleet::SetWorkerEnabled{name, false});
  }
  for (const fleet::ReportUndeliverable& report : running) execute(report);
  for (const std::string& name : names) execute(fleet::WorkerLost{name, "it ended with the host"});
  for (const std::string& name : enabled) execute(fleet::SetWorkerEnabled{name, true});
  // Nobody is there to be told.
  std::erase_if(batch_.effects, [](const Effect& effect) { return std::holds_alternative<ToSend>(effect); });
}

// ------------------------------------------------------------------------------------------------------------ inputs

void Decider::take(Input input, std::int64_t wall_ns) {
  wall_ns_ = wall_ns;
  if (auto* command = std::get_if<fleet::Command>(&input.what)) {
    if (awaited_ > 0 && std::holds_alternative<fleet::SubmitWorkflow>(*command))
      return held_.push_back(std::move(input));
    execute(std::move(*command), std::move(input.answer));
  } else if (auto* inspection = std::get_if<Inspection>(&input.what)) {
    inspection->look(brain_.state());
    if (!inspection->durable) return input.answer.give(fleet::Events{});
    batch_.effects.emplace_back(Answered{std::move(input.answer), fleet::Events{}});
  } else {
    const auto& delivery = std::get<bus::DeliveryFromWorker>(input.what);
    hear(delivery);
    batch_.received = delivery.id;
  }
}

bool Decider::tick(std::int64_t wall_ns) {
  wall_ns_ = wall_ns;
  const std::uint64_t before = index();
  execute(fleet::Tick{});
  return index() != before;
}

Decider::Output Decider::finish(std::int64_t wall_ns) {
  wall_ns_ = wall_ns;
  if (!heartbeats_.empty()) execute(fleet::Heartbeats{std::exchange(heartbeats_, {})});
  Output output{std::move(records_), std::move(batch_)};
  records_.clear();
  batch_ = {};
  output.batch.durable = index();
  return output;
}

ledger::Snapshot Decider::snapshot() const { return {index(), encode_snapshot(brain_, chain_)}; }

void Decider::hear(const bus::DeliveryFromWorker& delivery) {
  if (const auto unsure = unsure_.find(delivery.worker); unsure != unsure_.end()) {
    unsure_.erase(unsure);
    const fleet::Worker* worker = brain_.state().find_worker(delivery.worker);
    // One that registers tells us what it has.
    if (worker != nullptr && !std::holds_alternative<bus::Register>(delivery.message)) tell_again(*worker);
  }
  std::visit([&](const auto& message) { on(delivery.worker, message); }, delivery.message);
}

model::WorkerSpec Decider::spec_of(const std::string& worker, const bus::Register& message) const {
  model::WorkerSpec spec;
  if (const auto known = options_.workers.find(worker); known != options_.workers.end()) {
    spec = known->second;
  } else {
    spec.cpu_millis = static_cast<std::int64_t>(message.cpu_millis);
    spec.memory_bytes = static_cast<std::int64_t>(message.memory_bytes);
    spec.gpus.resize(message.gpus);
  }
  spec.name = worker;
  return spec;
}

void Decider::on(const std::string& worker, const bus::Register& message) {
  model::WorkerSpec spec = spec_of(worker, message);
  const fleet::Worker* known = brain_.state().find_worker(worker);
  // The same process, after the bus was away, or the same message: it still has what it holds, and gets the rest again.
  const bool again = known != nullptr && known->reachable && known->lives_as(message.incarnation);
  const model::WorkerId id = known == nullptr ? model::WorkerId() : known->id;
  execute(fleet::RegisterWorker{std::move(spec), {}, message.incarnation});
  known = brain_.state().find_worker(worker);
  if (known == nullptr) return;
  if (again && known->id == id) tell_again(*known);
  // What it still has, though it was given up when it was not heard: nobody waits for that.
  for (const bus::Held& held : message.held) {
    const TaskId task(held.task);
    const fleet::Execution* execution = execution_of(brain_.state(), task);
    const bool wanted = execution != nullptr && brain_.state().at(task).worker == known->id &&
                        brain_.state().at(task).attempt == held.attempt;
    if (!wanted) {
      batch_.effects.emplace_back(
          ToSend{worker, bus::Stop{held.task, held.attempt, brain_.term(), bus::StopKind::kCancel}});
    }
  }
  if (again || awaited_ == 0 || --awaited_ > 0) return;
  for (Input& input : std::exchange(held_, {})) take(std::move(input), wall_ns_);
}

void Decider::on(const std::string& worker, const bus::Heartbeat&) { heartbeats_.push_back(worker); }

void Decider::on(const std::string& worker, const bus::Report& report) {
  const TaskId task(report.task);
  switch (report.kind) {
    case ReportKind::kStarted:
    case ReportKind::kProgress:
    case ReportKind::kLog:
    case ReportKind::kOutput:
      break;
    case ReportKind::kCheckpoint:
      execute(fleet::ReportCheckpoint{task, report.attempt, report.json});
      break;
    case ReportKind::kCache:
      execute(fleet::ReportCaches{worker, {report.text + ":" + report.json}});
      break;
    case ReportKind::kSucceeded:
      execute(fleet::ReportSucceeded{task, report.attempt, report.json.empty() ? "null" : report.json, report.cached,
                                     report.note.substr(0, kMostNoteBytes)});
      break;
    case ReportKind::kFailed:
      execute(fleet::ReportFailed{task, report.attempt, kind_of(report.cause), report.text, false,
                                  report.note.substr(0, kMostNoteBytes)});
      break;
    case ReportKind::kCancelled:
    case ReportKind::kPreempted: {
      // A worker that stops gives back what it runs without having been told to: nobody's failure.
      const fleet::Task* found = brain_.state().find(task);
      if (report.kind == ReportKind::kPreempted && found != nullptr && !found->stopping) {
        execute(fleet::ReportUndeliverable{task, report.attempt});
      } else {
        execute(fleet::ReportStopped{task, report.attempt});
      }
      break;
    }
  }
  batch_.effects.emplace_back(Said{worker, report});
  // Whatever came of it: late, twice or refused, it is known now.
  if (is_final(report.kind)) {
    batch_.effects.emplace_back(ToSend{worker, bus::Acknowledge{report.task, report.attempt, brain_.term()}});
  }
}

// --------------------------------------------------------------------------------------------------------- decisions

void Decider::execute(fleet::Command command, Answer answer) {
  const bool asked = static_cast<bool>(answer);
  const std::string_view name = name_of(command);
  Result<fleet::Events> events = execute_one(std::move(command), asked);
  if (!events.ok() && !asked) {
    ROTA_LOG(kDebug, "refused", {"command", name}, {"why", events.error().message});
  }
  if (asked) batch_.effects.emplace_back(Answered{std::move(answer), std::move(events)});
  // Each of them ends something that was just decided; they end when nothing more is decided.
  while (!follow_ups_.empty()) {
    fleet::Command next = std::move(follow_ups_.front());
    follow_ups_.pop_front();
    if (Result<fleet::Events> done = execute_one(std::move(next), false); !done.ok()) {
      ROTA_LOG(kWarn, "refused", {"command", "of the host"}, {"why", done.error().message});
    }
  }
}

Result<fleet::Events> Decider::execute_one(fleet::Command command, bool wants_events) {
  ROTA_TRY(check_size(command));
  fleet::Record record;
  ROTA_TRY(brain_.execute(std::move(command), wall_ns_, record));
  fleet::Events events;
  if (record.index == 0) return events;
  ledger::Record& bytes = records_.emplace_back();
  bytes.index = record.index;
  chain_ = fleet::encode_record(record, chain_, bytes.bytes);
  if (wants_events) events = record.events;
  const std::size_t place = batch_.effects.size();
  batch_.effects.emplace_back(fleet::Record{});  // In front of what follows from it.
  effects_of(record);
  batch_.effects[place] = std::move(record);
  return events;
}

// After all events of the record are applied: a task that was assigned and taken back by one record is not told of.
void Decider::effects_of(const fleet::Record& record) {
  const fleet::State& state = brain_.state();
  for (const fleet::Event& event : record.events) {
    if (const auto* assigned = std::get_if<fleet::TaskAssigned>(&event)) {
      const fleet::Execution* execution = execution_of(state, assigned->task);
      if (execution == nullptr || state.at(assigned->task).attempt != assigned->attempt) continue;
      if (!is_withheld(*execution)) assign(*execution, state.at(assigned->worker).spec.name);
    } else if (const auto* started = std::get_if<fleet::TaskStarted>(&event)) {
      const fleet::Execution* execution = execution_of(state, started->task);
      if (execution == nullptr || execution->gpus == 0) continue;  // The worker has it, and starts it by itself.
      assign(*execution, state.at(state.at(started->task).worker).spec.name);
    } else if (const auto* stop = std::get_if<fleet::StopRequested>(&event)) {
      tell(stop->task, stop->reason == fleet::StopReason::kCancel ? bus::StopKind::kCancel : bus::StopKind::kPreempt);
    } else if (const auto* paused = std::get_if<fleet::TaskPaused>(&event)) {
      if (state.at(paused->task).paused_from == TaskState::kRunning) tell(paused->task, bus::StopKind::kPause);
    } else if (const auto* resumed = std::get_if<fleet::TaskResumed>(&event)) {
      const fleet::Task* task = state.find(resumed->task);
      if (task != nullptr && task->state == TaskState::kRunning) tell(resumed->task, bus::StopKind::kResume);
    }
  }
}

void Decider::assign(const fleet::Execution& execution, const std::string& worker) {
  Result<bus::Assign> message = assignment(brain_.state(), execution, brain_.term());
  if (message.ok()) {
    batch_.effects.emplace_back(ToSend{worker, std::move(*message)});
    return;
  }
  for (const TaskId member : execution.members) {
    follow_ups_.emplace_back(fleet::ReportFailed{member, brain_.state().at(member).attempt,
                                                 fleet::FailureKind::kReference, message.error().message, true});
  }
}

void Decider::tell(TaskId id, bus::StopKind kind) {
  const fleet::State& state = brain_.state();
  const fleet::Task& task = state.at(id);
  const fleet::Execution* execution = execution_of(state, id);
  if (execution == nullptr) return;  // It has ended within the same record.
  if (is_withheld(*execution)) {     // Its worker has never heard of it: it is stopped as soon as it is told to.
    if (kind == bus::StopKind::kCancel || kind == bus::StopKind::kPreempt) {
      follow_ups_.emplace_back(fleet::ReportStopped{id, task.attempt});
    }
    return;
  }
  batch_.effects.emplace_back(
      ToSend{state.at(task.worker).spec.name, bus::Stop{id.value(), task.attempt, brain_.term(), kind}});
}

// Everything that it should have. Of a merged execution whose leading task has ended the worker has reported, and so it
// has it.
void Decider::tell_again(const fleet::Worker& worker) {
  const fleet::State& state = brain_.state();
  for (const fleet::Execution& execution : worker.executions) {
    if (is_withheld(execution) || !execution.has(execution.lead)) continue;
    assign(execution, worker.spec.name);
    for (const TaskId member : execution.members) {
      const fleet::Task& task = state.at(member);
      if (task.stopping) {
        tell(member, task.stop == fleet::StopReason::kCancel ? bus::StopKind::kCancel : bus::StopKind::kPreempt);
      } else if (task.state == TaskState::kPaused) {
        tell(member, bus::StopKind::kPause);
      }
    }
  }
}

}  // namespace rota::host
