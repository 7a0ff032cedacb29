// Our part of the table for the brain (P-10): decisions on fleets of different size, modes and queues. Each decision is
// a command that was executed, its record encoded and chained: all that is done but for the disk.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "fleet/brain.h"
#include "rota.h"

namespace {

namespace fleet = rota::fleet;
namespace model = rota::model;
using bench::Figures;
using bench::now_ns;

constexpr std::int64_t kStepNs = 1'000;

enum class Unlike : std::uint8_t { kShape, kUser, kPriority, kTemplate };

class Fleet {
 public:
  Fleet(std::uint64_t workers, fleet::DispatchMode mode, fleet::Selection selection = fleet::Selection::kScore) {
    fleet::SetPolicy policy;
    policy.policy.mode = mode;
    policy.policy.selection = selection;
    policy.policy.backlog_per_worker = 100'000'000;
    policy.policy.retention_ms = 0;
    must(policy);
    for (std::uint64_t i = 0; i < workers; ++i) {
      fleet::RegisterWorker worker;
      worker.worker.name = "worker-" + std::to_string(i);
      worker.worker.resources.cpu_millis = 1000;  // One task at a time, on ten kinds of machine.
      worker.worker.resources.memory_bytes = static_cast<std::int64_t>(8 + i % 10) << 30;
      worker.worker.cost_microdollars_per_hour = 100'000 * static_cast<std::int64_t>(1 + i % 10);
      must(worker);
    }
  }

  // One stage of `count` tasks that nothing holds up but the workers.
  void submit(std::uint64_t count, const char* type = "shell") {
    fleet::SubmitWorkflow submission;
    submission.workflow.name = "flat";
    submission.workflow.templates.resize(1);
    submission.workflow.templates[0].spec.type = type;
    submission.workflow.templates[0].spec.program = rota::model::ProgramSpec{.shell = "true"};
    submission.workflow.stages.resize(1);
    submission.workflow.stages[0].name = "work";
    if (count > 1) submission.workflow.stages[0].items.assign(count, "{}");
    must(std::move(submission));
  }

  // One task that differs from all others in its needs, its user, its priority or its template.
  void submit_unlike(std::uint64_t number, Unlike what) {
    fleet::SubmitWorkflow submission;
    submission.workflow.name = "unlike";
    model::TaskTemplate& use = submission.workflow.templates.emplace_back();
    use.spec.type = "shell";
    use.spec.program = rota::model::ProgramSpec{.shell = "true"};
    if (what == Unlike::kShape) use.needs.memory_bytes = static_cast<std::int64_t>(number + 1);
    if (what == Unlike::kUser) submission.workflow.user = "user-" + std::to_string(number);
    if (what == Unlike::kPriority) submission.workflow.priority = static_cast<std::int64_t>(number);
    if (what == Unlike::kTemplate) {
      use.spec.program->shell = "true " + std::to_string(number);
      use.spec.program->batch = use.mergeable = true;
    }
    submission.workflow.stages.resize(1);
    submission.workflow.stages[0].name = "work";
    must(std::move(submission));
  }

  // The record's bytes are made as they would be for the ledger.
  void must(fleet::Command command) {
    now_ += kStepNs;
    const auto result = brain_.execute(std::move(command), now_, record_);
    if (!result.ok()) bench::fail(result.error().message);
    bytes_.clear();
    if (record_.index != 0) chain_ = fleet::encode_record(record_, chain_, bytes_);
    for (const fleet::Event& event : record_.events) {
      if (const auto* assigned = std::get_if<fleet::TaskAssigned>(&event))
        running_.push_back({assigned->task, assigned->attempt});
    }
  }

  // The next running task, in an order that looks like chance, succeeds. False if none runs.
  bool complete() {
    if (running_.empty()) return false;
    random_ = random_ * 6364136223846793005u + 1442695040888963407u;
    const std::size_t at = (random_ >> 33) % running_.size();
    const rota::model::AttemptId done = running_[at];
    running_[at] = running_.back();
    running_.pop_back();
    fleet::ReportEnded report{done.task, done.attempt, {}};
    report.outcome.end = rota::model::AttemptEnd::kSucceeded;
    report.outcome.started_ns = report.outcome.ended_ns = now_;
    must(std::move(report));
    return true;
  }

  [[nodiscard]] const fleet::Brain& brain() const { return brain_; }

 private:
  fleet::Brain brain_;
  fleet::Record record_;
  std::string bytes_;
  rota::Hash128 chain_ = fleet::first_chain();
  std::vector<rota::model::AttemptId> running_;
  std::int64_t now_ = 1'000'000'000;
  std::uint64_t random_ = 1;
};

// Nanoseconds a decision: the mean, then p50 and p99 of single ones.
Figures times(std::vector<double> single) {
  double sum = 0;
  for (const double ns : single) sum += ns;
  const double mean = sum / static_cast<double>(single.size());
  return {mean, bench::percentile(single, 0.5), bench::percentile(single, 0.99)};
}

// Lets `count` tasks succeed, each of which is a decision.
Figures complete(Fleet& fleet, std::uint64_t count) {
  const std::uint64_t before = fleet.brain().state().unfinished_tasks();
  std::vector<double> single;
  single.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t start = now_ns();
    if (!fleet.complete()) bench::fail("nothing runs");
    single.push_back(static_cast<double>(now_ns() - start));
  }
  bench::expect(before - fleet.brain().state().unfinished_tasks(), count);
  return times(std::move(single));
}

// A full fleet: each decision is a task that succeeded, and the next one that goes to its worker.
template <std::uint64_t kWorkers, fleet::DispatchMode kMode = fleet::DispatchMode::kAdaptive>
Figures full(unsigned, std::uint64_t queued) {
  Fleet fleet(kWorkers, kMode);
  if (kMode == fleet::DispatchMode::kStaticWorker) {  // A workflow a worker, or one worker would do everything.
    for (std::uint64_t i = 0; i < 2 * kWorkers; ++i) fleet.submit(queued / kWorkers);
  } else if (kMode == fleet::DispatchMode::kFixedPipeline) {
    for (std::uint64_t i = 0; i < kWorkers; ++i) fleet.submit(queued / kWorkers, ("type-" + std::to_string(i)).c_str());
  } else {
    fleet.submit(queued + kWorkers);
  }
  return complete(fleet, std::min<std::uint64_t>(queued * 9 / 10, 200'000));
}

// 1,000 full workers, and waiting tasks each of which is unlike all others.
template <Unlike kWhat>
Figures unlike(unsigned, std::uint64_t queued) {
  constexpr std::uint64_t kWorkers = 1'000;
  Fleet fleet(kWorkers, fleet::DispatchMode::kAdaptive);
  fleet.submit(kWorkers);
  for (std::uint64_t i = 0; i < queued; ++i) fleet.submit_unlike(i, kWhat);
  return complete(fleet, queued * 9 / 10);
}

// An idle fleet: each pair of decisions is a workflow of one task, placed on one of all the workers, and its success.
template <std::uint64_t kWorkers, fleet::Selection kSelection = fleet::Selection::kScore>
Figures idle(unsigned, std::uint64_t count) {
  Fleet fleet(kWorkers, fleet::DispatchMode::kAdaptive, kSelection);
  std::vector<double> single;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t start = now_ns();
    fleet.submit(1);
    single.push_back(static_cast<double>(now_ns() - start));
    if (!fleet.complete()) bench::fail("nothing runs");
  }
  bench::expect(count - fleet.brain().state().unfinished_tasks(), count);
  return times(std::move(single));
}

// 1,000 full workers in mode static_worker, and waiting workflows of one task each, which will own one of them.
Figures bound(unsigned, std::uint64_t queued) {
  constexpr std::uint64_t kWorkers = 1'000;
  Fleet fleet(kWorkers, fleet::DispatchMode::kStaticWorker);
  for (std::uint64_t i = 0; i < queued + kWorkers; ++i) fleet.submit(1);
  return complete(fleet, queued * 9 / 10);
}

// Bytes of memory: a queued task; a worker.
Figures memory(unsigned, std::uint64_t count) {
  const double before = bench::resident_bytes();
  const auto fleet = std::make_unique<Fleet>(count / 100, fleet::DispatchMode::kAdaptive);
  const double with_workers = bench::resident_bytes();
  fleet->submit(count);
  const double with_tasks = bench::resident_bytes();
  bench::expect(fleet->brain().state().unfinished_tasks(), count);
  return {(with_tasks - with_workers) / static_cast<double>(count),
          (with_workers - before) / static_cast<double>(count / 100)};
}

// A chain `count` stages deep (P-17): bytes a task; seconds until it is accepted, and until a cancellation has reached
// its end.
Figures chain(unsigned, std::uint64_t count) {
  const auto fleet = std::make_unique<Fleet>(1, fleet::DispatchMode::kAdaptive);
  const double before = bench::resident_bytes();
  fleet::SubmitWorkflow submission;
  submission.workflow.name = "deep";
  submission.workflow.templates.resize(1);
  submission.workflow.templates[0].spec.program = rota::model::ProgramSpec{.shell = "true"};
  submission.workflow.stages.resize(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    model::Stage& stage = submission.workflow.stages[i];
    stage.name = "s" + std::to_string(i);
    if (i > 0) stage.needs.push_back(static_cast<std::uint32_t>(i - 1));
  }
  const std::uint64_t start = now_ns();
  fleet->must(std::move(submission));
  const std::uint64_t accepted = now_ns();
  const double bytes = bench::resident_bytes() - before;
  for (int i = 0; i < 10 && i + 1 < static_cast<int>(count); ++i) fleet->complete();
  const std::uint64_t running = now_ns();
  fleet->must(fleet::Control{fleet::Action::kCancel, fleet->brain().state().globals().last_workflow, {}});
  const std::uint64_t cancelled = now_ns();
  bench::expect(fleet->brain().state().unfinished_tasks(), 1);  // The one that runs has been told to stop.
  return {bytes / static_cast<double>(count), static_cast<double>(accepted - start) / 1e9,
          static_cast<double>(cancelled - running) / 1e9};
}

constexpr std::array<bench::Work, 25> kWorks{{
    {"brain_10", 100'000, full<10>},
    {"brain_100", 100'000, full<100>},
    {"brain_1000", 100'000, full<1'000>},
    {"brain_10000", 100'000, full<10'000>},
    {"brain_million", 1'000'000, full<100>},
    {"brain_static", 100'000, full<100, fleet::DispatchMode::kStaticWorker>},
    {"brain_pipeline", 100'000, full<100, fleet::DispatchMode::kFixedPipeline>},
    {"brain_round_robin", 100'000, full<100, fleet::DispatchMode::kStaticRoundRobin>},
    {"brain_static_1000", 100'000, full<1'000, fleet::DispatchMode::kStaticWorker>},
    {"brain_static_10000", 100'000, full<10'000, fleet::DispatchMode::kStaticWorker>},
    {"brain_pipeline_1000", 100'000, full<1'000, fleet::DispatchMode::kFixedPipeline>},
    {"brain_pipeline_10000", 100'000, full<10'000, fleet::DispatchMode::kFixedPipeline>},
    {"brain_round_robin_1000", 100'000, full<1'000, fleet::DispatchMode::kStaticRoundRobin>},
    {"brain_round_robin_10000", 100'000, full<10'000, fleet::DispatchMode::kStaticRoundRobin>},
    {"brain_shapes", 100'000, unlike<Unlike::kShape>},
    {"brain_users", 100'000, unlike<Unlike::kUser>},
    {"brain_priorities", 100'000, unlike<Unlike::kPriority>},
    {"brain_templates", 100'000, unlike<Unlike::kTemplate>},
    {"brain_bound", 100'000, bound},
    {"brain_idle_1000", 20'000, idle<1'000>},
    {"brain_idle_10000", 20'000, idle<10'000>},
    {"brain_each_1000", 20'000, idle<1'000, fleet::Selection::kLeastLoaded>},
    {"brain_each_10000", 20'000, idle<10'000, fleet::Selection::kLeastLoaded>},
    {"brain_memory", 1'000'000, memory},
    {"brain_chain", 1'000'000, chain},
}};

}  // namespace

std::span<const bench::Work> bench::rota_fleet_works() { return kWorks; }
