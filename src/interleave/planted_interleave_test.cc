// Goal: the checker finds the bugs it was built for, each planted beside the correct version, which passes
// exhaustively: lost wake-ups, a missing release, ABA, races on life time.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>

#include "base/sync.h"
#include "interleave/interleave.h"

namespace rota::interleave {
namespace {

constexpr std::memory_order kRelaxed = std::memory_order_relaxed;
constexpr std::memory_order kAcquire = std::memory_order_acquire;
constexpr std::memory_order kRelease = std::memory_order_release;
constexpr std::memory_order kSeqCst = std::memory_order_seq_cst;

void expect_proven(const Result& result) {
  EXPECT_TRUE(result.ok) << result.report;
  EXPECT_TRUE(result.exhaustive) << result.report;
}

// --- message passing: the value must be published

Result message_passing(std::memory_order store, std::memory_order load) {
  return check({.name = "message passing"}, [=](Execution& ex) {
    sync::Plain<int> data{0};
    sync::Atomic<bool> ready{false};
    ex.name(data, "data");
    ex.name(ready, "ready");
    ex.run(
        [&] {
          data.set(42);
          ready.store(true, store);
        },
        [&] {
          if (ready.load(load)) ROTA_INTERLEAVE_ASSERT(data.get() == 42);
        });
  });
}

TEST(Planted, MissingRelease) {
  expect_proven(message_passing(kRelease, kAcquire));
  EXPECT_EQ(message_passing(kRelaxed, kAcquire).failure, Failure::kDataRace);
  EXPECT_EQ(message_passing(kRelease, kRelaxed).failure, Failure::kDataRace);
}

// --- an event count over a futex: the waiter must read the count before it looks for work

Result event_count(bool count_first, bool bump_before_work) {
  return check({.name = "event count"}, [=](Execution& ex) {
    sync::Futex count;
    sync::Atomic<bool> work{false};
    ex.name(count.value, "count");
    ex.name(work, "work");
    ex.run(
        [&] {
          for (;;) {
            std::uint32_t seen = count_first ? count.value.load(kAcquire) : 0;
            if (work.load(kAcquire)) return;
            if (!count_first) seen = count.value.load(kAcquire);
            count.wait(seen);
          }
        },
        [&] {
          if (bump_before_work) count.value.fetch_add(1, kRelease);
          work.store(true, kRelease);
          if (!bump_before_work) count.value.fetch_add(1, kRelease);
          count.wake_one();
        });
  });
}

TEST(Planted, LostWakeUpInAnEventCount) {
  expect_proven(event_count(true, false));
  EXPECT_EQ(event_count(false, false).failure, Failure::kDeadlock);
  EXPECT_EQ(event_count(true, true).failure, Failure::kDeadlock);
}

// --- parking: "I sleep" against "there is work", each looks for the other (Dekker). The waker skips the system call
// when nobody sleeps, which is what makes it hard.

Result parking(std::memory_order sleeping_store, std::memory_order sleeping_load, std::memory_order work_store,
               std::memory_order work_load) {
  return check({.name = "parking"}, [=](Execution& ex) {
    sync::Futex sleeping;
    sync::Atomic<int> work{0};
    ex.name(sleeping.value, "sleeping");
    ex.name(work, "work");
    ex.run(
        [&] {
          sleeping.value.store(1, sleeping_store);
          if (work.load(work_load) == 0) sleeping.wait(1);
        },
        [&] {
          work.store(1, work_store);
          if (sleeping.value.load(sleeping_load) == 1) {
            sleeping.value.store(0, kRelease);
            sleeping.wake_one();
          }
        });
  });
}

TEST(Planted, LostWakeUpInParking) {
  expect_proven(parking(kSeqCst, kSeqCst, kSeqCst, kSeqCst));
  EXPECT_EQ(parking(kRelease, kAcquire, kRelease, kAcquire).failure, Failure::kDeadlock);
  EXPECT_EQ(parking(kSeqCst, kAcquire, kSeqCst, kAcquire).failure, Failure::kDeadlock);
  EXPECT_EQ(parking(kSeqCst, kSeqCst, kSeqCst, kAcquire).failure, Failure::kDeadlock);
}

// --- a condition: the predicate must change under the mutex

Result condition(bool under_mutex) {
  return check({.name = "condition"}, [=](Execution& ex) {
    sync::Mutex mutex;
    sync::CondVar changed;
    sync::Atomic<bool> done{false};
    ex.run(
        [&] {
          const sync::MutexLock lock(mutex);
          while (!done.load(kRelaxed)) changed.wait(mutex);
        },
        [&] {
          if (under_mutex) {
            const sync::MutexLock lock(mutex);
            done.store(true, kRelaxed);
          } else {
            done.store(true, kRelaxed);
          }
          changed.notify_one();
        });
  });
}

TEST(Planted, LostWakeUpOnACondition) {
  expect_proven(condition(true));
  EXPECT_EQ(condition(false).failure, Failure::kDeadlock);
}

// --- a Treiber stack of indices that are used again: ABA

// Head: index + 1 in the low half (0: empty); with tags, a count of changes in the high half.
class IndexStack {
 public:
  explicit IndexStack(bool tagged) : tagged_(tagged) {}

  void push(std::uint32_t index) {
    std::uint64_t head = head_.load(kRelaxed);
    do {
      next_[index].store(static_cast<std::uint32_t>(head), kRelaxed);
      // Release: pairs with the acquire in pop(), for next_[index].
    } while (!head_.compare_exchange_weak(head, changed(head, index + 1), kRelease, kRelaxed));
  }

  // False when empty.
  bool pop(std::uint32_t& index) {
    std::uint64_t head = head_.load(kAcquire);
    for (;;) {
      const auto top = static_cast<std::uint32_t>(head);
      if (top == 0) return false;
      const std::uint32_t next = next_[top - 1].load(kRelaxed);
      if (head_.compare_exchange_weak(head, changed(head, next), kAcquire, kAcquire)) {
        index = top - 1;
        return true;
      }
    }
  }

 private:
  std::uint64_t changed(std::uint64_t head, std::uint32_t top) const {
    const std::uint64_t tag = tagged_ ? (head >> 32) + 1 : 0;
    return tag << 32 | top;
  }
  const bool tagged_;
  sync::Atomic<std::uint64_t> head_{0};
  std::array<sync::Atomic<std::uint32_t>, 3> next_{};
};

Result index_stack(bool tagged) {
  return check({.name = "index stack"}, [=](Execution& ex) {
    IndexStack stack(tagged);
    for (std::uint32_t i = 0; i < 3; ++i) stack.push(i);
    std::array<std::array<bool, 3>, 3> has{};  // Which thread holds which index.
    const auto pop = [&](std::size_t thread) {
      std::uint32_t index = 0;
      if (!stack.pop(index)) return index;
      has[thread][index] = true;
      return index;
    };
    ex.run([&] { pop(0); },
           [&] {
             const std::uint32_t first = pop(1);
             pop(1);
             has[1][first] = false;
             stack.push(first);
           });
    // What is left, and who holds what: each index once.
    for (std::uint32_t index = 0; stack.pop(index);) {
      ROTA_INTERLEAVE_ASSERT(!has[2][index]);
      has[2][index] = true;
    }
    for (std::size_t index = 0; index < 3; ++index) {
      ROTA_INTERLEAVE_ASSERT(has[0][index] + has[1][index] + has[2][index] == 1);
    }
  });
}

TEST(Planted, AbaInAStackOfIndices) {
  expect_proven(index_stack(true));
  EXPECT_EQ(index_stack(false).failure, Failure::kAssertion);
}

// --- life time: a reference count must be released and acquired before the object is destroyed

Result reference_count(std::memory_order decrement) {
  return check({.name = "reference count"}, [=](Execution& ex) {
    struct Counted {
      sync::Atomic<int> references{2};
      sync::Plain<int> value{0};
    };
    auto* const shared = new Counted;
    ex.name(shared->references, "references");
    const auto use = [shared, decrement] {
      (void)shared->value.get();
      if (shared->references.fetch_sub(1, decrement) == 1) delete shared;
    };
    ex.run(use, use);
  });
}

TEST(Planted, ReferenceCountWithoutOrder) {
  expect_proven(reference_count(std::memory_order_acq_rel));
  EXPECT_EQ(reference_count(kRelaxed).failure, Failure::kDataRace);
  EXPECT_EQ(reference_count(kRelease).failure, Failure::kDataRace);
}

TEST(Planted, UseAfterDestruction) {
  const Result result = check({.name = "use after destruction"}, [](Execution& ex) {
    auto object = std::make_unique<sync::Atomic<int>>(0);
    sync::Atomic<bool> gone{false};
    sync::Atomic<int>* const raw = object.get();
    ex.run(
        [&] {
          object.reset();
          gone.store(true, kRelease);
        },
        [&] {
          if (gone.load(kAcquire)) raw->load(kRelaxed);
        });
  });
  EXPECT_EQ(result.failure, Failure::kMisuse) << result.report;
}

TEST(Planted, PointerPublishedWithoutRelease) {
  const auto run = [](std::memory_order order) {
    return check({.name = "publish"}, [=](Execution& ex) {
      std::unique_ptr<sync::Atomic<int>> owner;
      sync::Atomic<sync::Atomic<int>*> shared{nullptr};
      ex.run(
          [&] {
            owner = std::make_unique<sync::Atomic<int>>(5);
            shared.store(owner.get(), order);
          },
          [&] {
            if (sync::Atomic<int>* const object = shared.load(kAcquire)) object->load(kRelaxed);
          });
    });
  };
  expect_proven(run(kRelease));
  EXPECT_EQ(run(kRelaxed).failure, Failure::kDataRace);
}

// --- a spin lock

Result spin_lock(std::memory_order unlock, bool test_first) {
  return check({.name = "spin lock"}, [=](Execution& ex) {
    sync::Atomic<bool> locked{false};
    sync::Plain<int> value{0};
    const auto increment = [&] {
      while (locked.exchange(true, kAcquire)) {
        while (test_first && locked.load(kRelaxed)) sync::cpu_pause();
        sync::cpu_pause();
      }
      value.set(value.get() + 1);
      locked.store(false, unlock);
    };
    ex.run(increment, increment);
    ROTA_INTERLEAVE_ASSERT(value.get() == 2);
  });
}

TEST(Planted, SpinLock) {
  expect_proven(spin_lock(kRelease, true));
  expect_proven(spin_lock(kRelease, false));
  EXPECT_EQ(spin_lock(kRelaxed, true).failure, Failure::kDataRace);
}

}  // namespace
}  // namespace rota::interleave
