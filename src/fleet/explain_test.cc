// Every reason that explain() knows, each in a fleet where it is the true one (B-20).
#include "fleet/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "fleet/brain.h"
#include "fleet/explain_words.h"
#include "fleet/names.h"
#include "fleet/random_fleet_test.h"
#include "fleet/script_brain_test.h"
#include "model/json.h"

namespace rota::fleet {
namespace {

using ::testing::HasSubstr;

class Script : public testing_support::ScriptBrain {
 public:
  using ScriptBrain::ScriptBrain;

  // As the host would: with the record of the assignment.
  [[nodiscard]] Explanation explain(std::string_view name) const {
    const Result<TaskId> id = find_task(state(), name);
    EXPECT_TRUE(id.ok()) << id.error().message;
    if (!id.ok()) return {};
    const std::uint64_t in = state().at(*id).assigned_in;
    Result<Explanation> found =
        fleet::explain(state(), *id, in == 0 ? nullptr : find_assignment(log()[in - 1], *id), now_ns());
    EXPECT_TRUE(found.ok());
    EXPECT_TRUE(json_validate(to_json(*found)).ok()) << to_json(*found);
    // The log says the same.
    const Result<Explanation> again = explain_at(log(), *id, now_ns());
    EXPECT_TRUE(again.ok());
    EXPECT_EQ(to_json(*again), to_json(*found));
    return std::move(*found);
  }
};

constexpr std::int64_t kStartNs = Script::kStartNs;

std::string fact(const Explanation& explanation, std::string_view key) {
  const std::string* value = explanation.fact(key);
  return value == nullptr ? "(none)" : *value;
}

// B-20: it waits for stages: which, and how far they are.
TEST(Explain, NeedsStages) {
  const Script script(R"(worker w cpu=2
workflow render
  stage cut
  stage frames items=3 cpu=2
  stage join needs=cut,frames
)");
  const Explanation why = script.explain("join");
  EXPECT_EQ(why.reason, ExplainReason::kNeeds);
  EXPECT_EQ(why.sentence,
            "wf-1.4 (join) waits for 2 stages that have not succeeded: cut (running on 'w') and frames (of 3 tasks: 3 "
            "ready).");
  EXPECT_THAT(to_json(why), HasSubstr(R"json("needs":["cut (running on 'w')","frames (of 3 tasks: 3 ready)"])json"));
}

// B-20: it is paused, before or while it ran.
TEST(Explain, Paused) {
  Script script(R"(worker w cpu=1
workflow a
  stage x
  stage y
pause wf-1.0
pause wf-1.1
)");
  const Explanation ran = script.explain("x");
  EXPECT_EQ(ran.reason, ExplainReason::kPaused);
  EXPECT_THAT(ran.sentence, HasSubstr("keeps what it holds on 'w'"));
  const Explanation waited = script.explain("y");
  EXPECT_EQ(waited.reason, ExplainReason::kPaused);
  EXPECT_EQ(fact(waited, "paused_from"), "Ready");
}

// B-20: it waits for its next attempt, until when, after which failure.
TEST(Explain, Backoff) {
  Script script(R"(worker w
workflow a
  stage x backoff=10s attempts=3
fail wf-1.0 boom
after 4s quota someone
)");
  const Explanation why = script.explain("x");
  EXPECT_EQ(why.reason, ExplainReason::kBackoff);
  EXPECT_EQ(why.sentence, "wf-1.0 (x) waits for the time of its next attempt, in 6s; attempt 1 on 'w' failed: boom.");
  EXPECT_EQ(fact(why, "spent"), "1");
  EXPECT_EQ(fact(why, "max_attempts"), "3");
  script.run("after 7s quota someone\n");
  EXPECT_THAT(script.explain("x").sentence, HasSubstr("which has come"));
}

// B-20, B-22: its user's quota, with the figures; a gang counts as a whole.
TEST(Explain, Quota) {
  Script script(R"(worker w cpu=8 mem=8GiB
quota ann cpu=2
quota bob tasks=2
workflow a user=ann
  stage x cpu=1.5
  stage y cpu=1
workflow b user=bob
  stage g items=3 gang
)");
  const Explanation why = script.explain("y");
  EXPECT_EQ(why.reason, ExplainReason::kQuota);
  EXPECT_THAT(why.sentence, HasSubstr("the quota of user 'ann': cpu 1.5 of 2 in use, and it needs 1;"));
  EXPECT_EQ(fact(why, "limit"), "2000");
  const Explanation gang = script.explain("g[1]");
  EXPECT_EQ(gang.reason, ExplainReason::kQuota);
  EXPECT_THAT(gang.sentence, HasSubstr("tasks 0 of 2 in use, and its gang needs 3"));
}

// B-20, B-14: no live worker could ever run it: what is lacking, where it comes nearest, when it will fail.
TEST(Explain, Unplaceable) {
  Script script(R"(policy no_worker_grace_ms=60000
worker small cpu=1 mem=1GiB
worker large cpu=4 mem=1GiB
workflow a
  stage big cpu=4 mem=2GiB
  stage there pin=nowhere
  stage gang items=9 gang
after 20s quota someone
)");
  const Explanation why = script.explain("big");
  EXPECT_EQ(why.reason, ExplainReason::kUnplaceable);
  EXPECT_THAT(why.sentence,
              HasSubstr("memory: 2 GiB needed, 1 GiB available (at 'large', which comes nearest); it fails in "
                        "40s unless one comes"));
  EXPECT_EQ(fact(why, "nearest"), "large");
  EXPECT_THAT(script.explain("there").sentence, HasSubstr("pinned to worker 'nowhere', which is not registered"));
  EXPECT_THAT(script.explain("gang[0]").sentence,
              HasSubstr("9 must start together, and the whole fleet has room for 5"));
  script.run("lost small\nlost large\n");
  EXPECT_THAT(script.explain("big").sentence, HasSubstr("there is no live worker"));
  script.run("after 60s worker other\n");
  const std::int64_t fails = std::stoll(fact(script.explain("big"), "fails_ns"));
  EXPECT_LT(fails, script.now_ns());
  script.run("tick\n");
  EXPECT_EQ(script.explain("big").reason, ExplainReason::kFailed) << "as it was told";
}

// B-20, B-22: a gang waits for room for all, or for its own tasks to be there again.
TEST(Explain, Gang) {
  Script script(R"(worker a cpu=2
worker b cpu=1
workflow filler
  stage x cpu=1
workflow g
  stage t items=3 gang attempts=5
)");
  const Explanation why = script.explain("g/t[0]");
  EXPECT_EQ(why.reason, ExplainReason::kGangRoom);
  EXPECT_THAT(why.sentence, HasSubstr("3 must start together, and now there is room for 2;"));
  script.run("ok wf-1.0\nfail wf-2.1 boom\n");
  const Explanation later = script.explain("t[1]");
  EXPECT_EQ(later.reason, ExplainReason::kGangIncomplete);
  EXPECT_EQ(fact(later, "not_ready"), "2");
  EXPECT_EQ(script.explain("t[0]").reason, ExplainReason::kStopping);
}

// B-20, B-11: it waits for the worker that has its parent's weights.
TEST(Explain, StickyWorker) {
  const Script script(R"(worker a cpu=1
worker b cpu=1
workflow w
  stage train
  stage eval needs=train inputs='{"checkpoint": "${train.result.path}"}'
workflow other priority=9
  stage x items=3
ok wf-1.0 result='{"path":"/p"}'
)");
  const Explanation why = script.explain("eval");
  EXPECT_EQ(why.reason, ExplainReason::kStickyWorker);
  EXPECT_THAT(why.sentence, HasSubstr("which has the weights of its parent; it has 1 task;"));
}

// B-20: it is pinned to a worker that is busy.
TEST(Explain, PinnedWorker) {
  const Script script(R"(worker a cpu=1
worker b cpu=1
workflow w
  stage x pin=a
  stage y pin=a
)");
  const Explanation why = script.explain("y");
  EXPECT_EQ(why.reason, ExplainReason::kPinnedWorker);
  EXPECT_EQ(fact(why, "worker"), "a");
  EXPECT_THAT(script.explain("x").sentence, HasSubstr("it is bound there"));
}

// B-20, B-7: a workflow owns one worker, and waits for that, or for one that nobody owns.
TEST(Explain, WorkflowWorker) {
  const Script script(R"(policy mode=static_worker
worker a cpu=1
workflow one
  stage x items=2
workflow two
  stage y
)");
  const Explanation mine = script.explain("x[1]");
  EXPECT_EQ(mine.reason, ExplainReason::kWorkflowWorker);
  EXPECT_THAT(mine.sentence, HasSubstr("worker 'a', which works for its whole workflow (static_worker)"));
  const Explanation others = script.explain("y");
  EXPECT_EQ(others.reason, ExplainReason::kWorkflowWorker);
  EXPECT_THAT(others.sentence, HasSubstr("1 is working for another workflow"));
}

// B-20, B-7: a type belongs to a worker.
TEST(Explain, TypeWorker) {
  const Script script(R"(policy mode=fixed_pipeline
worker a cpu=1
worker b cpu=1
workflow one
  stage x items=2 type=sft
)");
  const Explanation why = script.explain("x[1]");
  EXPECT_EQ(why.reason, ExplainReason::kTypeWorker);
  EXPECT_THAT(why.sentence, HasSubstr("to which all tasks of type 'sft' belong"));
}

// B-20, B-4: all that could run it are taken up otherwise: how many by what; and its place in the order.
TEST(Explain, NoRoom) {
  Script script(R"(worker a cpu=2
worker b cpu=2
worker c cpu=2
worker d cpu=2
worker tiny cpu=1
workflow fill
  stage x items=4 cpu=2
drain b
disable c
lost d
workflow late
  stage y cpu=2
  stage z cpu=2 priority=1
)");
  const Explanation why = script.explain("y");
  EXPECT_EQ(why.reason, ExplainReason::kNoRoom);
  EXPECT_THAT(why.sentence,
              HasSubstr("4 workers could run it: 1 is busy, 1 is disabled, 1 is draining, 1 is unreachable"));
  // In front of it are what was on d, which is older, and z, which is more urgent.
  EXPECT_EQ(fact(why, "place"), "3");
  EXPECT_EQ(fact(why, "ready_tasks"), "3");
  EXPECT_THAT(why.sentence, HasSubstr("3rd of 3 ready tasks."));
  EXPECT_EQ(fact(script.explain("z"), "place"), "1");
}

// B-20, B-15: it does not go where it failed while another could take it.
TEST(Explain, Excluded) {
  const Script script(R"(worker a cpu=1
workflow one
  stage x attempts=4
worker b cpu=1
workflow two
  stage y
fail wf-1.0 boom
)");
  const Explanation why = script.explain("x");
  EXPECT_EQ(why.reason, ExplainReason::kNoRoom);
  EXPECT_THAT(why.sentence, HasSubstr("1 is busy, 1 is left out, as it failed there"));
}

// B-20, B-22: others were asked to make room.
TEST(Explain, Preempting) {
  const Script script(R"(policy preemption=true
worker a cpu=1
workflow low priority=-1
  stage x preemptible
workflow high priority=5
  stage y
)");
  const Explanation why = script.explain("y");
  EXPECT_EQ(why.reason, ExplainReason::kNoRoom);
  EXPECT_THAT(why.sentence, HasSubstr("worker 'a' keeps room for it"));
  EXPECT_THAT(script.explain("x").sentence, HasSubstr("one of higher priority needs its place"));
}

// B-20: between two decisions nothing is in its way.
TEST(Explain, Turn) {
  State state;
  const auto apply = [&](std::uint64_t index, const Command& command, const Event& event) {
    state.begin(index, static_cast<std::int64_t>(index), static_cast<std::int64_t>(index), command);
    state.apply(event, command);
    state.end();
  };
  WorkerSpec spec;
  spec.name = "w";
  spec.resources.cpu_millis = 1000;
  apply(1, RegisterWorker{spec, {}}, WorkerRegistered{WorkerId(1)});
  SubmitWorkflow submit;
  submit.workflow.templates.resize(2);
  for (TaskTemplate& use : submit.workflow.templates) use.spec.program = ProgramSpec{.shell = "true"};
  submit.workflow.templates[1].condition = "1 == 1";
  submit.workflow.stages = {Stage{"x"}, Stage{"y", 1}};
  apply(2, submit, WorkflowAccepted{WorkflowId(1), false});
  EXPECT_EQ(explain(state, TaskId(WorkflowId(1), 0))->reason, ExplainReason::kTurn);
  EXPECT_THAT(explain(state, TaskId(WorkflowId(1), 1))->sentence,
              HasSubstr("its condition and references are looked at"));
}

// B-20, B-3: why it runs where it does, with the numbers of the score.
TEST(Explain, RunningByScore) {
  const Script script(R"(worker cheap cpu=2 cost=1
worker dear cpu=4 cost=4
workflow a
  stage x
)");
  const Explanation why = script.explain("x");
  EXPECT_EQ(why.reason, ExplainReason::kRunning);
  const auto* assigned = find_assignment(script.log().back(), why.task);
  ASSERT_NE(assigned, nullptr);
  const Reasoning& r = assigned->reasoning;
  EXPECT_EQ(r.score, (r.lambda * r.throughput - (kOne - r.lambda) * r.cost) / kOne + r.jitter);
  EXPECT_THAT(why.sentence, HasSubstr("worker 'cheap': the best score of 2: 0.5 * throughput 0.5 - 0.5 * cost 0.25 + "
                                      "jitter 0.000"));
  EXPECT_EQ(fact(why, "score_billionths"), std::to_string(r.score));
  EXPECT_EQ(fact(why, "worker"), "cheap");
}

// B-20, B-3: and by each other way of choosing.
TEST(Explain, RunningBySelection) {
  const auto sentence = [](std::string_view selection) {
    const Script script("policy selection=" + std::string(selection) +
                        "\nworker a cpu=2 cache=model:m zone=z\nworker b cpu=4 zone=z\nworkflow w\n"
                        "  stage x context=model:m\n  stage y needs=x\nok wf-1.0\n");
    return script.explain("x").sentence + script.explain("y").sentence;
  };
  EXPECT_THAT(sentence("first_fit"), HasSubstr("worker 'a': the first of 2 that could take it"));
  EXPECT_THAT(sentence("min_satisfying"),
              HasSubstr("the smallest of 2 that satisfies it, with 2 cores free where 1 are"));
  EXPECT_THAT(sentence("round_robin"), HasSubstr("the next in turn of 2"));
  EXPECT_THAT(sentence("least_loaded"), HasSubstr("the least loaded of 2, with 0 tasks"));
  EXPECT_THAT(sentence("random"), HasSubstr("drawn from 2 by the task's number"));
  EXPECT_THAT(sentence("affinity"), HasSubstr("it has what the task uses (chosen of 2); 1 item of its context"));
  EXPECT_THAT(sentence("affinity"), HasSubstr("what it needs ran there (chosen of 2)"));
}

// B-20: a selection of the program's own.
TEST(Explain, RunningByCustomSelection) {
  TaskAssigned assigned;
  assigned.worker = WorkerId(3);
  assigned.reasoning.why = Why::kCustom;
  assigned.reasoning.candidates = 2;
  EXPECT_EQ(explain_assignment(assigned, State()), "worker worker-3: chosen of 2 by the selection of this program");
}

// B-20: the only one; a queue at the worker; merged tasks, where each knows with whom it rides.
TEST(Explain, OnlyWorkerQueuedMerged) {
  const Script script(R"(policy max_queue_per_worker=1
worker a cpu=1
workflow w
  stage x
  stage y
)");
  EXPECT_THAT(script.explain("x").sentence, HasSubstr("the only one that could start it then"));
  const Explanation queued = script.explain("y");
  EXPECT_EQ(queued.reason, ExplainReason::kQueuedAtWorker);
  EXPECT_THAT(queued.sentence,
              HasSubstr("waits there for what runs before it; worker 'a': the only one with room in its"));
  const Script merged(R"(worker a cpu=1
workflow w
  stage x
  stage y needs=x items=2 batch
ok wf-1.0
)");
  EXPECT_THAT(merged.explain("y[0]").sentence, HasSubstr("1 other ran with it, merged"));
  EXPECT_EQ(fact(merged.explain("y[1]"), "merged_with"), "wf-1.1");
}

// C-1: an earlier success stands for it, or what changed so that none does.
TEST(Explain, Cached) {
  const Script script(R"(worker a cpu=9
workflow one
  stage kept
  stage changed
  stage broken
ok wf-1.0 reused note='command and inputs are unchanged since 2026-11-16 11:02 UTC (workflow one, task kept)'
ok wf-1.1 note='runs: the file data/a.csv changed'
fail wf-1.2 boom final note='runs: no earlier success'
)");
  const Explanation kept = script.explain("kept");
  EXPECT_EQ(kept.reason, ExplainReason::kSucceeded);
  EXPECT_THAT(kept.sentence,
              HasSubstr("(kept) was not run: command and inputs are unchanged since 2026-11-16 11:02 UTC"));
  EXPECT_THAT(to_json(kept), HasSubstr(R"("cached":true,"cache":"command and inputs)"));
  const Explanation changed = script.explain("changed");
  EXPECT_THAT(changed.sentence, HasSubstr(" in attempt 1, which took 2ms; runs: the file data/a.csv changed"));
  EXPECT_EQ(fact(changed, "cache"), "runs: the file data/a.csv changed");
  EXPECT_EQ(fact(changed, "cached"), "(none)");
  EXPECT_THAT(script.explain("broken").sentence, HasSubstr("boom; runs: no earlier success"));
}

// B-20: how it ended: succeeded, skipped, failed, cancelled by hand or because of another, being cancelled.
TEST(Explain, Ended) {
  Script script(R"(worker a cpu=4
workflow w
  stage good
  stage never needs=good if="${good.result.n} > 7"
  stage bad attempts=1
  stage after needs=bad
  stage last needs=after
  stage alone
  stage held
ok wf-1.0 result='{"n":3}'
fail wf-1.2 "no such file"
cancel wf-1.5
stopped wf-1.5
cancel wf-1.6
)");
  EXPECT_EQ(script.explain("good").reason, ExplainReason::kSucceeded);
  EXPECT_THAT(script.explain("good").sentence, HasSubstr("succeeded on 'a' in attempt 1, which took 1ms"));
  const Explanation skipped = script.explain("never");
  EXPECT_EQ(skipped.reason, ExplainReason::kSkipped);
  EXPECT_THAT(skipped.sentence, HasSubstr("its condition does not hold: ${good.result.n} > 7."));
  const Explanation failed = script.explain("bad");
  EXPECT_EQ(failed.reason, ExplainReason::kFailed);
  EXPECT_THAT(failed.sentence, HasSubstr("failed (error) after 1 attempt, the last on 'a': no such file"));
  const Explanation last = script.explain("last");
  EXPECT_EQ(last.reason, ExplainReason::kCancelled);
  EXPECT_EQ(last.sentence, "wf-1.4 (last) was cancelled because of wf-1.2 (bad), which failed (error): no such file.");
  EXPECT_EQ(fact(last, "root"), "wf-1.2");
  EXPECT_EQ(script.explain("alone").sentence, "wf-1.5 (alone) was cancelled by hand.");
  EXPECT_EQ(script.explain("held").reason, ExplainReason::kStopping);
  EXPECT_THAT(script.explain("held").sentence, HasSubstr("it was cancelled"));
}

// B-20: for any past moment: what was true then, not now.
TEST(Explain, AtAPastMoment) {
  const Script script(R"(worker a cpu=1
at 10s workflow w
  stage x
  stage y needs=x
at 20s ok wf-1.0
at 25s ok wf-1.1
)");
  const TaskId y(WorkflowId(1), 1);
  const auto at = [&](std::int64_t seconds) { return explain_at(script.log(), y, kStartNs + seconds * 1'000'000'000); };
  EXPECT_EQ(at(9).code(), ErrorCode::kNotFound);
  EXPECT_EQ(at(10)->reason, ExplainReason::kNeeds);
  EXPECT_EQ(at(19)->reason, ExplainReason::kNeeds);
  EXPECT_EQ(at(22)->reason, ExplainReason::kRunning);
  EXPECT_THAT(at(22)->sentence, HasSubstr("sent there 2s ago; worker 'a': the only one"));
  EXPECT_EQ(at(26)->reason, ExplainReason::kSucceeded);
}

// B-20: a worker that has left is still named: the log knows it. Without the log, its id is given.
TEST(Explain, AWorkerThatHasLeft) {
  const Script script(R"(worker a cpu=1
workflow w
  stage x
at 5s ok wf-1.0
at 6s drain a
)");
  const TaskId x(WorkflowId(1), 0);
  ASSERT_EQ(script.state().find(WorkerId(1)), nullptr);
  const Result<Explanation> known = explain_at(script.log(), x, script.now_ns());
  ASSERT_TRUE(known.ok());
  EXPECT_THAT(known->sentence, HasSubstr("succeeded on 'a' in attempt 1"));
  EXPECT_THAT(known->sentence, HasSubstr("; worker 'a': the only one"));
  EXPECT_EQ(fact(*known, "worker"), "a");
  const Result<Explanation> unknown = explain(script.state(), x);
  ASSERT_TRUE(unknown.ok());
  EXPECT_THAT(unknown->sentence, HasSubstr("succeeded on worker-1, which is forgotten, in attempt 1"));
}

// Figures as sentences have them.
TEST(Explain, Words) {
  EXPECT_EQ(span_of(616'096'060), "616ms");
  EXPECT_EQ(span_of(9'096'060), "9ms96us");
  EXPECT_EQ(span_of(90'000'000'001), "1m30s");
  EXPECT_EQ(span_of(0), "0s");
  EXPECT_EQ(decimal(-250'000'000, kOne), "-0.25");
  EXPECT_EQ(decimal(1'500, 1000), "1.5");
  EXPECT_EQ(decimal(std::numeric_limits<std::int64_t>::min(), 10), "-922337203685477580.8");
  EXPECT_EQ(ordinal(1) + ordinal(2) + ordinal(3) + ordinal(4) + ordinal(11) + ordinal(112) + ordinal(121),
            "1st2nd3rd4th11th112th121st");
}

// A task is found by its id or by its name, and a wrong name is answered with what would be right.
TEST(Explain, FindTask) {
  const Script script(R"(worker a cpu=1
workflow night
  stage train items=3
  stage report
workflow night
  stage train items=2
)");
  const State& state = script.state();
  const auto found = [&](std::string_view name) {
    const Result<TaskId> id = find_task(state, name);
    return id.ok() ? id->to_string() : id.error().message;
  };
  EXPECT_EQ(found("wf-1.2"), "wf-1.2");
  EXPECT_EQ(found("train[1]"), "wf-2.1") << "the latest";
  EXPECT_EQ(found("wf-1/train[1]"), "wf-1.1");
  EXPECT_EQ(found("night/report"), "wf-1.3");
  EXPECT_EQ(found("train[2]"), "wf-1.2") << "the latest that has one";
  EXPECT_THAT(found("train"), HasSubstr("name one of train[0] to train[1]"));
  EXPECT_THAT(found("wf-2/train[7]"), HasSubstr("has 2 tasks"));
  EXPECT_THAT(found("repotr"), HasSubstr("did you mean 'report'?"));
  EXPECT_THAT(found("day/report"), HasSubstr("there is no workflow 'day'"));
  EXPECT_THAT(found("wf-9.0"), HasSubstr("there is no task wf-9.0"));
  EXPECT_THAT(found(""), HasSubstr("name it like"));
  EXPECT_EQ(explain(state, TaskId(WorkflowId(1), 77)).code(), ErrorCode::kNotFound);
}

// B-20: whatever random fleets do, every task has an explanation at every moment, its JSON is valid, and none but a
// decision in between says that it is about to be placed.
TEST(Explain, RandomFleetsAlwaysHaveAReason) {
  std::set<ExplainReason> seen;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    RandomFleet::Options options;
    options.workers = static_cast<std::uint32_t>(1 + seed % 5);
    options.policy.mode = static_cast<DispatchMode>(seed % 4);
    options.policy.max_queue_per_worker = static_cast<std::int64_t>(seed % 2);
    options.policy.preemption = seed % 2 == 0;
    RandomFleet fleet(seed, options);
    Brain brain;
    for (int i = 0; i < 150; ++i) {
      static_cast<void>(brain.execute(fleet.next(brain), fleet.now_ns()));
      if (i % 10 != 0) continue;
      brain.state().each_workflow([&](const Workflow& workflow) {
        for (const Task& task : workflow.tasks) {
          const Result<Explanation> why = explain(brain.state(), workflow.id_of(task));
          ASSERT_TRUE(why.ok());
          ASSERT_TRUE(json_validate(to_json(*why)).ok()) << to_json(*why);
          ASSERT_NE(why->reason, ExplainReason::kTurn) << "seed " << seed << ": " << why->sentence;
          seen.insert(why->reason);
        }
      });
    }
  }
  EXPECT_GE(seen.size(), 12U);
}

}  // namespace
}  // namespace rota::fleet
