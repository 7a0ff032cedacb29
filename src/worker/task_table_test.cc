#include "worker/task_table.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/prng.h"

namespace rota::worker {
namespace {

using namespace std::chrono_literals;
using model::AttemptId;
using model::AttemptNumber;
using model::ResourceUse;
using model::TaskId;
using model::Term;
using Verdict = TaskTable::Verdict;

struct NoHost : AttemptHost {
  void report(model::Report) override {}
  ResultCache* cache() override { return nullptr; }
  TaskFiles* files() override { return nullptr; }
  void note_cached(const std::string&) override {}
  [[nodiscard]] WallClock clock() const override { return {}; }
};

class TestAttempt final : public Attempt {
 public:
  TestAttempt(AttemptHost& host, model::Assign assign, bool can) : Attempt(host, std::move(assign)), can_(can) {}
  [[nodiscard]] bool can_stand_by() const override { return can_; }

 private:
  AttemptResult run_spec() override { return {}; }
  void do_control(model::AttemptAction) override {}
  const bool can_;
};

model::Resources machine() {
  model::Resources resources;
  resources.cpu_millis = 4000;
  resources.memory_bytes = 1000;
  resources.named = {{"licence", 2}};
  resources.gpus = {{"a", 1}, {"a", 1}};
  return resources;
}

ResourceUse cpu(std::int64_t millis) {
  ResourceUse use;
  use.cpu_millis = millis;
  return use;
}
ResourceUse memory(std::int64_t bytes) {
  ResourceUse use;
  use.memory_bytes = bytes;
  return use;
}
ResourceUse licences(std::int64_t count) {
  ResourceUse use;
  use.named = {{"licence", count}};
  return use;
}
ResourceUse devices(model::DeviceSet set) {
  ResourceUse use;
  use.gpus = std::popcount(set);
  use.devices = set;
  return use;
}
AttemptId id(std::uint64_t task, std::uint32_t attempt = 1) { return {TaskId(task), AttemptNumber(attempt)}; }

// A table, and short forms of its operations.
struct Bench {
  explicit Bench(std::size_t waiting_most = 10) : table(machine(), waiting_most) {}

  std::shared_ptr<Attempt> attempt(AttemptId which, ResourceUse use = {}, bool can_stand_by = false,
                                   Term term = Term(1), std::int64_t assigned_ns = 0) {
    model::Assign assign;
    assign.id = which;
    assign.term = term;
    assign.assigned_ns = assigned_ns;
    assign.resources = std::move(use);
    return std::make_shared<TestAttempt>(host, std::move(assign), can_stand_by);
  }
  Verdict offer(AttemptId which, ResourceUse use = {}, bool can_stand_by = false) {
    return table.offer(attempt(which, std::move(use), can_stand_by));
  }
  // The task that starts, or 0.
  std::uint64_t start_next() {
    const TaskTable::Start start = table.start_next();
    return start.attempt == nullptr ? 0 : start.attempt->id().task.value();
  }
  bool end(AttemptId which, std::chrono::nanoseconds now = 0ns, std::int64_t assigned_ns = 0) {
    model::Report report{.id = which, .term = Term(1), .body = model::Ended{}, .assigned_ns = assigned_ns};
    return table.end(report, now);
  }
  [[nodiscard]] Phase phase(std::uint64_t task) const { return table.find(TaskId(task))->phase; }

  NoHost host;
  TaskTable table;
};

// Contract: U-1. Fences: messages of an older term or about an older attempt are ignored; the same attempt is
// recognised in every phase.
TEST(TaskTable, Fences) {
  Bench bench;
  EXPECT_TRUE(bench.table.hear(Term(3)));
  EXPECT_TRUE(bench.table.hear(Term(3)));
  EXPECT_FALSE(bench.table.hear(Term(2)));
  EXPECT_EQ(bench.offer(id(1, 2)), Verdict::kQueued);
  EXPECT_EQ(bench.offer(id(1, 2)), Verdict::kKnown);
  EXPECT_EQ(bench.offer(id(1, 1)), Verdict::kKnown);
  EXPECT_EQ(bench.start_next(), 1U);
  EXPECT_EQ(bench.offer(id(1, 2)), Verdict::kKnown);
  EXPECT_TRUE(bench.end(id(1, 2)));
  EXPECT_EQ(bench.offer(id(1, 2)), Verdict::kReportAgain);
  EXPECT_EQ(bench.offer(id(1, 1)), Verdict::kKnown);
  bench.table.acknowledge(id(1, 1), 0);
  EXPECT_EQ(bench.phase(1), Phase::kReporting) << "another attempt was acknowledged";
  bench.table.acknowledge(id(1, 2), 0);
  EXPECT_EQ(bench.phase(1), Phase::kEnded);
  EXPECT_EQ(bench.offer(id(1, 2)), Verdict::kKnown);
  EXPECT_EQ(bench.offer(id(1, 1)), Verdict::kKnown);
  EXPECT_EQ(bench.offer(id(1, 3)), Verdict::kQueued);
  bench.table.check_invariants();
}

// Contract: U-1. A new leader takes over an attempt: its reports, also one that is kept, go under the new term.
TEST(TaskTable, NewLeader) {
  Bench bench;
  const std::shared_ptr<Attempt> attempt = bench.attempt(id(1));
  EXPECT_EQ(bench.table.offer(attempt), Verdict::kQueued);
  EXPECT_EQ(bench.table.offer(bench.attempt(id(1), {}, false, Term(7))), Verdict::kKnown);
  EXPECT_EQ(attempt->term(), Term(7));
  EXPECT_TRUE(bench.end(id(1)));
  EXPECT_EQ(bench.table.offer(bench.attempt(id(1), {}, false, Term(8))), Verdict::kReportAgain);
  EXPECT_EQ(bench.table.find(TaskId(1))->final->report.term, Term(8));
}

// Contract: U-1. A leader with another log, because the former one was lost, numbers its tasks and attempts from the
// beginning: they are new, although attempts with these numbers have ended here. A message of the same leader that
// comes twice is not.
TEST(TaskTable, AnotherLog) {
  Bench bench;
  for (const std::uint32_t attempt : {1U, 2U}) {
    EXPECT_EQ(bench.offer(id(1, attempt)), Verdict::kQueued);
    EXPECT_TRUE(bench.end(id(1, attempt)));
    bench.table.acknowledge(id(1, attempt), 0);
  }
  for (const std::uint32_t attempt : {1U, 2U}) EXPECT_EQ(bench.offer(id(1, attempt)), Verdict::kKnown);
  EXPECT_TRUE(bench.table.hear(Term(2)));
  EXPECT_EQ(bench.table.offer(bench.attempt(id(1, 1), {}, false, Term(2))), Verdict::kQueued);
  EXPECT_EQ(bench.table.offer(bench.attempt(id(1, 1), {}, false, Term(2))), Verdict::kKnown);
  EXPECT_TRUE(bench.end(id(1, 1)));
  bench.table.acknowledge(id(1, 1), 0);
  EXPECT_EQ(bench.table.offer(bench.attempt(id(1, 1), {}, false, Term(2))), Verdict::kKnown);
  EXPECT_EQ(bench.table.offer(bench.attempt(id(1, 2), {}, false, Term(2))), Verdict::kQueued);
  bench.table.check_invariants();
}

// Contract: U-1. The same while the attempt of the former log still runs, has ended, or is acknowledged: the new leader
// cancels it, because it does not know it, and may then assign a task of the same number. A leader that cancels its own
// attempt, or one that it took over, means that attempt.
TEST(TaskTable, AnotherLogCancelsFirst) {
  enum class Until { kRunning, kReporting, kAcknowledged };
  for (const Until until : {Until::kRunning, Until::kReporting, Until::kAcknowledged}) {
    Bench bench;
    const auto assigned = [&](std::uint64_t term, std::int64_t assigned_ns) {
      return bench.attempt(id(1), {}, false, Term(term), assigned_ns);
    };
    EXPECT_EQ(bench.table.offer(assigned(1, 100)), Verdict::kQueued);
    EXPECT_EQ(bench.start_next(), 1U);
    bench.table.note_cancelled(id(1), Term(1));
    EXPECT_EQ(bench.table.offer(assigned(1, 100)), Verdict::kKnown);
    EXPECT_TRUE(bench.table.hear(Term(2)));
    EXPECT_EQ(bench.table.offer(assigned(2, 100)), Verdict::kKnown) << "it was taken over";
    bench.table.note_cancelled(id(1), Term(2));
    EXPECT_EQ(bench.table.offer(assigned(2, 100)), Verdict::kKnown);
    EXPECT_TRUE(bench.table.hear(Term(3)));
    bench.table.note_cancelled(id(1), Term(3));
    if (until != Until::kRunning) {
      EXPECT_TRUE(bench.end(id(1), 0ns, 100));
    }
    if (until == Until::kAcknowledged) bench.table.acknowledge(id(1), 100);
    std::shared_ptr<Attempt> other = assigned(3, 50);  // The clock of the new leader is behind.
    if (until == Until::kRunning) {
      EXPECT_EQ(bench.table.offer(other), Verdict::kAfterOlder);
      EXPECT_EQ(bench.table.offer(assigned(3, 50)), Verdict::kKnown);
      EXPECT_EQ(bench.table.take_newer(TaskId(1)), other);
      EXPECT_FALSE(bench.end(id(1), 0ns, 100)) << "the end of the older one is reported as that of the other";
    }
    EXPECT_EQ(bench.table.offer(other), Verdict::kQueued);
    EXPECT_EQ(bench.table.offer(assigned(3, 50)), Verdict::kKnown);
    bench.table.check_invariants();
  }
}

// Contract: U-4. A host that restarted cancels an attempt of its log before it sends the assignment again: that is the
// attempt that stops, or has stopped, and it does not run a second time (simulator, seed 717).
TEST(TaskTable, CancelledBeforeItIsTakenOver) {
  for (const bool running : {true, false}) {
    Bench bench;
    ASSERT_EQ(bench.table.offer(bench.attempt(id(1), {}, false, Term(1), 100)), Verdict::kQueued);
    ASSERT_EQ(bench.start_next(), 1U);
    EXPECT_TRUE(bench.table.hear(Term(2)));
    bench.table.note_cancelled(id(1), Term(2));
    if (!running) {
      EXPECT_TRUE(bench.end(id(1), 0ns, 100));
    }
    EXPECT_EQ(bench.table.offer(bench.attempt(id(1), {}, false, Term(2), 100)),
              running ? Verdict::kKnown : Verdict::kReportAgain);
    bench.table.check_invariants();
  }
}

// Contract: U-1. A leader with another log assigns before it has heard what runs here, for example because it read an
// old registration: its attempt has the number of one that runs here, or has ended, and was assigned at another time.
// It is never taken for the other one, and the messages about one of the two do not affect the other.
TEST(TaskTable, AnotherLogAssignsFirst) {
  for (const bool running : {true, false}) {
    for (const std::uint32_t number : {1U, 2U}) {  // What runs here is the first or the second attempt.
      Bench bench;
      ASSERT_EQ(bench.table.offer(bench.attempt(id(1, number), {}, false, Term(1), 100)), Verdict::kQueued);
      ASSERT_EQ(bench.start_next(), 1U);
      if (!running) {
        EXPECT_TRUE(bench.end(id(1, number), 0ns, 100));
      }
      // A leader that takes the attempt over knows when it was assigned.
      EXPECT_EQ(bench.table.offer(bench.attempt(id(1, number), {}, false, Term(2), 100)),
                running ? Verdict::kKnown : Verdict::kReportAgain);
      EXPECT_EQ(bench.table.held(), (std::vector<model::HeldAttempt>{{id(1, number), 100}}));
      const std::shared_ptr<Attempt> other = bench.attempt(id(1), {}, false, Term(3), 200);
      if (running) {
        EXPECT_EQ(bench.table.offer(other), Verdict::kAfterOlder);
        EXPECT_EQ(bench.table.offer(bench.attempt(id(1), {}, false, Term(3), 200)), Verdict::kKnown);
        bench.table.check_invariants();
        EXPECT_EQ(bench.table.find_attempt(id(1, number), 100)->assign().assigned_ns, 100);
        EXPECT_EQ(bench.table.find_attempt(id(1), 200), other);
        EXPECT_EQ(bench.table.find_attempt(id(1), 300), nullptr);
        EXPECT_EQ(bench.table.take_newer(TaskId(1)), other);
        EXPECT_FALSE(bench.end(id(1, number), 0ns, 100)) << "the end of the older one is reported as that of the other";
      }
      EXPECT_EQ(bench.table.offer(other), Verdict::kQueued);
      EXPECT_EQ(bench.table.offer(bench.attempt(id(1, number), {}, false, Term(3), 100)), Verdict::kKnown)
          << "it is late";
      EXPECT_EQ(bench.table.held(), (std::vector<model::HeldAttempt>{{id(1), 200}}));
      EXPECT_FALSE(bench.end(id(1), 0ns, 100)) << "a merged task of the former log ended";
      EXPECT_EQ(bench.phase(1), Phase::kQueued);
      EXPECT_TRUE(bench.end(id(1), 0ns, 200));
      bench.table.acknowledge(id(1), 100);
      EXPECT_EQ(bench.phase(1), Phase::kReporting) << "the other one was acknowledged";
      bench.table.acknowledge(id(1), 200);
      EXPECT_EQ(bench.phase(1), Phase::kEnded);
      bench.table.check_invariants();
    }
  }
}

// Contract: U-1. A newer attempt of a task that waits or runs is kept until the older one has ended; the newest wins.
TEST(TaskTable, NewerAttempt) {
  for (const bool running : {false, true}) {
    Bench bench;
    EXPECT_EQ(bench.offer(id(1, 1), cpu(3000)), Verdict::kQueued);
    if (running) {
      EXPECT_EQ(bench.start_next(), 1U);
    }
    EXPECT_EQ(bench.offer(id(1, 3), cpu(3000)), Verdict::kAfterOlder);
    EXPECT_EQ(bench.offer(id(1, 3)), Verdict::kKnown);
    EXPECT_EQ(bench.offer(id(1, 2)), Verdict::kKnown);
    EXPECT_EQ(bench.offer(id(1, 4), cpu(2000)), Verdict::kAfterOlder);
    EXPECT_EQ(bench.table.find_attempt(id(1, 1), 0)->id(), id(1, 1));
    EXPECT_EQ(bench.table.find_attempt(id(1, 4), 0)->id(), id(1, 4));
    EXPECT_EQ(bench.table.find_attempt(id(1, 3), 0), nullptr);
    bench.table.check_invariants();
    const std::shared_ptr<Attempt> newer = bench.table.take_newer(TaskId(1));
    ASSERT_NE(newer, nullptr);
    EXPECT_EQ(newer->id(), id(1, 4));
    EXPECT_FALSE(bench.end(id(1, 1))) << "nobody wants the report of the older attempt";
    EXPECT_EQ(bench.table.take_newer(TaskId(1)), nullptr);
    EXPECT_EQ(bench.table.running(), 0U);
    EXPECT_EQ(bench.table.offer(newer), Verdict::kQueued);
    EXPECT_EQ(bench.start_next(), 1U);
    EXPECT_TRUE(bench.table.is_in(Phase::kRunning, id(1, 4)));
    EXPECT_FALSE(bench.table.is_in(Phase::kRunning, id(1, 1)));
    bench.table.check_invariants();
  }
}

// Contract: U-1. A newer attempt replaces an unacknowledged report of an older one, which the host ignores anyway.
TEST(TaskTable, NewerAttemptAfterTheEnd) {
  Bench bench;
  EXPECT_EQ(bench.offer(id(1, 1)), Verdict::kQueued);
  EXPECT_TRUE(bench.end(id(1, 1)));
  EXPECT_EQ(bench.table.held(), (std::vector<model::HeldAttempt>{{id(1, 1)}}));
  EXPECT_EQ(bench.offer(id(1, 2)), Verdict::kQueued);
  EXPECT_EQ(bench.table.count(Phase::kReporting), 0U);
  EXPECT_EQ(bench.table.held(), (std::vector<model::HeldAttempt>{{id(1, 2)}}));
  EXPECT_TRUE(bench.table.reports_to_resend(10s, 10s).empty());
  bench.table.acknowledge(id(1, 1), 0);  // Late.
  EXPECT_EQ(bench.phase(1), Phase::kQueued);
  bench.table.check_invariants();
}

// Contract: U-2. Each kind of resource holds back the first in line, and all tasks behind it.
TEST(TaskTable, FirstInLine) {
  for (const ResourceUse& use : {cpu(3000), memory(600), devices(3), licences(2)}) {
    Bench bench;
    EXPECT_EQ(bench.offer(id(1), use), Verdict::kQueued);
    EXPECT_EQ(bench.offer(id(2), use), Verdict::kQueued);
    EXPECT_EQ(bench.offer(id(3)), Verdict::kQueued);
    EXPECT_EQ(bench.start_next(), 1U);
    EXPECT_EQ(bench.start_next(), 0U);
    bench.table.check_invariants();
    EXPECT_TRUE(bench.end(id(1)));
    EXPECT_EQ(bench.start_next(), 2U);
    EXPECT_EQ(bench.start_next(), 3U);
    EXPECT_EQ(bench.start_next(), 0U);
    bench.table.check_invariants();
  }
}

// Contract: U-2. A task that can never fit, and a task too many, are refused at once; the others continue.
TEST(TaskTable, Refused) {
  Bench bench(2);
  const auto refused = [&](std::uint64_t task, ResourceUse use, Verdict verdict) {
    EXPECT_EQ(bench.offer(id(task), std::move(use)), verdict);
    EXPECT_TRUE(bench.end(id(task)));
    EXPECT_EQ(bench.offer(id(task)), Verdict::kReportAgain);
  };
  refused(1, cpu(4001), Verdict::kImpossible);
  refused(2, memory(1001), Verdict::kImpossible);
  refused(3, devices(4), Verdict::kImpossible);
  refused(4, licences(3), Verdict::kImpossible);
  ResourceUse all = devices(3);
  all.cpu_millis = 4000;
  all.memory_bytes = 1000;
  all.named = {{"licence", 2}};
  EXPECT_EQ(bench.offer(id(5), all), Verdict::kQueued);
  EXPECT_EQ(bench.offer(id(6)), Verdict::kQueued);
  refused(7, {}, Verdict::kFull);
  EXPECT_EQ(bench.start_next(), 5U);
  EXPECT_EQ(bench.offer(id(8)), Verdict::kQueued);
  bench.table.check_invariants();
}

// Contract: U-2. As many tasks stand by as run, in order, up to the first that cannot.
TEST(TaskTable, StandsBy) {
  Bench bench;
  const auto chosen = [&] {
    std::vector<std::uint64_t> tasks;
    for (const auto& attempt : bench.table.choose_stand_by()) tasks.push_back(attempt->id().task.value());
    return tasks;
  };
  for (const std::uint64_t task : {1, 2, 3, 4, 5, 6}) {
    ASSERT_EQ(bench.offer(id(task), cpu(2000), task != 5), Verdict::kQueued);
  }
  EXPECT_EQ(chosen(), std::vector<std::uint64_t>{}) << "nothing runs";
  EXPECT_EQ(bench.start_next(), 1U);
  EXPECT_EQ(chosen(), std::vector<std::uint64_t>{2});
  EXPECT_EQ(chosen(), std::vector<std::uint64_t>{});
  const TaskTable::Start second = bench.table.start_next();
  EXPECT_EQ(second.attempt->id(), id(2));
  EXPECT_TRUE(second.stood_by);
  EXPECT_TRUE(bench.table.set_told_started(id(2)));
  EXPECT_FALSE(bench.table.set_told_started(id(2)));
  EXPECT_FALSE(bench.table.set_told_started(id(2, 9)));
  EXPECT_EQ(chosen(), (std::vector<std::uint64_t>{3, 4}));
  EXPECT_TRUE(bench.end(id(3))) << "cancelled while it stood by";
  EXPECT_EQ(chosen(), std::vector<std::uint64_t>{}) << "5 cannot stand by, and 6 must not overtake it";
  bench.table.check_invariants();
}

// Contract: U-2. A task that the executor started in the place of another runs, wherever it is in line, if it fits; and
// it is not started again.
TEST(TaskTable, StartsInPlace) {
  Bench bench;
  for (const std::uint64_t task : {1, 2, 3, 4}) ASSERT_EQ(bench.offer(id(task), cpu(2000), true), Verdict::kQueued);
  EXPECT_EQ(bench.start_next(), 1U);
  EXPECT_EQ(bench.start_next(), 2U);
  EXPECT_EQ(bench.table.choose_stand_by().size(), 2U);
  EXPECT_EQ(bench.table.start_in_place(id(4)), nullptr) << "there is no room";
  EXPECT_TRUE(bench.end(id(1)));
  EXPECT_EQ(bench.table.start_in_place(id(4, 2)), nullptr) << "another attempt";
  ASSERT_NE(bench.table.start_in_place(id(4)), nullptr);
  EXPECT_EQ(bench.table.start_in_place(id(4)), nullptr);
  EXPECT_EQ(bench.table.start_in_place(id(9)), nullptr);
  EXPECT_EQ(bench.start_next(), 0U);
  bench.table.check_invariants();
  EXPECT_TRUE(bench.end(id(2)));
  EXPECT_EQ(bench.start_next(), 3U);
  EXPECT_EQ(bench.start_next(), 0U);
  bench.table.check_invariants();
}

// Contract: U-1. Merged tasks have no entry while they run, but count as held; their reports are kept like others.
TEST(TaskTable, MergedTasks) {
  Bench bench;
  model::Assign assign;
  assign.id = id(1);
  assign.merged = {{id(1), "1"}, {id(2, 5), "2"}, {id(3), "3"}};
  EXPECT_EQ(bench.table.offer(std::make_shared<TestAttempt>(bench.host, assign, false)), Verdict::kQueued);
  EXPECT_EQ(bench.table.held(), (std::vector<model::HeldAttempt>{{id(1)}, {id(2, 5)}, {id(3)}}));
  EXPECT_EQ(bench.start_next(), 1U);
  EXPECT_EQ(bench.offer(id(3, 2)), Verdict::kQueued) << "a newer attempt of a merged task";
  EXPECT_TRUE(bench.end(id(1)));
  EXPECT_TRUE(bench.end(id(2, 5)));
  EXPECT_FALSE(bench.end(id(3))) << "a newer attempt is known";
  EXPECT_FALSE(bench.end(id(2, 5))) << "it has ended before";
  EXPECT_EQ(bench.table.held(), (std::vector<model::HeldAttempt>{{id(1)}, {id(2, 5)}, {id(3, 2)}}));
  EXPECT_EQ(bench.table.count(Phase::kReporting), 2U);
  bench.table.check_invariants();
}

// Contract: U-1, U-4. A report is sent again when it is old enough, the oldest first, until it is acknowledged.
TEST(TaskTable, ReportsAgain) {
  Bench bench;
  const auto again = [&](std::chrono::nanoseconds now, std::chrono::nanoseconds sent_until) {
    std::vector<std::uint64_t> tasks;
    for (const model::Report& report : bench.table.reports_to_resend(now, sent_until)) {
      tasks.push_back(report.id.task.value());
    }
    return tasks;
  };
  for (const std::uint64_t task : {1, 2, 3}) {
    ASSERT_EQ(bench.offer(id(task)), Verdict::kQueued);
    ASSERT_TRUE(bench.end(id(task), std::chrono::seconds(task)));
  }
  EXPECT_EQ(again(5s, 0s), std::vector<std::uint64_t>{});
  EXPECT_EQ(again(5s, 2s), (std::vector<std::uint64_t>{1, 2}));
  bench.table.acknowledge(id(1), 0);
  EXPECT_EQ(again(6s, 4s), std::vector<std::uint64_t>{3});
  EXPECT_EQ(again(7s, 5s), std::vector<std::uint64_t>{2});
  EXPECT_EQ(again(20s, 20s), (std::vector<std::uint64_t>{3, 2}));
  EXPECT_EQ(again(20s, 20s), (std::vector<std::uint64_t>{3, 2})) << "a clock that stands still ends the loop, too";
  bench.table.check_invariants();
}

// Tasks that ended long ago are forgotten, the oldest first: memory is bounded.
TEST(TaskTable, Forgets) {
  Bench bench;
  for (std::uint64_t task = 1; task <= TaskTable::kRemembered + 1; ++task) {
    ASSERT_EQ(bench.offer(id(task)), Verdict::kQueued);
    ASSERT_EQ(bench.start_next(), task);
    ASSERT_TRUE(bench.end(id(task)));
    bench.table.acknowledge(id(task), 0);
  }
  EXPECT_EQ(bench.table.count(Phase::kEnded), TaskTable::kRemembered);
  EXPECT_EQ(bench.offer(id(2)), Verdict::kKnown);
  EXPECT_EQ(bench.offer(id(1)), Verdict::kQueued);
  bench.table.check_invariants();
}

// Random operations against a plain list: the same tasks start in the same order, and the invariants hold.
TEST(TaskTable, AgainstAList) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Prng random(seed);
    Bench bench(20);
    struct Row {
      std::uint64_t task;
      ResourceUse use;
    };
    std::vector<Row> waiting;
    std::vector<Row> running;
    std::uint64_t next = 0;
    for (int step = 0; step < 300; ++step) {
      const std::uint64_t dice = random.next() % 10;
      if (dice < 5) {
        ResourceUse use = devices(random.next() % 4);
        use.cpu_millis = static_cast<std::int64_t>(random.next() % 3000);
        use.memory_bytes = static_cast<std::int64_t>(random.next() % 700);
        if (random.next() % 2 == 0) use.named = {{"licence", static_cast<std::int64_t>(random.next() % 2) + 1}};
        ++next;
        const Verdict verdict = bench.offer(id(next), use, random.next() % 2 == 0);
        ASSERT_EQ(verdict, waiting.size() < 20 ? Verdict::kQueued : Verdict::kFull);
        if (verdict == Verdict::kQueued) {
          waiting.push_back({next, use});
        } else {
          ASSERT_TRUE(bench.end(id(next)));
        }
      } else if (dice < 8 && !running.empty()) {
        const std::size_t which = random.next() % running.size();
        ASSERT_TRUE(bench.end(id(running[which].task)));
        if (dice == 7) bench.table.acknowledge(id(running[which].task), 0);
        running.erase(running.begin() + static_cast<std::ptrdiff_t>(which));
      } else if (!waiting.empty()) {
        const std::size_t which = random.next() % waiting.size();
        ASSERT_TRUE(bench.end(id(waiting[which].task)));
        waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(which));
      }
      for (;;) {
        std::int64_t used_cpu = 0;
        std::int64_t used_memory = 0;
        std::int64_t used_licences = 0;
        model::DeviceSet used_devices = 0;
        for (const Row& row : running) {
          used_cpu += row.use.cpu_millis;
          used_memory += row.use.memory_bytes;
          used_licences += row.use.count_of("licence");
          used_devices |= row.use.devices;
        }
        const bool fits = !waiting.empty() && used_cpu + waiting[0].use.cpu_millis <= 4000 &&
                          used_memory + waiting[0].use.memory_bytes <= 1000 &&
                          used_licences + waiting[0].use.count_of("licence") <= 2 &&
                          (used_devices & waiting[0].use.devices) == 0;
        const std::uint64_t started = bench.start_next();
        ASSERT_EQ(started != 0, fits);
        if (!fits) break;
        ASSERT_EQ(started, waiting[0].task);
        running.push_back(waiting[0]);
        waiting.erase(waiting.begin());
      }
      (void)bench.table.choose_stand_by();
      bench.table.check_invariants();
      ASSERT_EQ(bench.table.waiting(), waiting.size());
      ASSERT_EQ(bench.table.running(), running.size());
    }
  }
}

}  // namespace
}  // namespace rota::worker
