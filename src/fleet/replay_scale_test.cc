// "A log of a million decisions verifies and replays under another policy in one command": 20,000 by default;
// ROTA_REPLAY_DECISIONS=1000000 for all of them. Prints how long it took; asserts no time. ROTA_REPLAY_LOG=FILE keeps
// the log, for `rota replay FILE --policy ...`.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <queue>
#include <string>
#include <utility>

#include "base/sanitizers.h"
#include "fleet/brain.h"
#include "fleet/record.h"
#include "fleet/what_if.h"

namespace rota::fleet {
namespace {

std::uint64_t decisions() {
  const char* text = std::getenv("ROTA_REPLAY_DECISIONS");
  return text == nullptr ? (kUnderAsan ? 4'000 : 20'000) : std::strtoull(text, nullptr, 10);
}

class Stopwatch {
 public:
  explicit Stopwatch(std::string_view what) : what_(what), start_(std::chrono::steady_clock::now()) {}
  ~Stopwatch() {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start_;
    std::cout << "  " << what_ << ": " << took.count() << " s\n";
  }

 private:
  std::string what_;
  std::chrono::steady_clock::time_point start_;
};

// A log in which 100 workers of four cores run simple tasks, 1000 a workflow, a few workflows at a time.
std::string make_log(std::uint64_t count) {
  std::string bytes;
  LogWriter writer(bytes);
  Brain brain;
  Record record;
  std::int64_t now = 1'000'000'000;
  struct Running {
    std::int64_t end_ns;
    TaskId task;
    AttemptNumber attempt;
    bool operator>(const Running& other) const {
      return end_ns != other.end_ns ? end_ns > other.end_ns : task > other.task;
    }
  };
  std::priority_queue<Running, std::vector<Running>, std::greater<>> running;
  const auto execute = [&](Command command) {
    const Result<void> done = brain.execute(std::move(command), now, record);
    ASSERT_TRUE(done.ok()) << done.error().message;
    if (record.index == 0) return;
    writer.append(record);
    for (const Event& event : record.events) {
      each_begun(event, brain.state(), [&](TaskId id, AttemptNumber attempt) {
        running.push({now + 1'000'000 * static_cast<std::int64_t>(500 + id.value() % 977), id, attempt});
      });
    }
  };
  Policy policy;
  policy.heartbeat_ttl_ms = 1'000'000'000'000;
  policy.retention_ms = 60'000;
  execute(SetPolicy{policy});
  for (int i = 0; i < 100; ++i) {
    WorkerSpec spec;
    spec.name = "w" + std::to_string(i);
    spec.resources.cpu_millis = 4000;
    spec.cost_microdollars_per_hour = 250'000 * (1 + i % 4);
    execute(RegisterWorker{spec, {}});
  }
  SubmitWorkflow submit;
  submit.workflow.name = "load";
  submit.workflow.templates.resize(2);
  submit.workflow.templates[0].spec.type = "map";
  submit.workflow.templates[1].spec.type = "reduce";
  for (TaskTemplate& use : submit.workflow.templates) use.spec.program = ProgramSpec{.shell = "true"};
  submit.workflow.stages = {Stage{"map", 0}, Stage{"reduce", 1, {0}}};
  submit.workflow.stages[0].items.assign(999, "{}");
  while (brain.state().globals().index < count) {
    while (brain.state().unfinished_tasks() < 3000) execute(submit);
    if (brain.next_due_ns() <= now) execute(Tick());
    const Running next = running.top();
    running.pop();
    now = next.end_ns;
    ReportEnded report{next.task, next.attempt, {}};
    report.outcome.end = AttemptEnd::kSucceeded;
    execute(report);
    if (::testing::Test::HasFatalFailure()) break;
  }
  writer.finish();
  return bytes;
}

// B-1, B-2, S-3: the whole log, from its bytes: each record is read with its chain checked, decided again and compared;
// then the same work under another policy.
TEST(ReplayScale, VerifiesAndReplaysUnderAnotherPolicy) {
  const std::uint64_t count = decisions();
  std::string bytes;
  {
    const Stopwatch watch("deciding " + std::to_string(count) + " records and writing them");
    bytes = make_log(count);
  }
  ASSERT_FALSE(HasFatalFailure());
  std::cout << "  " << bytes.size() << " bytes\n";
  if (const char* path = std::getenv("ROTA_REPLAY_LOG"); path != nullptr)
    std::ofstream(path, std::ios::binary) << bytes;
  Past past;
  Brain brain;
  {
    const Stopwatch watch("reading, verifying and remembering them");
    LogReader reader(bytes);
    for (;;) {
      const Result<const Record*> record = reader.next();
      ASSERT_TRUE(record.ok()) << record.error().message;
      if (*record == nullptr) break;
      const Result<void> same = brain.verify(**record);
      ASSERT_TRUE(same.ok()) << same.error().message;
      past.see(**record, brain.state());
    }
    EXPECT_EQ(reader.position().index, count);
  }
  const Figures then = past.figures(brain.state());
  EXPECT_EQ(then.records, count);
  for (const std::string_view change : {"selection=least_loaded", "mode=fixed_pipeline"}) {
    const Stopwatch watch("under " + std::string(change));
    const Result<Figures> other = what_if(past, change);
    ASSERT_TRUE(other.ok()) << other.error().message;
    EXPECT_EQ(other->unfinished, 0U);
    EXPECT_EQ(other->failed + other->cancelled + other->refused, 0U);
    EXPECT_GE(other->succeeded, then.succeeded);
    std::cout << "  " << to_json(*other) << "\n";
  }
  std::cout << "  " << to_json(then) << "\n";
}

}  // namespace
}  // namespace rota::fleet
