// Goal: the checker proves a Chase-Lev deque (after Lê, Pop, Cohen and Zappa Nardelli, 2013) within its bound, and
// finds each of a handful of classical mistakes in it. Stress on x86 finds none of the ordering ones.
// Method: a compact deque with switchable orderings; each item must be taken exactly once, and what it points to must
// have been published.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>

#include "base/sync.h"
#include "interleave/interleave.h"

namespace rota::interleave {
namespace {

constexpr std::memory_order kRelaxed = std::memory_order_relaxed;
constexpr std::memory_order kAcquire = std::memory_order_acquire;
constexpr std::memory_order kRelease = std::memory_order_release;
constexpr std::memory_order kAcqRel = std::memory_order_acq_rel;
constexpr std::memory_order kSeqCst = std::memory_order_seq_cst;

struct Recipe {
  std::memory_order publish = kRelease;       // push: the store of bottom. Pairs with steal_bottom.
  std::memory_order steal_bottom = kAcquire;  // steal: the load of bottom.
  std::memory_order take_bottom = kRelease;   // take: its stores of bottom. A thief may read one of these instead of
                                              // push's; since C++20 it does not continue push's release sequence.
  std::memory_order take_fence = kSeqCst;     // take: between the store of bottom and the load of top,
  std::memory_order steal_fence = kSeqCst;    // steal: between the load of top and the load of bottom: one of the two
                                              // sees the other.
  bool take_last_by_exchange = true;          // take: the last item must be won from the thieves.
  bool steal_by_exchange = true;
  bool check_full = true;  // push: do not overwrite what is not taken yet.
};

constexpr int kEmpty = -1;
constexpr int kLost = -2;

class Deque {
 public:
  explicit Deque(const Recipe& recipe) : recipe_(recipe) {}

  bool push(int item) {
    const std::int64_t b = bottom_.load(kRelaxed);
    const std::int64_t t = top_.load(kAcquire);
    if (recipe_.check_full && b - t >= kCapacity) return false;
    slot(b).store(item, kRelaxed);
    bottom_.store(b + 1, recipe_.publish);
    return true;
  }

  int take() {
    const std::int64_t b = bottom_.load(kRelaxed) - 1;
    bottom_.store(b, recipe_.take_bottom);
    sync::fence(recipe_.take_fence);
    std::int64_t t = top_.load(kRelaxed);
    if (t > b) {
      bottom_.store(b + 1, recipe_.take_bottom);
      return kEmpty;
    }
    int item = slot(b).load(kRelaxed);
    if (t == b) {
      if (recipe_.take_last_by_exchange) {
        if (!top_.compare_exchange_strong(t, t + 1, kSeqCst, kRelaxed)) item = kEmpty;
      } else {
        top_.store(t + 1, kRelaxed);
      }
      bottom_.store(b + 1, recipe_.take_bottom);
    }
    return item;
  }

  int steal() {
    std::int64_t t = top_.load(kAcquire);
    sync::fence(recipe_.steal_fence);
    const std::int64_t b = bottom_.load(recipe_.steal_bottom);
    if (t >= b) return kEmpty;
    const int item = slot(t).load(kRelaxed);
    if (!recipe_.steal_by_exchange) {
      top_.store(t + 1, kSeqCst);
      return item;
    }
    return top_.compare_exchange_strong(t, t + 1, kSeqCst, kRelaxed) ? item : kLost;
  }

  void name(Execution& ex) {
    ex.name(top_, "top");
    ex.name(bottom_, "bottom");
    ex.name(slots_[0], "slot0");
    ex.name(slots_[1], "slot1");
  }

 private:
  static constexpr std::int64_t kCapacity = 2;
  sync::Atomic<int>& slot(std::int64_t index) { return slots_[static_cast<std::size_t>(index % kCapacity)]; }

  const Recipe recipe_;
  sync::Atomic<std::int64_t> top_{0};
  sync::Atomic<std::int64_t> bottom_{0};
  std::array<sync::Atomic<int>, kCapacity> slots_{};
};

// The owner pushes three items into room for two, taking one in between or not; one or two thieves steal.
Result try_recipe(const Recipe& recipe, int thieves, const Options& options, bool take_between = true) {
  return check(options, [&](Execution& ex) {
    constexpr int kItems = 3;
    Deque deque(recipe);
    deque.name(ex);
    std::array<sync::Plain<int>, kItems> payload{};
    std::array<int, kItems> taken{};
    std::array<bool, kItems> pushed{};
    const auto use = [&](int item) {
      if (item < 0) return;
      ROTA_INTERLEAVE_ASSERT(payload[static_cast<std::size_t>(item)].get() == 100 + item);
      ++taken[static_cast<std::size_t>(item)];  // Not shared in a correct deque: each item has one taker.
    };
    const auto owner = [&] {
      for (int item = 0; item < kItems; ++item) {
        payload[static_cast<std::size_t>(item)].set(100 + item);
        pushed[static_cast<std::size_t>(item)] = deque.push(item);
        if (take_between && item == 1) use(deque.take());
      }
      use(deque.take());
    };
    const auto thief = [&] { use(deque.steal()); };
    if (thieves == 1) {
      ex.run(owner, [&] {
        thief();
        thief();
      });
    } else {
      ex.run(owner, thief, thief);
    }
    for (int left = deque.take(); left >= 0; left = deque.take()) use(left);
    for (std::size_t item = 0; item < kItems; ++item) ROTA_INTERLEAVE_ASSERT(taken[item] == (pushed[item] ? 1 : 0));
  });
}

TEST(ChaseLev, TheRightOnePassesExhaustively) {
  for (const int thieves : {1, 2}) {
    for (const bool take_between : {true, false}) {
      const Result result = try_recipe({}, thieves, {.name = "chase-lev"}, take_between);
      EXPECT_TRUE(result.ok) << result.report;
      EXPECT_TRUE(result.exhaustive) << result.report;
      RecordProperty("thieves" + std::to_string(thieves) + (take_between ? "_between" : ""), result.report);
    }
  }
}

void expect_found(const Recipe& recipe, Failure failure, const std::string& name, bool take_between = true) {
  const Result result = try_recipe(recipe, 1, {.name = name}, take_between);
  EXPECT_EQ(result.failure, failure) << result.report;
}

TEST(ChaseLev, FindsBottomPublishedRelaxed) {
  expect_found({.publish = kRelaxed}, Failure::kDataRace, "publish relaxed");
}
TEST(ChaseLev, FindsBottomReadRelaxedByThief) {
  // The seq_cst fence comes before the load, so it does not help.
  expect_found({.steal_bottom = kRelaxed}, Failure::kDataRace, "steal bottom relaxed");
}
TEST(ChaseLev, FindsBrokenReleaseSequence) {
  expect_found({.take_bottom = kRelaxed}, Failure::kDataRace, "take bottom relaxed");
}
TEST(ChaseLev, FindsWeakFenceInTake) {
  expect_found({.take_fence = kAcqRel}, Failure::kAssertion, "take fence acq_rel");
}
TEST(ChaseLev, FindsWeakFenceInSteal) {
  expect_found({.steal_fence = kAcqRel}, Failure::kAssertion, "steal fence acq_rel");
}
TEST(ChaseLev, FindsLastItemTakenWithoutExchange) {
  expect_found({.take_last_by_exchange = false}, Failure::kAssertion, "take without exchange");
}
TEST(ChaseLev, FindsStealWithoutExchange) {
  expect_found({.steal_by_exchange = false}, Failure::kAssertion, "steal without exchange");
}
TEST(ChaseLev, FindsOverwrittenSlot) {
  expect_found({.check_full = false}, Failure::kAssertion, "push into a full deque", false);
}

// The same mistakes by chance.
TEST(ChaseLev, RandomSearchFindsThemToo) {
  for (const Mode mode : {Mode::kRandom, Mode::kPct}) {
    for (const Recipe& recipe : {Recipe{.publish = kRelaxed}, Recipe{.take_fence = kAcqRel},
                                 Recipe{.steal_fence = kAcqRel}, Recipe{.take_last_by_exchange = false}}) {
      const Result result = try_recipe(recipe, 1, {.name = "random", .mode = mode, .max_executions = 200'000});
      EXPECT_FALSE(result.ok) << result.report;
    }
  }
}

}  // namespace
}  // namespace rota::interleave
