// How the exhaustive search avoids trying the same execution twice ("reduction").
//
// By the memory model (memory_model.h) an execution is determined by who reads which store and by the modification
// orders; in which order independent events ran does not matter. Three consequences:
//
// (1) Stores, fences, unlocks, and the start and end of threads need no scheduling choice: whatever can be reached
//     by delaying a store can be reached with the store made at once, because a load may still read an older
//     value and the place in the modification order is chosen separately. The engine never asks about them. What
//     remains are operations that read: what they can read depends on what is already there.
//
// (2) Sleep with a mark. When thread t's read has been tried at some state with every store that was there, and we
//     then try another thread first, t need not be tried again with one of *those* stores: running t first and the
//     other after it gave the same execution. So t sleeps with a mark, the number of stores at that time, and is
//     awake only for stores made since. (Classical sleep sets wake t for everything as soon as anything
//     conflicting happened.) If all enabled threads sleep, the rest is a repetition.
//
// (3) Races make branches. Trying another thread first at a read r can matter only if some other thread later
//     makes a store w to the same object, and r does not come before w by sb + rf (else r could never read w). Only
//     then a branch is added, at r's state, for the thread whose step starts the way to w. This is dynamic
//     partial order reduction (Flanagan and Godefroid, 2005), with (2) in place of its sleep sets. Two read-
//     modify-writes of one location race even if the second failed to write, because the first had taken its store.
//
// With a preemption bound (2) and (3) are off: a branch skipped there may be represented by one that the bound
// excludes. (1) stays: it only makes more executions fit the bound. reference_interleave_test.cc compares reduced
// search, unreduced search and an independent enumeration of all graphs for thousands of random programs.
#include "interleave/search.h"

#include <utility>

namespace rota::interleave {
namespace {

constexpr char kDigits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

class ExhaustiveSearch final : public Search {
 public:
  ExhaustiveSearch(int preemption_bound, bool reduction)
      : bound_(preemption_bound), reduction_(reduction && preemption_bound < 0) {}

  void begin() override {
    depth_ = 0;
    asleep_ = 0;
    preemptions_ = 0;
    redundant_ = false;
  }

  Turn choose_thread(const SchedulePoint& at) override {
    if (redundant_) return {.thread = default_thread(at), .node = -1, .only_fresh = false, .since = {}};
    const ThreadMask awake = !reduction_ ? within_bound(at) : at.last_resort ? at.enabled : awake_of(at);
    if (awake == 0) {
      redundant_ = true;
      return {.thread = default_thread(at), .node = -1, .only_fresh = false, .since = {}};
    }
    if ((at.enabled & (at.enabled - 1)) == 0) return turn(at, __builtin_ctz(at.enabled), -1);
    const std::size_t node_index = depth_++;
    if (node_index == nodes_.size()) nodes_.push_back(new_thread_node(at, awake));
    const Node& node = nodes_[node_index];
    const int chosen = static_cast<int>(node.chosen);
    if (!reduction_ && chosen != at.current && at.current >= 0 && !at.voluntary) ++preemptions_;
    const Turn result = turn(at, chosen, static_cast<int>(node_index));
    if (reduction_ && !at.last_resort) {
      for (int t = 0; t < kMaxThreads; ++t) {
        if ((node.done & mask_of(t)) == 0) continue;
        asleep_ |= mask_of(t);
        marks_[static_cast<std::size_t>(t)] = at.progress[static_cast<std::size_t>(t)];
      }
    }
    return result;
  }

  std::uint32_t choose_outcome(std::uint32_t count, std::uint64_t allowed) override {
    (void)count;
    const auto first = static_cast<std::uint32_t>(__builtin_ctzll(allowed));
    if (redundant_ || (allowed & (allowed - 1)) == 0) return first;
    const std::size_t node_index = depth_++;
    if (node_index == nodes_.size()) {
      Node node;
      node.is_outcome = true;
      node.chosen = first;
      node.allowed = allowed;
      nodes_.push_back(node);
    }
    return nodes_[node_index].chosen;
  }

  bool advance() override {
    nodes_.resize(depth_);  // A redundant rest has none; a failed execution may have stopped short.
    while (!nodes_.empty()) {
      if (move_on(nodes_.back())) return true;
      nodes_.pop_back();
    }
    return false;
  }

  void report_race(int node_index, int thread) override {
    if (node_index < 0 || !reduction_) return;
    Node& node = nodes_[static_cast<std::size_t>(node_index)];
    // If that thread could not go at the time, someone else has to go first for it: anyone may be the one.
    node.wanted |= (node.enabled & mask_of(thread)) != 0 ? mask_of(thread) : node.enabled;
  }

  void mark_redundant() override { redundant_ = true; }
  bool redundant() const override { return redundant_; }

 private:
  struct Node {
    bool is_outcome = false;
    std::uint32_t chosen = 0;   // Thread or outcome.
    std::uint64_t allowed = 0;  // Outcomes; each is tried in turn.
    ThreadMask enabled = 0;     // Threads that could go.
    ThreadMask awake = 0;       // Threads that may be tried here.
    ThreadMask wanted = 0;      // Threads to be tried here.
    ThreadMask done = 0;        // Threads fully tried here.
  };

  ThreadMask awake_of(const SchedulePoint& at) const {
    ThreadMask awake = at.enabled & ~asleep_;
    for (int t = 0; t < kMaxThreads; ++t) {
      if ((at.enabled & asleep_ & mask_of(t)) == 0) continue;
      const Progress& now = at.progress[static_cast<std::size_t>(t)];
      const Progress& mark = marks_[static_cast<std::size_t>(t)];
      const bool moved = now.stores > mark.stores || now.queue > mark.queue;
      if (moved && at.oracle->has_fresh_outcome(t, mark)) awake |= mask_of(t);
    }
    return awake;
  }

  ThreadMask within_bound(const SchedulePoint& at) const {
    const bool exhausted = bound_ >= 0 && preemptions_ >= bound_ && at.current >= 0 && !at.voluntary;
    return exhausted ? mask_of(at.current) : at.enabled;
  }

  Node new_thread_node(const SchedulePoint& at, ThreadMask awake) const {
    Node node;
    const int preferred = default_thread(at);
    const int chosen = (awake & mask_of(preferred)) != 0 ? preferred : __builtin_ctz(awake);
    node.chosen = static_cast<std::uint32_t>(chosen);
    node.enabled = at.enabled;
    node.awake = awake;
    node.wanted = reduction_ && !at.last_resort ? mask_of(chosen) : awake;
    return node;
  }

  Turn turn(const SchedulePoint& at, int thread, int node) {
    const bool only_fresh = !at.last_resort && (asleep_ & mask_of(thread)) != 0;
    Turn result{.thread = thread, .node = node, .only_fresh = only_fresh, .since = {}};
    if (result.only_fresh) result.since = marks_[static_cast<std::size_t>(thread)];
    asleep_ &= ~mask_of(thread);
    return result;
  }

  static bool move_on(Node& node) {
    if (node.is_outcome) {
      const std::uint64_t rest = node.chosen == 63 ? 0 : node.allowed & (~std::uint64_t{0} << (node.chosen + 1));
      if (rest == 0) return false;
      node.chosen = static_cast<std::uint32_t>(__builtin_ctzll(rest));
      return true;
    }
    node.done |= mask_of(static_cast<int>(node.chosen));
    const ThreadMask rest = node.wanted & node.awake & ~node.done;
    if (rest == 0) return false;
    node.chosen = static_cast<std::uint32_t>(__builtin_ctz(rest));
    return true;
  }

  const int bound_;
  const bool reduction_;
  std::vector<Node> nodes_;
  std::size_t depth_ = 0;
  ThreadMask asleep_ = 0;
  std::array<Progress, kMaxThreads> marks_{};
  int preemptions_ = 0;
  bool redundant_ = false;
};

// splitmix64: small, good enough to choose schedules, and the same everywhere.
struct Random {
  std::uint64_t state;
  std::uint64_t next() {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>((next() >> 32) * n >> 32); }
};

class RandomSearch final : public Search {
 public:
  RandomSearch(std::uint64_t seed, int pct_depth) : seed_(seed), pct_depth_(pct_depth) {}

  void begin() override {
    random_.state = seed_ + round_ * 0xd1342543de82ef95;
    // Each execution has its own temper: how readily it changes threads, how readily it reads old values.
    constexpr std::array<std::uint32_t, 4> kStay = {0, 50, 75, 90};
    constexpr std::array<std::uint32_t, 4> kStale = {0, 20, 50, 80};
    stay_percent_ = kStay[random_.below(4)];
    stale_percent_ = kStale[random_.below(4)];
    longest_ = steps_ > longest_ ? steps_ : longest_;
    steps_ = 0;
    for (std::uint32_t& priority : priority_) priority = 1000 + random_.below(1'000'000);
    changes_.clear();
    for (int i = 1; i < pct_depth_; ++i) changes_.push_back(random_.below(longest_ + 1));
  }

  Turn choose_thread(const SchedulePoint& at) override {
    ++steps_;
    return {.thread = pct_depth_ > 0 ? by_priority(at) : by_chance(at), .node = -1, .only_fresh = false, .since = {}};
  }

  std::uint32_t choose_outcome(std::uint32_t count, std::uint64_t allowed) override {
    const auto first = static_cast<std::uint32_t>(__builtin_ctzll(allowed));
    if (random_.below(100) >= stale_percent_) return first;
    std::uint32_t pick = random_.below(count);
    while ((allowed >> pick & 1) == 0) pick = random_.below(count);
    return pick;
  }

  bool advance() override {
    ++round_;
    return true;
  }
  std::string describe() const override {
    return "seed " + std::to_string(seed_) + ", execution " + std::to_string(round_);
  }

 private:
  int by_chance(const SchedulePoint& at) {
    if (at.current >= 0 && !at.voluntary && random_.below(100) < stay_percent_) return at.current;
    auto skip = random_.below(static_cast<std::uint32_t>(__builtin_popcount(at.enabled)));
    ThreadMask left = at.enabled;
    while (skip-- > 0) left &= left - 1;
    return __builtin_ctz(left);
  }

  // PCT (Burckhardt et al., 2010): always the highest priority; at depth-1 random steps it becomes the lowest.
  int by_priority(const SchedulePoint& at) {
    const auto highest = [&] {
      int best = -1;
      for (int t = 0; t < kMaxThreads; ++t) {
        if ((at.enabled & mask_of(t)) == 0) continue;
        if (best < 0 || priority_[static_cast<std::size_t>(t)] > priority_[static_cast<std::size_t>(best)]) best = t;
      }
      return best;
    };
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      if (changes_[i] == steps_) priority_[static_cast<std::size_t>(highest())] = static_cast<std::uint32_t>(i);
    }
    // A thread that spins would starve the one it waits for.
    if (at.voluntary && at.current >= 0) priority_[static_cast<std::size_t>(at.current)] = 100 + random_.below(800);
    return highest();
  }

  const std::uint64_t seed_;
  const int pct_depth_;
  std::uint64_t round_ = 0;
  Random random_{0};
  std::uint32_t stay_percent_ = 0;
  std::uint32_t stale_percent_ = 0;
  std::uint32_t steps_ = 0;
  std::uint32_t longest_ = 32;
  std::array<std::uint32_t, kMaxThreads> priority_{};
  std::vector<std::uint32_t> changes_;
};

class ReplaySearch final : public Search {
 public:
  explicit ReplaySearch(Path path) : path_(std::move(path)) {}

  void begin() override { next_ = 0; }
  Turn choose_thread(const SchedulePoint& at) override {
    int thread = default_thread(at);
    if ((at.enabled & (at.enabled - 1)) != 0 && next_ < path_.size()) {
      const int wanted = path_[next_++];
      if (wanted < kMaxThreads && (at.enabled & mask_of(wanted)) != 0) thread = wanted;
    }
    return {.thread = thread, .node = -1, .only_fresh = false, .since = {}};
  }
  std::uint32_t choose_outcome(std::uint32_t count, std::uint64_t allowed) override {
    (void)allowed;
    const std::uint32_t wanted = next_ < path_.size() ? path_[next_++] : 0;
    return wanted < count ? wanted : 0;
  }
  bool advance() override { return false; }
  bool replays() const override { return true; }
  std::string describe() const override { return "replayed"; }

 private:
  const Path path_;
  std::size_t next_ = 0;
};

}  // namespace

std::string format_path(const Path& path) {
  std::string text;
  for (const std::uint8_t choice : path) text += kDigits[choice & 63];
  return text;
}

bool parse_path(const std::string& text, Path& path) {
  path.clear();
  for (const char c : text) {
    std::uint8_t value = 0;
    while (value < 64 && kDigits[value] != c) ++value;
    if (value == 64) return false;
    path.push_back(value);
  }
  return true;
}

std::unique_ptr<Search> make_exhaustive_search(int preemption_bound, bool reduction) {
  return std::make_unique<ExhaustiveSearch>(preemption_bound, reduction);
}
std::unique_ptr<Search> make_random_search(std::uint64_t seed, int pct_depth) {
  return std::make_unique<RandomSearch>(seed, pct_depth);
}
std::unique_ptr<Search> make_replay_search(Path path) { return std::make_unique<ReplaySearch>(std::move(path)); }

}  // namespace rota::interleave
