// The bookkeeping of a run, without a terminal.
#include "cli/run_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace rota::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = RunNews::Kind;

constexpr std::int64_t kSecond = 1'000'000'000;

model::TaskId task(std::uint32_t index) { return {model::WorkflowId(4), index}; }

model::Report report(std::uint32_t index, model::ReportBody body, std::uint32_t attempt = 1) {
  return {.id = {task(index), model::AttemptNumber(attempt)}, .term = {}, .body = std::move(body)};
}

model::Ended ended(model::AttemptEnd how, std::string message = {}) {
  model::Ended body;
  body.outcome.end = how;
  body.outcome.message = std::move(message);
  body.outcome.started_ns = 100 * kSecond;
  body.outcome.ended_ns = 103 * kSecond;
  return body;
}

// The record of a report, with the events that followed from it.
fleet::Record record(std::uint32_t index, const model::AttemptOutcome& outcome, fleet::Events events) {
  fleet::Record made;
  made.wall_ns = 104 * kSecond;
  made.command = fleet::ReportEnded{task(index), model::AttemptNumber(1), outcome};
  made.events = std::move(events);
  return made;
}

std::vector<Kind> kinds(const std::vector<RunNews>& all) {
  std::vector<Kind> found;
  for (const RunNews& news : all) found.push_back(news.kind);
  return found;
}

class RunFactsTest : public ::testing::Test {
 protected:
  RunFactsTest() : facts_(RunShape(std::vector<std::string>{"a", "b", "c"}), "key#1") {
    fleet::Record submitted;
    fleet::SubmitWorkflow submit;
    submit.key = "key#1";
    submitted.command = submit;
    submitted.events = {fleet::WorkflowAccepted{model::WorkflowId(4), false}};
    EXPECT_THAT(facts_.see(submitted), IsEmpty());
  }

  RunFacts facts_;
};

TEST_F(RunFactsTest, WatchesTheWorkflowOfItsKey) {
  EXPECT_EQ(facts_.workflow(), model::WorkflowId(4));
  EXPECT_TRUE(facts_.has(task(2)));
  EXPECT_FALSE(facts_.has(task(3)));
  EXPECT_FALSE(facts_.has({model::WorkflowId(5), 0}));
  RunFacts other(RunShape(std::vector<std::string>{"a"}), "key#2");
  fleet::Record submitted;
  fleet::SubmitWorkflow submit;
  submit.key = "key#1";
  submitted.command = submit;
  submitted.events = {fleet::WorkflowAccepted{model::WorkflowId(4), false}};
  EXPECT_THAT(other.see(submitted), IsEmpty());
  EXPECT_TRUE(other.workflow().is_none());
}

TEST_F(RunFactsTest, FollowsATask) {
  EXPECT_THAT(kinds(facts_.see("w", report(0, model::Started{}), 2 * kSecond)), ElementsAre(Kind::kStarted));
  ASSERT_EQ(facts_.running().size(), 1U);
  EXPECT_EQ(facts_.running().at(0).since_ns, 2 * kSecond);
  EXPECT_THAT(facts_.see("w", report(0, model::Progress{250, "a quarter"}), 3 * kSecond), IsEmpty());
  EXPECT_EQ(facts_.running().at(0).permille, 250U);
  EXPECT_EQ(facts_.running().at(0).text, "a quarter");
  EXPECT_EQ(facts_.running().at(0).since_ns, 2 * kSecond);
  const model::Ended end = ended(model::AttemptEnd::kSucceeded);
  EXPECT_THAT(facts_.see("w", report(0, end), 5 * kSecond), IsEmpty());
  EXPECT_THAT(facts_.running(), IsEmpty());
  EXPECT_EQ(facts_.done(), 0U) << "its end is not durable yet";
  const std::vector<RunNews> news =
      facts_.see(record(0, end.outcome, {fleet::TaskSucceeded{task(0), model::AttemptNumber(1)}}));
  EXPECT_THAT(kinds(news), ElementsAre(Kind::kSucceeded));
  EXPECT_EQ(news[0].name, "a");
  EXPECT_EQ(news[0].duration_ns, 3 * kSecond) << "as the worker measured it";
  EXPECT_EQ(facts_.done(), 1U);
  EXPECT_FALSE(facts_.ended());
}

TEST_F(RunFactsTest, CountsFailuresCachedResultsAndTheEnd) {
  model::Ended reused = ended(model::AttemptEnd::kSucceeded);
  reused.outcome.reused = true;
  reused.outcome.cache_note = "nothing changed";
  std::vector<RunNews> news =
      facts_.see(record(0, reused.outcome, {fleet::TaskSucceeded{task(0), model::AttemptNumber(1)}}));
  EXPECT_THAT(kinds(news), ElementsAre(Kind::kCached));
  EXPECT_EQ(news[0].text, "nothing changed");
  const model::Ended failed = ended(model::AttemptEnd::kFailed, "exit status 3");
  fleet::TaskRequeued requeued{task(1), fleet::RequeueReason::kFailed, 106 * kSecond, 0};
  news = facts_.see(record(1, failed.outcome, {requeued}));
  EXPECT_THAT(kinds(news), ElementsAre(Kind::kRetry));
  EXPECT_EQ(news[0].text, "exit status 3");
  EXPECT_EQ(news[0].duration_ns, 2 * kSecond);
  news = facts_.see(record(1, failed.outcome,
                           {fleet::TaskFailed{task(1), model::FailureKind::kError, "exit status 3"},
                            fleet::TaskCancelled{task(2), true, task(1)},
                            fleet::WorkflowEnded{model::WorkflowId(4), fleet::Outcome::kFailed}}));
  EXPECT_THAT(kinds(news), ElementsAre(Kind::kFailed, Kind::kCancelled));
  EXPECT_EQ(facts_.done(), 3U);
  EXPECT_EQ(facts_.failed(), 1U);
  EXPECT_EQ(facts_.cached(), 1U);
  EXPECT_TRUE(facts_.ended());
}

// Tasks of an earlier run count as done, but not for the estimate of the time left.
TEST_F(RunFactsTest, Resumes) {
  RunFacts facts(RunShape(std::vector<std::string>{"a", "b", "c"}), "key#2");
  facts.resume(model::WorkflowId(4), {1, 1, 0});
  EXPECT_EQ(facts.done(), 2U);
  EXPECT_EQ(facts.done_here(), 0U);
  (void)facts.see(record(2, ended(model::AttemptEnd::kSucceeded).outcome,
                         {fleet::TaskSucceeded{task(2), model::AttemptNumber(1)}}));
  EXPECT_EQ(facts.done(), 3U);
  EXPECT_EQ(facts.done_here(), 1U);
}

// C-3: the time left follows from the durations of the stage's tasks, or of an earlier run, from how many tasks run at
// once, and from the longest chain; it does not rise while a task runs.
TEST(RunFactsTimeLeft, FollowsFromDurations) {
  RunShape shape;
  shape.names = {"a[0]", "a[1]", "a[2]", "b"};
  shape.stages = {{"a", 0, 3, {}, 0}, {"b", 3, 1, {0}, 5 * kSecond}};
  shape.slots = 2;
  RunFacts facts(std::move(shape), "key#3");
  facts.resume(model::WorkflowId(4), {});
  EXPECT_LT(facts.time_left_ns(0), 0) << "nothing is known about a";
  (void)facts.see(record(0, ended(model::AttemptEnd::kSucceeded).outcome,
                         {fleet::TaskSucceeded{task(0), model::AttemptNumber(1)}}));
  EXPECT_EQ(facts.time_left_ns(0), 8 * kSecond) << "3 s for the two others, side by side, and 5 s for b";
  (void)facts.see("w", report(1, model::Started{}), 10 * kSecond);
  EXPECT_EQ(facts.stages()[0].running, 1U);
  EXPECT_EQ(facts.time_left_ns(12 * kSecond), 8 * kSecond) << "a[2] has not begun";
  (void)facts.see("w", report(2, model::Started{}), 10 * kSecond);
  EXPECT_EQ(facts.time_left_ns(12 * kSecond), 6 * kSecond);
  EXPECT_EQ(facts.time_left_ns(100 * kSecond), 5 * kSecond) << "tasks that take longer than expected add nothing";
}

// U-2: whole lines; what was dropped stands between them; the rest of a line comes when its task ends.
TEST_F(RunFactsTest, JoinsOutputToLines) {
  EXPECT_THAT(facts_.see("w", report(0, model::Output{false, "one\ntw", 0}), 1), ::testing::SizeIs(1));
  std::vector<RunNews> news = facts_.see("w", report(0, model::Output{false, "o\r\nthr", 0}), 1);
  ASSERT_THAT(kinds(news), ElementsAre(Kind::kOutput));
  EXPECT_EQ(news[0].text, "two");
  news = facts_.see("w", report(0, model::Output{false, "\n[rota: 99 bytes of output were not kept]\nfour\n", 99}), 1);
  ASSERT_THAT(kinds(news), ElementsAre(Kind::kOutput, Kind::kDropped, Kind::kOutput));
  EXPECT_EQ(news[0].text, "thr");
  EXPECT_EQ(news[1].bytes, 99U);
  EXPECT_EQ(news[2].text, "four");
  EXPECT_THAT(facts_.see("w", report(0, model::Output{true, "oh", 0}), 1), IsEmpty());
  news = facts_.see("w", report(0, ended(model::AttemptEnd::kSucceeded, "a note")), 1);
  ASSERT_THAT(kinds(news), ElementsAre(Kind::kOutput, Kind::kNote));
  EXPECT_EQ(news[0].text, "oh");
  EXPECT_TRUE(news[0].from_stderr);
  EXPECT_EQ(news[1].text, "a note");
}

TEST(OutputLines, BoundsALineThatDoesNotEnd) {
  OutputLines lines;
  const std::string much(OutputLines::kLongestLine * 2 + 5, 'x');
  EXPECT_EQ(lines.add(1, false, much).size(), 2U);
  EXPECT_THAT(lines.finish(1, false), ElementsAre("xxxxx"));
  EXPECT_THAT(lines.finish(1, false), IsEmpty());
  EXPECT_THAT(lines.add(1, false, "\n\n"), ElementsAre("", ""));
}

}  // namespace
}  // namespace rota::cli
