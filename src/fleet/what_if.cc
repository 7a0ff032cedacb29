#include "fleet/what_if.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <set>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/json_text.h"
#include "fleet/brain.h"
#include "fleet/check.h"
#include "fleet/text.h"

namespace rota::fleet {

namespace {

constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
// After this many ticks in a row that neither start nor end a task, with no input left, the simulation ends.
constexpr int kMostIdleTicks = 10'000;

template <class T>
constexpr bool is_input =
    std::is_same_v<T, SetPolicy> || std::is_same_v<T, RegisterWorker> || std::is_same_v<T, DrainWorker> ||
    std::is_same_v<T, WorkerLost> || std::is_same_v<T, SetWorkerEnabled> || std::is_same_v<T, ReportCaches> ||
    std::is_same_v<T, SubmitWorkflow> || std::is_same_v<T, Control> || std::is_same_v<T, SetPriority> ||
    std::is_same_v<T, SetQuota> || std::is_same_v<T, ForgetWorkflow> || std::is_same_v<T, SetSchedule> ||
    std::is_same_v<T, ChangeSchedule>;

void apply_change(const FleetChange& change, WorkerSpec& worker) {
  const auto set = [](std::int64_t value, std::int64_t& to) {
    if (value != FleetChange::kAsInLog) to = value;
  };
  set(change.cpu_millis, worker.resources.cpu_millis);
  set(change.memory_bytes, worker.resources.memory_bytes);
  set(change.cost_microdollars_per_hour, worker.cost_microdollars_per_hour);
  if (change.gpus == FleetChange::kAsInLog || worker.resources.gpus.empty()) return;
  worker.resources.gpus.resize(static_cast<std::size_t>(change.gpus), model::Device(worker.resources.gpus.front()));
}

}  // namespace

Past::Past() : texts_{""} {}

std::uint32_t Past::text(const std::string& text) {
  if (text.empty()) return 0;
  texts_.push_back(text);
  return static_cast<std::uint32_t>(texts_.size() - 1);
}

Past::TaskPast& Past::of(TaskId id, const State& state) {
  const std::size_t workflow = id.workflow().value();
  if (tasks_.size() <= workflow) tasks_.resize(workflow + 1);
  std::vector<TaskPast>& tasks = tasks_[workflow];
  // A fan-out adds tasks to a workflow that runs (Y-2).
  if (tasks.size() <= id.index()) tasks.resize(state.at(id.workflow()).tasks.size());
  return tasks[id.index()];
}

void Past::see(const Record& record, const State& state) {
  meter_.see(record, state);
  const auto* report = std::get_if<ReportEnded>(&record.command);
  if (report != nullptr) {
    const AttemptOutcome& outcome = report->outcome;
    if (outcome.end == AttemptEnd::kSucceeded || outcome.end == AttemptEnd::kFailed) {
      End end;
      end.end = outcome.end;
      end.failure = outcome.failure;
      end.final = outcome.final;
      end.result = text(outcome.result);
      end.message = text(outcome.message);
      attempt_ended(record, state, report->task, end);
    }
  } else if (const auto* checkpoint = std::get_if<ReportCheckpoint>(&record.command)) {
    checkpoints_[checkpoint->task] = text(checkpoint->checkpoint);
  } else {
    keep(record, state);
  }
  for (const Event& event : record.events) {
    each_begun(event, state, [&](TaskId id, AttemptNumber) { of(id, state).began_ns = record.wall_ns; });
  }
}

// Keeps the command if it is an input, and changes of workers that followed from heartbeats.
void Past::keep(const Record& record, const State& state) {
  WorkflowId accepted;
  std::vector<std::string> back;
  for (const Event& event : record.events) {
    if (const auto* e = std::get_if<WorkflowAccepted>(&event)) accepted = e->workflow;
    const auto* changed = std::get_if<WorkerChanged>(&event);
    if (changed == nullptr) continue;
    const Worker* worker = state.find(changed->worker);
    if (worker == nullptr) continue;
    if (changed->change == WorkerChange::kBack) back.push_back(worker->spec.name);
    // A loss that an older release decided by itself; other losses follow from commands that are kept.
    if (changed->change == WorkerChange::kUnreachable && std::holds_alternative<Tick>(record.command)) {
      inputs_.push_back({record.wall_ns, WorkerLost{worker->spec.name, "its heartbeat was missing"}, {}});
    }
  }
  if (!back.empty()) inputs_.push_back({record.wall_ns, Heartbeats{std::move(back)}, {}});
  std::visit(
      [&](const auto& command) {
        if constexpr (is_input<std::decay_t<decltype(command)>>) {
          inputs_.push_back({record.wall_ns, command, accepted});
        }
      },
      record.command);
}

void Past::attempt_ended(const Record& record, const State& state, TaskId id, End end) {
  const Task* task = state.find(id);
  if (task == nullptr) return;
  TaskPast& past = of(id, state);
  end.took_ns = std::max<std::int64_t>(record.wall_ns - past.began_ns, 0);
  if (const auto found = checkpoints_.find(id); found != checkpoints_.end()) {
    end.checkpoint = found->second;
    checkpoints_.erase(found);
  }
  if (end.end == AttemptEnd::kSucceeded) {
    const std::string& type = state.at(id.workflow()).template_of(*task).spec.type;
    auto mean = means_.find(type);
    if (mean == means_.end()) mean = means_.emplace(type, Mean()).first;
    for (Mean* each : {&mean->second, &mean_}) {
      each->sum_ns += end.took_ns;
      ++each->count;
    }
  }
  const auto number = static_cast<std::uint32_t>(ends_.size());
  (past.last == kNone ? past.first : ends_[past.last].next) = number;
  past.last = number;
  ends_.push_back(end);
}

// Runs the inputs of the log under another policy, with virtual time.
class Simulation {
 public:
  Simulation(const Past& past, std::string_view change, const std::vector<FleetChange>& fleet,
             const WhatIfProgress& progress, const WhatIfSeen& seen)
      : past_(past), change_(change), fleet_(fleet), progress_(progress), seen_(seen) {}

  Result<Figures> run() {
    ROTA_TRY_ASSIGN(const Policy first, changed(Policy()));
    // The log may begin without a SetPolicy: then the default policy was in force.
    const std::int64_t start = past_.inputs_.empty() ? 0 : past_.inputs_.front().wall_ns;
    ROTA_TRY(execute(SetPolicy{first}, start));
    int idle = 0;
    for (;;) {
      const bool more = next_ < past_.inputs_.size();
      if (!more && brain_.state().unfinished_tasks() == 0) break;
      const std::int64_t given = more ? past_.inputs_[next_].wall_ns : kNever;
      const std::int64_t ended = ends_.empty() ? kNever : ends_.top().ns;
      const std::int64_t due = brain_.next_due_ns();
      if (given == kNever && ended == kNever && due == kNever) break;
      const std::uint64_t before = moved_;
      if (ended <= given && ended <= due) {
        const Ending ending = ends_.top();
        ends_.pop();
        report(ending);
      } else if (given <= due) {
        ROTA_TRY(give(past_.inputs_[next_++]));
      } else {
        static_cast<void>(execute(Tick(), due));
      }
      idle = moved_ == before && !more && ends_.empty() ? idle + 1 : 0;
      if (idle > kMostIdleTicks) break;
    }
    Figures figures = meter_.figures(brain_.state());
    figures.refused = refused_;
    return figures;
  }

 private:
  enum class EndingKind : std::uint8_t { kStop, kEnd };
  struct Ending {
    std::int64_t ns;
    std::uint64_t number;  // Breaks ties: the first one scheduled comes first.
    TaskId task;
    AttemptNumber attempt;
    std::uint32_t end;  // In past_.ends_; kNone: success after the mean time.
    EndingKind kind;
    friend bool operator>(const Ending& a, const Ending& b) { return a.ns != b.ns ? a.ns > b.ns : a.number > b.number; }
  };

  Result<Policy> changed(Policy policy) const {
    ROTA_TRY(parse_fields(change_, policy));
    return policy;
  }

  // Decides the command, and schedules the ends of the tasks that start.
  Result<void> execute(Command command, std::int64_t now_ns) {
    ROTA_TRY(brain_.execute(std::move(command), now_ns, record_));
    if (record_.index == 0) return {};
    const State& state = brain_.state();
    meter_.see(record_, state);
    if (seen_) seen_(record_, state);
    if (progress_ && record_.index % 8192 == 0) progress_(record_.index);
    for (const Event& event : record_.events) {
      each_begun(event, state, [&](TaskId id, AttemptNumber attempt) {
        ++moved_;
        const std::uint32_t end = cursor(id);
        const std::int64_t took = end == Past::kNone ? mean_of(id) : past_.ends_[end].took_ns;
        const std::int64_t now = record_.wall_ns;
        ends_.push({took > kNever - now ? kNever : now + took, ++number_, id, attempt, end, EndingKind::kEnd});
      });
      if (const auto* stop = std::get_if<StopRequested>(&event)) {
        const AttemptNumber attempt = state.at(stop->task).attempt;
        ends_.push({record_.wall_ns, ++number_, stop->task, attempt, Past::kNone, EndingKind::kStop});
      }
    }
    return {};
  }

  void report(const Ending& ending) {
    const Task* task = brain_.state().find(ending.task);
    if (task == nullptr || task->attempt != ending.attempt) return;  // It was requeued meanwhile.
    ReportEnded report{ending.task, ending.attempt, {}};
    if (ending.kind == EndingKind::kStop) {
      if (!task->stopping) return;
      report.outcome.end = AttemptEnd::kCancelled;
    } else if (ending.end == Past::kNone) {
      report.outcome.end = AttemptEnd::kSucceeded;
    } else {
      const Past::End& end = past_.ends_[ending.end];
      report.outcome.end = end.end;
      report.outcome.failure = end.failure;
      report.outcome.final = end.final;
      report.outcome.result = past_.texts_[end.result];
      report.outcome.message = past_.texts_[end.message];
      if (end.checkpoint != 0) {
        static_cast<void>(
            execute(ReportCheckpoint{ending.task, ending.attempt, past_.texts_[end.checkpoint]}, ending.ns));
      }
    }
    const Result<void> told = execute(std::move(report), ending.ns);
    if (ending.end != Past::kNone && told.ok() && record_.index > 0) {
      cursor(ending.task) = past_.ends_[ending.end].next;
    }
    if (told.ok() && record_.index > 0) ++moved_;
  }

  Result<void> give(const Past::Input& input) {
    Command command = input.command;
    if (auto* policy = std::get_if<SetPolicy>(&command)) {
      ROTA_TRY_ASSIGN(policy->policy, changed(policy->policy));
      return execute(std::move(command), input.wall_ns);
    }
    if (!fleet_.empty()) {
      if (const auto* joins = std::get_if<RegisterWorker>(&command)) return join(*joins, input.wall_ns);
      if (is_about_removed(command)) return {};
    }
    if (auto* control = std::get_if<Control>(&command)) {
      control->workflow = simulated_id(control->workflow);
      control->task = simulated_id(control->task);
    } else if (auto* priority = std::get_if<SetPriority>(&command)) {
      priority->workflow = simulated_id(priority->workflow);
      priority->task = simulated_id(priority->task);
    } else if (auto* forget = std::get_if<ForgetWorkflow>(&command)) {
      forget->workflow = simulated_id(forget->workflow);
    }
    // Its id if it is accepted. It must be known before, because tasks may start with the same record.
    const WorkflowId id = brain_.state().globals().last_workflow.next();
    const bool submission = std::holds_alternative<SubmitWorkflow>(command);
    if (submission) {
      if (logged_.size() <= id.value()) logged_.resize(id.value() + 1);
      logged_[id.value()] = input.accepted;
    }
    // A refusal is part of the result: the task to cancel has ended already, or the queue is full.
    if (!execute(std::move(command), input.wall_ns).ok()) {
      ++refused_;
    } else if (submission) {
      if (simulated_.size() <= input.accepted.value()) simulated_.resize(input.accepted.value() + 1);
      simulated_[input.accepted.value()] = id;
    }
    return {};
  }

  // Registers the worker, or those that take its place.
  Result<void> join(const RegisterWorker& command, std::int64_t now_ns) {
    bool changed = false;
    std::int64_t number = 0;
    const bool again = !joined_.insert(command.worker.name).second;
    for (const FleetChange& group : fleet_) {
      if (group.worker != command.worker.name) continue;
      changed = true;
      for (std::int64_t i = 0; i < group.count; ++i) {
        RegisterWorker one = command;
        apply_change(group, one.worker);
        if (++number > 1) {
          if (again) break;  // The first one came back; the others had never left.
          one.worker.name += "+" + std::to_string(number);
          one.caches.clear();
        }
        if (!execute(std::move(one), now_ns).ok()) ++refused_;
      }
    }
    if (!changed && !execute(command, now_ns).ok()) ++refused_;
    return {};
  }
  [[nodiscard]] bool is_removed(const std::string& worker) const {
    std::int64_t count = -1;
    for (const FleetChange& group : fleet_) {
      if (group.worker == worker) count = std::max<std::int64_t>(count, 0) + group.count;
    }
    return count == 0;
  }
  bool is_about_removed(Command& command) const {
    return std::visit(
        [&](auto& each) {
          if constexpr (requires { std::string(each.worker); }) {
            return is_removed(each.worker);
          } else if constexpr (std::is_same_v<std::decay_t<decltype(each)>, Heartbeats>) {
            std::erase_if(each.workers, [&](const std::string& worker) { return is_removed(worker); });
            return each.workers.empty();
          } else {
            return false;
          }
        },
        command);
  }

  // The simulation's id of a workflow of the log; none if it was refused.
  WorkflowId simulated_id(WorkflowId logged) const {
    return logged.value() < simulated_.size() ? simulated_[logged.value()] : WorkflowId();
  }
  TaskId simulated_id(TaskId logged) const {
    return logged.is_none() ? logged : TaskId(simulated_id(logged.workflow()), logged.index());
  }

  // The next end of the task, in past_.ends_, that has not happened in the simulation.
  std::uint32_t& cursor(TaskId id) {
    const std::size_t workflow = id.workflow().value();
    if (cursors_.size() <= workflow) cursors_.resize(workflow + 1);
    std::vector<std::uint32_t>& cursors = cursors_[workflow];
    if (cursors.size() <= id.index()) {  // Also after a fan-out (Y-2).
      std::size_t i = cursors.size();
      cursors.resize(brain_.state().at(id.workflow()).tasks.size(), Past::kNone);
      const std::size_t logged = logged_[workflow].value();
      if (logged < past_.tasks_.size()) {
        const auto& tasks = past_.tasks_[logged];
        for (; i < tasks.size() && i < cursors.size(); ++i) cursors[i] = tasks[i].first;
      }
    }
    return cursors[id.index()];
  }

  std::int64_t mean_of(TaskId id) const {
    const Workflow& workflow = brain_.state().at(id.workflow());
    const auto found = past_.means_.find(workflow.template_of(workflow.tasks[id.index()]).spec.type);
    const Past::Mean& mean = found == past_.means_.end() ? past_.mean_ : found->second;
    return mean.count == 0 ? 0 : mean.sum_ns / mean.count;
  }

  const Past& past_;
  const std::string_view change_;
  const std::vector<FleetChange>& fleet_;
  const WhatIfProgress& progress_;
  const WhatIfSeen& seen_;
  Brain brain_;
  Record record_;
  Meter meter_;
  std::size_t next_ = 0;  // In past_.inputs_.
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> ends_;
  std::uint64_t number_ = 0;
  std::uint64_t moved_ = 0;  // Starts and ends of tasks.
  std::uint64_t refused_ = 0;
  std::set<std::string, std::less<>> joined_;  // Workers that have registered; only with another fleet.
  std::vector<WorkflowId> simulated_;          // By the id in the log.
  std::vector<WorkflowId> logged_;             // By the id in the simulation.
  std::vector<std::vector<std::uint32_t>> cursors_;
};

Result<FleetChange> parse_fleet_change(std::string_view text) {
  FleetChange change;
  ROTA_TRY(parse_fields(text, change));
  const auto wrong = [](std::string_view field, std::int64_t most) {
    return Error{ErrorCode::kInvalidArgument,
                 std::string(field) + " must be from 0 to " + std::to_string(most) + ", or left out"};
  };
  if (change.worker.empty()) {
    return Error{ErrorCode::kInvalidArgument, "'worker' is missing: write worker=NAME, a worker of the log"};
  }
  if (change.count < 0 || change.count > FleetChange::kMostCount) return wrong("count", FleetChange::kMostCount);
  if (change.gpus < FleetChange::kAsInLog || change.gpus > FleetChange::kMostGpus) {
    return wrong("gpus", FleetChange::kMostGpus);
  }
  for (const auto& [field, value] : {std::pair<std::string_view, std::int64_t>{"cpu_millis", change.cpu_millis},
                                     {"memory_bytes", change.memory_bytes},
                                     {"cost_microdollars_per_hour", change.cost_microdollars_per_hour}}) {
    if (value < FleetChange::kAsInLog || value > kMostAmount) return wrong(field, kMostAmount);
  }
  return change;
}

Result<void> Past::check(const std::vector<FleetChange>& fleet) const {
  std::int64_t count = 0;
  for (const FleetChange& change : fleet) {
    count += change.count;
    const RegisterWorker* found = nullptr;
    std::set<std::string, std::less<>> names;
    for (const Input& input : inputs_) {
      const auto* joins = std::get_if<RegisterWorker>(&input.command);
      if (joins == nullptr) continue;
      names.insert(joins->worker.name);
      if (joins->worker.name == change.worker) found = joins;
    }
    if (found == nullptr) {
      std::string text = "the log has no worker '" + printable(change.worker) + "'; it has ";
      for (const std::string& name : names) text += (name == *names.begin() ? "" : ", ") + printable(name);
      return Error{ErrorCode::kInvalidArgument, names.empty() ? text + "none" : printable(text, 1000)};
    }
    if (change.gpus > 0 && found->worker.resources.gpus.empty()) {
      return Error{ErrorCode::kInvalidArgument, "worker '" + printable(change.worker) +
                                                    "' has no GPU, so that it is not known which kind to add; add a "
                                                    "worker that has one"};
    }
  }
  if (count <= FleetChange::kMostCount) return {};
  return Error{ErrorCode::kInvalidArgument,
               "at most " + std::to_string(FleetChange::kMostCount) + " workers can be added"};
}

Result<Figures> what_if(const Past& past, std::string_view change, const std::vector<FleetChange>& fleet,
                        const WhatIfProgress& progress, const WhatIfSeen& seen) {
  ROTA_TRY(past.check(fleet));
  return Simulation(past, change, fleet, progress, seen).run();
}

}  // namespace rota::fleet
