#include "fleet/what_if.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <type_traits>
#include <utility>
#include <variant>

#include "fleet/brain.h"
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
    std::is_same_v<T, SetQuota> || std::is_same_v<T, ForgetWorkflow>;

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
  if (tasks.empty()) tasks.resize(state.at(id.workflow()).tasks.size());
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
  Simulation(const Past& past, std::string_view change, const WhatIfProgress& progress)
      : past_(past), change_(change), progress_(progress) {}

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
    if (cursors.empty()) {
      cursors.assign(brain_.state().at(id.workflow()).tasks.size(), Past::kNone);
      const std::size_t logged = logged_[workflow].value();
      if (logged < past_.tasks_.size()) {
        const auto& tasks = past_.tasks_[logged];
        for (std::size_t i = 0; i < tasks.size() && i < cursors.size(); ++i) cursors[i] = tasks[i].first;
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
  const WhatIfProgress& progress_;
  Brain brain_;
  Record record_;
  Meter meter_;
  std::size_t next_ = 0;  // In past_.inputs_.
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> ends_;
  std::uint64_t number_ = 0;
  std::uint64_t moved_ = 0;  // Starts and ends of tasks.
  std::uint64_t refused_ = 0;
  std::vector<WorkflowId> simulated_;  // By the id in the log.
  std::vector<WorkflowId> logged_;     // By the id in the simulation.
  std::vector<std::vector<std::uint32_t>> cursors_;
};

Result<Figures> what_if(const Past& past, std::string_view change, const WhatIfProgress& progress) {
  return Simulation(past, change, progress).run();
}

}  // namespace rota::fleet
