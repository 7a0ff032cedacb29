// Many stacks carved from one mapping, entered by the bare switch: what a started and blocked task costs at least.
//
// A stack is parked once and resumed once. Thread safety: none; one thread parks and resumes.
#pragma once

#include "bare/swap.h"
#include "bare/threads.h"

#if BENCH_HAS_SWAP

namespace bench {

class RawStacks {
 public:
  static constexpr std::uint64_t kBytes = 16 * 1024;

  explicit RawStacks(std::uint64_t count) : pages_(count * kBytes), parked_(count) {}

  // A stack that runs `entry`, which never returns, when it is first entered.
  void* prepare(std::uint64_t index, void (*entry)()) {
    return prepare_stack(pages_.data() + (index + 1) * kBytes, entry);
  }
  // Enters the stack; it counts itself as started and comes back.
  void park(std::uint64_t index) {
    self() = this;
    entered_ = &parked_[index];
    bench_swap(&home_, prepare(index, park_entry));
  }
  // Enters it again; it counts itself as resumed and is done.
  void resume(std::uint64_t index) {
    entered_ = &parked_[index];
    bench_swap(&home_, parked_[index]);
  }
  void prefetch(std::uint64_t index) const { __builtin_prefetch(parked_[index]); }
  std::uint64_t resumed() const { return resumed_; }

 private:
  static RawStacks*& self() {
    thread_local RawStacks* stacks;
    return stacks;
  }
  static void park_entry() {
    RawStacks& stacks = *self();
    bench_swap(stacks.entered_, stacks.home_);
    ++stacks.resumed_;
    void* done;
    bench_swap(&done, stacks.home_);
  }

  Pages pages_;
  std::vector<void*> parked_;
  void** entered_ = nullptr;
  void* home_ = nullptr;
  std::uint64_t resumed_ = 0;
};

}  // namespace bench
#endif
