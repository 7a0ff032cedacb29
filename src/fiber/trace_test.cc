// The trace is read back with a JSON parser and replayed track by track.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "fiber/runtime_core.h"
#include "rota/fiber.h"

namespace rota::fiber {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

std::string trace_of(Runtime& runtime) {
  std::ostringstream out;
  const Result<TraceSummary> written = write_trace(runtime, out);
  EXPECT_TRUE(written.ok());
  return out.str();
}

struct Replayed {
  std::map<int, std::string> tracks;    // tid -> name
  std::map<std::string, int> marks;     // Instant events by name.
  std::map<std::string, int> slices;    // By the first word of the name.
  std::map<std::string, int> outcomes;  // Of completed tasks.
  std::map<std::string, int> waits;     // What tasks waited for.
  int arrows_begun = 0, arrows_ended = 0;
  std::size_t deepest = 0;
};

// Checks what makes a trace well-formed: every slice is closed on the track where it was opened, in the reverse order;
// time does not run backwards on a track; an arrow ends only if it began.
Replayed replay(const std::string& text) {
  Replayed seen;
  const json trace = json::parse(text);
  std::map<int, std::vector<std::string>> open;
  std::map<int, double> clock;
  std::set<std::uint64_t> arrows;
  for (const json& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph");
    const int tid = event.at("tid");
    EXPECT_EQ(event.at("pid"), 1);
    if (phase == "M") {
      if (event.at("name") == "thread_name") seen.tracks[tid] = event.at("args").at("name");
      continue;
    }
    EXPECT_TRUE(seen.tracks.contains(tid)) << "an event on a track without a name";
    const double time = event.at("ts");
    EXPECT_GE(time, clock[tid]);
    clock[tid] = time;
    if (phase == "B") {
      const std::string name = event.at("name");
      open[tid].push_back(name);
      seen.deepest = std::max(seen.deepest, open[tid].size());
      ++seen.slices[name.substr(0, name.find(' '))];
    } else if (phase == "E") {
      if (open[tid].empty()) {
        ADD_FAILURE() << "a slice ends that never began";
        continue;
      }
      open[tid].pop_back();
      const json arguments = event.value("args", json::object());
      if (arguments.contains("outcome")) ++seen.outcomes[arguments.at("outcome")];
      if (arguments.contains("waits for")) ++seen.waits[arguments.at("waits for")];
    } else if (phase == "i") {
      ++seen.marks[event.at("name")];
    } else if (phase == "s") {
      EXPECT_TRUE(arrows.insert(event.at("id").get<std::uint64_t>()).second);
      ++seen.arrows_begun;
    } else if (phase == "f") {
      EXPECT_EQ(arrows.erase(event.at("id").get<std::uint64_t>()), 1U);
      ++seen.arrows_ended;
    } else {
      ADD_FAILURE() << "phase " << phase;
    }
  }
  for (const auto& [tid, slices] : open) EXPECT_TRUE(slices.empty()) << "open at the end on track " << tid;
  return seen;
}

int fib(int n) {
  if (n < 2) return n;
  return with_scope([n](Nursery& s) {
    Task<int> a = s.spawn([n] { return fib(n - 1); });
    const int b = fib(n - 2);
    return a.get() + b;
  });
}

// One of everything that is traced.
void everything() {
  with_scope([](Nursery& n) {
    Task<int> joined = n.spawn([] { return fib(6); });
    Task<void> asleep = n.spawn([] { (void)sleep_for(1h); });
    n.launch([] {
      for (int i = 0; i < 4; ++i) yield();
    });
    const bool in_time = with_deadline(2ms, [](Nursery& inner) { inner.launch([] { (void)sleep_for(1h); }); });
    EXPECT_FALSE(in_time);
    asleep.cancel();
    EXPECT_EQ(joined.get(), 8);
  });
}

// Contract: F-31. Off by default, and then no worker has anything to look at.
TEST(Trace, IsOffByDefault) {
  Runtime runtime({.worker_count = 2});
  std::ostringstream out;
  const Result<TraceSummary> written = write_trace(runtime, out);
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.code(), ErrorCode::kFailedPrecondition);
  EXPECT_TRUE(out.str().empty());
  runtime.shutdown();  // Each thread worker writes its hooks when it starts.
  for (const auto& worker : runtime.core()->workers) EXPECT_EQ(worker->hooks, 0);
}

// Contract: F-31. Every kind of event is in the file, and each task has exactly one end.
TEST(Trace, HasEveryKindOfEvent) {
  Runtime runtime({.worker_count = 4, .deterministic_seed = 7, .trace_events = 100'000});
  runtime.run(everything);
  const Replayed seen = replay(trace_of(runtime));
  for (const char* mark : {"spawn", "wake", "steal", "cancel", "deadline", "clock"}) {
    EXPECT_GT(seen.marks.contains(mark) ? seen.marks.at(mark) : 0, 0) << mark;
  }
  EXPECT_GT(seen.slices.at("task"), 0);
  EXPECT_GT(seen.slices.at("scope"), 0);
  EXPECT_GT(seen.waits.at("the clock"), 0);
  EXPECT_GT(seen.waits.at("its next turn"), 0);
  EXPECT_GT(seen.arrows_ended, 0);
  EXPECT_GT(seen.deepest, 2U);  // A task called by the join of another, inside a scope.
  int ends = 0;
  for (const auto& [outcome, count] : seen.outcomes) ends += count;
  const Stats stats = runtime.stats();
  EXPECT_EQ(static_cast<std::uint64_t>(ends), stats.sum.completed + stats.sum.cancelled + stats.sum.failed);
  EXPECT_EQ(static_cast<std::uint64_t>(seen.marks.at("spawn")), stats.sum.spawned);
}

// Contract: F-31. One track a worker, slices nest on each, with real threads and more of them than cores.
TEST(Trace, HasOneTrackAWorker) {
  for (const std::size_t workers : {1U, 2U, 64U}) {
    Runtime runtime({.worker_count = workers, .trace_events = 200'000});
    runtime.run([] {
      everything();
      return fib(10);
    });
    runtime.shutdown();
    const Replayed seen = replay(trace_of(runtime));
    ASSERT_EQ(seen.tracks.size(), workers + 1);
    for (std::size_t i = 0; i < workers; ++i) {
      EXPECT_EQ(seen.tracks.at(static_cast<int>(i)), "worker " + std::to_string(i));
    }
    EXPECT_EQ(seen.tracks.at(static_cast<int>(workers)), "outside");
    EXPECT_EQ(static_cast<std::uint64_t>(seen.marks.at("spawn")), runtime.stats().sum.spawned);
  }
}

// Contract: F-31, F-28. The same seed gives the same file, another seed another one, and tracing changes no order.
TEST(Trace, IsTheSameForTheSameSeed) {
  std::set<std::string> files;
  constexpr std::uint64_t kSeeds = ROTA_TSAN ? 20 : 100;
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::string file;
    std::uint64_t hash = 0;
    for (int round = 0; round < 3; ++round) {
      const bool traced = round < 2;
      Runtime runtime(
          {.worker_count = 3, .deterministic_seed = seed, .trace_events = traced ? std::size_t{100'000} : 0});
      runtime.run(everything);
      if (round > 0) {
        EXPECT_EQ(runtime.event_hash(), hash) << seed;
      }
      hash = runtime.event_hash();
      if (!traced) continue;
      std::string written = trace_of(runtime);
      if (round > 0) {
        EXPECT_EQ(written, file) << seed;
      }
      file = std::move(written);
    }
    replay(file);
    files.insert(file);
  }
  EXPECT_GT(files.size(), kSeeds * 9 / 10);
}

// Contract: F-31. At its bound a ring drops the oldest events, says how many, and the rest is still well-formed.
TEST(Trace, DropsTheOldestAtItsBound) {
  for (const std::size_t bound : {1U, 7U, 64U, 1000U}) {
    Runtime runtime({.worker_count = 2, .deterministic_seed = 3, .trace_events = bound});
    runtime.run(everything);
    runtime.run([] { return fib(8); });
    std::ostringstream out;
    const Result<TraceSummary> written = write_trace(runtime, out);
    ASSERT_TRUE(written.ok());
    EXPECT_LE(written->events, 3 * bound);
    EXPECT_GT(written->events, 0U);
    replay(out.str());
    const json trace = json::parse(out.str());
    EXPECT_EQ(trace.at("otherData").at("dropped"), written->dropped);
    if (bound == 64) {
      EXPECT_GT(written->dropped, 0U);
    }
  }
}

// Contract: F-31. It may be written while the workers record.
TEST(Trace, IsWrittenWhileItIsRecorded) {
  Runtime runtime({.worker_count = 4, .trace_events = 500});
  Task<int> running = runtime.spawn([] {
    int sum = 0;
    for (int i = 0; i < 50; ++i) sum += fib(8);
    return sum;
  });
  do {
    replay(trace_of(runtime));
  } while (!running.is_completed());
  EXPECT_EQ(running.get(), 50 * 21);
}

// Contract: F-31. To a file, and an error when there is none.
TEST(Trace, GoesToAFile) {
  Runtime runtime({.worker_count = 1, .deterministic_seed = 1, .trace_events = 1000});
  runtime.run([] { return fib(3); });
  const std::string path = ::testing::TempDir() + "rota_trace_test_" + std::to_string(::getpid()) + ".json";
  const Result<TraceSummary> written = write_trace(runtime, path);
  ASSERT_TRUE(written.ok());
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), trace_of(runtime));
  std::remove(path.c_str());
  EXPECT_EQ(write_trace(runtime, ::testing::TempDir() + "no/such/folder/x.json").code(), ErrorCode::kIoError);
  EXPECT_EQ(Runtime::create({.trace_events = std::size_t{1} << 40}).code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace rota::fiber
