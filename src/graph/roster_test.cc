// The life cycle of tasks, command by command, and on random histories against a model that recomputes everything.
#include "rota/graph/roster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/prng.h"
#include "base/sanitizers.h"

namespace rota::graph {
namespace {

using Strings = std::vector<std::string_view>;
using testing::ElementsAre;
using testing::HasSubstr;
constexpr Moment at_ms(std::int64_t ms) { return Moment{ms * kNsPerMs}; }
constexpr auto kQueued = TaskState::kQueued;
constexpr auto kReady = TaskState::kReady;
constexpr auto kRunning = TaskState::kRunning;
constexpr auto kPaused = TaskState::kPaused;
constexpr auto kSucceeded = TaskState::kSucceeded;
constexpr auto kFailed = TaskState::kFailed;
constexpr auto kCancelled = TaskState::kCancelled;

class RosterTest : public testing::Test {
 protected:
  TaskRef add(std::string_view name, const Strings& needs = {}, const RetryPolicy& retry = {}) {
    Result<TaskRef> task = roster_.submit({.name = name, .needs = needs, .retry = retry}, now_);
    EXPECT_TRUE(task.ok()) << (task.ok() ? "" : task.error().to_string());
    return task.ok() ? *task : TaskRef::none();
  }
  TaskRef pick() { return roster_.pick(now_).task; }
  // Runs tasks until none may start.
  void run_all() {
    for (TaskRef task = pick(); !task.is_none(); task = pick()) roster_.finish(task, true, now_);
  }
  TaskState state(std::string_view name) { return roster_.state(roster_.dag().find(name)); }
  void TearDown() override { roster_.check_invariants(); }

  Moment now_ = at_ms(0);
  Roster roster_{{.budget = {.cpu_slots_hard = 2}, .aging = {}, .pause = {.timeout_ms = 100}}};
};

// G-3: the end of a task wakes its direct successors, and they run when their last predecessor has ended.
TEST_F(RosterTest, SuccessorsWakeWhenTheirLastPredecessorSucceeds) {
  const TaskRef a = add("a"), b = add("b"), c = add("c", {"a", "b"}), d = add("d", {"c"});
  EXPECT_EQ(state("a"), kReady);
  EXPECT_EQ(pick(), a);
  EXPECT_EQ(pick(), b);
  roster_.clear_effects();
  roster_.finish(a, true, now_);
  EXPECT_THAT(roster_.changes(), ElementsAre(Change{a, kRunning, kSucceeded}));
  roster_.clear_effects();
  roster_.finish(b, true, now_);
  EXPECT_THAT(roster_.changes(), ElementsAre(Change{b, kRunning, kSucceeded}, Change{c, kQueued, kReady}));
  EXPECT_EQ(roster_.unmet(d), 1U);
  run_all();
  EXPECT_EQ(state("d"), kSucceeded);
  EXPECT_EQ(roster_.live(), 0U);
}

// G-2: each refusal leaves no trace, and the corrected submission under the same id succeeds.
TEST_F(RosterTest, ARefusedSubmitLeavesNoTrace) {
  add("a");
  const auto refused = [&](const TaskSpec& spec) {
    Result<TaskRef> task = roster_.submit(spec, now_);
    EXPECT_FALSE(task.ok());
    EXPECT_EQ(roster_.dag().size(), 1U);
    roster_.check_invariants();
    return task.code();
  };
  const Strings missing{"nowhere"}, itself{"b"}, a{"a"};
  EXPECT_EQ(refused({.name = ""}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused({.name = "a"}), ErrorCode::kAlreadyExists);
  EXPECT_EQ(refused({.name = "b", .needs = missing}), ErrorCode::kNotFound);
  EXPECT_EQ(refused({.name = "b", .needs = itself}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused({.name = "b", .demand = {.cpu_slots = 3}}), ErrorCode::kCapacity);
  EXPECT_EQ(refused({.name = "b", .demand = {.cpu_slots = 0}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused({.name = "b", .retry = {.max_attempts = 0}}), ErrorCode::kInvalidArgument);
  const std::vector<TaskSpec> half{{.name = "b"}, {.name = "c", .needs = missing}};
  EXPECT_EQ(roster_.submit_all(half, now_).code(), ErrorCode::kNotFound);
  EXPECT_EQ(roster_.dag().size(), 1U);
  add("b", {"a"});
  run_all();
  EXPECT_EQ(state("b"), kSucceeded);
}

// G-3: a dependency that ends while its successor is paused counts; resume finds it ready.
TEST_F(RosterTest, APausedQueuedTaskIsReadyAfterResume) {
  const TaskRef a = add("a"), b = add("b", {"a"});
  EXPECT_EQ(*roster_.pause(b, now_), Roster::Pausing::kDone);
  EXPECT_EQ(roster_.paused_from(b), kQueued);
  EXPECT_EQ(pick(), a);
  roster_.finish(a, true, now_);
  EXPECT_EQ(state("b"), kPaused);
  EXPECT_TRUE(pick().is_none());
  ASSERT_TRUE(roster_.resume(b, now_).ok());
  EXPECT_EQ(pick(), b);
}

// G-7: a running task is paused at its checkpoint, gives its slots back, and waits for them again on resume.
TEST_F(RosterTest, APausedRunningTaskGivesItsSlotsBack) {
  const TaskRef a = add("a"), b = add("b"), c = add("c");
  EXPECT_EQ(pick(), a);
  EXPECT_EQ(pick(), b);
  EXPECT_TRUE(pick().is_none());
  EXPECT_EQ(*roster_.pause(a, now_), Roster::Pausing::kPending);
  EXPECT_EQ(state("a"), kRunning);
  EXPECT_EQ(roster_.checkpoint(b), Roster::Checkpoint::kContinue);
  EXPECT_EQ(roster_.checkpoint(a), Roster::Checkpoint::kPark);
  EXPECT_EQ(roster_.paused_from(a), kRunning);
  EXPECT_EQ(pick(), c);
  ASSERT_TRUE(roster_.resume(a, now_).ok());
  EXPECT_TRUE(pick().is_none());  // Its slots are c's now.
  roster_.finish(c, true, now_);
  const Roster::Picked again = roster_.pick(now_);
  EXPECT_EQ(again.task, a);
  EXPECT_TRUE(again.resumes);
  EXPECT_EQ(roster_.attempts(a), 1U);
  roster_.finish(a, true, now_);
  EXPECT_EQ(state("a"), kSucceeded);
}

// G-7: no checkpoint within the timeout cancels the task; a checkpoint in time, a resume or its end does not.
TEST_F(RosterTest, NoCheckpointInTimeCancels) {
  const TaskRef a = add("a"), b = add("b"), after = add("after", {"a"});
  EXPECT_EQ(pick(), a);
  EXPECT_EQ(pick(), b);
  ASSERT_TRUE(roster_.pause(a, now_).ok());
  ASSERT_TRUE(roster_.pause(b, now_).ok());
  ASSERT_TRUE(roster_.resume(b, now_).ok());
  EXPECT_EQ(roster_.next_due(), at_ms(100));
  roster_.advance(at_ms(99));
  EXPECT_FALSE(roster_.is_stopping(a));
  roster_.advance(at_ms(100));
  EXPECT_TRUE(roster_.is_stopping(a));
  EXPECT_FALSE(roster_.is_stopping(b));
  EXPECT_THAT(roster_.stops(), ElementsAre(a));
  EXPECT_EQ(roster_.checkpoint(a), Roster::Checkpoint::kStop);
  EXPECT_EQ(state("after"), kCancelled);
  EXPECT_EQ(roster_.root(after), a);
  roster_.finish(a, true, now_);  // What the body says comes too late.
  EXPECT_EQ(state("a"), kCancelled);
  EXPECT_EQ(roster_.cause(a), CancelCause::kPauseTimeout);
  roster_.finish(b, true, now_);
}

// G-7: cancel is idempotent and affects one task: of three siblings two continue.
TEST_F(RosterTest, CancelReachesOneTaskAndItsDescendants) {
  const TaskRef root = add("root");
  add("s1", {"root"});
  const TaskRef s2 = add("s2", {"root"});
  add("s3", {"root"});
  const TaskRef below = add("below", {"s2"});
  EXPECT_EQ(pick(), root);
  roster_.finish(root, true, now_);
  EXPECT_TRUE(roster_.cancel(s2, now_).ok());
  EXPECT_TRUE(roster_.cancel(s2, now_).ok());
  run_all();
  EXPECT_EQ(state("s1"), kSucceeded);
  EXPECT_EQ(state("s2"), kCancelled);
  EXPECT_EQ(state("s3"), kSucceeded);
  EXPECT_EQ(state("below"), kCancelled);
  EXPECT_EQ(roster_.cause(s2), CancelCause::kRequest);
  EXPECT_EQ(roster_.cause(below), CancelCause::kDependency);
  EXPECT_EQ(roster_.root(below), s2);
  EXPECT_EQ(roster_.cancel(root, now_).code(), ErrorCode::kFailedPrecondition);
}

// G-7: a task that is parked at a checkpoint is cancelled by unwinding its body, without slots.
TEST_F(RosterTest, CancelOfAParkedTaskUnwindsIt) {
  const TaskRef a = add("a"), b = add("b"), c = add("c");
  EXPECT_EQ(pick(), a);
  ASSERT_TRUE(roster_.pause(a, now_).ok());
  EXPECT_EQ(roster_.checkpoint(a), Roster::Checkpoint::kPark);
  EXPECT_EQ(pick(), b);
  EXPECT_EQ(pick(), c);
  ASSERT_TRUE(roster_.cancel(a, now_).ok());
  EXPECT_THAT(roster_.stops(), ElementsAre(a));
  EXPECT_EQ(state("a"), kRunning);
  EXPECT_EQ(roster_.order().held().cpu_slots, 2U);
  roster_.check_invariants();
  roster_.finish(a, false, now_);
  EXPECT_EQ(state("a"), kCancelled);
  EXPECT_EQ(roster_.order().held().cpu_slots, 2U);
  EXPECT_EQ(roster_.pause(a, now_).code(), ErrorCode::kFailedPrecondition);
  EXPECT_EQ(roster_.resume(a, now_).code(), ErrorCode::kFailedPrecondition);
}

// G-6: failure reaches every descendant with the root cause; unrelated tasks continue.
TEST_F(RosterTest, FailureReachesDescendantsAndNobodyElse) {
  const TaskRef a = add("a");
  add("other");
  add("b", {"a"});
  const TaskRef c = add("c", {"b", "other"});
  add("beside", {"other"});
  EXPECT_EQ(pick(), a);
  roster_.finish(a, false, now_);
  EXPECT_EQ(state("a"), kFailed);
  EXPECT_EQ(state("b"), kCancelled);
  EXPECT_EQ(state("c"), kCancelled);
  EXPECT_EQ(roster_.root(c), a);
  run_all();
  EXPECT_EQ(state("beside"), kSucceeded);
  add("late", {"c"});  // Behind one that is lost.
  EXPECT_EQ(state("late"), kCancelled);
  EXPECT_EQ(roster_.root(roster_.dag().find("late")), a);
}

// G-8: Failed to Queued, attempts counted, with a backoff that doubles up to its limit.
TEST_F(RosterTest, RetriesWithBackoff) {
  const TaskRef a = add("a", {}, {.max_attempts = 4, .backoff_ms = 10, .backoff_max_ms = 25});
  const TaskRef b = add("b", {"a"});
  for (const std::int64_t backoff : {10, 20, 25}) {
    EXPECT_EQ(pick(), a);
    roster_.clear_effects();
    roster_.finish(a, false, now_);
    EXPECT_THAT(roster_.changes(), ElementsAre(Change{a, kRunning, kFailed}, Change{a, kFailed, kQueued}));
    EXPECT_EQ(roster_.next_due(), now_.after(backoff * kNsPerMs));
    roster_.advance(now_.after(backoff * kNsPerMs - 1));
    EXPECT_EQ(state("a"), kQueued);
    now_ = now_.after(backoff * kNsPerMs);
    roster_.advance(now_);
    EXPECT_EQ(state("a"), kReady);
    EXPECT_EQ(state("b"), kQueued);
  }
  EXPECT_EQ(pick(), a);
  roster_.finish(a, false, now_);
  EXPECT_EQ(state("a"), kFailed);
  EXPECT_EQ(state("b"), kCancelled);
  EXPECT_EQ(roster_.attempts(a), 4U);
  // Retried by hand once more: the tasks that were cancelled because of it wait again.
  ASSERT_TRUE(roster_.retry(a, now_).ok());
  EXPECT_EQ(state("b"), kQueued);
  run_all();
  EXPECT_EQ(roster_.attempts(a), 5U);
  EXPECT_EQ(state("b"), kSucceeded);
  EXPECT_EQ(roster_.retry(b, now_).code(), ErrorCode::kFailedPrecondition);
}

// G-6, G-8: a retry revives only tasks that no other failed or cancelled predecessor keeps cancelled.
TEST_F(RosterTest, RetryRevivesWhatWasLostForItAlone) {
  const TaskRef a = add("a"), x = add("x");
  add("ax", {"a", "x"});
  add("b", {"a"});
  const TaskRef c = add("c", {"b"});
  add("d", {"c"});
  EXPECT_EQ(pick(), a);
  EXPECT_EQ(pick(), x);
  ASSERT_TRUE(roster_.cancel(c, now_).ok());
  roster_.finish(a, false, now_);
  roster_.finish(x, false, now_);
  ASSERT_TRUE(roster_.retry(a, now_).ok());
  EXPECT_EQ(state("b"), kQueued);
  EXPECT_EQ(state("ax"), kCancelled);
  EXPECT_EQ(roster_.root(roster_.dag().find("ax")), x);
  EXPECT_EQ(state("c"), kCancelled);
  EXPECT_EQ(state("d"), kCancelled);
  roster_.check_invariants();
  ASSERT_TRUE(roster_.retry(x, now_).ok());
  EXPECT_EQ(state("ax"), kQueued);
  run_all();
  EXPECT_EQ(state("ax"), kSucceeded);
}

// No recursion: a chain of a million tasks is cancelled.
TEST(Roster, AChainOfAMillionFailsFromItsHead) {
  Roster roster({.budget = {.cpu_slots_hard = 1}, .aging = {}, .pause = {}});
  constexpr std::size_t kTasks = kUnderAsan ? 100'000 : 1'000'000;
  std::vector<std::string> names(kTasks);
  std::vector<std::string_view> views(kTasks);
  std::vector<TaskSpec> specs(kTasks);
  for (std::size_t i = 0; i < kTasks; ++i) {
    names[i] = std::to_string(i);
    views[i] = names[i];
    specs[i].name = names[i];
    if (i > 0) specs[i].needs = {&views[i - 1], 1};
  }
  ASSERT_TRUE(roster.submit_all(specs, {}).ok());
  const Roster::Picked head = roster.pick({});
  roster.finish(head.task, false, {});
  EXPECT_EQ(roster.count(kCancelled), kTasks - 1);
  EXPECT_EQ(roster.root(TaskRef(kTasks)), head.task);
}

// ------------------------------------------------------------------------------------------------ against a model
// The same life cycle, recomputed: after every command each task's state follows from what it waits for.
class Model {
 public:
  struct Task {
    std::vector<std::size_t> needs;
    RetryPolicy retry;
    TaskState state = kQueued;
    bool started = false, stopping = false, pausing = false;
    Moment pause_due, backoff_until;
    std::uint32_t attempts = 0, left = 0;
    bool lost_by_need = false;
    bool forgotten = false;
    TaskRef ref{};  // None: the roster has removed it.
    std::string name{};
  };
  std::vector<Task> tasks;

  [[nodiscard]] bool has_forgotten_ancestor(const Task& task) const {
    return std::any_of(task.needs.begin(), task.needs.end(),
                       [&](std::size_t need) { return tasks[need].forgotten || has_forgotten_ancestor(tasks[need]); });
  }
  [[nodiscard]] bool may_start(const Task& task, Moment now) const {
    if (task.backoff_until > now) return false;
    for (const std::size_t need : task.needs) {
      if (tasks[need].state != kSucceeded) return false;
    }
    return true;
  }
  void settle(Moment now) {
    for (Task& task : tasks) {
      if (task.pausing && task.pause_due <= now) stop(task);
    }
    for (bool again = true; again;) {
      again = false;
      for (Task& task : tasks) {
        if (is_terminal(task.state)) continue;
        for (const std::size_t need : task.needs) {
          const Task& before = tasks[need];
          if (before.state != kFailed && before.state != kCancelled && !before.stopping) continue;
          task.state = kCancelled;
          task.lost_by_need = again = true;
          break;
        }
        if (task.state == kQueued && may_start(task, now)) task.state = kReady;
      }
    }
  }
  static void stop(Task& task) {
    task.pausing = false;
    if (task.started) {
      task.stopping = true;
      task.state = kRunning;
    } else {
      task.state = kCancelled;
    }
  }
  bool pause(Task& task, Moment now) const {
    if (is_terminal(task.state) || task.stopping) return false;
    if (task.state == kRunning) {
      if (!task.pausing) task.pause_due = now.after(50 * kNsPerMs);
      task.pausing = true;
    } else {
      task.state = kPaused;
    }
    return true;
  }
  bool resume(Task& task, Moment now) const {
    if (task.pausing) {
      task.pausing = false;
      return true;
    }
    if (task.state != kPaused) return false;
    task.state = may_start(task, now) ? kReady : kQueued;
    return true;
  }
  static bool cancel(Task& task) {
    if (task.state == kSucceeded || task.state == kFailed) return false;
    if (task.state != kCancelled && !task.stopping) stop(task);
    return true;
  }
  bool retry(Task& task) {
    if (task.state != kFailed) return false;
    task.state = kQueued;
    task.left = 1;
    // Every task that was cancelled because of a predecessor waits again; settle() cancels those that still must be.
    for (Task& other : tasks) {
      if (other.state == kCancelled && other.lost_by_need && !other.forgotten) {
        other.state = kQueued;
        other.lost_by_need = false;
      }
    }
    return true;
  }
  static void finish(Task& task, bool success, Moment now) {
    task.started = task.pausing = false;
    if (task.stopping) {
      task.stopping = false;
      task.state = kCancelled;
    } else if (success) {
      task.state = kSucceeded;
    } else if (--task.left > 0) {
      task.state = kQueued;
      const std::uint64_t backoff = std::uint64_t{task.retry.backoff_ms} << (task.attempts - 1);
      task.backoff_until = now.after(static_cast<std::int64_t>(backoff) * kNsPerMs);
    } else {
      task.state = kFailed;
    }
  }
};

void expect_same(const Roster& roster, const Model& model) {
  roster.check_invariants();
  for (std::size_t i = 0; i < model.tasks.size(); ++i) {
    const Model::Task& task = model.tasks[i];
    const TaskRef ref = task.ref;
    if (task.forgotten) {  // Another task may have its name.
      ASSERT_TRUE(ref.is_none() || roster.dag().find(task.name) != ref);
      continue;
    }
    ASSERT_EQ(roster.dag().find(task.name), ref);
    ASSERT_EQ(roster.state(ref), task.state) << to_string(roster.state(ref)) << ", not " << to_string(task.state);
    ASSERT_EQ(roster.is_stopping(ref), task.stopping);
    ASSERT_EQ(roster.pause_pending(ref), task.pausing);
    ASSERT_EQ(roster.has_body(ref), task.started);
    ASSERT_EQ(roster.attempts(ref), task.attempts);
    if (task.state == kCancelled && task.lost_by_need) {
      ASSERT_EQ(roster.cause(ref), CancelCause::kDependency);
      const TaskRef root = roster.root(ref);
      ASSERT_TRUE(roster.state(root) == kFailed || roster.state(root) == kCancelled || roster.is_stopping(root));
      // Where the root cause is forgotten, the task itself is the earliest one that is known.
      ASSERT_TRUE(root != ref || model.has_forgotten_ancestor(task));
    }
  }
}

// What a task reads at its start: the roster still has every predecessor that succeeded.
void expect_predecessors(const Roster& roster, const Model& model, const Model::Task& task) {
  std::size_t parents = 0;
  for ([[maybe_unused]] const TaskRef parent : roster.dag().parents(task.ref)) parents += 1;
  ASSERT_EQ(parents, task.needs.size());
  for (const std::size_t need : task.needs) ASSERT_FALSE(model.tasks[need].ref.is_none());
}

// Removes what can be removed, and translates the references of the model.
void compact(Roster& roster, Model& model) {
  const std::uint32_t before = roster.dag().size(), removable = roster.removable();
  const std::vector<bool> kept = roster.compact();
  ASSERT_EQ(roster.dag().size(), before - removable);
  std::uint32_t next = 1;
  for (Model::Task& task : model.tasks) {  // In the order of their numbers.
    if (!task.ref.is_none()) task.ref = kept[task.ref.value() - 1] ? TaskRef(next++) : TaskRef::none();
  }
}

void random_history(std::uint64_t seed, int steps, bool forgets) {
  Prng random(seed);
  const ResourceBudget budget{.cpu_slots_hard = 3};
  Roster roster({.budget = budget, .aging = {.interval_ms = 5, .boost = 1}, .pause = {.timeout_ms = 50}});
  Model model;
  Moment now{};
  std::vector<std::string> names;
  for (int i = 0; i < 64; ++i) names.push_back("t" + std::to_string(i));
  for (int step = 0; step < steps; ++step) {
    now.ns += static_cast<std::int64_t>(random.below(4)) * static_cast<std::int64_t>(random.below(4)) * kNsPerMs;
    roster.advance(now);
    model.settle(now);
    const std::size_t count = model.tasks.size();
    const std::uint64_t what = count == 0 ? 0 : random.below(12);
    const std::size_t i = count == 0 ? 0 : random.below(count);
    const TaskRef ref = count == 0 ? TaskRef::none() : model.tasks[i].ref;
    if (forgets && random.chance(1, 8)) {
      roster.clear_effects();
      if (count > 0 && !model.tasks[i].forgotten) {
        ASSERT_EQ(roster.forget(ref).ok(), is_terminal(model.tasks[i].state));
        model.tasks[i].forgotten = is_terminal(model.tasks[i].state);
      }
      if (random.chance(1, 4)) {
        ASSERT_NO_FATAL_FAILURE(compact(roster, model));
      }
      ASSERT_NO_FATAL_FAILURE(expect_same(roster, model)) << "step " << step;
      continue;
    }
    if (count > 0 && model.tasks[i].forgotten && what != 0 && (what < 5 || what > 7)) continue;
    if (what == 0 && count < 64) {
      Model::Task task;
      Strings needs;
      for (std::uint64_t k = count == 0 ? 0 : random.below(4); k > 0; --k) {
        const std::size_t need = random.below(count);
        if (model.tasks[need].forgotten) continue;
        task.needs.push_back(need);
        needs.push_back(model.tasks[need].name);
      }
      // The name of a forgotten task is free.
      for (task.name = names[count]; forgets && count > 0 && random.chance(1, 2);) {
        const Model::Task& old = model.tasks[random.below(count)];
        if (!old.forgotten || !roster.dag().find(old.name).is_none()) break;
        task.name = old.name;
      }
      task.retry = {.max_attempts = 1 + static_cast<std::uint32_t>(random.below(3)),
                    .backoff_ms = static_cast<std::uint32_t>(random.below(2) * 7)};
      task.left = task.retry.max_attempts;
      const std::uint32_t slots = 1 + static_cast<std::uint32_t>(random.below(3));
      ASSERT_TRUE(roster
                      .submit({.name = task.name,
                               .needs = needs,
                               .priority = static_cast<std::int32_t>(random.below(3)),
                               .demand = {.cpu_slots = slots},
                               .retry = task.retry},
                              now)
                      .ok());
      task.ref = TaskRef(roster.dag().size());
      model.tasks.push_back(task);
    } else if (what == 1) {
      ASSERT_EQ(roster.pause(ref, now).ok(), model.pause(model.tasks[i], now));
    } else if (what == 2) {
      ASSERT_EQ(roster.resume(ref, now).ok(), model.resume(model.tasks[i], now));
    } else if (what == 3 && random.chance(1, 4)) {
      ASSERT_EQ(roster.cancel(ref, now).ok(), Model::cancel(model.tasks[i]));
    } else if (what == 4) {
      ASSERT_EQ(roster.retry(ref, now).ok(), model.retry(model.tasks[i]));
    } else if (what <= 7) {
      const Roster::Picked picked = roster.pick(now);
      if (picked) {
        Model::Task& task = *std::find_if(model.tasks.begin(), model.tasks.end(),
                                          [&](const Model::Task& t) { return t.ref == picked.task; });
        ASSERT_NO_FATAL_FAILURE(expect_predecessors(roster, model, task));
        ASSERT_EQ(task.state, kReady);
        ASSERT_EQ(picked.resumes, task.started);
        task.state = kRunning;
        if (!task.started) ++task.attempts;
        task.started = true;
      } else {
        // Another task holds the missing resources, or nothing is ready.
        ASSERT_TRUE(roster.count(kReady) == 0 || roster.order().held().tasks > 0);
      }
    } else if (what == 8) {
      if (model.tasks[i].state != kRunning) continue;
      const Roster::Checkpoint answer = roster.checkpoint(ref);
      Model::Task& task = model.tasks[i];
      ASSERT_EQ(answer, task.stopping  ? Roster::Checkpoint::kStop
                        : task.pausing ? Roster::Checkpoint::kPark
                                       : Roster::Checkpoint::kContinue);
      if (answer == Roster::Checkpoint::kPark) {
        task.pausing = false;
        task.state = kPaused;
      }
    } else {
      if (model.tasks[i].state != kRunning) continue;
      const bool success = random.chance(2, 3);
      roster.finish(ref, success, now);
      Model::finish(model.tasks[i], success, now);
    }
    model.settle(now);
    for (const Change& change : roster.changes()) ASSERT_TRUE(legal_transition(change.from, change.to));
    roster.clear_effects();
    ASSERT_NO_FATAL_FAILURE(expect_same(roster, model)) << "step " << step;
  }
}

// G-3, G-6, G-7, G-8: for any order of submit, pause, resume, cancel, retry, checkpoints, ends and time, every task is
// in the state that the model computes, and only legal transitions were made.
TEST(Roster, RandomHistoriesAgreeWithAModel) {
  for (std::uint64_t seed = 1; seed <= (kUnderAsan ? 150 : 1000); ++seed) {
    ASSERT_NO_FATAL_FAILURE(random_history(seed, 300, false)) << "seed " << seed;
  }
}

// G-9: the same while ended tasks are forgotten, at any time and in any order, and removed in between.
TEST(Roster, RandomHistoriesWithForgetting) {
  for (std::uint64_t seed = 1; seed <= (kUnderAsan ? 150 : 1000); ++seed) {
    ASSERT_NO_FATAL_FAILURE(random_history(seed, 400, true)) << "seed " << seed;
  }
}

// G-9: what remains keeps its order: ready_since and the reservation of the oldest, and the order of equal priorities.
TEST_F(RosterTest, RemovingEndedTasksKeepsTheOrderOfTheOthers) {
  for (const char* name : {"x1", "x2"}) add(name);
  run_all();
  ASSERT_TRUE(roster_.submit({.name = "wide", .demand = {.cpu_slots = 2}}, now_).ok());
  roster_.clear_effects();
  now_ = at_ms(1);
  ASSERT_TRUE(roster_.submit({.name = "late", .priority = 1}, now_).ok());
  ASSERT_TRUE(roster_.submit({.name = "later", .priority = 1}, now_).ok());
  roster_.clear_effects();
  for (const char* name : {"x1", "x2"}) ASSERT_TRUE(roster_.forget(roster_.dag().find(name)).ok());
  EXPECT_EQ(roster_.removable(), 2U);
  EXPECT_THAT(roster_.compact(), ElementsAre(false, false, true, true, true));
  roster_.check_invariants();
  EXPECT_EQ(roster_.order().ready_since(roster_.dag().find("wide")), at_ms(0));
  EXPECT_EQ(pick(), roster_.dag().find("late"));
  // Nothing overtakes the oldest task for longer than its reservation allows.
  now_ = at_ms(1'000'000);
  EXPECT_TRUE(pick().is_none());
  roster_.finish(roster_.dag().find("late"), true, now_);
  EXPECT_EQ(pick(), roster_.dag().find("wide"));
  roster_.finish(roster_.dag().find("wide"), true, now_);
  EXPECT_EQ(pick(), roster_.dag().find("later"));
  roster_.finish(roster_.dag().find("later"), true, now_);
  roster_.clear_effects();
}

// G-9: a task that has not ended is not forgotten; one that another task may still need is kept, without its name.
TEST_F(RosterTest, ForgottenTasksStayWhileTheyAreNeeded) {
  add("a");
  add("b", {"a"});
  EXPECT_EQ(roster_.forget(roster_.dag().find("a")).code(), ErrorCode::kFailedPrecondition);
  const TaskRef a = pick();
  roster_.finish(a, true, now_);
  ASSERT_TRUE(roster_.forget(a).ok());
  EXPECT_TRUE(roster_.dag().find("a").is_none());
  EXPECT_EQ(roster_.removable(), 0U);
  const TaskRef b = pick();
  roster_.finish(b, false, now_);
  EXPECT_EQ(roster_.removable(), 0U) << "b may be retried";
  ASSERT_TRUE(roster_.retry(b, now_).ok());
  run_all();
  EXPECT_EQ(roster_.removable(), 1U);
  roster_.clear_effects();
  (void)roster_.compact();
  EXPECT_EQ(roster_.dag().size(), 1U);
  EXPECT_EQ(state("b"), kSucceeded);
  EXPECT_EQ(add("a").value(), 2U) << "the name is free";
  run_all();
}

}  // namespace
}  // namespace rota::graph
