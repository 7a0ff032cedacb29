// Random commands for property tests and benchmarks: what a fleet of workers and its users might do, from a seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "fleet/brain.h"

namespace rota::fleet {

// Plays workers, users and time against a brain. Every command is legal traffic, though not always welcome: late
// reports, reports of tasks that were taken back, heartbeats of the dead.
class RandomFleet {
 public:
  struct Options {
    Policy policy{};
    std::uint32_t workers = 5;
    bool gpus = true;
    bool faults = true;
    std::uint32_t most_workflows = 8;
    bool language = false;  // Workflows have `when`, `finally`, `parallel`, `each`, `deadline` and `fail_fast`.
  };
  RandomFleet(std::uint64_t seed, Options options) : prng_(seed), options_(std::move(options)) {}

  [[nodiscard]] std::int64_t now_ns() const { return now_ns_; }
  void pass(std::int64_t ms) { now_ns_ += ms * 1'000'000; }
  [[nodiscard]] std::uint64_t draw(std::uint64_t below) { return prng_.below(below); }

  // The next command, given what the brain knows.
  Command next(const Brain& brain) {
    if (step_++ == 0) return SetPolicy{options_.policy};
    if (step_ <= options_.workers + 1) return restarted(static_cast<std::uint32_t>(step_) - 2);
    now_ns_ += static_cast<std::int64_t>(prng_.below(3'000)) * 1'000'000;
    const std::uint64_t dice = prng_.below(100);
    if (dice < 12 && submitted_ < options_.most_workflows) return submit();
    if (dice < 60) {
      if (Command report; choose_report(brain, report)) return report;
    }
    if (dice < 75 || !options_.faults) return everyone_alive();
    if (dice < 82) return Tick();
    return fault(brain);
  }

  // Workers that answer everything well, until nothing is left to do.
  bool finish(const Brain& brain, Command& command) {
    if (brain.state().unfinished_tasks() == 0) return retry_fan_out(brain, command);
    ++finishing_;
    now_ns_ += 1'000'000;
    if (finishing_ == 1) {  // What a quota forbids never runs.
      command = SetQuota{.user = "ann"};
      return true;
    }
    if (finishing_ % 7 == 0) {
      command = everyone_alive();
      return true;
    }
    if (finishing_ % 7 == 1) {
      now_ns_ += 1'000'000'000;
      command = Tick();
      return true;
    }
    if (finishing_ % 7 == 2) {
      command = restarted(finishing_ / 7 % options_.workers);
      const Worker* known = brain.state().find_worker(std::get<RegisterWorker>(command).worker.name);
      if (known == nullptr || !known->takes_tasks()) return true;
    }
    if (finishing_ % 7 == 3) {
      Command enable;
      bool found = false;
      brain.state().each_worker([&](const Worker& each) {
        if (each.disabled_by_hand) {
          command = SetWorkerEnabled{each.spec.name, true};
          found = true;
        }
      });
      if (found) return true;
    }
    if (finishing_ % 7 == 4) {
      bool found = false;
      brain.state().each_workflow([&](const Workflow& workflow) {
        for (const Task& task : workflow.tasks) {
          if (task.state == TaskState::kPaused && !found) {
            command = Control{Action::kResume, {}, workflow.id_of(task)};
            found = true;
          }
        }
      });
      if (found) return true;
    }
    TaskId running;
    brain.state().each_worker([&](const Worker& each) {
      if (running.is_none() && !each.executions.empty()) running = each.executions.front().members.front();
    });
    if (running.is_none()) {
      command = Tick();
    } else {
      const Task& task = brain.state().at(running);
      command = ended(running, task.attempt, task.stopping ? AttemptEnd::kCancelled : AttemptEnd::kSucceeded);
    }
    return true;
  }

  WorkerSpec worker(std::uint32_t i) {
    WorkerSpec spec;
    spec.name = "w" + std::to_string(i);
    spec.resources.cpu_millis = 1000 * (1 + i % 4);
    spec.resources.memory_bytes = std::int64_t{1} << (30 + i % 3);
    if (i % 3 == 1) spec.resources.named = {{"licence", 2}};
    if (i % 4 != 0) spec.handlers = {"sft"};
    if (i % 6 == 5) spec.programs = false;
    spec.zone = i % 2 == 0 ? "north" : "south";
    spec.cost_microdollars_per_hour = 250'000 * (1 + i % 3);
    if (options_.gpus && i % 2 == 1) spec.resources.gpus.assign(i % 4, Device{"h100", std::int64_t{80} << 30});
    return spec;
  }

 private:
  Command submit() {
    ++submitted_;
    SubmitWorkflow command;
    WorkflowSpec& workflow = command.workflow;
    workflow.name = "flow" + std::to_string(submitted_);
    workflow.user = prng_.chance(1, 2) ? "ann" : "bob";
    workflow.priority = prng_.between(-2, 2);
    const std::uint64_t stages = 1 + prng_.below(6);
    for (std::uint64_t i = 0; i < stages; ++i) {
      TaskTemplate use;
      use.spec.type = prng_.chance(1, 2) ? "sft" : "inference";
      if (use.spec.type != "sft" || prng_.chance(2, 3)) use.spec.program = ProgramSpec{.shell = "true"};
      if (prng_.chance(1, 10)) use.needs.named = {{"licence", prng_.between(1, 2)}};
      use.category = use.spec.type == "sft" ? Category::kTraining : Category::kInference;
      use.needs.cpu_millis = 500 * prng_.between(0, 4);
      use.needs.memory_bytes = prng_.between(0, 4) << 28;
      if (options_.gpus && prng_.chance(1, 6)) use.needs.gpu.count = 1;
      use.retry.max_attempts = prng_.between(1, 4);
      use.retry.backoff_ms = prng_.chance(1, 3) ? 500 : 0;
      use.retry.memory_factor_permille = 1500;
      use.mergeable = prng_.chance(1, 3);
      if (use.spec.program) use.spec.program->batch = use.mergeable;
      use.preemptible = prng_.chance(1, 2);
      if (prng_.chance(1, 3)) use.context = {"model:m" + std::to_string(prng_.below(3))};
      Stage stage;
      stage.name = "s" + std::to_string(i);
      stage.use = static_cast<std::int64_t>(i);
      stage.priority = prng_.between(-1, 1);
      if (prng_.chance(1, 3)) stage.items.assign(1 + prng_.below(4), "{\"x\":1}");
      if (i > 0) {
        for (std::uint64_t parent = 0; parent < i; ++parent) {
          if (prng_.chance(1, 3)) stage.needs.push_back(static_cast<std::uint32_t>(parent));
        }
        const std::string before = "s" + std::to_string(prng_.below(i));
        const bool single = workflow.stages[std::stoul(before.substr(1))].items.empty();
        if (single && prng_.chance(1, 4)) use.spec.inputs = "{\"checkpoint\":\"${" + before + ".result}\"}";
        if (single && prng_.chance(1, 5)) use.condition = "${" + before + ".result.n} == 7";
      }
      if (!stage.items.empty() && prng_.chance(1, 3)) use.gang = true;
      if (options_.language) add_rules(workflow, stage, use);
      workflow.templates.push_back(use);
      workflow.stages.push_back(stage);
    }
    if (options_.language) {
      Prng more(submitted_ * 31);
      workflow.fail_fast = more.chance(1, 4);
      if (more.chance(1, 4)) workflow.deadline_ms = more.between(1, 60'000);
    }
    return command;
  }

  // `when`, `finally`, `parallel` and `each` (Y-3 to Y-5). Drawn from numbers of its own, so that fleets without these
  // stay as they are.
  void add_rules(const WorkflowSpec& workflow, Stage& stage, const TaskTemplate& use) {
    Prng more(submitted_ * 31 + workflow.stages.size() + 7);
    if (!stage.items.empty() && !use.gang && more.chance(1, 2)) stage.parallel = more.between(1, 3);
    for (std::size_t i = 0; i < stage.items.size(); ++i) stage.items[i] = i % 2 == 0 ? "{\"x\":1}" : "{\"x\":2}";
    if (!use.condition.empty() || use.spec.inputs != "{}") return;
    for (const std::uint32_t need : stage.needs) {
      const std::size_t there = workflow.stages[need].items.size();
      if (!stage.items.empty() && there >= std::min<std::size_t>(stage.items.size(), 2) && more.chance(1, 2)) {
        stage.each.push_back({need, {"x"}});
      }
    }
    if (!stage.each.empty()) return;
    add_end_rules(workflow, stage, more);
    if (stage.items.empty() && !use.gang && more.chance(1, 2)) fan_out(workflow, stage, more);
  }

  void add_end_rules(const WorkflowSpec& workflow, Stage& stage, Prng& more) {
    if (!workflow.stages.empty() && more.chance(1, 3)) {
      stage.finally = true;
      std::erase_if(stage.needs, [&](std::uint32_t need) { return !workflow.stages[need].finally; });
      stage.when = static_cast<When>(more.below(3));
      return;
    }
    std::erase_if(stage.needs, [&](std::uint32_t need) { return workflow.stages[need].finally; });
    if (!stage.needs.empty() && more.chance(1, 3)) stage.when = static_cast<When>(more.below(3));
  }

  // Retries, once, a workflow that failed and has a fan-out with items.
  bool retry_fan_out(const Brain& brain, Command& command) {
    bool found = false;
    brain.state().each_workflow([&](const Workflow& workflow) {
      const auto expanded = [](const Stage& stage) { return stage.fan_out && !stage.items.empty(); };
      if (found || workflow.outcome != Outcome::kFailed ||
          std::none_of(workflow.spec.stages.begin(), workflow.spec.stages.end(), expanded)) {
        return;
      }
      if (!retried_.insert(workflow.id).second) return;
      command = Control{Action::kRetry, workflow.id, {}};
      found = true;
    });
    return found;
  }

  // Over the results of a stage with several tasks (Y-2).
  static void fan_out(const WorkflowSpec& workflow, Stage& stage, Prng& more) {
    for (std::uint32_t of = 0; of < workflow.stages.size(); ++of) {
      const Stage& source = workflow.stages[of];
      const bool needed = std::find(stage.needs.begin(), stage.needs.end(), of) != stage.needs.end();
      if (source.items.size() < 2 || (!needed && !(stage.finally && !source.finally))) continue;
      stage.fan_out.emplace().lists.push_back({"x", "${" + source.name + ".result}"});
      if (more.chance(1, 3)) stage.parallel = more.between(1, 3);
      return;
    }
  }

  bool choose_report(const Brain& brain, Command& command) {
    std::vector<TaskId> running;
    brain.state().each_worker([&](const Worker& each) {
      for (const Execution& execution : each.executions) {
        running.insert(running.end(), execution.members.begin(), execution.members.end());
      }
    });
    if (running.empty()) return false;
    const TaskId id = running[prng_.below(running.size())];
    const Task& task = brain.state().at(id);
    AttemptNumber attempt = task.attempt;
    if (prng_.chance(1, 20) && attempt.value() > 1) attempt = AttemptNumber(attempt.value() - 1);  // Late.
    ReportEnded report = ended(id, attempt, AttemptEnd::kSucceeded);
    if (task.stopping && prng_.chance(2, 3)) {
      report.outcome.end = prng_.chance(1, 2) ? AttemptEnd::kCancelled : AttemptEnd::kPreempted;
    } else if (!options_.faults || prng_.chance(4, 5)) {
      if (prng_.chance(1, 2)) report.outcome.result = "null";
    } else {
      report.outcome.end = AttemptEnd::kFailed;
      report.outcome.failure = static_cast<FailureKind>(prng_.below(3));
      report.outcome.message = "boom";
      report.outcome.final = prng_.chance(1, 8);
    }
    command = std::move(report);
    return true;
  }

  // A final report from a machine whose clock may be wrong by a second in either direction.
  ReportEnded ended(TaskId task, AttemptNumber attempt, AttemptEnd end) {
    ReportEnded report{task, attempt, {}};
    report.outcome.end = end;
    if (end == AttemptEnd::kSucceeded) report.outcome.result = "{\"n\":7}";
    if (prng_.chance(9, 10)) {
      report.outcome.started_ns = now_ns_ + prng_.between(-2'000, 1'000) * 1'000'000;
      report.outcome.ended_ns = now_ns_ + prng_.between(-1'000, 1'000) * 1'000'000;
    }
    return report;
  }

  Command everyone_alive() const {
    Heartbeats command;
    for (std::uint32_t i = 0; i < options_.workers; ++i) command.workers.push_back("w" + std::to_string(i));
    return command;
  }

  // In a new life.
  RegisterWorker restarted(std::uint32_t i) { return {worker(i), {}, Incarnation(1 + i + 1000 * ++lives_[i])}; }

  // Restarted; or the same message again, or one of an earlier life; or a worker that knows of no lives.
  Command registered() {
    const auto i = static_cast<std::uint32_t>(prng_.below(options_.workers));
    RegisterWorker command = restarted(i);
    command.caches = {{"model:m0", now_ns_ - static_cast<std::int64_t>(prng_.below(1'000)) * 1'000'000}};
    const std::uint64_t dice = prng_.below(8);
    if (dice == 0) command.incarnation = Incarnation();
    if (dice <= 2) return command;
    --lives_[i];
    const std::uint64_t back = dice == 3 && lives_[i] > 1 ? 2000 : 1000;
    command.incarnation = Incarnation(command.incarnation.value() - back);
    return command;
  }

  Command quota() {
    SetQuota command{.user = "ann", .weight = prng_.between(1, 3)};
    command.limits.cpu_millis = 1000 * prng_.between(0, 4);
    command.limits.tasks = prng_.between(0, 3);
    return command;
  }

  Command fault(const Brain& brain) {
    const std::string name = "w" + std::to_string(prng_.below(options_.workers));
    std::vector<TaskId> tasks;
    brain.state().each_workflow([&](const Workflow& workflow) {
      for (const Task& task : workflow.tasks) tasks.push_back(workflow.id_of(task));
    });
    const TaskId any = tasks.empty() ? TaskId() : tasks[prng_.below(tasks.size())];
    switch (prng_.below(12)) {
      case 0:
        return WorkerLost{name, "power"};
      case 1:
        return DrainWorker{name};
      case 2:
        return SetWorkerEnabled{name, prng_.chance(1, 2)};
      case 3:
        return registered();
      case 4:
        return Control{static_cast<Action>(prng_.below(4)), {}, any};
      case 5:
        return Control{static_cast<Action>(prng_.below(4)), any.workflow(), {}};
      case 6:
        return SetPriority{{}, any, prng_.between(-3, 3)};
      case 7:
        return quota();
      case 8:
        return ReportUndeliverable{any, tasks.empty() ? AttemptNumber() : brain.state().at(any).attempt};
      case 9:
        return ReportCheckpoint{any, tasks.empty() ? AttemptNumber() : brain.state().at(any).attempt, "{\"step\":3}"};
      case 10:
        return ReportCaches{name, {"model:m1"}};
      default:
        pass(40'000);
        return Tick();
    }
  }

  Prng prng_;
  Options options_;
  std::int64_t now_ns_ = 1'000'000'000;
  std::uint64_t step_ = 0;
  std::uint32_t submitted_ = 0;
  std::uint32_t finishing_ = 0;
  std::map<std::uint32_t, std::uint64_t> lives_;  // By worker: how many it has had.
  std::set<WorkflowId> retried_;
};

}  // namespace rota::fleet
