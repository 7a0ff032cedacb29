// The search: decides what happens next in an execution, and which execution comes next.
//
// An execution asks two kinds of questions: which thread runs next, and which of n possible outcomes occurs (the store
// that a load reads, the place of a store, the waiter that is woken). The answers, one small number each, are its path;
// the same path gives the same execution. A Search answers, and moves to the next path after each execution.
//
//   ExhaustiveSearch  depth first over all answers, with or without a preemption bound
//   RandomSearch      seeded random walk, or PCT (random priorities, few change points)
//   ReplaySearch      follows a given path
// Thread safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "interleave/clock.h"

namespace rota::interleave {

// Progress of the objects of a thread's next operation: the number of stores to the location, and of operations on the
// queue of waiters. An operation that was tried before can have a new outcome only if one of them grew.
struct Progress {
  std::uint32_t stores = 0;
  std::uint32_t queue = 0;
};

// Tells whether the thread's next operation has an outcome now that it did not have at `since`.
class OutcomeOracle {
 public:
  virtual ~OutcomeOracle() = default;
  virtual bool has_fresh_outcome(int thread, const Progress& since) = 0;
};

struct SchedulePoint {
  ThreadMask enabled = 0;
  int current = -1;        // The thread that ran last, if it is enabled, else -1.
  bool voluntary = false;  // It yielded voluntarily: leaving it is not a preemption.
  // These threads can run only if no other can (timeouts when all wait). So nothing is independent of them, and nothing
  // may be skipped.
  bool last_resort = false;
  std::array<Progress, kMaxThreads> progress{};
  OutcomeOracle* oracle = nullptr;
};

struct Turn {
  int thread = 0;
  int node = -1;            // For report_race(); -1 if there was nothing to choose.
  bool only_fresh = false;  // Only outcomes that were not possible at `since` are to be tried.
  Progress since;
};

class Search {
 public:
  virtual ~Search() = default;

  virtual void begin() = 0;                                 // Before each execution.
  virtual Turn choose_thread(const SchedulePoint& at) = 0;  // REQUIRES: at.enabled != 0.
  // One of 0 .. count-1 whose bit is in `allowed`. 0 is the simplest outcome.
  virtual std::uint32_t choose_outcome(std::uint32_t count, std::uint64_t allowed) = 0;
  // Moves to the next execution; false if there is none.
  virtual bool advance() = 0;

  // The operation chosen at `node` would have had another outcome if `thread` had run first.
  virtual void report_race(int node, int thread) {
    (void)node;
    (void)thread;
  }
  // The rest of this execution is a repetition: finish it without trying alternatives.
  virtual void mark_redundant() {}
  virtual bool redundant() const { return false; }
  // All answers are given in advance: ask even where the engine would know one.
  virtual bool replays() const { return false; }
  // Describes the execution, for the report.
  virtual std::string describe() const { return ""; }

 protected:
  // The default answer; the same in every search, so that paths may be cut short.
  static int default_thread(const SchedulePoint& at) {
    if (at.current < 0) return __builtin_ctz(at.enabled);
    if (!at.voluntary) return at.current;
    const ThreadMask others = at.enabled & ~mask_of(at.current);
    return others != 0 ? __builtin_ctz(others) : at.current;
  }
};

using Path = std::vector<std::uint8_t>;
std::string format_path(const Path& path);
// False if the text is not a path.
bool parse_path(const std::string& text, Path& path);

std::unique_ptr<Search> make_exhaustive_search(int preemption_bound, bool reduction);
std::unique_ptr<Search> make_random_search(std::uint64_t seed, int pct_depth);  // pct_depth 0: random walk.
std::unique_ptr<Search> make_replay_search(Path path);

}  // namespace rota::interleave
