// Commands that try to break the brain: a fleet of workers that change their hardware, refuse, leave and come back;
// users that pause, cancel, retry and set quotas; operators that change policy, modes and toggles; a clock that stands
// still or goes back.
//
// A seed gives one run. Each run has a theme of its own (a mode, a selection, which features are on), so that a
// thousand seeds visit combinations that no scenario has. In every eighth run many templates differ only in their
// inputs. In every sixteenth run equal workers are lost and come back several at once, while tasks of few kinds and
// many priorities wait for them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "fleet/brain.h"

namespace rota::fleet {

class Adversary {
 public:
  explicit Adversary(std::uint64_t seed)
      : prng_(seed * 0x9e3779b97f4a7c15U + 1),
        crowd_(seed % 16 == 9),
        workers_(static_cast<std::uint32_t>(crowd_ ? 3 + prng_.below(3) : 1 + prng_.below(5))),
        twins_(seed % 8 == 3) {}

  [[nodiscard]] std::int64_t now_ns() const { return now_ns_; }
  void pass(std::int64_t ms) { now_ns_ += ms * 1'000'000; }
  [[nodiscard]] std::uint32_t workers() const { return workers_; }
  [[nodiscard]] static std::string name_of(std::uint64_t i) { return "w" + std::to_string(i); }
  // Workers that give back every task at the moment at which they get it.
  [[nodiscard]] bool refuses(const std::string& worker) const { return refusing_.contains(worker); }
  void stop_refusing() { refusing_.clear(); }

  Command next(const Brain& brain) {
    if (step_++ == 0) return SetPolicy{policy()};
    if (step_ <= workers_ + 1) return register_worker(static_cast<std::uint32_t>(step_ - 2), true);
    move_clock();
    const std::uint64_t dice = prng_.below(100);
    if (dice < 14 && submitted_ < 9) return submit();
    if (dice < 55) {
      if (Command command; report(brain, command)) return command;
    }
    if (dice < 63) return Tick();
    if (dice < 70) return everyone_alive();
    return disturb(brain);
  }

  Heartbeats everyone_alive() const {
    Heartbeats command;
    for (std::uint32_t i = 0; i < workers_; ++i) command.workers.push_back(name_of(i));
    return command;
  }

 private:
  void move_clock() {
    const std::uint64_t dice = prng_.below(10);
    if (dice < 3) return;  // It stands still.
    if (dice == 3) {
      now_ns_ -= 700'000'000;
      return;
    }
    pass(static_cast<std::int64_t>(prng_.below(dice == 9 ? 20'000 : 1'500)));
  }

  Policy policy() {
    Policy policy;
    policy.mode = static_cast<DispatchMode>(prng_.below(enumerator_count<DispatchMode>));
    if (prng_.chance(1, 3)) policy.mode = DispatchMode::kAdaptive;
    policy.selection = static_cast<Selection>(prng_.below(7));
    policy.max_queue_per_worker = prng_.chance(1, 2) ? 0 : prng_.between(0, 5);
    policy.preemption = prng_.chance(1, 2);
    policy.fair_share = prng_.chance(1, 4);
    policy.prefer_started = prng_.chance(1, 6);
    policy.prefer_locality = prng_.chance(1, 6);
    policy.merge = prng_.chance(2, 3);
    policy.merge_most = prng_.between(1, 4);
    policy.context_reuse = prng_.chance(1, 2);
    policy.stickiness = prng_.chance(3, 4);
    policy.aging_interval_ms = prng_.chance(1, 2) ? 1'000 : 10'000;
    if (prng_.chance(1, 4)) policy.aging_boost = 0;
    policy.order = prng_.chance(1, 2) ? Order::kFifo : Order::kCriticalPath;
    policy.reservation_after_ms = prng_.chance(1, 3) ? 0 : prng_.between(1, 6) * 1'000;
    policy.queue_most_ms = prng_.chance(1, 2) ? 100 : 5'000;
    policy.cache_ttl_ms = prng_.chance(1, 2) ? 5'000 : 3'600'000;
    policy.heartbeat_ttl_ms = prng_.chance(1, 3) ? 20'000 : 100'000'000;
    policy.no_worker_grace_ms = prng_.chance(1, 3) ? 0 : prng_.between(1, 60) * 1'000;
    policy.retention_ms = prng_.chance(1, 2) ? 15'000 : 100'000'000;
    policy.jitter = prng_.chance(1, 4) ? 0 : 1'000'000;
    if (prng_.chance(1, 3)) policy.fleet = {{"licence", prng_.between(1, 3)}};
    policy.elastic.enable = prng_.chance(1, 3);
    policy.elastic.disable_idle_ms = 2'000;
    policy.elastic.disable_queue_most = prng_.between(0, 3);
    policy.elastic.enable_queue_threshold = prng_.between(0, 5);
    policy.elastic.least_active = prng_.between(0, 2);
    policy.elastic.poll_ms = 2'000;
    policy.elastic.cooldown_ms = prng_.between(0, 5) * 1'000;
    if (crowd_) {
      policy.mode = DispatchMode::kAdaptive;
      policy.elastic.enable = policy.merge = false;
      policy.max_queue_per_worker = 0;
    }
    return policy;
  }

  WorkerSpec hardware(std::uint32_t i, std::uint64_t variant) const {
    WorkerSpec spec;
    spec.name = name_of(i);
    spec.resources.cpu_millis = 1'000 * static_cast<std::int64_t>(1 + variant % 4);
    spec.resources.memory_bytes = std::int64_t{1} << (29 + variant % 4);
    if (variant % 3 != 0) spec.resources.gpus.assign(variant % 3, Device{"h100", std::int64_t{80} << 30});
    if (variant % 2 == 0) spec.resources.named = {{"disk", 2}};
    if (variant % 5 != 0) spec.handlers = {"infer", "sft"};
    spec.programs = variant % 7 != 6;
    spec.zone = variant % 2 == 0 ? "north" : "south";
    spec.cost_microdollars_per_hour = 250'000 * static_cast<std::int64_t>(1 + variant % 3);
    return spec;
  }

  RegisterWorker register_worker(std::uint32_t i, bool fresh) {
    if (fresh) ++lives_[i];
    if (!variants_.contains(i) || (fresh && prng_.chance(1, 4))) variants_[i] = crowd_ ? 1 : prng_.below(12);
    RegisterWorker command{hardware(i, variants_[i]), {}, Incarnation(1 + i + 1'000 * lives_[i])};
    if (prng_.chance(1, 4)) command.caches = {{"model:m0", now_ns_}};
    return command;
  }

  SubmitWorkflow submit() {
    ++submitted_;
    SubmitWorkflow command;
    WorkflowSpec& workflow = command.workflow;
    workflow.name = "flow" + std::to_string(submitted_);
    workflow.user = prng_.chance(1, 2) ? "ann" : "bob";
    workflow.priority = prng_.between(-2, 2);
    const std::uint64_t stages = 1 + prng_.below(4);
    for (std::uint64_t i = 0; i < stages; ++i) {
      TaskTemplate use = work();
      if (twins_) become_twin(use);
      if (crowd_) fill_worker(use);
      Stage stage;
      stage.name = "s" + std::to_string(i);
      stage.use = static_cast<std::int64_t>(i);
      stage.priority = prng_.between(-1, 3);
      if (prng_.chance(1, 2)) {
        for (std::uint64_t item = 1 + prng_.below(4); item > 0; --item) {
          stage.items.push_back("{\"x\":" + std::to_string(item) + "}");
        }
      }
      for (std::uint64_t parent = 0; parent < i; ++parent) {
        if (prng_.chance(1, 4)) stage.needs.push_back(static_cast<std::uint32_t>(parent));
      }
      if (i > 0 && prng_.chance(1, 4)) {
        const std::uint64_t from = prng_.below(i);
        if (workflow.stages[from].items.empty()) {
          use.spec.inputs = "{\"checkpoint\":\"${s" + std::to_string(from) + ".result}\"}";
        }
      }
      if (!stage.items.empty() && !crowd_ && prng_.chance(1, 4)) {
        use.gang = true;
        use.mergeable = false;
      }
      workflow.templates.push_back(std::move(use));
      workflow.stages.push_back(std::move(stage));
    }
    return command;
  }

  // Half of the workflows use one template, with other inputs: their tasks may be merged (B-12).
  void become_twin(TaskTemplate& use) {
    if (submitted_ % 2 == 0) return;
    std::string inputs = std::move(use.spec.inputs);
    if (!twin_) {
      twin_ = use;
      twin_->mergeable = true;
      if (twin_->spec.program) twin_->spec.program->batch = true;
    }
    use = *twin_;
    use.spec.inputs = std::move(inputs);
  }

  // The task takes all cores of a worker, and some memory or none: there are two kinds of tasks, unless one is pinned.
  void fill_worker(TaskTemplate& use) {
    use.needs = Requirements();
    use.needs.cpu_millis = hardware(0, 1).resources.cpu_millis;
    use.needs.memory_bytes = prng_.between(0, 1) << 28;
    use.retry = Retry();
    use.retry.max_attempts = 20;
  }

  TaskTemplate work() {
    TaskTemplate use;
    use.spec.type = prng_.chance(1, 2) ? "infer" : "sft";
    use.spec.inputs = "{\"v\":" + std::to_string(prng_.below(100)) + "}";
    if (prng_.chance(1, 2)) use.spec.program = ProgramSpec{.shell = "true", .batch = prng_.chance(1, 2)};
    use.category = static_cast<Category>(prng_.below(3));
    use.needs.cpu_millis = 500 * prng_.between(0, 6);
    use.needs.memory_bytes = prng_.between(0, 3) << 28;
    if (prng_.chance(1, 6)) use.needs.gpu.count = prng_.between(1, 2);
    if (prng_.chance(1, 6)) use.needs.named = {{"disk", 1}};
    if (prng_.chance(1, 4)) use.needs.named = {{"licence", prng_.between(1, 2)}};
    if (prng_.chance(1, 8)) use.needs.zone = "north";
    if (prng_.chance(1, 8)) use.pinned = name_of(prng_.below(workers_ + 1));
    use.retry.max_attempts = prng_.between(1, 4);
    use.retry.backoff_ms = prng_.chance(1, 3) ? 2'000 : 0;
    use.retry.memory_factor_permille = prng_.chance(1, 2) ? 2'000 : 0;
    use.mergeable = prng_.chance(1, 2);
    use.preemptible = prng_.chance(2, 3);
    if (prng_.chance(1, 3)) use.expect_ms = prng_.between(1, 4'000);
    if (prng_.chance(1, 3)) use.context = {"model:m" + std::to_string(prng_.below(2))};
    return use;
  }

  bool report(const Brain& brain, Command& command) {
    std::vector<TaskId> assigned;
    brain.state().each_worker([&](const Worker& worker) {
      for (const Execution& execution : worker.executions) {
        assigned.insert(assigned.end(), execution.members.begin(), execution.members.end());
      }
    });
    if (assigned.empty()) return false;
    const TaskId id = assigned[prng_.below(assigned.size())];
    const Task& task = brain.state().at(id);
    ReportEnded report{id, task.attempt, {}};
    AttemptOutcome& outcome = report.outcome;
    outcome.end = AttemptEnd::kSucceeded;
    outcome.result = "{\"n\":7}";
    if (prng_.chance(2, 3)) {
      outcome.started_ns = task.assigned_ns + prng_.between(0, 1'000'000'000);
      outcome.ended_ns = outcome.started_ns + prng_.between(0, 3'000'000'000);
    }
    const std::uint64_t dice = prng_.below(10);
    if (task.recalled() && dice < 8) {
      outcome.end = AttemptEnd::kPreempted;
    } else if (task.stopping && dice < 8) {
      outcome.end = prng_.chance(1, 2) ? AttemptEnd::kCancelled : AttemptEnd::kPreempted;
    } else if (dice < 4) {
      outcome.end = AttemptEnd::kFailed;
      outcome.failure = static_cast<FailureKind>(prng_.below(3));
      outcome.message = "boom";
      outcome.final = prng_.chance(1, 8);
      outcome.batch = prng_.chance(1, 2);
    } else if (dice == 4) {
      command = ReportUndeliverable{id, task.attempt};
      return true;
    } else if (dice == 5) {
      command = ReportCheckpoint{id, task.attempt, "{\"step\":3}"};
      return true;
    }
    command = std::move(report);
    return true;
  }

  Command disturb(const Brain& brain) {
    const auto i = static_cast<std::uint32_t>(prng_.below(workers_));
    const std::string name = name_of(i);
    std::vector<TaskId> tasks;
    brain.state().each_workflow([&](const Workflow& workflow) {
      for (const Task& task : workflow.tasks) tasks.push_back(workflow.id_of(task));
    });
    const TaskId any = tasks.empty() ? TaskId() : tasks[prng_.below(tasks.size())];
    if (crowd_ && prng_.chance(3, 4)) {
      if (prng_.chance(2, 3)) return WorkerLost{name, "power"};
      return everyone_alive();
    }
    switch (prng_.below(16)) {
      case 0:
        return WorkerLost{name, "power"};
      case 1:
        return DrainWorker{name};
      case 2:
      case 3:
        return SetWorkerEnabled{name, prng_.chance(1, 2), prng_.chance(2, 3)};
      case 4:
      case 5:
        return register_worker(i, true);
      case 6:
        return register_worker(i, false);
      case 7:
      case 8:
        return Control{static_cast<Action>(prng_.below(4)), {}, any};
      case 9:
        return Control{static_cast<Action>(prng_.below(2)), any.workflow(), {}};
      case 10:
        return SetPriority{{}, any, prng_.between(-3, 5)};
      case 11: {
        SetQuota quota{.user = prng_.chance(1, 2) ? "ann" : "bob", .weight = prng_.between(1, 3)};
        quota.limits.cpu_millis = 1'000 * prng_.between(0, 4);
        quota.limits.tasks = prng_.between(0, 4);
        return quota;
      }
      case 12: {
        Policy changed = brain.state().policy();
        const Policy other = policy();
        if (prng_.chance(1, 2)) changed.elastic.enable = !changed.elastic.enable;
        if (prng_.chance(1, 3)) changed.mode = other.mode;
        if (prng_.chance(1, 3)) changed.fleet = other.fleet;
        if (prng_.chance(1, 3)) changed.preemption = !changed.preemption;
        if (prng_.chance(1, 3)) changed.order = other.order;
        if (prng_.chance(1, 3)) changed.max_queue_per_worker = other.max_queue_per_worker;
        if (prng_.chance(1, 3)) changed.reservation_after_ms = other.reservation_after_ms;
        return SetPolicy{changed};
      }
      case 13:
        if (!refusing_.erase(name)) refusing_.insert(name);
        return Tick();
      case 14:
        return ReportCaches{name, {"model:m" + std::to_string(prng_.below(3))}};
      default:
        pass(30'000);
        return Tick();
    }
  }

  Prng prng_;
  bool crowd_;
  std::uint32_t workers_;
  bool twins_;
  std::optional<TaskTemplate> twin_;
  std::int64_t now_ns_ = 1'000'000'000'000;
  std::uint64_t step_ = 0;
  std::uint32_t submitted_ = 0;
  std::map<std::uint32_t, std::uint64_t> lives_;
  std::map<std::uint32_t, std::uint64_t> variants_;
  std::set<std::string> refusing_;
};

}  // namespace rota::fleet
