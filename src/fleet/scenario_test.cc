// Scenarios: scripts of commands with all events that follow from them (scenarios/*.txt).
//
// ROTA_REWRITE_SCENARIOS=1 writes the events of the present brain into the files; read the difference, event by event.
// Each step also checks the invariants, that a refused command changes nothing, that the record survives encoding, and
// that a second brain, which only applies events, has the same state. At the end, a brain that is restored from each
// snapshot on the way must verify the rest of the log.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/source_dir.h"
#include "fleet/brain.h"
#include "fleet/record.h"
#include "fleet/scenario_script_test.h"
#include "fleet/text.h"

namespace rota::fleet {
namespace {

using testing_support::parse_script;
using testing_support::script_command;
using testing_support::ScriptBlock;
using testing_support::ScriptCommand;
using testing_support::ScriptLine;

const std::filesystem::path kFolder = std::string(kSourceDir) + "/src/fleet/scenarios";

class Runner {
 public:
  // What a command does, as the script's expected text.
  std::string run(ScriptCommand script) {
    const Result<void> time = testing_support::take_time(script.line, kStartNs, now_ns_);
    if (!time.ok()) return "SCRIPT " + time.error().message + "\n";
    if (script.line.words.front() == "show") return show(script.line);
    Result<Command> command = script_command(script, brain_.state());
    if (!command.ok()) return "SCRIPT " + command.error().message + "\n";
    return execute(std::move(command).value());
  }

  // B-21: a snapshot and the records after it give the same state, and decide the same, as all records.
  void check_snapshots() const {
    for (const auto& [records, bytes] : snapshots_) {
      Result<Brain> restored = Brain::restore(bytes);
      ASSERT_TRUE(restored.ok()) << restored.error().message;
      restored->check_invariants();
      EXPECT_EQ(restored->snapshot(), bytes);
      for (std::size_t i = records; i < log_.size(); ++i) {
        const Result<void> same = restored->verify(log_[i]);
        ASSERT_TRUE(same.ok()) << "from the snapshot after " << records << " records: " << same.error().message;
      }
      EXPECT_EQ(restored->hash(), brain_.hash());
      restored->check_invariants();
    }
  }

 private:
  static constexpr std::int64_t kStartNs = 1'000'000'000'000;

  std::string execute(Command command) {
    const Hash128 before = brain_.hash();
    const Result<Record> record = brain_.execute(std::move(command), now_ns_);
    brain_.check_invariants();
    if (!record.ok() || record->events.empty()) {
      EXPECT_EQ(brain_.hash(), before) << "nothing was decided, and something changed";
      if (record.ok()) return "(nothing)\n";
      return "refused: " + std::string(to_string(record.error().code)) + ": " + record.error().message + "\n";
    }
    follow(*record);
    std::string text;
    for (const Event& event : record->events) text.append(to_text(event)).push_back('\n');
    return text;
  }

  // The record as a follower or a restart would see it.
  void follow(const Record& record) {
    std::string bytes;
    encode_record(record, position_.chain, bytes);
    const Result<Record> again = decode_record(bytes, position_);
    ASSERT_TRUE(again.ok()) << again.error().message;
    const Result<void> applied = follower_.apply(*again);
    ASSERT_TRUE(applied.ok()) << applied.error().message;
    EXPECT_EQ(follower_.hash(), brain_.hash());
    follower_.check_invariants();
    log_.push_back(*again);
    snapshots_.emplace_back(log_.size(), brain_.snapshot());
  }

  std::string show(const ScriptLine& line) {
    const State& state = brain_.state();
    std::string text;
    for (std::size_t i = 1; i < line.words.size(); ++i) text.append(show_one(state, line.words[i])).push_back('\n');
    return text;
  }
  static std::string show_one(const State& state, const std::string& name) {
    if (const auto id = TaskId::parse(name)) {
      const Task* task = state.find(*id);
      if (task == nullptr) return name + ": unknown";
      std::string text = name + ": " + std::string(graph::to_string(task->state));
      text += " attempt=" + task->attempt.to_string() + " spent=" + std::to_string(task->spent);
      if (task->extra != nullptr && !task->extra->message.empty()) text += " message=" + task->extra->message;
      return text;
    }
    if (const auto id = WorkflowId::parse(name)) {
      const Workflow* workflow = state.find(*id);
      if (workflow == nullptr) return name + ": unknown";
      return name + ": " + std::string(to_string(workflow->outcome)) +
             " unfinished=" + std::to_string(workflow->unfinished);
    }
    const Worker* worker = state.find_worker(name);
    if (worker == nullptr) return name + ": unknown";
    return name + ": " + std::string(to_string(worker->status(state.policy().max_queue_per_worker))) +
           " tasks=" + std::to_string(worker->executions.size()) +
           " cpu_used=" + std::to_string(worker->used.cpu_millis) +
           " memory_used=" + std::to_string(worker->used.memory_bytes);
  }

  Brain brain_;
  Brain follower_;
  LogPosition position_;
  std::vector<Record> log_;
  std::vector<std::pair<std::size_t, std::string>> snapshots_;  // After how many records, and the bytes.
  std::int64_t now_ns_ = kStartNs;
};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void run_scenario(const std::string& name) {
  const std::filesystem::path path = kFolder / (name + ".txt");
  const bool rewrite = std::getenv("ROTA_REWRITE_SCENARIOS") != nullptr;
  std::vector<std::string> after;
  const Result<std::vector<ScriptBlock>> blocks = parse_script(read_file(path), after);
  ASSERT_TRUE(blocks.ok()) << path << ": " << blocks.error().message;
  ASSERT_FALSE(blocks->empty()) << path;
  Runner runner;
  std::string rewritten;
  const auto add_line = [&rewritten](const std::string& line) { rewritten.append(line).push_back('\n'); };
  for (const ScriptBlock& block : *blocks) {
    std::string actual;
    for (const ScriptCommand& command : block.parsed) actual += runner.run(command);
    EXPECT_EQ(actual.find("SCRIPT "), std::string::npos) << actual;
    if (!rewrite) {
      EXPECT_EQ(actual, block.expected) << path << ':' << block.parsed.front().line.number;
    }
    std::for_each(block.before.begin(), block.before.end(), add_line);
    std::for_each(block.commands.begin(), block.commands.end(), add_line);
    rewritten.append("----\n").append(actual).append("\n");
    if (testing::Test::HasFatalFailure()) return;
  }
  runner.check_snapshots();
  std::for_each(after.begin(), after.end(), add_line);
  while (rewritten.ends_with("\n\n")) rewritten.pop_back();
  if (rewrite) std::ofstream(path) << rewritten;
}

// B-3: every assignment says why.
TEST(ScenarioTest, Reasoning) { run_scenario("reasoning"); }

// B-4: priority, aging, first come first served; nobody is blocked by what cannot be placed.
TEST(ScenarioTest, ReadyOrder) { run_scenario("ready_order"); }

// B-4: the order holds when several workers become free in one record.
TEST(ScenarioTest, ReadyOrderOfManyWorkers) { run_scenario("ready_order_many"); }

// B-5: what a worker is, and what it must have.
TEST(ScenarioTest, Workers) { run_scenario("workers"); }

// B-5: named counted resources of a worker.
TEST(ScenarioTest, Named) { run_scenario("named"); }

// B-5: the handler that a task needs.
TEST(ScenarioTest, Handlers) { run_scenario("handlers"); }

// B-6: several tasks while they fit, and a bounded queue at the worker.
TEST(ScenarioTest, Resources) { run_scenario("resources"); }

// B-7: a workflow owns its worker.
TEST(ScenarioTest, StaticWorker) { run_scenario("static_worker"); }

// B-7: a type owns its worker.
TEST(ScenarioTest, FixedPipeline) { run_scenario("fixed_pipeline"); }

// B-7: in turn, unchecked.
TEST(ScenarioTest, StaticRoundRobin) { run_scenario("static_round_robin"); }

// B-8: one scenario for all strategies.
TEST(ScenarioTest, Selection) { run_scenario("selection"); }

// B-9: lambda.
TEST(ScenarioTest, Score) { run_scenario("score"); }

// B-9: ties rotate.
TEST(ScenarioTest, Ties) { run_scenario("ties"); }

// B-10: until the time to live has passed.
TEST(ScenarioTest, Reuse) { run_scenario("reuse"); }

// B-11: to the parent's worker.
TEST(ScenarioTest, Sticky) { run_scenario("sticky"); }

// B-12: together, each with its own end.
TEST(ScenarioTest, Merge) { run_scenario("merge"); }

// B-13: results and conditions.
TEST(ScenarioTest, References) { run_scenario("references"); }

// B-14: attempts, backoff, exclusion, memory.
TEST(ScenarioTest, Retries) { run_scenario("retries"); }

// B-14: what nobody could run fails after the grace.
TEST(ScenarioTest, Grace) { run_scenario("grace"); }

// B-15: whose failure it is.
TEST(ScenarioTest, Cascade) { run_scenario("cascade"); }

// B-16: fenced by attempts.
TEST(ScenarioTest, WorkerDeath) { run_scenario("worker_death"); }
TEST(ScenarioTest, WorkerLives) { run_scenario("worker_lives"); }

// B-17: off when idle, on when needed.
TEST(ScenarioTest, Elastic) { run_scenario("elastic"); }

// B-17: no more than needed.
TEST(ScenarioTest, ElasticNeed) { run_scenario("elastic_need"); }

// B-18: accepted, throttled, refused.
TEST(ScenarioTest, Backpressure) { run_scenario("backpressure"); }

// B-19: pause, resume, cancel, priorities.
TEST(ScenarioTest, Control) { run_scenario("control"); }

// B-22: together or not at all.
TEST(ScenarioTest, Gangs) { run_scenario("gangs"); }

// B-22: and together again.
TEST(ScenarioTest, GangRetry) { run_scenario("gang_retry"); }

// B-22: shares and quotas.
TEST(ScenarioTest, FairShare) { run_scenario("fair_share"); }

// B-22: at a checkpoint.
TEST(ScenarioTest, Preemption) { run_scenario("preemption"); }

// B-5: counted for the whole fleet.
TEST(ScenarioTest, FleetResources) { run_scenario("fleet_resources"); }

// B-7: released when they cannot serve; workers that fail, drain and are disabled in the static modes.
TEST(ScenarioTest, Bindings) { run_scenario("bindings"); }

// B-8: near what it needs.
TEST(ScenarioTest, Locality) { run_scenario("locality"); }

// B-11, B-23: not for a worker that takes no tasks.
TEST(ScenarioTest, StickyDisabled) { run_scenario("sticky_disabled"); }

// B-12: only data differs, and one bad task costs the others nothing.
TEST(ScenarioTest, Batch) { run_scenario("batch"); }

// B-17, B-23: the minimum, tasks that need a disabled worker, manual toggles, switching off.
TEST(ScenarioTest, ElasticRestore) { run_scenario("elastic_restore"); }

// B-18: reported by stage.
TEST(ScenarioTest, Infeasible) { run_scenario("infeasible"); }

// B-19: until it is resumed.
TEST(ScenarioTest, Paused) { run_scenario("paused"); }

// B-21: the same after a restore.
TEST(ScenarioTest, Exact) { run_scenario("exact"); }

// B-22: queued and merged tasks count.
TEST(ScenarioTest, Quota) { run_scenario("quota"); }

// B-4: a wide task that narrow ones overtake reserves a worker, and a long queue at a worker is recalled.
TEST(ScenarioTest, Reservation) { run_scenario("reservation"); }
TEST(ScenarioTest, Recall) { run_scenario("recall"); }

// B-25: the task with the longest path to the end goes first.
TEST(ScenarioTest, CriticalPath) { run_scenario("critical_path"); }

// B-22: as few as possible, where it may run, and the room is kept.
TEST(ScenarioTest, PreemptionRoom) { run_scenario("preemption_room"); }

// B-22, B-23: a task that was ahead when it was assigned is not stopped by one that waited with it.
TEST(ScenarioTest, PreemptionOrder) { run_scenario("preemption_order"); }

// B-23: not again and again at one instant.
TEST(ScenarioTest, Refusal) { run_scenario("refusal"); }

// Y-4: stages that run after a failure, and finally; after a cancellation and a retry, too.
TEST(ScenarioTest, WorkflowEnd) { run_scenario("workflow_end"); }

// Y-5: parallel, fail_fast and deadlines are decided by the brain.
TEST(ScenarioTest, WorkflowLimits) { run_scenario("workflow_limits"); }

// Contract: Y-2, Y-6. A matrix that is a result: tasks are created when it is known. Tasks that are left out.
TEST(ScenarioTest, FanOut) { run_scenario("fan_out"); }

// Y-3: a task waits only for the tasks with the same values.
TEST(ScenarioTest, ItemNeeds) { run_scenario("item_needs"); }
// U-6, B-10: a task goes where the files are that it fetches.
TEST(ScenarioTest, Files) { run_scenario("files"); }

// A script that no test runs would rot.
TEST(ScenarioTest, EveryScriptIsRun) {
  const std::string tests = read_file(std::string(kSourceDir) + "/src/fleet/scenario_test.cc");
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const std::string call = "run_scenario(\"" + entry.path().stem().string() + "\")";
    EXPECT_NE(tests.find(call), std::string::npos) << entry.path();
  }
}

}  // namespace
}  // namespace rota::fleet
