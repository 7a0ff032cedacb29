// What the brain keeps about workers and records: caches, endpoints, causal parents, energy.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fleet/brain.h"
#include "fleet/feasibility.h"
#include "fleet/figures.h"

namespace rota::fleet {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

WorkerSpec worker(const std::string& name) {
  WorkerSpec spec;
  spec.name = name;
  spec.resources.cpu_millis = 2000;
  return spec;
}

WorkflowSpec workflow(int stages) {
  WorkflowSpec spec;
  spec.name = "flow";
  TaskTemplate& use = spec.templates.emplace_back();
  use.spec.type = "shell";
  use.spec.program = ProgramSpec{.shell = "true"};
  for (int i = 0; i < stages; ++i) {
    Stage& stage = spec.stages.emplace_back();
    stage.name = "s" + std::to_string(i);
    if (i > 0) stage.needs = {static_cast<std::uint32_t>(i - 1)};
  }
  return spec;
}

ReportEnded succeeded(TaskId task) {
  ReportEnded report{task, AttemptNumber(1), {}};
  report.outcome.end = AttemptEnd::kSucceeded;
  return report;
}

// Contract: B-10. What a worker has in its caches is forgotten when it has expired, and the least recently used items
// are forgotten above a bound.
TEST(WorkerData, CachesAreBounded) {
  Brain brain;
  Policy policy;
  policy.cache_ttl_ms = 10'000;
  ASSERT_TRUE(brain.execute(SetPolicy{policy}, kSecond).ok());
  ASSERT_TRUE(brain.execute(RegisterWorker{worker("a"), {}, {}}, kSecond).ok());
  const auto caches = [&]() -> const std::vector<CacheItem>& { return brain.state().find_worker("a")->caches; };
  ReportCaches many{"a", {}};
  for (int i = 0; i < 3000; ++i) many.items.push_back("model:" + std::to_string(i));
  ASSERT_TRUE(brain.execute(many, 2 * kSecond).ok());
  EXPECT_EQ(caches().size(), WorkerData::kMostCaches);
  ASSERT_TRUE(brain.execute(ReportCaches{"a", {"model:new"}}, 3 * kSecond).ok());
  EXPECT_EQ(caches().size(), WorkerData::kMostCaches);
  const auto is_new = [](const CacheItem& cache) { return cache.item == "model:new"; };
  EXPECT_TRUE(std::any_of(caches().begin(), caches().end(), is_new)) << "the latest one is kept";
  brain.check_invariants();
  // All but the last have expired when the next one comes.
  ASSERT_TRUE(brain.execute(ReportCaches{"a", {"model:newer"}}, 12'500'000'000).ok());
  EXPECT_EQ(caches().size(), 2U);
  brain.check_invariants();
  ASSERT_TRUE(Brain::restore(brain.snapshot()).ok());
  // An item that is reported with a time long ago is forgotten at once.
  RegisterWorker again{worker("a"), {{"model:old", kSecond}}, Incarnation(7)};
  ASSERT_TRUE(brain.execute(again, 12'900'000'000).ok());
  EXPECT_EQ(caches().size(), 2U);
  brain.check_invariants();
}

// Contract: B-2. A record says which earlier record caused it.
TEST(WorkerData, ARecordHasACausalParent) {
  Brain brain;
  const Record registered = brain.execute(RegisterWorker{worker("a"), {}, {}}, kSecond).value();
  EXPECT_EQ(registered.parent, 0U);
  const Record accepted = brain.execute(SubmitWorkflow{{}, workflow(2)}, kSecond).value();
  EXPECT_EQ(accepted.parent, 0U);
  const Record ended = brain.execute(succeeded(TaskId(WorkflowId(1), 0)), 2 * kSecond).value();
  EXPECT_EQ(ended.parent, accepted.index) << "it assigned the attempt";
  EXPECT_EQ(brain.execute(Control{Action::kPause, WorkflowId(1), {}}, 2 * kSecond)->parent, accepted.index);
  EXPECT_EQ(brain.execute(succeeded(TaskId(WorkflowId(1), 1)), 3 * kSecond)->parent, ended.index);
  EXPECT_EQ(brain.execute(DrainWorker{"a"}, 4 * kSecond)->parent, registered.index);
  // It is part of the log, and checked there.
  std::string bytes;
  encode_record(ended, first_chain(), bytes);
  LogPosition position{
      .index = ended.index - 1, .term = {}, .logical = ended.logical - 1, .chain = first_chain(), .post = {}};
  EXPECT_EQ(decode_record(bytes, position)->parent, accepted.index);
  Record wrong = ended;
  wrong.parent = wrong.index;
  bytes.clear();
  encode_record(wrong, first_chain(), bytes);
  position = {.index = ended.index - 1, .term = {}, .logical = ended.logical - 1, .chain = first_chain(), .post = {}};
  EXPECT_EQ(decode_record(bytes, position).code(), ErrorCode::kCorrupt);
}

// Contract: B-5. A worker says where it can be reached; no decision depends on it.
TEST(WorkerData, AnEndpointDoesNotMakeAKind) {
  Brain brain;
  WorkerSpec one = worker("a");
  one.endpoint = "10.0.0.1:9000";
  WorkerSpec two = worker("b");
  two.endpoint = "10.0.0.2:9000";
  ASSERT_TRUE(brain.execute(RegisterWorker{one, {}, {}}, kSecond).ok());
  ASSERT_TRUE(brain.execute(RegisterWorker{two, {}, {}}, kSecond).ok());
  EXPECT_EQ(brain.state().placement().kinds().size(), 1U);
  EXPECT_EQ(Brain::restore(brain.snapshot())->state().find_worker("b")->spec.endpoint, "10.0.0.2:9000");
}

// Contract: H-2. Energy is reported beside cost: the power of workers over the time in which they were busy, and up.
TEST(WorkerData, FiguresHaveEnergy) {
  Brain brain;
  Meter meter;
  const auto see = [&](Command command, std::int64_t at) {
    const Record record = brain.execute(std::move(command), at).value();
    meter.see(record, brain.state());
  };
  WorkerSpec spec = worker("a");
  spec.power_milliwatts = 200'000;  // 200 W
  see(RegisterWorker{spec, {}, {}}, kSecond);
  spec.name = "idle";
  spec.power_milliwatts = 50'000;
  spec.programs = false;
  see(RegisterWorker{spec, {}, {}}, kSecond);
  see(SubmitWorkflow{{}, workflow(1)}, kSecond);
  see(succeeded(TaskId(WorkflowId(1), 0)), 11 * kSecond);
  const Figures figures = meter.figures(brain.state());
  EXPECT_EQ(figures.energy_busy_millijoules, 2'000'000);  // 200 W for 10 s.
  EXPECT_EQ(figures.energy_up_millijoules, 2'500'000);
  EXPECT_NE(to_json(figures).find("\"energy_busy_millijoules\":2000000"), std::string::npos);
}

// Contract: B-18. What no worker of a fleet could ever run is known before the submission, by stage.
TEST(WorkerData, InfeasibleStagesAreNamed) {
  WorkflowSpec spec = workflow(2);
  spec.templates.push_back(spec.templates.front());
  spec.templates[1].needs.gpu.count = 1;
  spec.stages[1].use = 1;
  spec.stages[1].name = "train";
  EXPECT_EQ(infeasible_on(spec, {worker("a")}, {}).value(),
            (std::vector<std::string>{"stage 'train': gpu.count: 1 needed, 0 available (worker 'a' comes nearest)"}));
  EXPECT_TRUE(infeasible_on(workflow(3), {worker("a")}, {})->empty());
  Policy policy;
  policy.elastic.poll_ms = 0;
  EXPECT_EQ(infeasible_on(spec, {worker("a")}, policy).code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace rota::fleet
