#include "sim/predict.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <queue>
#include <utility>

#include "fleet/brain.h"
#include "fleet/explain.h"
#include "sim/scenario.h"

namespace rota::sim {

namespace {

using fleet::TaskId;

constexpr std::int64_t kStartNs = 1'700'000'000'000'000'000;
constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kHourNs = 3'600'000'000'000;
// After this many decisions in a row without a start or an end of a task, nothing more will happen.
constexpr int kMostIdle = 100'000;

// What the prediction needs of the workflow: its results are not known, so nothing may refer to them.
model::WorkflowSpec without_data(model::WorkflowSpec workflow) {
  for (model::TaskTemplate& task : workflow.templates) {
    task.condition.clear();
    task.spec.inputs = "{}";
    task.spec.checkpoint.clear();
    task.spec.cache.reset();
    task.spec.files.reset();  // Files take no time in a prediction.
    if (task.spec.program) {
      const bool batch = task.spec.program->batch;
      task.spec.program = model::ProgramSpec{};
      task.spec.program->shell = "simulated";
      task.spec.program->batch = batch;
    }
  }
  return workflow;
}

class Run {
 public:
  Run(const PredictOptions& options, std::uint64_t seed, std::string* log)
      : options_(options), seed_(seed), log_(log) {}

  Result<fleet::Figures> run(std::map<std::string, std::int64_t>& waits) {
    std::optional<fleet::LogWriter> writer;
    if (log_ != nullptr) writer_ = &writer.emplace(*log_);
    ROTA_TRY(execute(fleet::SetPolicy{options_.policy}, kStartNs));
    for (const model::WorkerSpec& worker : options_.workers) {
      ROTA_TRY(execute(fleet::RegisterWorker{worker, {}, model::Incarnation(1)}, kStartNs));
      plan_spot_loss(worker.name, kStartNs);
    }
    for (const PlannedLoss& loss : options_.losses) push(kStartNs + loss.at_ns, Happening::kLost, loss.worker);
    ROTA_TRY(execute(fleet::SubmitWorkflow{"", without_data(options_.workflow)}, kStartNs));
    ROTA_TRY(live());
    if (writer) writer->finish();
    for (const auto& [reason, ns] : waits_) waits[reason] += ns;
    return meter_.figures(brain_.state());
  }

 private:
  enum class Happening : std::uint8_t { kEnd, kStop, kLost, kSpotLost, kBack };
  struct Item {
    std::int64_t ns;
    std::uint64_t number;  // Breaks ties: what was scheduled first comes first.
    Happening what;
    TaskId task{};
    model::AttemptNumber attempt{};
    std::uint32_t worker = 0;  // In names_.
    friend bool operator>(const Item& a, const Item& b) { return a.ns != b.ns ? a.ns > b.ns : a.number > b.number; }
  };

  Result<void> live() {
    int idle = 0;
    while (brain_.state().unfinished_tasks() > 0 && idle < kMostIdle) {
      const std::int64_t next = items_.empty() ? kNever : items_.top().ns;
      const std::int64_t due = brain_.next_due_ns();
      if (next == kNever && due == kNever) break;
      const std::uint64_t before = moved_;
      if (next <= due) {
        const Item item = items_.top();
        items_.pop();
        ROTA_TRY(happen(item));
      } else {
        ROTA_TRY(execute(fleet::Tick{}, due));
      }
      idle = moved_ == before ? idle + 1 : 0;
    }
    return {};
  }

  Result<void> happen(const Item& item) {
    switch (item.what) {
      case Happening::kEnd:
      case Happening::kStop: {
        const fleet::Task* task = brain_.state().find(item.task);
        if (task == nullptr || task->attempt != item.attempt) return {};  // It was requeued meanwhile.
        if (item.what == Happening::kStop && !task->stopping) return {};
        fleet::ReportEnded report{item.task, item.attempt, {}};
        report.outcome.end =
            item.what == Happening::kStop ? model::AttemptEnd::kCancelled : model::AttemptEnd::kSucceeded;
        report.outcome.started_ns = started_[item.task];
        report.outcome.ended_ns = item.ns;
        return execute(std::move(report), item.ns);
      }
      case Happening::kLost:
      case Happening::kSpotLost: {
        const std::string& name = names_[item.worker];
        ROTA_TRY(execute(fleet::WorkerLost{name, "it was taken away"}, item.ns));
        if (item.what == Happening::kSpotLost) push(item.ns + options_.spot_back_ns, Happening::kBack, name);
        return {};
      }
      case Happening::kBack: {
        const std::string& name = names_[item.worker];
        for (const model::WorkerSpec& worker : options_.workers) {
          if (worker.name != name) continue;
          ROTA_TRY(execute(fleet::RegisterWorker{worker, {}, model::Incarnation(++incarnations_)}, item.ns));
        }
        plan_spot_loss(name, item.ns);
        return {};
      }
    }
    return {};
  }

  // Decides the command, and schedules the ends of the tasks that start.
  Result<void> execute(fleet::Command command, std::int64_t now_ns) {
    ROTA_TRY(brain_.execute(std::move(command), now_ns, record_));
    if (record_.index == 0) return {};
    if (writer_ != nullptr) writer_->append(record_);
    const fleet::State& state = brain_.state();
    meter_.see(record_, state);
    for (const fleet::Event& event : record_.events) {
      fleet::each_begun(event, state, [&](TaskId id, model::AttemptNumber attempt) { begin(id, attempt); });
      if (const auto* stop = std::get_if<fleet::StopRequested>(&event)) {
        items_.push({record_.wall_ns, ++number_, Happening::kStop, stop->task, state.at(stop->task).attempt});
      } else if (const auto* ready = std::get_if<fleet::TaskReadied>(&event)) {
        note_wait(ready->task);
      } else if (const auto* accepted = std::get_if<fleet::WorkflowAccepted>(&event)) {
        for (const fleet::StageState& stage : state.at(accepted->workflow).stages) {
          note_waits(accepted->workflow, stage);
        }
      } else if (const auto* succeeded = std::get_if<fleet::TaskSucceeded>(&event)) {
        ++moved_;
        note_children(succeeded->task);
      }
    }
    return {};
  }

  void begin(TaskId id, model::AttemptNumber attempt) {
    ++moved_;
    started_[id] = record_.wall_ns;
    items_.push({record_.wall_ns + duration_of(id, attempt), ++number_, Happening::kEnd, id, attempt});
    const auto waited = waiting_.find(id);
    if (waited == waiting_.end()) return;
    waits_[std::string(to_string(waited->second.first))] += record_.wall_ns - waited->second.second;
    waiting_.erase(waited);
  }

  // Tasks without references and conditions become ready without an event of their own: with the acceptance of their
  // workflow, or with the success of the last task that they need.
  void note_waits(model::WorkflowId workflow, const fleet::StageState& stage) {
    for (const std::uint32_t t : stage.tasks()) {
      if (samples_ >= options_.wait_samples) return;
      note_wait(TaskId(workflow, t));
    }
  }
  void note_children(TaskId id) {
    const fleet::Workflow* workflow = brain_.state().find(id.workflow());
    if (workflow == nullptr) return;  // It was forgotten in the same record.
    const std::uint32_t stage = workflow->tasks[id.index()].stage;
    if (workflow->stages[stage].unfinished > 0) return;
    for (const graph::TaskRef child : workflow->dag.children(graph::TaskRef(stage + 1))) {
      const fleet::StageState& range = workflow->stages[child.value() - 1];
      note_waits(id.workflow(), range);
    }
  }

  // The reason is that of the moment at which the task became ready. An explanation visits all workers and all ready
  // tasks, so only some tasks are asked.
  void note_wait(TaskId id) {
    if (brain_.state().at(id).state != fleet::TaskState::kReady || waiting_.contains(id)) return;
    if (samples_ >= options_.wait_samples || draw(seed_, "wait sample", id.value()) % 4 != 0) return;
    ++samples_;
    if (const Result<fleet::Explanation> why = fleet::explain(brain_.state(), id); why.ok()) {
      waiting_[id] = {why->reason, record_.wall_ns};
    }
  }

  std::int64_t duration_of(TaskId id, model::AttemptNumber attempt) {
    const fleet::Workflow& workflow = brain_.state().at(id.workflow());
    const std::string& stage = workflow.spec.stages[workflow.tasks[id.index()].stage].name;
    const Durations& durations = options_.durations;
    std::int64_t ns = durations.otherwise_ns;
    const std::uint64_t number = id.value() << 8 | attempt.value();
    if (const auto found = durations.samples_ns.find(stage);
        found != durations.samples_ns.end() && !found->second.empty()) {
      ns = found->second[draw(seed_, "sample", number) % found->second.size()];
    }
    const auto span = static_cast<std::uint64_t>(2 * durations.spread_millionths + 1);
    const std::int64_t factor =
        1'000'000 - durations.spread_millionths + static_cast<std::int64_t>(draw(seed_, "spread", number) % span);
    return std::max<std::int64_t>(
        static_cast<std::int64_t>(static_cast<double>(ns) * static_cast<double>(factor) / 1e6), 1);
  }

  void push(std::int64_t ns, Happening what, const std::string& worker) {
    names_.push_back(worker);
    items_.push({ns, ++number_, what, {}, {}, static_cast<std::uint32_t>(names_.size() - 1)});
  }

  // Hour by hour, the worker is taken away with the given probability, at an even moment of the hour.
  void plan_spot_loss(const std::string& worker, std::int64_t from_ns) {
    if (options_.spot_millionths_per_hour <= 0) return;
    for (std::uint64_t hour = 0; hour < 24 * 365; ++hour) {
      ++spot_draws_;
      if (draw(seed_, "spot", spot_draws_) % 1'000'000 >=
          static_cast<std::uint64_t>(options_.spot_millionths_per_hour)) {
        continue;
      }
      const auto within = static_cast<std::int64_t>(draw(seed_, "spot at", spot_draws_) % kHourNs);
      return push(from_ns + static_cast<std::int64_t>(hour) * kHourNs + within, Happening::kSpotLost, worker);
    }
  }

  const PredictOptions& options_;
  const std::uint64_t seed_;
  std::string* const log_;
  fleet::LogWriter* writer_ = nullptr;
  fleet::Brain brain_;
  fleet::Record record_;
  fleet::Meter meter_;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> items_;
  std::map<TaskId, std::int64_t> started_;  // The last attempt of each task.
  std::vector<std::string> names_;
  std::uint64_t number_ = 0;
  std::uint64_t moved_ = 0;  // Starts and ends of tasks.
  std::uint64_t incarnations_ = 1;
  std::uint64_t spot_draws_ = 0;
  std::size_t samples_ = 0;
  std::map<TaskId, std::pair<fleet::ExplainReason, std::int64_t>> waiting_;
  std::map<std::string, std::int64_t> waits_;
};

}  // namespace

Result<Prediction> predict(const PredictOptions& options) {
  Prediction prediction;
  for (std::int64_t i = 0; i < options.runs; ++i) {
    Run run(options, draw(options.seed, "run", static_cast<std::uint64_t>(i)),
            options.keep_log && i == 0 ? &prediction.log : nullptr);
    ROTA_TRY_ASSIGN(fleet::Figures figures, run.run(prediction.waits_ns));
    prediction.runs.push_back(figures);
  }
  return prediction;
}

std::int64_t quantile(std::vector<std::int64_t> values, std::int64_t permille) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const auto count = static_cast<std::int64_t>(values.size());
  const std::int64_t rank = std::max<std::int64_t>((count * permille + 999) / 1000, 1);
  return values[static_cast<std::size_t>(rank - 1)];
}

}  // namespace rota::sim
