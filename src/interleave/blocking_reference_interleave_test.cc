// Goal: the reduction loses nothing when threads block: mutexes, conditions, futexes, time-outs, spin loops.
// Method: random small programs; the reduced search must see exactly the outcomes (all values read, locks got, waiters
// woken, time-outs) that the search without reduction sees, and must find a deadlock iff that one does.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "base/sync.h"
#include "interleave/interleave.h"

namespace rota::interleave {
namespace {

constexpr std::memory_order kRelaxed = std::memory_order_relaxed;

enum class Kind {
  kLoad,
  kStore,
  kAdd,
  kLockedAdd,  // Adds under the mutex, not atomically.
  kTryLock,    // Adds if it gets the mutex.
  kWait,       // Futex, while the word has the value.
  kTimedWait,
  kWakeOne,
  kWakeAll,
  kConditionWait,  // Timed, or most programs would hang.
  kNotifyOne,
  kSpin,  // Until the word is not zero, or three rounds.
  kCount
};
struct Op {
  Kind kind;
  std::size_t word;
  std::uint32_t value;
};
using Program = std::vector<std::vector<Op>>;
using Outcomes = std::set<std::vector<std::uint32_t>>;

struct Shared {
  std::array<sync::Futex, 2> word{};
  sync::Mutex mutex;
  sync::CondVar condition;
};

std::uint32_t perform(Shared& shared, const Op& op) {
  sync::Futex& futex = shared.word[op.word];
  sync::Atomic<std::uint32_t>& x = futex.value;
  const auto add = [&] {
    const std::uint32_t old = x.load(kRelaxed);
    x.store(old + 1, kRelaxed);
    return old;
  };
  switch (op.kind) {
    case Kind::kLoad:
      return x.load(std::memory_order_acquire);
    case Kind::kStore:
      x.store(op.value, std::memory_order_release);
      return 0;
    case Kind::kAdd:
      return x.fetch_add(1, kRelaxed);
    case Kind::kLockedAdd: {
      const sync::MutexLock lock(shared.mutex);
      return add();
    }
    case Kind::kTryLock: {
      if (!shared.mutex.try_lock()) return 100;
      const std::uint32_t old = add();
      shared.mutex.unlock();
      return old;
    }
    case Kind::kWait:
      futex.wait(op.value);
      return 0;
    case Kind::kTimedWait:
      return futex.wait(op.value, std::chrono::nanoseconds(1)) ? 0 : 100;
    case Kind::kWakeOne:
      return static_cast<std::uint32_t>(futex.wake_one());
    case Kind::kWakeAll:
      return static_cast<std::uint32_t>(futex.wake_all());
    case Kind::kConditionWait: {
      const sync::MutexLock lock(shared.mutex);
      const bool in_time = shared.condition.wait_for(shared.mutex, std::chrono::nanoseconds(1));
      return add() + (in_time ? 0 : 100);
    }
    case Kind::kNotifyOne:
      shared.condition.notify_one();
      return 0;
    case Kind::kSpin: {
      for (std::uint32_t round = 0; round < 3; ++round) {
        if (const std::uint32_t value = x.load(kRelaxed); value != 0) return value;
        sync::cpu_pause();
      }
      return 100;
    }
    case Kind::kCount:
      break;
  }
  return 0;
}

Outcomes explore(const Program& program, const Options& options, Result& result) {
  Outcomes outcomes;
  result = check(options, [&](Execution& ex) {
    Shared shared;
    std::vector<std::vector<std::uint32_t>> seen(program.size());
    const auto body = [&](std::size_t t) {
      for (const Op& op : program[t]) seen[t].push_back(perform(shared, op));
    };
    if (program.size() == 2) ex.run([&] { body(0); }, [&] { body(1); });
    if (program.size() == 3) ex.run([&] { body(0); }, [&] { body(1); }, [&] { body(2); });
    std::vector<std::uint32_t> outcome;
    for (const std::vector<std::uint32_t>& values : seen) outcome.insert(outcome.end(), values.begin(), values.end());
    for (const sync::Futex& word : shared.word) outcome.push_back(word.value.load());
    outcomes.insert(outcome);
  });
  return outcomes;
}

Program random_program(std::uint64_t seed) {
  std::uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  const auto below = [&](int n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<std::size_t>(state % static_cast<std::uint64_t>(n));
  };
  Program program(2 + below(2));
  const std::size_t operations = 3 + below(3);
  // A program uses a few kinds only: then they meet.
  const auto first = static_cast<Kind>(below(static_cast<int>(Kind::kCount)));
  const auto second = static_cast<Kind>(below(static_cast<int>(Kind::kCount)));
  for (std::size_t i = 0; i < std::max(operations, program.size()); ++i) {
    const std::size_t roll = below(4);
    const Kind kind = roll == 0 ? first : roll == 1 ? second : static_cast<Kind>(below(static_cast<int>(Kind::kCount)));
    const std::size_t t = i < program.size() ? i : below(static_cast<int>(program.size()));
    program[t].push_back({kind, below(4) == 0 ? 1U : 0U, static_cast<std::uint32_t>(below(2))});
  }
  return program;
}

std::string print(const Program& program) {
  constexpr const char* kNames[] = {"load",       "store",    "add",      "locked_add",     "try_lock",   "wait",
                                    "timed_wait", "wake_one", "wake_all", "condition_wait", "notify_one", "spin"};
  std::string text;
  for (const std::vector<Op>& thread : program) {
    for (const Op& op : thread) {
      text += std::string(kNames[static_cast<int>(op.kind)]) + "(" + std::to_string(op.word) + ", " +
              std::to_string(op.value) + "); ";
    }
    text += "\n";
  }
  return text;
}

std::string print(const Outcomes& outcomes) {
  std::string text;
  for (const std::vector<std::uint32_t>& outcome : outcomes) {
    for (const std::uint32_t n : outcome) text += std::to_string(n) + " ";
    text += "\n";
  }
  return text;
}

enum class Verdict { kEqual, kBothFail, kTooBig };

// The two searches must agree about the program.
Verdict compare(const Program& program, const std::string& name) {
  Result plain;
  Result reduced;
  const Outcomes all = explore(program, {.max_executions = 20'000, .free_spins = 12, .reduction = false}, plain);
  if (plain.ok && !plain.exhaustive) return Verdict::kTooBig;
  const Outcomes found = explore(program, {.free_spins = 12}, reduced);
  EXPECT_EQ(plain.failure, reduced.failure) << name << "\n" << print(program) << plain.report << reduced.report;
  if (!plain.ok) return Verdict::kBothFail;
  EXPECT_TRUE(reduced.exhaustive) << reduced.report;
  Outcomes missing;
  Outcomes extra;
  std::set_difference(all.begin(), all.end(), found.begin(), found.end(), std::inserter(missing, missing.begin()));
  std::set_difference(found.begin(), found.end(), all.begin(), all.end(), std::inserter(extra, extra.begin()));
  EXPECT_TRUE(missing.empty() && extra.empty()) << name << "\n"
                                                << print(program) << "missing:\n"
                                                << print(missing) << "extra:\n"
                                                << print(extra) << plain.report << "\n"
                                                << reduced.report;
  return Verdict::kEqual;
}

TEST(BlockingReference, ReductionLosesNothing) {
  int compared = 0;
  int stuck = 0;
  for (std::uint64_t seed = 1; seed <= 1'200 && !HasFailure(); ++seed) {
    const Verdict verdict = compare(random_program(seed), "seed " + std::to_string(seed));
    compared += verdict != Verdict::kTooBig ? 1 : 0;
    stuck += verdict == Verdict::kBothFail ? 1 : 0;
  }
  EXPECT_GT(compared, 800);
  EXPECT_GT(stuck, 40);
}

// Programs for which something was lost at some time, found among many more than are tried above.
TEST(BlockingReference, ReductionLosesNothingThatItOnceLost) {
  const Program timeout_missed_by_wake = {
      {{Kind::kWakeAll, 1, 0}, {Kind::kWakeAll, 0, 0}, {Kind::kLockedAdd, 0, 1}, {Kind::kWakeOne, 0, 0}},
      {{Kind::kTimedWait, 0, 0}}};
  const Program wait_needs_a_store_first = {
      {{Kind::kTimedWait, 1, 1}, {Kind::kWakeOne, 0, 0}}, {{Kind::kTryLock, 0, 0}}, {{Kind::kTimedWait, 0, 1}}};
  const Program two_last_resorts = {
      {{Kind::kConditionWait, 0, 1}, {Kind::kConditionWait, 1, 1}, {Kind::kNotifyOne, 0, 0}},
      {{Kind::kTimedWait, 0, 0}, {Kind::kConditionWait, 1, 1}}};
  EXPECT_EQ(compare(timeout_missed_by_wake, "time-out and wake"), Verdict::kEqual);
  EXPECT_EQ(compare(wait_needs_a_store_first, "wait after store"), Verdict::kEqual);
  EXPECT_EQ(compare(two_last_resorts, "last resorts"), Verdict::kEqual);
}

}  // namespace
}  // namespace rota::interleave
