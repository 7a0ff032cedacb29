// What the next run knows about the earlier ones.
#include "cli/run_past.h"

#include <gtest/gtest.h>

#include <utility>

#include "fleet/brain.h"

namespace rota::cli {
namespace {

// Contract: C-1. After a success the next run starts from the beginning. Only a success that the user was not told is
// reported instead, for a short time: a user who repeats `rota run` until it succeeds does that at once; one who runs
// it the next night wants a new run.
TEST(RunPast, AnUntoldSuccess) {
  constexpr std::int64_t kEndNs = 1'000'000'000;
  model::WorkflowSpec spec;
  spec.name = "w";
  spec.templates.emplace_back().spec.program.emplace().shell = "true";
  spec.templates.front().condition = "1 == 2";  // It is skipped, so that the workflow succeeds at once.
  model::Stage stage;
  stage.name = "a";
  spec.stages.push_back(std::move(stage));
  fleet::Brain brain;
  model::WorkerSpec worker;
  worker.name = "local";
  worker.resources.cpu_millis = 1000;
  ASSERT_TRUE(brain.execute(fleet::RegisterWorker{worker, {}, model::Incarnation(1)}, kEndNs).ok());
  const Result<fleet::Record> submitted = brain.execute(fleet::SubmitWorkflow{"content#1", spec}, kEndNs);
  ASSERT_TRUE(submitted.ok()) << submitted.error().message;
  const auto untold = [&](const std::string& told, std::int64_t now_ns, bool fresh = false) {
    const Past past =
        read_past(brain.state(), {.spec = &spec, .content = "content", .fresh = fresh, .told = told, .now_ns = now_ns});
    EXPECT_EQ(past.outcome, fleet::Outcome::kSucceeded);
    return past.untold;
  };
  EXPECT_TRUE(untold("", kEndNs + 1));
  EXPECT_TRUE(untold("content#0", kEndNs + kUntoldForNs - 1));
  EXPECT_FALSE(untold("content#1", kEndNs + 1)) << "the user was told";
  EXPECT_FALSE(untold("", kEndNs + kUntoldForNs)) << "long ago";
  EXPECT_FALSE(untold("", kEndNs + 1, true)) << "--fresh";
}

}  // namespace
}  // namespace rota::cli
