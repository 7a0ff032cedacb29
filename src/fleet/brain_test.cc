// The brain with random fleets: properties that always hold.
#include "fleet/brain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "base/sanitizers.h"
#include "fleet/codec.h"
#include "fleet/explain.h"
#include "fleet/frozen_log_test.h"
#include "fleet/random_fleet_test.h"

namespace rota::fleet {
namespace {

std::uint64_t seeds() {
  const char* text = std::getenv("ROTA_FLEET_SEEDS");
  return text == nullptr ? (kUnderAsan ? 30 : 150) : std::strtoull(text, nullptr, 10);
}

RandomFleet::Options options_of(std::uint64_t seed) {
  RandomFleet::Options options;
  options.workers = static_cast<std::uint32_t>(1 + seed % 6);
  options.policy.mode = static_cast<DispatchMode>(seed % enumerator_count<DispatchMode>);
  options.policy.selection = static_cast<Selection>(seed / 4 % 7);
  options.policy.max_queue_per_worker = seed % 3;
  options.policy.preemption = seed % 2 == 0;
  options.policy.fair_share = seed % 5 == 0;
  options.policy.prefer_started = seed % 7 == 0;
  options.policy.elastic.enable = seed % 3 == 0;
  options.policy.elastic.disable_idle_ms = 5'000;
  options.policy.elastic.poll_ms = 3'000;
  options.policy.elastic.cooldown_ms = 4'000;
  options.language = seed / 2 % 2 == 1;
  return options;
}

// Checks events alone, independently of the state.
class Watcher {
 public:
  void see(const Record& record, const State& state) {
    see_lives(record);
    for (const Event& event : record.events) {
      if (const auto* e = std::get_if<TaskAssigned>(&event)) {
        assigned(e->task, e->attempt, state);
        for (const AttemptId& member : e->members) assigned(member.task, member.attempt, state);
      }
      if (const auto* e = std::get_if<TaskSucceeded>(&event)) ended(e->task);
      if (const auto* e = std::get_if<WorkflowEnded>(&event)) {
        ++ends_[e->workflow];
        if (const Workflow* workflow = state.find(e->workflow)) check_items(*workflow);
      }
      if (const auto* e = std::get_if<StageCollapsed>(&event)) {
        ++collapsed_;
        ends_.erase(e->workflow);
        retried_.insert(e->workflow);
        const Workflow& workflow = state.at(e->workflow);
        EXPECT_TRUE(workflow.stages[e->stage].repeats);
        succeeded_.erase(TaskId(e->workflow, workflow.stages[e->stage].first));
      }
      if (const auto* e = std::get_if<TaskRequeued>(&event); e != nullptr && e->reason == RequeueReason::kRetried) {
        ends_.erase(e->task.workflow());
        retried_.insert(e->task.workflow());
        // Y-4: what ran after a failure runs again when the failure is retried.
        const Workflow& workflow = state.at(e->task.workflow());
        if (workflow.stages[workflow.tasks[e->task.index()].stage].repeats) succeeded_.erase(e->task);
        EXPECT_FALSE(succeeded_.contains(e->task));
      }
    }
  }
  [[nodiscard]] int heard_again() const { return heard_again_; }
  [[nodiscard]] int collapsed() const { return collapsed_; }
  void check_ends(const State& state) const {
    state.each_workflow([&](const Workflow& workflow) {
      const auto found = ends_.find(workflow.id);
      EXPECT_EQ(found == ends_.end() ? 0 : found->second, 1) << workflow.id;
    });
  }

 private:
  // Y-2, Y-4: the items of a fan-out that has run are the results that it was drawn over (random_fleet_test.h), also if
  // some of these had failed first and were retried.
  static void check_items(const Workflow& workflow) {
    for (std::uint32_t s = 0; s < workflow.spec.stages.size(); ++s) {
      const Stage& stage = workflow.spec.stages[s];
      if (!stage.fan_out || stage.items.empty() || workflow.stages[s].unfinished > 0) continue;
      const std::string source = stage.fan_out->lists[0].values;
      for (std::uint32_t of = 0; of < s; ++of) {
        if (source != "${" + workflow.spec.stages[of].name + ".result}") continue;
        ASSERT_EQ(stage.items.size(), workflow.stages[of].count);
        for (std::uint32_t i = 0; i < workflow.stages[of].count; ++i) {
          const Task& task = workflow.tasks[workflow.stages[of].task(i)];
          const bool none = task.extra == nullptr || task.extra->result.empty();
          EXPECT_EQ(stage.items[i], "{\"x\":" + (none ? "null" : task.extra->result) + "}");
        }
      }
    }
  }
  // U-1, B-16: after a registration with the same incarnation the worker keeps its tasks.
  void see_lives(const Record& record) {
    const auto* command = std::get_if<RegisterWorker>(&record.command);
    if (command == nullptr) return;
    std::vector<Incarnation>& lives = lives_[command->worker.name];
    const bool known = std::find(lives.begin(), lives.end(), command->incarnation) != lives.end();
    if (!command->incarnation.is_none() && known && lives.back() == command->incarnation) {
      ++heard_again_;
      for (const Event& event : record.events) {
        const auto* changed = std::get_if<WorkerChanged>(&event);
        EXPECT_TRUE(changed == nullptr || changed->change != WorkerChange::kUnreachable) << "the same life, and lost";
        const auto* requeued = std::get_if<TaskRequeued>(&event);
        EXPECT_TRUE(requeued == nullptr || requeued->reason != RequeueReason::kWorkerLost) << "the same life, and lost";
        const auto* failed = std::get_if<TaskFailed>(&event);
        EXPECT_TRUE(failed == nullptr || failed->kind != FailureKind::kWorkerLost) << "the same life, and lost";
      }
    }
    for (const Event& event : record.events) {
      if (std::holds_alternative<WorkerRegistered>(event)) lives.push_back(command->incarnation);
    }
  }
  void assigned(TaskId id, AttemptNumber attempt, const State& state) {
    EXPECT_EQ(attempt.value(), ++attempts_[id]) << "attempts count up by one";
    EXPECT_FALSE(succeeded_.contains(id)) << "nothing runs after it has succeeded";
    const Workflow& workflow = state.at(id.workflow());
    const std::uint32_t own = state.at(id).stage;
    // What comes after a failure may run while the failure is retried.
    if (workflow.stages[own].repeats && retried_.contains(id.workflow())) return;
    const bool for_end = workflow.spec.stages[own].waits_for_end();
    if (workflow.spec.stages[own].finally) {
      for (const Task& task : workflow.tasks) {
        EXPECT_TRUE(workflow.spec.stages[task.stage].finally || graph::is_terminal(task.state)) << "finally is early";
      }
    }
    for (const std::uint32_t need : workflow.spec.stages[own].needs) {
      const StageState& stage = workflow.stages[need];
      const ItemLink* link = workflow.link_of(own, need);
      for (const std::uint32_t t : stage.tasks()) {
        const Task& before = workflow.tasks[t];
        if (link != nullptr && workflow.spec.stages[need].items[stage.number(t)] !=
                                   workflow.spec.stages[own].items[workflow.stages[own].number(id.index())]) {
          continue;
        }
        EXPECT_TRUE(before.state == TaskState::kSucceeded || (for_end && graph::is_terminal(before.state)))
            << "a dependency is violated";
      }
    }
  }
  void ended(TaskId id) { EXPECT_TRUE(succeeded_.emplace(id, true).second) << "a task succeeds once"; }

  std::map<TaskId, std::uint32_t> attempts_;
  std::map<TaskId, bool> succeeded_;
  std::set<WorkflowId> retried_;
  std::map<WorkflowId, int> ends_;
  std::map<std::string, std::vector<Incarnation>> lives_;
  int heard_again_ = 0;
  int collapsed_ = 0;
};

std::string unfinished(const State& state) {
  std::string text;
  state.each_workflow([&](const Workflow& workflow) {
    for (const Task& task : workflow.tasks) {
      if (graph::is_terminal(task.state)) continue;
      text += "\n  " + workflow.id_of(task).to_string() + " " + std::string(graph::to_string(task.state)) + ": " +
              explain(state, workflow.id_of(task))->sentence;
      if (task.shape == kNoShape) continue;
      const Shape& shape = state.placement().shape(task.shape);
      text += " live " + std::to_string(shape.live) + " start " + std::to_string(shape.start) + " gang " +
              std::to_string(shape.key.gang);
    }
  });
  state.each_worker([&](const Worker& worker) {
    text += "\n  " + worker.spec.name + " " + std::string(to_string(worker.status(0))) + " runs " +
            std::to_string(worker.executions.size()) + " owner " + worker.owner.to_string();
  });
  return text;
}

struct Played {
  std::vector<std::string> records;  // Encoded.
  Hash128 hash;
  int heard_again = 0;  // Registrations of the same life.
  int collapsed = 0;    // Fan-outs that were expanded again.
};

// Plays a fleet of this seed; checks everything after each step.
Played play(std::uint64_t seed, int steps) {
  RandomFleet fleet(seed, options_of(seed));
  Brain brain;
  Brain follower;  // Only ever sees events.
  Watcher watcher;
  Played played;
  Hash128 chain = first_chain();
  const auto step = [&](Command command) {
    const Hash128 before = brain.hash();
    Result<Record> record = brain.execute(std::move(command), fleet.now_ns());
    if (!record.ok() || record->index == 0) {
      EXPECT_EQ(brain.hash(), before) << "refused, and yet it changed something";
      return;
    }
    brain.check_invariants();
    watcher.see(*record, brain.state());
    std::string bytes;
    chain = encode_record(*record, chain, bytes);
    const Result<void> applied = follower.apply(*record);
    ASSERT_TRUE(applied.ok()) << applied.error().message;
    ASSERT_EQ(follower.hash(), brain.hash());
    if (played.records.size() % 40 == 7) {  // A follower that starts from a snapshot is as good as one from the start.
      Result<Brain> restored = Brain::restore(brain.snapshot());
      ASSERT_TRUE(restored.ok()) << restored.error().message;
      restored->check_invariants();
      ASSERT_EQ(restored->hash(), brain.hash());
      follower = std::move(*restored);
    }
    played.records.push_back(std::move(bytes));
  };
  for (int i = 0; i < steps; ++i) {
    step(fleet.next(brain));
    if (::testing::Test::HasFatalFailure()) return played;
  }
  Command command;
  int finishing = 0;
  while (fleet.finish(brain, command)) {
    step(command);
    if (::testing::Test::HasFatalFailure()) return played;
    if (++finishing > 20'000) {
      ADD_FAILURE() << "not all tasks end though workers stay alive:" << unfinished(brain.state());
      break;
    }
  }
  watcher.check_ends(brain.state());
  played.hash = brain.hash();
  played.heard_again = watcher.heard_again();
  played.collapsed = watcher.collapsed();
  return played;
}

// B-1, B-6, B-14, B-16, B-21: over random fleets, modes and selections: no dependency violated, no resource exceeded
// (check_invariants), each task succeeds once, each workflow ends once and all of them end once faults stop; a follower
// that only applies events, or starts from a snapshot, has the same hash after every record.
// Y-2 to Y-5: half of the fleets have workflows with fan-outs, `each`, `when`, `finally`, `parallel`, deadlines and
// fail_fast.
// U-1: a registration that is delivered again takes nothing from its worker.
TEST(Brain, RandomFleets) {
  int heard_again = 0;
  int collapsed = 0;
  for (std::uint64_t seed = 1; seed <= seeds(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Played played = play(seed, 250);
    heard_again += played.heard_again;
    collapsed += played.collapsed;
    if (HasFailure()) return;
  }
  EXPECT_GT(heard_again, 0);
  EXPECT_GT(collapsed, 0);
}

// B-1: the same commands give the same bytes.
TEST(Brain, TheSameLogGivesTheSameBytes) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const Played once = play(seed, 150);
    const Played again = play(seed, 150);
    EXPECT_EQ(once.records, again.records) << "seed " << seed;
    EXPECT_EQ(once.hash, again.hash);
  }
}

// B-1: the same in every build; the fuzzer of the brain checks it for the other compiler.
TEST(Brain, TheFrozenLog) { EXPECT_EQ(play_frozen_log(), kFrozenLog); }

// B-21: a brain that is restored from a snapshot decides the same: the placement index that it rebuilds leads to the
// same choices.
TEST(Brain, DecidesTheSameAfterARestore) {
  for (std::uint64_t seed = 1; seed <= seeds() / 3; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    RandomFleet fleet(seed, options_of(seed));
    Brain grown;
    Result<Brain> restored = Brain::restore(grown.snapshot());
    for (int i = 0; i < 200; ++i) {
      const Command command = fleet.next(grown);
      Result<Record> a = grown.execute(command, fleet.now_ns());
      Result<Record> b = restored->execute(command, fleet.now_ns());
      ASSERT_EQ(a.ok(), b.ok());
      if (!a.ok()) continue;
      std::string bytes_a;
      std::string bytes_b;
      encode(*a, bytes_a);
      encode(*b, bytes_b);
      ASSERT_EQ(bytes_a, bytes_b) << "step " << i;
      if (i % 10 == 0) {
        restored = Brain::restore(grown.snapshot());
        ASSERT_TRUE(restored.ok()) << restored.error().message;
      }
    }
  }
}

TaskTemplate program_template() {
  TaskTemplate use;
  use.spec.program = ProgramSpec{.shell = "true"};
  return use;
}

ReportEnded report_of(TaskId task, std::uint32_t attempt, AttemptEnd end) {
  ReportEnded report{task, AttemptNumber(attempt), {}};
  report.outcome.end = end;
  return report;
}

// B-8: a selection function of the embedding program, as in docs/brain.md: the worker with the most free memory.
WorkerId most_free_memory(const State& state, TaskId, const std::vector<WorkerId>& candidates) {
  const auto free = [&](WorkerId id) {
    return state.at(id).spec.resources.memory_bytes - state.at(id).used.memory_bytes;
  };
  return *std::max_element(candidates.begin(), candidates.end(),
                           [&](WorkerId a, WorkerId b) { return free(a) < free(b); });
}
TEST(Brain, ASelectionOfOnesOwn) {
  Brain brain;
  SetPolicy policy;
  policy.policy.selection = Selection::kCustom;
  EXPECT_EQ(brain.execute(policy, 1).error().code, ErrorCode::kFailedPrecondition) << "without the function";
  brain.use_selector(most_free_memory);
  ASSERT_TRUE(brain.execute(policy, 1).ok());
  for (const std::int64_t gib : {4, 16, 8}) {
    WorkerSpec worker;
    worker.name = std::to_string(gib) + " GiB";
    worker.resources.cpu_millis = 8000;
    worker.resources.memory_bytes = gib << 30;
    ASSERT_TRUE(brain.execute(RegisterWorker{worker, {}}, 1).ok());
  }
  SubmitWorkflow submission;
  submission.workflow.templates = {program_template()};
  submission.workflow.templates[0].needs.memory_bytes = std::int64_t{3} << 30;
  submission.workflow.stages.resize(1);
  submission.workflow.stages[0].name = "s";
  submission.workflow.stages[0].items.assign(5, "{}");
  const Result<Record> record = brain.execute(submission, 2);
  ASSERT_TRUE(record.ok());
  std::string places;
  for (const Event& event : record->events) {
    if (const auto* e = std::get_if<TaskAssigned>(&event)) {
      EXPECT_EQ(e->reasoning.why, Why::kCustom);
      places += brain.state().at(e->worker).spec.name + ", ";
    }
  }
  // Free: 4 16 8, 4 13 8, 4 10 8, 4 7 8, 4 7 5.
  EXPECT_EQ(places, "16 GiB, 16 GiB, 16 GiB, 8 GiB, 16 GiB, ");
}

// B-1, and the times that people see: those that the worker reported, bounded by what the brain knows.
TEST(Brain, TimesOfAnAttemptAreThoseOfItsWorker) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  Brain brain;
  WorkerSpec worker;
  worker.name = "w";
  worker.resources.cpu_millis = 1000;
  SubmitWorkflow submission;
  submission.workflow.templates = {program_template()};
  submission.workflow.stages.resize(1);
  submission.workflow.stages[0].name = "s";
  struct Case {
    std::int64_t started, ended;      // As reported, in seconds. The task is assigned at 100 and reported at 110.
    std::int64_t shown, shown_ended;  // As kept.
  };
  for (const Case& each :
       {Case{102, 108, 102, 108}, Case{90, 95, 100, 105}, Case{120, 130, 100, 110}, Case{112, 115, 107, 110},
        Case{50, 200, 100, 110}, Case{105, 103, 105, 105}, Case{105, 0, 105, 110}, Case{0, 0, 0, 110}}) {
    for (const AttemptEnd end : {AttemptEnd::kSucceeded, AttemptEnd::kFailed, AttemptEnd::kCancelled}) {
      SCOPED_TRACE(std::to_string(each.started) + " " + std::string(to_string(end)));
      Brain fresh;
      ASSERT_TRUE(fresh.execute(RegisterWorker{worker, {}, Incarnation(1)}, 99 * kSecond).ok());
      ASSERT_TRUE(fresh.execute(submission, 100 * kSecond).ok());
      const TaskId id(WorkflowId(1), 0);
      if (end == AttemptEnd::kCancelled) {
        ASSERT_TRUE(fresh.execute(Control{Action::kCancel, {}, id}, 101 * kSecond).ok());
      }
      ReportEnded report = report_of(id, 1, end);
      report.outcome.final = true;
      report.outcome.started_ns = each.started * kSecond;
      report.outcome.ended_ns = each.ended * kSecond;
      ASSERT_TRUE(fresh.execute(report, 110 * kSecond).ok());
      fresh.check_invariants();
      const Task& task = fresh.state().at(id);
      ASSERT_TRUE(graph::is_terminal(task.state));
      EXPECT_EQ(task.assigned_ns, 100 * kSecond);
      EXPECT_EQ(task.started_ns, each.shown * kSecond);
      EXPECT_EQ(task.ended_ns, each.shown_ended * kSecond);
    }
  }
  // A retry has no times until it ends.
  ASSERT_TRUE(brain.execute(RegisterWorker{worker, {}, Incarnation(1)}, 99 * kSecond).ok());
  ASSERT_TRUE(brain.execute(submission, 100 * kSecond).ok());
  ReportEnded failure = report_of(TaskId(WorkflowId(1), 0), 1, AttemptEnd::kFailed);
  failure.outcome.started_ns = failure.outcome.ended_ns = 105 * kSecond;
  ASSERT_TRUE(brain.execute(failure, 110 * kSecond).ok());
  const Task& retried = brain.state().at(TaskId(WorkflowId(1), 0));
  EXPECT_EQ(retried.attempt, AttemptNumber(2));
  EXPECT_EQ(retried.started_ns, 0);
  EXPECT_EQ(retried.ended_ns, 0);
  EXPECT_EQ(retried.assigned_ns, 110 * kSecond);
}

// P-10: the fields of a task fit into their 112 bytes; a million tasks are a normal workflow.
TEST(Brain, ATaskIsSmall) { EXPECT_LE(sizeof(Task), 112U); }

WorkflowSpec flow_of(std::vector<Stage> stages, TaskTemplate use = program_template()) {
  WorkflowSpec spec;
  spec.name = "flow";
  spec.templates = {std::move(use)};
  spec.stages = std::move(stages);
  return spec;
}
Stage stage_of(std::string name, std::vector<std::uint32_t> needs = {}, std::vector<std::string> items = {}) {
  Stage stage;
  stage.name = std::move(name);
  stage.needs = std::move(needs);
  stage.items = std::move(items);
  return stage;
}

// B-1, B-13, B-14, B-18, B-22: a command that makes no sense is refused with a sentence that says what is wrong, and
// leaves the state's hash as it was.
TEST(Brain, WhatMakesNoSenseIsRefused) {
  Brain brain;
  ASSERT_TRUE(brain.execute(RegisterWorker{RandomFleet(1, {}).worker(3), {}}, 1).ok());
  ASSERT_TRUE(brain.execute(SubmitWorkflow{"key", flow_of({stage_of("a"), stage_of("b", {0})})}, 2).ok());
  const TaskId a(WorkflowId(1), 0);
  const TaskId b(WorkflowId(1), 1);
  TaskTemplate negative = program_template();
  negative.needs.memory_bytes = -1;
  TaskTemplate later = program_template();
  later.spec.inputs = "{\"x\":\"${b.result}\"}";
  WorkflowSpec two = flow_of({stage_of("a"), stage_of("b", {0})}, later);
  two.templates.push_back(program_template());
  two.stages[1].use = 1;
  TaskTemplate unknown = program_template();
  unknown.spec.inputs = "{\"x\":\"${zebra.result}\"}";
  TaskTemplate broken = program_template();
  broken.spec.inputs = "{\"x\":\"${a.result\"}";
  TaskTemplate senseless = program_template();
  senseless.condition = "1 <";
  Policy policy;
  policy.lambda_other = 2 * kOne;
  WorkerSpec nameless;
  WorkerSpec huge = RandomFleet(1, {}).worker(0);
  huge.resources.gpus.resize(65);
  WorkerSpec unsorted = RandomFleet(1, {}).worker(0);
  unsorted.resources.named = {{"seat", 1}, {"licence", 1}};
  TaskTemplate both = program_template();
  both.spec.program->arguments = {"true"};
  TaskTemplate none_of_it = program_template();
  none_of_it.needs.named = {{"licence", 0}};
  SetQuota weightless{.user = "ann", .weight = 0};
  SetQuota negative_quota{.user = "ann"};
  negative_quota.limits.cpu_millis = -5;
  const std::vector<std::pair<Command, std::string>> commands = {
      {report_of(TaskId(WorkflowId(9), 0), 1, AttemptEnd::kSucceeded), "there is no task wf-9.0"},
      {report_of(TaskId(WorkflowId(1), 7), 1, AttemptEnd::kSucceeded), "there is no task wf-1.7"},
      {report_of(a, 5, AttemptEnd::kFailed), "attempt 5 of wf-1.0 was never made; the latest is 1"},
      {SubmitWorkflow{"", flow_of({stage_of("a")}, negative)}, "stage 'a': memory in bytes is -1"},
      {SubmitWorkflow{"", flow_of({stage_of("a", {1}), stage_of("b", {0})})}, "cycle"},
      {SubmitWorkflow{"", two}, "cycle"},  // A reference to a later stage.
      {SubmitWorkflow{"", flow_of({stage_of("a")}, unknown)}, "no stage 'zebra'"},
      {SubmitWorkflow{"", flow_of({stage_of("a")}, broken)}, "stage 'a': "},
      {SubmitWorkflow{"", flow_of({stage_of("a")}, senseless)}, "stage 'a': condition: "},
      {SubmitWorkflow{"", flow_of({stage_of("a"), stage_of("a")})}, "'a'"},
      {SubmitWorkflow{"", flow_of({stage_of("a", {4})})}, "needs a stage that is not there"},
      {SubmitWorkflow{"", flow_of({stage_of("a", {}, {"[1]"})})}, "not a JSON object"},
      {SubmitWorkflow{"", flow_of({})}, "no stages"},
      {SubmitWorkflow{"key", flow_of({stage_of("a")})}, "with the key 'key' was submitted before"},
      {SubmitWorkflow{"", flow_of({stage_of("a")}, TaskTemplate())},
       "stage 'a': it has neither a program nor the type of a handler"},
      {SubmitWorkflow{"", flow_of({stage_of("a")}, both)},
       "stage 'a': a program is either a text for the shell or a list of arguments"},
      {SubmitWorkflow{"", flow_of({stage_of("a")}, none_of_it)}, "stage 'a': 'licence' is 0; allowed is 1 to"},
      {weightless, "weight of user 'ann' is 0"},
      {negative_quota, "quota of cpu (thousandths of a core) is -5"},
      {RegisterWorker{unsorted, {}}, "the worker's named resources must have unique names, sorted"},
      {SetPolicy{policy}, "lambda_other is 2000000000; allowed is 0 to 1000000000"},
      {RegisterWorker{nameless, {}}, "a worker needs a name"},
      {RegisterWorker{huge, {}}, "at most 64 GPUs, not 65"},
      {DrainWorker{"w4"}, "no worker is called 'w4'; did you mean 'w3'?"},
      {Control{Action::kPause, WorkflowId(8), {}}, "there is no workflow wf-8"},
      {Control{Action::kRetry, {}, a}, "wf-1.0 is Running; it cannot be retried"},
      {ReportCheckpoint{a, AttemptNumber(1), "{"}, "byte 1"},
      {ForgetWorkflow{WorkflowId(1)}, "has not ended"},
      {SetPriority{{}, b, 5'000'000'000}, "allowed is"},
  };
  for (const auto& [command, sentence] : commands) {
    const Hash128 before = brain.hash();
    const Result<Record> record = brain.execute(command, 3);
    ASSERT_FALSE(record.ok()) << sentence;
    EXPECT_NE(record.error().message.find(sentence), std::string::npos) << record.error().message;
    EXPECT_EQ(brain.hash(), before);
    brain.check_invariants();
  }
  // A late report is not an error and has no effect; a gang that is larger than the fleet is reported at once.
  ASSERT_TRUE(brain.execute(WorkerLost{"w3", "gone"}, 4).ok());
  ASSERT_TRUE(brain.execute(RegisterWorker{RandomFleet(1, {}).worker(3), {}}, 5).ok());
  const Result<Record> late = brain.execute(report_of(a, 1, AttemptEnd::kSucceeded), 6);
  ASSERT_TRUE(late.ok());
  EXPECT_EQ(late->index, 0U);
  TaskTemplate gang = program_template();
  gang.gang = true;
  const Result<Record> crowd =
      brain.execute(SubmitWorkflow{"", flow_of({stage_of("g", {}, std::vector<std::string>(100, "{}"))}, gang)}, 7);
  ASSERT_TRUE(crowd.ok());
  ASSERT_TRUE(std::holds_alternative<PlacementWarned>(crowd->events.at(1)));
  EXPECT_EQ(std::get<PlacementWarned>(crowd->events[1]).requirement, "replicas: 100 together needed, room for 4");
}

// B-2: each record verifies, and a record with other events does not.
TEST(Brain, VerifyDecidesAgain) {
  RandomFleet fleet(5, options_of(5));
  Brain brain;
  Brain judge;
  int assignments = 0;
  for (int i = 0; i < 200; ++i) {
    const Command command = fleet.next(brain);
    Result<Record> record = brain.execute(command, fleet.now_ns());
    if (!record.ok() || record->index == 0) continue;
    Record changed = *record;
    for (Event& event : changed.events) {
      if (auto* e = std::get_if<TaskAssigned>(&event)) {
        ++e->reasoning.candidates;
        ++assignments;
        Result<Brain> fresh = Brain::restore(judge.snapshot());
        const Result<void> verdict = fresh->verify(changed);
        ASSERT_FALSE(verdict.ok());
        EXPECT_EQ(verdict.error().code, ErrorCode::kConflict);
        break;
      }
    }
    const Result<void> verdict = judge.verify(*record);
    ASSERT_TRUE(verdict.ok()) << verdict.error().message;
  }
  EXPECT_GT(assignments, 5);
}

}  // namespace
}  // namespace rota::fleet
