// Predictions and traces: small cases whose figures can be worked out by hand.
#include "sim/predict.h"

#include <gtest/gtest.h>

#include "sim/wf_format.h"

namespace rota::sim {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

model::WorkerSpec worker(const std::string& name, std::int64_t cores) {
  model::WorkerSpec spec;
  spec.name = name;
  spec.resources.cpu_millis = cores * 1000;
  spec.resources.memory_bytes = std::int64_t{1} << 30;
  spec.cost_microdollars_per_hour = 3'600'000;  // A thousandth of a dollar per second.
  return spec;
}

// `tasks` programs of one core, then one that needs all of them.
PredictOptions fan_in(std::int64_t tasks) {
  PredictOptions options;
  options.workflow.name = "fan";
  for (int i = 0; i < 2; ++i) {
    model::TaskTemplate& use = options.workflow.templates.emplace_back();
    use.spec.type = "shell";
    use.spec.program.emplace().shell = "true";
    model::Stage& stage = options.workflow.stages.emplace_back();
    stage.name = i == 0 ? "part" : "whole";
    stage.use = i;
    if (i == 1) stage.needs = {0};
  }
  for (std::int64_t i = 0; i < tasks; ++i) options.workflow.stages[0].items.push_back("{}");
  options.durations.samples_ns = {{"part", {10 * kSecond}}, {"whole", {5 * kSecond}}};
  options.durations.spread_millionths = 0;
  options.workers = {worker("a", 1), worker("b", 1)};
  return options;
}

// S-3: four tasks of 10 s on two cores take 20 s, the last one 5 s more; both workers are paid for 25 s.
TEST(Predict, WorksOutASmallWorkflow) {
  const Result<Prediction> prediction = predict(fan_in(4));
  ASSERT_TRUE(prediction.ok()) << prediction.error().to_string();
  ASSERT_EQ(prediction->runs.size(), 1U);
  const fleet::Figures& figures = prediction->runs[0];
  EXPECT_EQ(figures.makespan_ns, 25 * kSecond);
  EXPECT_EQ(figures.succeeded, 5U);
  EXPECT_EQ(figures.cost_up_microdollars, 50'000);
  EXPECT_EQ(figures.cost_busy_microdollars, 45'000);
  EXPECT_EQ(figures.utilisation_millionths, 900'000);
}

// S-3: 38 of 40 tasks wait for room, and for nothing else; every fourth or so is asked for its reason.
TEST(Predict, WaitsByReason) { EXPECT_EQ(predict(fan_in(40))->waits_ns.size(), 1U); }

// S-3: another machine makes it faster by exactly one round.
TEST(Predict, AMachineMore) {
  PredictOptions options = fan_in(3);
  EXPECT_EQ(predict(options)->runs[0].makespan_ns, 25 * kSecond);
  options.workers.push_back(worker("c", 1));
  EXPECT_EQ(predict(options)->runs[0].makespan_ns, 15 * kSecond);
}

// S-3: a worker that is lost takes what it ran with it; the task runs again elsewhere.
TEST(Predict, ALostWorker) {
  PredictOptions options = fan_in(2);
  options.losses = {{"b", 4 * kSecond}};
  const Result<Prediction> prediction = predict(options);
  ASSERT_TRUE(prediction.ok());
  EXPECT_EQ(prediction->runs[0].makespan_ns, 25 * kSecond) << "10 s, 10 s again on the other worker, and 5 s";
  EXPECT_EQ(prediction->runs[0].succeeded, 3U);
}

// S-3: the same seed predicts the same, another seed something else; spot machines cost attempts.
TEST(Predict, IsReproducible) {
  PredictOptions options = fan_in(20);
  options.runs = 5;
  options.durations.spread_millionths = 200'000;
  options.spot_millionths_per_hour = 900'000;
  const Prediction first = predict(options).value();
  EXPECT_EQ(first.runs, predict(options)->runs);
  options.seed = 2;
  EXPECT_NE(first.runs, predict(options)->runs);
  EXPECT_NE(first.runs[0], first.runs[1]);
}

TEST(Predict, Quantiles) {
  EXPECT_EQ(quantile({}, 500), 0);
  EXPECT_EQ(quantile({7}, 950), 7);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 500), 2);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 950), 4);
  EXPECT_EQ(quantile({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, 950), 19);
}

// The log of a run is one that every subcommand can read.
TEST(Predict, KeepsALog) {
  PredictOptions options = fan_in(2);
  options.keep_log = true;
  const Prediction prediction = predict(options).value();
  fleet::LogReader reader(prediction.log);
  std::uint64_t records = 0;
  for (;;) {
    const Result<const fleet::Record*> record = reader.next();
    ASSERT_TRUE(record.ok()) << record.error().to_string();
    if (*record == nullptr) break;
    ++records;
  }
  EXPECT_EQ(records, prediction.runs[0].records);
}

constexpr std::string_view kTrace = R"({"name": "tiny", "schemaVersion": "1.5", "workflow": {
  "specification": {"tasks": [
    {"id": "a", "name": "a", "parents": [], "children": ["b", "c"]},
    {"id": "b", "name": "b", "parents": ["a"], "children": []},
    {"id": "c", "name": "c", "parents": ["a"], "children": []}], "files": []},
  "execution": {"makespanInSeconds": 30.5, "tasks": [
    {"id": "a", "runtimeInSeconds": 2.5, "command": {"program": "split"}, "memoryInBytes": 1000},
    {"id": "b", "runtimeInSeconds": 4, "coreCount": 2, "command": {"program": "work"}},
    {"id": "c", "runtimeInSeconds": 6, "coreCount": 2, "command": {"program": "work"}}]}}})";

// S-3: a trace in WfFormat becomes a workflow with the times that were measured.
TEST(WfFormat, ReadsATrace) {
  ASSERT_TRUE(is_wf_format(kTrace));
  const Result<Trace> trace = read_wf_format(kTrace);
  ASSERT_TRUE(trace.ok()) << trace.error().to_string();
  EXPECT_EQ(trace->workflow.name, "tiny");
  EXPECT_EQ(trace->makespan_ns, 30'500'000'000);
  ASSERT_EQ(trace->workflow.stages.size(), 3U);
  EXPECT_EQ(trace->workflow.stages[1].needs, std::vector<std::uint32_t>{0});
  EXPECT_EQ(trace->workflow.stages[1].use, trace->workflow.stages[2].use) << "one template for both";
  EXPECT_EQ(trace->workflow.templates[1].needs.cpu_millis, 2000);
  EXPECT_EQ(trace->workflow.templates[0].needs.memory_bytes, 1000);
  PredictOptions options;
  options.workflow = trace->workflow;
  options.durations = trace->durations;
  options.durations.spread_millionths = 0;
  options.workers = {worker("a", 4)};
  EXPECT_EQ(predict(options)->runs[0].makespan_ns, 8'500'000'000) << "2.5 s, then the longer of the two";
}

// Bad traces are refused with a sentence that says what is wrong and where.
TEST(WfFormat, RefusesBadTraces) {
  const auto refused = [](std::string from, const std::string& to) {
    std::string text(kTrace);
    text.replace(text.find(from), from.size(), to);
    const Result<Trace> trace = read_wf_format(text);
    return trace.ok() ? std::string("accepted") : trace.error().message;
  };
  EXPECT_NE(refused("\"parents\": [\"a\"]", "\"parents\": [\"x\"]").find("has the parent 'x'"), std::string::npos);
  EXPECT_NE(refused("{\"id\": \"b\", \"name\"", "{\"id\": \"a\", \"name\"").find("two tasks with the id 'a'"),
            std::string::npos);
  EXPECT_NE(refused("\"runtimeInSeconds\": 4", "\"runtimeInSeconds\": -4").find("should be a number"),
            std::string::npos);
  EXPECT_NE(refused("\"specification\"", "\"spec\"").find("not WfFormat 1.5"), std::string::npos);
  EXPECT_FALSE(read_wf_format("{").ok());
  EXPECT_FALSE(is_wf_format("name: x"));
  EXPECT_FALSE(is_wf_format("[]"));
}

}  // namespace
}  // namespace rota::sim
