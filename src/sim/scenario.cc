#include "sim/scenario.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/hash.h"
#include "base/prng.h"
#include "model/text_parser.h"
#include "model/text_writer.h"

namespace rota::sim {

namespace {

// Even on a logarithmic scale over [low, high], both at least 1.
std::int64_t log_between(Prng& random, std::int64_t low, std::int64_t high) {
  std::int64_t at = low;
  // Doubles a random number of times, then draws within the octave: close enough to log-uniform, and exact integers.
  int octaves = 0;
  for (std::int64_t x = low; x < high; x *= 2) ++octaves;
  for (std::uint64_t n = random.below(static_cast<std::uint64_t>(octaves) + 1); n > 0 && at * 2 <= high; --n) at *= 2;
  return std::min(high, random.between(at, std::min(high, at * 2)));
}

// Which classes of faults a seed has (swarm testing): each with probability 1/2; 5 % of the seeds have none, 5 % all.
class Classes {
 public:
  Classes(Prng& random, bool all) : random_(random), choice_(all ? 1 : random.below(20)) {}
  bool on() {
    if (choice_ == 0) return false;
    if (choice_ == 1) return true;
    return random_.chance(1, 2);
  }

 private:
  Prng& random_;
  std::uint64_t choice_;
};

Noise draw_noise(Prng& random, Classes& classes) {
  Noise noise;
  if (classes.on()) noise.delay_us = log_between(random, 100, 50'000);
  if (classes.on()) noise.duplicate_permille = log_between(random, 1, 200);
  if (classes.on()) noise.stall_permille = log_between(random, 1, 20);
  if (classes.on()) noise.error_permille = log_between(random, 1, 100);
  if (classes.on()) noise.receive_error_permille = log_between(random, 1, 50);
  if (classes.on()) noise.sync_us = log_between(random, 50, 50'000);
  if (classes.on()) noise.slow_sync_permille = log_between(random, 1, 100);
  if (classes.on()) noise.sync_error_per_10000 = log_between(random, 1, 10);
  if (classes.on()) noise.full_permille = log_between(random, 1, 10);
  if (classes.on()) noise.lost_answer_permille = log_between(random, 1, 500);
  if (classes.on()) noise.same_key_permille = log_between(random, 1, 500);
  return noise;
}

SimSettings draw_settings(Prng& random) {
  SimSettings settings;
  settings.heartbeat_ms = log_between(random, 200, 5000);
  settings.bus_capacity = log_between(random, 1, 4096);
  settings.ledger_queue = log_between(random, 4, 4096);
  settings.snapshot_every = log_between(random, 1, 10'000);
  settings.follow = !random.chance(1, 8);
  settings.compact = random.chance(1, 2);
  settings.stand_by = random.chance(1, 2);
  settings.over_redis = random.chance(1, 20);
  settings.on_etcd = random.chance(1, 20);

  fleet::Policy& policy = settings.policy;
  policy.mode = static_cast<fleet::DispatchMode>(random.chance(1, 2) ? 0 : random.below(4));
  policy.selection = static_cast<fleet::Selection>(random.below(7));  // Not kCustom.
  policy.heartbeat_ttl_ms = settings.heartbeat_ms * random.between(2, 6);
  policy.no_worker_grace_ms = log_between(random, 100, 60'000);
  policy.undeliverable_backoff_ms = log_between(random, 1, 2000);
  policy.max_queue_per_worker = random.chance(1, 2) ? 0 : random.between(1, 8);
  policy.merge = random.chance(3, 4);
  policy.merge_most = random.between(1, 6);
  policy.preemption = random.chance(1, 2);
  policy.fair_share = random.chance(1, 3);
  policy.stickiness = random.chance(1, 2);
  policy.prefer_locality = random.chance(1, 3);
  policy.context_reuse = random.chance(1, 2);
  policy.aging_interval_ms = log_between(random, 100, 20'000);
  policy.retention_ms = random.chance(1, 8) ? log_between(random, 1000, 60'000) : policy.retention_ms;
  if (random.chance(1, 4)) policy.backlog_per_worker = log_between(random, 4, 64);
  if (random.chance(1, 3)) policy.fleet = {{"licence", random.between(1, 3)}};
  if (random.chance(1, 4)) {
    policy.elastic.enable = true;
    policy.elastic.disable_idle_ms = log_between(random, 100, 10'000);
    policy.elastic.poll_ms = log_between(random, 100, 5000);
    policy.elastic.cooldown_ms = random.chance(1, 4) ? 0 : log_between(random, 1, 5000);
    policy.elastic.least_active = random.between(1, 2);
  }
  return settings;
}

std::vector<model::WorkerSpec> draw_workers(Prng& random, const ScenarioSize& size) {
  std::vector<model::WorkerSpec> workers;
  const std::int64_t count = size.full ? size.workers_most : random.between(1, size.workers_most);
  for (std::int64_t i = 0; i < count; ++i) {
    model::WorkerSpec& worker = workers.emplace_back();
    worker.name = "w" + std::to_string(i);
    worker.resources.cpu_millis = 1000 * random.between(i == 0 ? 4 : 1, 8);
    worker.resources.memory_bytes = (i == 0 ? std::int64_t{16} : random.between(2, 16)) << 30;
    if (i == 0 || random.chance(1, 3)) {
      const std::int64_t gpus = i == 0 ? 4 : random.between(1, 4);
      for (std::int64_t g = 0; g < gpus; ++g) worker.resources.gpus.push_back({"a100", std::int64_t{40} << 30});
    }
    if (i == 0 || random.chance(1, 2)) worker.capabilities = {"fast"};
    worker.zone = random.chance(1, 2) ? "east" : "west";
    worker.cost_microdollars_per_hour = random.between(100'000, 4'000'000);
    worker.programs = i == 0 || random.chance(3, 4);
  }
  return workers;
}

model::TaskTemplate draw_template(Prng& random, const fleet::Policy& policy) {
  model::TaskTemplate task;
  task.category = static_cast<model::Category>(random.below(3));
  const bool program = random.chance(1, 2);
  task.spec.type = program ? "shell" : "work";
  if (program) task.spec.program.emplace().shell = "simulated";
  task.needs.cpu_millis = random.chance(1, 8) ? 0 : 500 * random.between(1, 6);
  task.needs.memory_bytes = random.between(0, 4) << 30;
  if (random.chance(1, 6)) task.needs.gpu.count = random.between(1, 2);
  if (random.chance(1, 6)) task.needs.capabilities = {"fast"};
  if (!policy.fleet.empty() && random.chance(1, 2)) task.needs.named = {{"licence", 1}};
  task.retry.max_attempts = random.between(1, 5);
  if (random.chance(1, 3)) task.retry.backoff_ms = log_between(random, 1, 3000);
  task.preemptible = random.chance(1, 3);
  task.mergeable = !program && random.chance(1, 3);
  return task;
}

std::string draw_inputs(Prng& random) {
  const std::int64_t ms =
      random.chance(1, 16) ? log_between(random, 3000, kLongestTaskMs) : log_between(random, 1, 3000);
  const std::int64_t fail = random.chance(1, 3) ? random.between(1, 60) : 0;
  std::string text = "{\"ms\":" + std::to_string(ms);
  if (fail > 0) text += ",\"fail\":" + std::to_string(fail);
  return text;
}

// `when`, `each` and `parallel` of the last stage of the workflow, which has its needs and items already.
void draw_stage_rules(Prng& random, model::WorkflowSpec& workflow, const model::TaskTemplate& task) {
  model::Stage& stage = workflow.stages.back();
  if (stage.finally || (!stage.needs.empty() && random.chance(1, 6))) {
    stage.when = static_cast<model::When>(random.below(3));
  }
  if (stage.items.empty() || task.gang) return;
  if (random.chance(1, 4)) stage.parallel = random.between(1, 3);
  if (stage.waits_for_end()) return;
  for (const std::uint32_t need : stage.needs) {
    const std::size_t before = workflow.stages[need].items.size();
    if (before == 0 || random.chance(1, 2)) continue;
    const bool one_each = stage.items.size() <= before && random.chance(1, 2);
    stage.each.push_back({need, {one_each ? "i" : "half"}});
  }
}

std::vector<model::WorkflowSpec> draw_workflows(Prng& random, const fleet::Policy& policy, const ScenarioSize& size) {
  std::vector<model::WorkflowSpec> workflows;
  std::int64_t left = size.full ? size.tasks_most : log_between(random, 3, std::max<std::int64_t>(size.tasks_most, 3));
  while (left > 0 && (size.full || workflows.size() < 12)) {
    model::WorkflowSpec& workflow = workflows.emplace_back();
    workflow.name = "f" + std::to_string(workflows.size());
    workflow.user = random.chance(1, 2) ? "ann" : "bob";
    workflow.priority = random.between(-2, 5);
    if (random.chance(1, 6)) workflow.deadline_ms = log_between(random, 200, 20'000);
    workflow.fail_fast = random.chance(1, 5);
    const std::int64_t stages = random.between(1, 6);
    // The last stages; what they need is in `finally`, too.
    const std::int64_t finally_from =
        random.chance(1, 5) ? std::max<std::int64_t>(1, stages - random.between(1, 2)) : stages;
    for (std::int64_t s = 0; s < stages && left > 0; ++s) {
      model::Stage& stage = workflow.stages.emplace_back();
      stage.name = "s" + std::to_string(s);
      stage.use = s;
      model::TaskTemplate task = draw_template(random, policy);
      std::string inputs = draw_inputs(random);
      const std::int64_t items = random.chance(1, 2) ? 1 : random.between(2, 12);
      left -= items;
      if (items > 1) {
        for (std::int64_t i = 0; i < items; ++i) {
          stage.items.push_back("{\"i\":" + std::to_string(i) + ",\"half\":" + std::to_string(i % 2) + "}");
        }
        if (items <= 3 && random.chance(1, 4)) {
          task.gang = true;
          task.mergeable = false;
          task.needs.gpu.count = 0;
          task.needs.cpu_millis = std::min<std::int64_t>(task.needs.cpu_millis, 1000);
          task.needs.named.clear();
        }
      }
      stage.finally = s >= finally_from;
      for (std::int64_t p = 0; p < s; ++p) {
        if (random.chance(1, 2) && workflow.stages[static_cast<std::size_t>(p)].finally == stage.finally) {
          stage.needs.push_back(static_cast<std::uint32_t>(p));
        }
      }
      draw_stage_rules(random, workflow, task);
      for (const std::uint32_t p : stage.needs) {
        if (stage.waits_for_end()) break;  // It may have no result.
        inputs += ",\"up" + std::to_string(p) + "\":\"${s" + std::to_string(p) + ".result}\"";
      }
      // Weights that another stage has made: the task goes to the worker that has them (B-11).
      if (!stage.waits_for_end() && !stage.needs.empty() && random.chance(1, 4)) {
        inputs += ",\"adapter\":\"${s" + std::to_string(stage.needs.front()) + ".result}\"";
      }
      task.spec.inputs = inputs + "}";
      stage.priority = random.chance(1, 4) ? random.between(-3, 10) : 0;
      workflow.templates.push_back(std::move(task));
    }
  }
  return workflows;
}

// The stage waits for the end of what it needs: it must not refer to results, which may be missing.
void run_always(model::WorkflowSpec& workflow, std::size_t stage) {
  workflow.stages[stage].when = model::When::kAlways;
  std::string& inputs = workflow.templates[static_cast<std::size_t>(workflow.stages[stage].use)].spec.inputs;
  if (const std::size_t reference = inputs.find(",\"up"); reference != std::string::npos) {
    inputs = inputs.substr(0, reference) + "}";
  }
}

// Some stages with one task become fan-outs over the results of a stage with several (Y-2).
void add_fan_outs(Scenario& scenario) {
  for (std::size_t w = 0; w < scenario.workflows.size(); ++w) {
    model::WorkflowSpec& workflow = scenario.workflows[w];
    for (std::size_t s = 1; s < workflow.stages.size(); ++s) {
      model::Stage& stage = workflow.stages[s];
      if (!stage.items.empty() || draw(scenario.seed, "fan out", w, s) % 3 != 0) continue;
      for (std::uint32_t of = 0; of < s; ++of) {
        const model::Stage& source = workflow.stages[of];
        const bool needed = std::find(stage.needs.begin(), stage.needs.end(), of) != stage.needs.end();
        if (source.items.size() < 2 || (!needed && (!stage.finally || source.finally))) continue;
        stage.fan_out.emplace().lists.push_back({"x", "${" + source.name + ".result}"});
        if (draw(scenario.seed, "fan out over nothing", w, s) % 8 == 0) stage.fan_out->lists.push_back({"y", "[]"});
        if (draw(scenario.seed, "fan out in turn", w, s) % 4 == 0) stage.parallel = 2;
        // Half of them run whatever the results are, and a client retries what has failed.
        if (draw(scenario.seed, "fan out always", w, s) % 2 == 0) break;
        if (!stage.finally && stage.each.empty()) run_always(workflow, s);
        for (std::uint64_t n = 0; n < 3; ++n) {
          const auto at_ms = draw(scenario.seed, "fan out retried", w, s, n) %
                             static_cast<std::uint64_t>(std::max<std::int64_t>(scenario.faults_end_ms, 1));
          scenario.actions.push_back({.kind = ClientActionKind::kRetry,
                                      .at_ms = static_cast<std::int64_t>(at_ms),
                                      .workflow = static_cast<std::int64_t>(w)});
        }
        break;
      }
    }
  }
}

// Half of what is paused is resumed soon: copies of the pause may arrive after that.
void add_resumes(Scenario& scenario) {
  const std::size_t drawn = scenario.actions.size();
  for (std::size_t i = 0; i < drawn; ++i) {
    ClientAction action = scenario.actions[i];
    if (action.kind != ClientActionKind::kPause || draw(scenario.seed, "resumed", i) % 2 == 0) continue;
    action.kind = ClientActionKind::kResume;
    action.at_ms += static_cast<std::int64_t>(draw(scenario.seed, "resumed after", i) % 800);
    action.vanishes = false;
    scenario.actions.push_back(action);
  }
}

std::vector<ClientAction> draw_actions(Prng& random, Classes& classes, const Scenario& scenario) {
  std::vector<ClientAction> actions;
  const auto last = scenario.faults_end_ms;
  for (std::size_t i = 0; i < scenario.workflows.size(); ++i) {
    actions.push_back({.kind = ClientActionKind::kSubmit,
                       .at_ms = i == 0 ? 20 : random.between(0, last / 2),
                       .workflow = static_cast<std::int64_t>(i),
                       .vanishes = random.chance(1, 20)});
  }
  const auto storm = [&](std::initializer_list<ClientActionKind> kinds, std::int64_t most) {
    if (!classes.on()) return;
    for (std::int64_t n = random.between(1, most); n > 0; --n) {
      const ClientActionKind kind = *(kinds.begin() + random.below(kinds.size()));
      ClientAction action{.kind = kind, .at_ms = random.between(0, last), .vanishes = random.chance(1, 20)};
      const bool of_worker = kind == ClientActionKind::kDisableWorker || kind == ClientActionKind::kEnableWorker;
      action.workflow =
          static_cast<std::int64_t>(random.below(of_worker ? scenario.workers.size() : scenario.workflows.size()));
      if (random.chance(1, 3)) action.task = random.between(0, 5);
      action.count = random.between(0, 5);
      actions.push_back(action);
      if (kind != ClientActionKind::kCancel || random.chance(1, 2)) continue;
      // Another client pauses at the same moment what is being cancelled.
      action.kind = ClientActionKind::kPause;
      action.at_ms += random.between(0, 3);
      actions.push_back(action);
    }
  };
  using K = ClientActionKind;
  storm({K::kPause, K::kResume}, 12);
  storm({K::kCancel, K::kRetry}, 6);
  storm({K::kPriority}, 6);
  storm({K::kQuota}, 4);
  storm({K::kDisableWorker, K::kEnableWorker}, 6);
  storm({K::kRead}, 6);
  return actions;
}

std::vector<Fault> draw_faults(Prng& random, Classes& classes, const Scenario& scenario) {
  std::vector<Fault> faults;
  const std::int64_t last = scenario.faults_end_ms;
  const auto workers = static_cast<std::int64_t>(scenario.workers.size());
  const auto some = [&](std::initializer_list<FaultKind> kinds, std::int64_t most, std::int64_t for_most_ms) {
    if (!classes.on()) return;
    for (std::int64_t n = random.between(1, most); n > 0; --n) {
      Fault fault;
      fault.kind = *(kinds.begin() + random.below(kinds.size()));
      fault.at_ms = random.between(0, last);
      fault.for_ms = random.chance(1, 8) ? 0 : log_between(random, 1, for_most_ms);
      fault.worker = random.between(0, workers - 1);
      fault.count = log_between(random, 1, 100);
      fault.point = static_cast<CrashPoint>(random.below(kCrashPoints));
      faults.push_back(fault);
    }
  };
  using K = FaultKind;
  some({K::kHostCrash}, 4, 5000);
  some({K::kHostCrashAt}, 6, 2000);
  some({K::kWorkerCrash}, 6, 10'000);
  some({K::kWorkerLeaves}, 3, 10'000);
  some({K::kPartition, K::kPartitionToWorker, K::kPartitionToHost}, 5, 20'000);
  some({K::kBusUnreachable}, 4, 10'000);
  some({K::kWorkerSlow}, 3, 10'000);
  some({K::kDiskError}, 2, 1000);
  some({K::kClockJump}, 2, 1);
  some({K::kRedis}, 5, 2000);
  some({K::kBusFull}, 2, 20'000);
  for (Fault& fault : faults) {
    if (fault.kind == K::kBusUnreachable && random.chance(1, 3)) fault.worker = -1;
    if (fault.kind == K::kClockJump) {
      fault.count = random.chance(1, 2) ? random.between(-60'000, 60'000) : random.between(-3'600'000, 3'600'000);
    }
    if (fault.kind == K::kHostCrashAt) fault.count = log_between(random, 1, 50);
    const bool cuts_off = fault.kind == K::kPartition || fault.kind == K::kPartitionToHost ||
                          fault.kind == K::kPartitionToWorker || fault.kind == K::kBusUnreachable;
    if (cuts_off && random.chance(1, 5)) fault.for_ms = 0;  // Until the faults end.
  }
  std::stable_sort(faults.begin(), faults.end(), [](const Fault& a, const Fault& b) { return a.at_ms < b.at_ms; });
  return faults;
}

template <class T>
void append_line(std::string& out, std::string_view name, const T& value) {
  out.append(name);
  model::TextWriter(out).fields(value, " ");
  out.push_back('\n');
}

struct WorldLine {
  std::uint64_t seed = 1;
  std::int64_t faults_end_ms = 10'000;
  ROTA_FIELDS(seed, faults_end_ms)
};

}  // namespace

std::uint64_t draw(std::uint64_t seed, std::string_view what, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  return hash_of(seed, what, a, b, c).low;
}

Scenario draw_scenario(std::uint64_t seed, const ScenarioSize& size) {
  Prng random(SplitMix64::mix(seed + 0x526f7461));
  Classes classes(random, size.full);
  Scenario scenario;
  scenario.seed = seed;
  scenario.settings = draw_settings(random);
  scenario.settings.over_redis = size.redis || (scenario.settings.over_redis && !size.full);
  scenario.settings.on_etcd = size.etcd || (scenario.settings.on_etcd && !size.full);
  scenario.noise = draw_noise(random, classes);
  scenario.faults_end_ms = log_between(random, 2000, 30'000);
  scenario.workers = draw_workers(random, size);
  scenario.workflows = draw_workflows(random, scenario.settings.policy, size);
  scenario.actions = draw_actions(random, classes, scenario);
  scenario.faults = draw_faults(random, classes, scenario);
  add_fan_outs(scenario);
  add_resumes(scenario);
  return scenario;
}

std::int64_t total_tasks(const Scenario& scenario) {
  std::int64_t total = 0;
  for (const model::WorkflowSpec& workflow : scenario.workflows) {
    for (const model::Stage& stage : workflow.stages) {
      total += static_cast<std::int64_t>(std::max<std::size_t>(stage.items.size(), 1));
    }
  }
  return total;
}

std::string to_text(const Scenario& scenario) {
  std::string out = "# A scenario of the Rota simulator. `./dev sim --scenario FILE` runs it.\n";
  append_line(out, "world", WorldLine{scenario.seed, scenario.faults_end_ms});
  append_line(out, "settings", scenario.settings);
  append_line(out, "noise", scenario.noise);
  for (const model::WorkerSpec& worker : scenario.workers) append_line(out, "worker", worker);
  for (const model::WorkflowSpec& workflow : scenario.workflows) append_line(out, "workflow", workflow);
  for (const ClientAction& action : scenario.actions) append_line(out, "action", action);
  for (const Fault& fault : scenario.faults) append_line(out, "fault", fault);
  return out;
}

Result<Scenario> parse_scenario(std::string_view text) {
  Scenario scenario;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (line.empty() || line.front() == '#') continue;
    model::TextParser parser(line);
    const std::string_view kind = parser.word();
    bool fine = true;
    if (kind == "world") {
      WorldLine world;
      fine = read_all(parser, world, kind);
      scenario.seed = world.seed;
      scenario.faults_end_ms = world.faults_end_ms;
    } else if (kind == "settings") {
      fine = read_all(parser, scenario.settings, kind);
    } else if (kind == "noise") {
      fine = read_all(parser, scenario.noise, kind);
    } else if (kind == "worker") {
      fine = read_all(parser, scenario.workers.emplace_back(), kind);
    } else if (kind == "workflow") {
      fine = read_all(parser, scenario.workflows.emplace_back(), kind);
    } else if (kind == "action") {
      fine = read_all(parser, scenario.actions.emplace_back(), kind);
    } else if (kind == "fault") {
      fine = read_all(parser, scenario.faults.emplace_back(), kind);
    } else {
      fine = parser.fail(0, "a line begins with world, settings, noise, worker, workflow, action or fault");
    }
    if (!fine) {
      Error error = parser.take_error();
      error.message = "line " + std::to_string(number) + ", " + error.message;
      return error;
    }
  }
  if (scenario.workers.empty()) return Error{ErrorCode::kInvalidArgument, "the scenario has no worker"};
  return scenario;
}

}  // namespace rota::sim
