// Pictures and traces of runs: of known graphs in virtual time, and of real threads.
#include "rota/flow/picture.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/prng.h"
#include "flow/drawing.h"
#include "rota/fiber.h"
#include "rota/flow.h"

namespace rota::flow {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using namespace std::chrono_literals;

void spend(std::chrono::nanoseconds time) {
  if (!fiber::sleep_for(time).ok()) throw std::runtime_error("woken");
}

fiber::Config virtual_time(std::uint64_t seed) {
  fiber::Config config;
  config.worker_count = 4;
  config.deterministic_seed = seed;
  return config;
}

// a(3) ─► b(5) ─► d(1), a ─► c(2) ─► d, and e(8) alone: the critical path is a, b, d.
const std::string kGraphviz =
    "digraph flow {\n"
    "  n0 [label=\"a\\n3 ms\", color=red, penwidth=2];\n"
    "  n1 [label=\"b\\n5 ms\", color=red, penwidth=2];\n"
    "  n2 [label=\"c\\n2 ms\"];\n"
    "  n3 [label=\"d\\n1 ms\", color=red, penwidth=2];\n"
    "  n4 [label=\"e\\n8 ms\"];\n"
    "  n0 -> n1 [color=red, penwidth=2];\n"
    "  n0 -> n2;\n"
    "  n1 -> n3 [color=red, penwidth=2];\n"
    "  n2 -> n3;\n"
    "}\n";
const std::string kMermaid =
    "flowchart LR\n"
    "  n0[\"a<br/>3 ms\"]:::critical\n"
    "  n1[\"b<br/>5 ms\"]:::critical\n"
    "  n2[\"c<br/>2 ms\"]\n"
    "  n3[\"d<br/>1 ms\"]:::critical\n"
    "  n4[\"e<br/>8 ms\"]\n"
    "  n0 ==> n1\n"
    "  n0 --> n2\n"
    "  n1 ==> n3\n"
    "  n2 --> n3\n"
    "  classDef critical stroke:#d00,stroke-width:3px\n";

TEST(Picture, OfAFlowInVirtualTime) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    fiber::Runtime runtime(virtual_time(seed));
    Flow flow;
    auto a = flow.task([] { spend(3ms); }).name("a");
    auto b = flow.task([] { spend(5ms); }).name("b");
    auto c = flow.task([] { spend(2ms); }).name("c");
    auto d = flow.task([] { spend(1ms); }).name("d");
    flow.task([] { spend(8ms); }).name("e");
    a.precede(b, c);
    b.precede(d);
    c.precede(d);
    ASSERT_TRUE(flow.run(runtime).ok());
    EXPECT_THAT(flow.critical_path(), IsEmpty()) << "nothing was recorded";
    EXPECT_THAT(flow.graphviz(), Not(HasSubstr("ms")));
    flow.record();
    ASSERT_TRUE(flow.run(runtime).ok());
    EXPECT_THAT(flow.critical_path(), ElementsAre("a", "b", "d"));
    EXPECT_EQ(flow.graphviz(), kGraphviz);
    EXPECT_EQ(flow.mermaid(), kMermaid);
  }
}

TEST(Picture, OfASchedulersRunInVirtualTime) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    fiber::Runtime runtime(virtual_time(seed));
    runtime.run([&] {
      auto scheduler = create_thread_pool_scheduler({}, nullptr, runtime);
      ASSERT_TRUE(scheduler.ok());
      const auto submit = [&](const char* id, std::chrono::nanoseconds time, std::vector<std::string> deps) {
        ASSERT_TRUE(
            (*scheduler)
                ->submit({.task_id = id, .deps = std::move(deps)}, [time](StageContext& /*context*/) { spend(time); })
                .ok());
      };
      submit("a", 3ms, {});
      submit("b", 5ms, {"a"});
      submit("c", 2ms, {"a"});
      submit("d", 1ms, {"b", "c"});
      submit("e", 8ms, {});
      (*scheduler)->wait_all();
      const std::vector<TaskInfo> run = (*scheduler)->report();
      EXPECT_THAT(critical_path(run), ElementsAre("a", "b", "d"));
      EXPECT_EQ(graphviz(run), kGraphviz);
      EXPECT_EQ(mermaid(run), kMermaid);
    });
  }
}

// A failed task is marked; a task that did not run has no time and is not on the path.
TEST(Picture, OfAFailure) {
  fiber::Runtime runtime(virtual_time(1));
  Flow flow;
  flow.record();
  auto bad = flow.task([] {
                   spend(1500us);
                   throw std::runtime_error("bad luck");
                 })
                 .name("bad");
  bad.precede(flow.task([] { spend(1s); }).name("behind"));
  ASSERT_FALSE(flow.run(runtime).ok());
  EXPECT_THAT(flow.critical_path(), ElementsAre("bad"));
  EXPECT_THAT(flow.mermaid(), HasSubstr("[\"bad<br/>Failed<br/>1.5 ms\"]:::critical\n"));
  EXPECT_THAT(flow.mermaid(), HasSubstr("[\"behind<br/>Cancelled\"]\n"));
}

// The run time includes all attempts, and not the time between them.
TEST(Picture, RunTimeCountsEveryAttempt) {
  fiber::Runtime runtime(virtual_time(1));
  runtime.run([&] {
    auto scheduler = create_thread_pool_scheduler({}, nullptr, runtime);
    ASSERT_TRUE(scheduler.ok());
    ASSERT_TRUE((*scheduler)
                    ->submit({.task_id = "a", .retry = {.max_attempts = 3, .backoff_ms = 100}},
                             [](StageContext& context) {
                               spend(context.attempt() * 1ms);
                               if (context.attempt() < 3) throw std::runtime_error("not yet");
                             })
                    .ok());
    ASSERT_TRUE((*scheduler)->wait("a").ok());
    EXPECT_EQ((*scheduler)->info("a")->run_time, 6ms);
    EXPECT_EQ((*scheduler)->info("a")->attempts, 3U);
  });
}

// Against a simple reference that walks every chain.
std::int64_t longest_from(const detail::Drawing& drawing, std::uint32_t at) {
  if (!drawing.tasks[at].run_ns) return -1;
  std::int64_t longest = 0;
  for (const detail::Drawing::Edge& edge : drawing.edges) {
    if (edge.from == at) longest = std::max(longest, longest_from(drawing, edge.to));
  }
  return longest + *drawing.tasks[at].run_ns;
}

TEST(Picture, CriticalPathIsTheLongestChain) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Prng random(seed);
    detail::Drawing drawing;
    const auto count = static_cast<std::uint32_t>(random.below(9));
    for (std::uint32_t i = 0; i < count; ++i) {
      drawing.tasks.push_back({.name = std::to_string(i)});
      if (!random.chance(1, 6)) drawing.tasks[i].run_ns = static_cast<std::int64_t>(random.below(10));
    }
    // In a random order, so that edges lead backwards, too.
    std::vector<std::uint32_t> order(count);
    for (std::uint32_t i = 0; i < count; ++i) order[i] = i;
    for (std::uint32_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    for (std::uint32_t i = 0; i < count; ++i) {
      for (std::uint32_t k = i + 1; k < count; ++k) {
        if (random.chance(1, 3)) drawing.edges.push_back({order[i], order[k]});
      }
    }
    std::int64_t longest = -1;
    for (std::uint32_t i = 0; i < count; ++i) longest = std::max(longest, longest_from(drawing, i));
    const std::vector<std::uint32_t> path = detail::critical_path(drawing);
    std::int64_t sum = path.empty() ? -1 : 0;
    for (std::size_t i = 0; i < path.size(); ++i) {
      ASSERT_TRUE(drawing.tasks[path[i]].run_ns.has_value());
      sum += *drawing.tasks[path[i]].run_ns;
      if (i == 0) continue;
      const auto leads = [&](const detail::Drawing::Edge& e) { return e.from == path[i - 1] && e.to == path[i]; };
      EXPECT_TRUE(std::any_of(drawing.edges.begin(), drawing.edges.end(), leads)) << "seed " << seed;
    }
    ASSERT_EQ(sum, longest) << "seed " << seed;
  }
}

// --------------------------------------------------------------------------------------------------------------- trace
struct Read {
  std::map<std::string, std::vector<std::string>> runs;  // By task: "state attempt", in order of time.
  std::map<std::string, int> tracks;                     // Slices by the track's name.
  std::uint64_t dropped = 0;
};

// Parses the file, and checks that no two slices of a track overlap, and that each track has a name.
Read read(const std::string& text) {
  Read read;
  const json trace = json::parse(text);
  read.dropped = trace.at("otherData").at("dropped");
  std::map<int, std::string> names;
  std::map<int, std::int64_t> until;
  std::int64_t latest = 0;
  for (const json& event : trace.at("traceEvents")) {
    const int tid = event.at("tid");
    if (event.at("ph") == "M") {
      if (event.at("name") != "thread_name") continue;
      names[tid] = event.at("args").at("name");
      read.tracks[names[tid]] = 0;
      continue;
    }
    EXPECT_EQ(event.at("ph"), "X");
    EXPECT_TRUE(names.contains(tid));
    read.tracks[names[tid]] += 1;
    const std::int64_t begin = std::llround(event.at("ts").get<double>() * 1000);
    const std::int64_t length = std::llround(event.at("dur").get<double>() * 1000);
    EXPECT_GE(begin, latest) << "in order of time";
    EXPECT_GE(length, 0);
    EXPECT_GE(begin, until[tid]) << "overlaps on " << names[tid];
    latest = begin;
    until[tid] = begin + length;
    read.runs[event.at("name")].push_back(event.at("args").at("state").get<std::string>() + " " +
                                          std::to_string(event.at("args").at("attempt").get<int>()));
  }
  return read;
}

Read read(const IScheduler& scheduler) {
  std::ostringstream out;
  EXPECT_TRUE(scheduler.write_trace(out).ok());
  return read(out.str());
}

// Stages that wait overlap on their worker; others fail, are retried, paused, cancelled, or still run when it is
// written.
void trace_of_everything(IScheduler& scheduler) {
  std::atomic<bool> checkpoint_reached{false}, open{false};
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(scheduler
                    .submit({.task_id = "wait \"" + std::to_string(i) + "\""},
                            [](StageContext& /*context*/) { (void)fiber::sleep_for(1ms); })
                    .ok());
  }
  ASSERT_TRUE(scheduler
                  .submit({.task_id = "retried", .retry = {.max_attempts = 2}},
                          [](StageContext& context) {
                            if (context.attempt() == 1) throw std::runtime_error("bad luck");
                          })
                  .ok());
  ASSERT_TRUE(scheduler.submit({.task_id = "failed"}, [](StageContext&) { throw std::runtime_error("bad"); }).ok());
  ASSERT_TRUE(scheduler.submit({.task_id = "behind", .deps = {"failed"}}, [](StageContext&) {}).ok());
  scheduler.wait_all();
  ASSERT_TRUE(scheduler
                  .submit({.task_id = "paused"},
                          [&](StageContext& context) {
                            checkpoint_reached = true;
                            while (!open) {
                              context.checkpoint();
                              if (!fiber::sleep_for(50us).ok()) fiber::yield();
                            }
                          })
                  .ok());
  while (!checkpoint_reached) (void)fiber::sleep_for(50us);
  EXPECT_THAT(read(scheduler).runs["paused"], ElementsAre("Running 1"));
  ASSERT_TRUE(scheduler.pause("paused").ok());
  EXPECT_THAT(read(scheduler).runs["paused"], ElementsAre("Paused 1"));
  ASSERT_TRUE(scheduler.resume("paused").ok());
  open = true;
  scheduler.wait_all();
  Read seen = read(scheduler);
  for (int i = 0; i < 20; ++i) {
    EXPECT_THAT(seen.runs["wait \"" + std::to_string(i) + "\""], ElementsAre("Succeeded 1"));
  }
  EXPECT_THAT(seen.runs["retried"], ElementsAre("Failed 1", "Succeeded 2"));
  EXPECT_THAT(seen.runs["failed"], ElementsAre("Failed 1"));
  EXPECT_THAT(seen.runs["behind"], IsEmpty());
  EXPECT_THAT(seen.runs["paused"], ElementsAre("Paused 1", "Succeeded 1"));
  EXPECT_EQ(seen.dropped, 0U);
}

TEST(FlowTrace, OfASchedulerInVirtualTime) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    fiber::Runtime runtime(virtual_time(seed));
    runtime.run([&] {
      auto scheduler =
          create_thread_pool_scheduler({.budget = {.cpu_slots_hard = 8}, .trace_slices = 1000}, nullptr, runtime);
      ASSERT_TRUE(scheduler.ok());
      trace_of_everything(**scheduler);
      const Read seen = read(**scheduler);
      // Eight wait at once on four workers: some track has an overflow.
      EXPECT_TRUE(seen.tracks.contains("worker 3"));
      EXPECT_GT(seen.tracks.size(), 4U);
    });
  }
}

TEST(FlowTrace, OfASchedulerOnRealThreads) {
  for (int round = 0; round < 10; ++round) {
    for (const std::uint32_t workers : {1U, 2U, 8U}) {
      auto pool = create_thread_pool_scheduler({.workers = workers, .trace_slices = 1000});
      ASSERT_TRUE(pool.ok());
      trace_of_everything(**pool);
    }
    auto simple = create_simple_scheduler({.workers = 8, .trace_slices = 1000});
    ASSERT_TRUE(simple.ok());
    trace_of_everything(**simple);
  }
}

TEST(FlowTrace, KeepsTheLatestAndCountsTheRest) {
  auto scheduler = create_simple_scheduler({.trace_slices = 3});
  ASSERT_TRUE(scheduler.ok());
  for (int i = 0; i < 10; ++i) {
    const std::string id = std::to_string(i);
    ASSERT_TRUE((*scheduler)->submit({.task_id = id}, [](StageContext& /*context*/) {}).ok());
    ASSERT_TRUE((*scheduler)->wait(id).ok());
  }
  const Read seen = read(**scheduler);
  EXPECT_EQ(seen.dropped, 7U);
  EXPECT_EQ(seen.runs.size(), 3U);
  EXPECT_TRUE(seen.runs.contains("7") && seen.runs.contains("8") && seen.runs.contains("9"));
}

TEST(FlowTrace, OffUnlessAskedFor) {
  std::ostringstream out;
  EXPECT_EQ((*create_simple_scheduler())->write_trace(out).code(), ErrorCode::kFailedPrecondition);
  Flow flow;
  flow.task([] {});
  EXPECT_EQ(flow.write_trace(out).code(), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(out.str(), "");
  EXPECT_EQ(create_simple_scheduler({.trace_slices = (1U << 24) + 1}).code(), ErrorCode::kInvalidArgument);
}

TEST(FlowTrace, AStreamThatFailsIsAnError) {
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  EXPECT_EQ((*create_simple_scheduler({.trace_slices = 1}))->write_trace(out).code(), ErrorCode::kIoError);
}

// Layers of tasks, some of which wait, one of which fails; with the ready order and without it.
void trace_of_flow(fiber::Runtime& runtime, bool ordered, std::vector<std::string>& critical) {
  Flow flow;
  flow.record();
  std::vector<FlowTask<void>> before;
  for (int layer = 0; layer < 5; ++layer) {
    std::vector<FlowTask<void>> now;
    for (int i = 0; i < 20; ++i) {
      now.push_back(flow.task([i] {
        if (i % 2 == 0) spend(i * 10us);
      }));
      for (const FlowTask<void>& task : before) task.precede(now.back());
    }
    before = now;
  }
  auto bad = flow.task([] { throw std::runtime_error("bad luck"); }).name("bad");
  bad.precede(flow.task([] {}).name("behind"));
  if (ordered) bad.priority(1);
  ASSERT_FALSE(flow.run(runtime).ok());
  std::ostringstream out;
  ASSERT_TRUE(flow.write_trace(out).ok());
  Read seen = read(out.str());
  for (int i = 0; i < 100; ++i) EXPECT_THAT(seen.runs["task " + std::to_string(i)], ElementsAre("Succeeded 1"));
  EXPECT_THAT(seen.runs["bad"], ElementsAre("Failed 1"));
  EXPECT_THAT(seen.runs["behind"], IsEmpty());
  critical = flow.critical_path();
}

TEST(FlowTrace, OfAFlow) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    fiber::Runtime virtual_runtime(virtual_time(seed));
    std::vector<std::string> critical;
    trace_of_flow(virtual_runtime, seed % 2 == 0, critical);
    EXPECT_EQ(critical.size(), 5U) << "in virtual time: one task a layer";
    fiber::Runtime runtime({.worker_count = 1 + static_cast<std::uint32_t>(seed % 8)});
    trace_of_flow(runtime, seed % 2 == 0, critical);
    EXPECT_FALSE(critical.empty());
  }
}

}  // namespace
}  // namespace rota::flow
