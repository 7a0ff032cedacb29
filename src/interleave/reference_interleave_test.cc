// Goal: the checker generates exactly the executions that the C++20 memory model allows (without cycles of
// sequenced-before and reads-from), with and without reduction.
// Method: random small programs of loads, stores, exchanges, compare-exchanges and fences of all orders. For each, an
// independent reference enumerates *all* choices of reads-from and modification order and keeps those that satisfy
// the axioms, written down here once more straight from the standard with matrices and no cleverness. The sets of
// execution graphs (who read what, and all modification orders) must be equal.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <set>
#include <string>
#include <vector>

#include "base/sync.h"
#include "interleave/interleave.h"

namespace rota::interleave {
namespace {

enum class Kind { kLoad, kStore, kExchange, kCas, kFence };

struct Op {
  Kind kind;
  int location;
  std::memory_order order;
  std::memory_order failure;  // Compare-exchange.
  int expected;               // Compare-exchange.
};
using Program = std::vector<std::vector<Op>>;
constexpr int kLocations = 3;

// A graph as numbers: for each operation the event it read from (-1: none), then the modification orders. Event ids
// count operations thread by thread from 1; an operation stores its own id; 0 is the initial value.
using Graph = std::vector<int>;
using Graphs = std::set<Graph>;

bool acquires(std::memory_order order) {
  return order == std::memory_order_acquire || order == std::memory_order_acq_rel || order == std::memory_order_seq_cst;
}
bool releases(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel || order == std::memory_order_seq_cst;
}

// ---------------------------------------------------------------- the reference

constexpr int kMaxEvents = 16;
class Relation {
 public:
  void add(int a, int b) { rows_[at(a)].set(at(b)); }
  bool has(int a, int b) const { return rows_[at(a)].test(at(b)); }
  void close() {
    for (std::size_t k = 0; k < kMaxEvents; ++k) {
      for (std::size_t i = 0; i < kMaxEvents; ++i) {
        if (rows_[i].test(k)) rows_[i] |= rows_[k];
      }
    }
  }
  bool reflexive_somewhere() const {
    for (std::size_t i = 0; i < kMaxEvents; ++i) {
      if (rows_[i].test(i)) return true;
    }
    return false;
  }
  Relation then(const Relation& next) const {
    Relation result;
    for (std::size_t i = 0; i < kMaxEvents; ++i) {
      for (std::size_t k = 0; k < kMaxEvents; ++k) {
        if (rows_[i].test(k)) result.rows_[i] |= next.rows_[k];
      }
    }
    return result;
  }
  void add_all(const Relation& other) {
    for (std::size_t i = 0; i < kMaxEvents; ++i) rows_[i] |= other.rows_[i];
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  std::array<std::bitset<kMaxEvents>, kMaxEvents> rows_{};
};

class Enumeration {
 public:
  explicit Enumeration(const Program& program) {
    for (int i = 0; i < kLocations; ++i) {  // Initial stores: events 0 .. kLocations-1 here.
      events_.push_back({Op{Kind::kStore, i, std::memory_order_relaxed, std::memory_order_relaxed, 0}, -1});
    }
    for (std::size_t t = 0; t < program.size(); ++t) {
      for (const Op& op : program[t]) events_.push_back({op, static_cast<int>(t)});
    }
    for (int a = 0; a < count(); ++a) {
      for (int b = a + 1; b < count(); ++b) {
        const bool initial = thread(a) < 0 && thread(b) >= 0;
        if (initial || (thread(a) == thread(b) && thread(a) >= 0)) sb_.add(a, b);
      }
    }
    from_.assign(events_.size(), -1);
    assign_reads(kLocations);
  }
  const Graphs& graphs() const { return graphs_; }

 private:
  struct Event {
    Op op;
    int thread;
  };
  int count() const { return static_cast<int>(events_.size()); }
  const Op& op(int e) const { return events_[static_cast<std::size_t>(e)].op; }
  int thread(int e) const { return events_[static_cast<std::size_t>(e)].thread; }
  int from(int e) const { return from_[static_cast<std::size_t>(e)]; }
  int value_of(int e) const { return e < kLocations ? 0 : e - kLocations + 1; }
  bool may_read(int e) const {
    return op(e).kind == Kind::kLoad || op(e).kind == Kind::kExchange || op(e).kind == Kind::kCas;
  }
  bool fence(int e) const { return op(e).kind == Kind::kFence; }
  bool modifies(int e) const {  // A read-modify-write that took place; needs from().
    return op(e).kind == Kind::kExchange || (op(e).kind == Kind::kCas && value_of(from(e)) == op(e).expected);
  }
  bool writes(int e) const { return op(e).kind == Kind::kStore || (may_read(e) && modifies(e)); }
  std::memory_order order(int e) const {
    return op(e).kind == Kind::kCas && !modifies(e) ? op(e).failure : op(e).order;
  }
  bool same_location(int a, int b) const { return !fence(a) && !fence(b) && op(a).location == op(b).location; }

  void assign_reads(int e) {
    if (e == count()) return with_reads();
    if (!may_read(e)) return assign_reads(e + 1);
    for (int w = 0; w < count(); ++w) {
      if (w == e || !same_location(w, e) || op(w).kind == Kind::kLoad) continue;
      from_[static_cast<std::size_t>(e)] = w;
      assign_reads(e + 1);
    }
    from_[static_cast<std::size_t>(e)] = -1;
  }

  void with_reads() {
    Relation cause = sb_;
    for (int e = 0; e < count(); ++e) {
      if (!may_read(e)) continue;
      if (!writes(from(e))) return;  // A failed compare-exchange stores nothing.
      cause.add(from(e), e);
      for (int other = 0; other < e; ++other) {
        if (may_read(other) && from(other) == from(e) && modifies(other) && modifies(e)) return;
      }
    }
    cause.close();
    if (cause.reflexive_somewhere()) return;
    orders_.assign(kLocations, {});
    assign_orders(0);
  }

  void assign_orders(int location) {
    if (location == kLocations) return with_orders();
    std::vector<int> stores;
    for (int e = kLocations; e < count(); ++e) {
      if (!fence(e) && op(e).location == location && writes(e)) stores.push_back(e);
    }
    do {
      std::vector<int> order = {location};
      order.insert(order.end(), stores.begin(), stores.end());
      bool atomic = true;
      for (std::size_t i = 1; i < order.size(); ++i) {
        if (may_read(order[i]) && from(order[i]) != order[i - 1]) atomic = false;
      }
      if (!atomic) continue;
      orders_[static_cast<std::size_t>(location)] = order;
      assign_orders(location + 1);
    } while (std::next_permutation(stores.begin(), stores.end()));
  }

  void with_orders() {
    Relation rf;
    Relation mo;
    Relation fr;
    for (const std::vector<int>& order : orders_) {
      for (std::size_t i = 0; i < order.size(); ++i) {
        for (std::size_t j = i + 1; j < order.size(); ++j) mo.add(order[i], order[j]);
      }
    }
    for (int e = 0; e < count(); ++e) {
      if (!may_read(e)) continue;
      rf.add(from(e), e);
      for (int w = 0; w < count(); ++w) {
        if (w != e && mo.has(from(e), w)) fr.add(e, w);
      }
    }
    Relation sw;
    for (int r = 0; r < count(); ++r) {
      if (!may_read(r)) continue;
      // The store read and, through read-modify-writes, all that its release sequence may begin with.
      for (int w = from(r); w >= 0; w = may_read(w) && modifies(w) ? from(w) : -1) {
        if (w < kLocations) break;
        for (int x = 0; x < count(); ++x) {
          const bool head = (x == w && releases(order(x))) || (fence(x) && sb_.has(x, w) && releases(order(x)));
          if (!head) continue;
          for (int y = 0; y < count(); ++y) {
            const bool tail = (y == r && acquires(order(y))) || (fence(y) && sb_.has(r, y) && acquires(order(y)));
            if (tail) sw.add(x, y);
          }
        }
      }
    }
    Relation hb = sb_;
    hb.add_all(sw);
    hb.close();
    Relation eco = rf;
    eco.add_all(mo);
    eco.add_all(fr);
    eco.close();
    if (hb.reflexive_somewhere() || eco.reflexive_somewhere() || hb.then(eco).reflexive_somewhere()) return;
    if (has_order_s(hb, eco, sw)) keep();
  }

  bool seq_cst(int e) const { return e >= kLocations && order(e) == std::memory_order_seq_cst; }

  // [atomics.order] 3 and 4.
  bool has_order_s(const Relation& hb, const Relation& eco, const Relation& sw) const {
    Relation strong = sb_;
    strong.add_all(sb_.then(hb).then(sb_));
    for (int a = 0; a < count(); ++a) {
      for (int b = 0; b < count(); ++b) {
        if (sw.has(a, b) && seq_cst(a) && seq_cst(b)) strong.add(a, b);
      }
    }
    strong.close();
    Relation s;
    for (int x = 0; x < count(); ++x) {
      for (int y = 0; y < count(); ++y) {
        if (!seq_cst(x) || !seq_cst(y)) continue;
        if (strong.has(x, y)) s.add(x, y);
        for (int a = 0; a < count(); ++a) {
          if (a != x && !(fence(x) && hb.has(x, a))) continue;
          for (int b = 0; b < count(); ++b) {
            if (b != y && !(fence(y) && hb.has(b, y))) continue;
            if (eco.has(a, b)) s.add(x, y);
          }
        }
      }
    }
    s.close();
    return !s.reflexive_somewhere();
  }

  void keep() {
    Graph graph;
    for (int e = kLocations; e < count(); ++e) graph.push_back(may_read(e) ? value_of(from(e)) : -1);
    for (const std::vector<int>& order : orders_) {
      for (const int e : order) graph.push_back(value_of(e));
    }
    graphs_.insert(graph);
  }

  std::vector<Event> events_;
  Relation sb_;
  std::vector<int> from_;
  std::vector<std::vector<int>> orders_;
  Graphs graphs_;
};

// ---------------------------------------------------------------- the checker

Graphs explore(const Program& program, const Options& options, Result& result) {
  Graphs graphs;
  result = check(options, [&](Execution& ex) {
    std::array<sync::Atomic<int>, kLocations> location{};
    std::vector<std::vector<int>> read(program.size());
    const auto body = [&](std::size_t t) {
      int id = 1;
      for (std::size_t i = 0; i < t; ++i) id += static_cast<int>(program[i].size());
      for (const Op& op : program[t]) {
        sync::Atomic<int>& x = location[static_cast<std::size_t>(op.location)];
        int value = -1;
        switch (op.kind) {
          case Kind::kLoad:
            value = x.load(op.order);
            break;
          case Kind::kStore:
            x.store(id, op.order);
            break;
          case Kind::kExchange:
            value = x.exchange(id, op.order);
            break;
          case Kind::kCas:
            value = op.expected;
            x.compare_exchange_strong(value, id, op.order, op.failure);
            break;
          case Kind::kFence:
            sync::fence(op.order);
            break;
        }
        read[t].push_back(value);
        ++id;
      }
    };
    if (program.size() == 2) ex.run([&] { body(0); }, [&] { body(1); });
    if (program.size() == 3) ex.run([&] { body(0); }, [&] { body(1); }, [&] { body(2); });
    if (program.size() == 4) ex.run([&] { body(0); }, [&] { body(1); }, [&] { body(2); }, [&] { body(3); });
    Graph graph;
    for (const std::vector<int>& values : read) graph.insert(graph.end(), values.begin(), values.end());
    for (const sync::Atomic<int>& x : location) {
      for (const int value : modification_order(x)) graph.push_back(value);
    }
    graphs.insert(graph);
  });
  return graphs;
}

// ---------------------------------------------------------------- random programs

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15 + 1) {}
  int below(int n) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<int>(state_ % static_cast<std::uint64_t>(n));
  }

 private:
  std::uint64_t state_;
};

// What a family of programs is made of. Each leans to a mixture that the others would take long to hit upon.
struct Family {
  const char* name;
  int threads_at_least;
  int locations;
  // Chances in sixteenths.
  int load, store, exchange, cas;  // The rest are fences.
  int seq_cst, ordered;            // Of loads, stores and read-modify-writes; the rest are relaxed.
  int seq_cst_fence;               // Of fences; the rest are acquire, release or both.
};
constexpr Family kFamilies[] = {
    {"everything", 2, 2, 5, 5, 2, 2, 4, 5, 10},         {"seq_cst", 3, 3, 7, 7, 1, 1, 10, 4, 16},
    {"seq_cst and weaker", 3, 2, 7, 7, 1, 0, 7, 6, 16}, {"fences", 3, 2, 5, 5, 1, 0, 1, 3, 14},
    {"read-modify-write", 2, 2, 3, 3, 4, 5, 3, 6, 10},
};

Program random_program(Dice& dice, const Family& family, int max_operations) {
  const auto order = [&](std::memory_order ordered) {
    const int roll = dice.below(16);
    if (roll < family.seq_cst) return std::memory_order_seq_cst;
    return roll < family.seq_cst + family.ordered ? ordered : std::memory_order_relaxed;
  };
  Program program(static_cast<std::size_t>(family.threads_at_least + dice.below(5 - family.threads_at_least)));
  const int threads = static_cast<int>(program.size());
  const int operations = std::max(threads, max_operations - 3 + dice.below(4));
  for (int i = 0; i < operations; ++i) {
    const auto t = static_cast<std::size_t>(i < threads ? i : dice.below(threads));
    Op op{Kind::kFence, dice.below(family.locations), std::memory_order_seq_cst, std::memory_order_relaxed, 0};
    int roll = dice.below(16);
    if (roll < family.load) {
      op.kind = Kind::kLoad;
      op.order = order(std::memory_order_acquire);
    } else if ((roll -= family.load) < family.store) {
      op.kind = Kind::kStore;
      op.order = order(std::memory_order_release);
    } else if ((roll -= family.store) < family.exchange) {
      op.kind = Kind::kExchange;
      op.order = order(std::memory_order_acq_rel);
    } else if ((roll -= family.exchange) < family.cas) {
      op.kind = Kind::kCas;
      op.order = order(std::memory_order_acq_rel);
      op.failure = order(std::memory_order_acquire);
      op.expected = dice.below(3) == 0 ? 1 + dice.below(operations) : 0;
    } else if (dice.below(16) >= family.seq_cst_fence) {
      constexpr std::memory_order kWeaker[] = {std::memory_order_acquire, std::memory_order_release,
                                               std::memory_order_acq_rel};
      op.order = kWeaker[dice.below(3)];
    }
    program[t].push_back(op);
  }
  return program;
}

std::string print(const Program& program) {
  std::string text;
  for (const std::vector<Op>& thread : program) {
    for (const Op& op : thread) {
      constexpr const char* kNames[] = {"load", "store", "exchange", "cas", "fence"};
      text += kNames[static_cast<int>(op.kind)];
      text += op.kind == Kind::kFence ? std::string() : std::string(" ") + "xyz"[op.location];
      text += " " + std::string(name_of(op.order));
      if (op.kind == Kind::kCas) text += "/" + std::string(name_of(op.failure)) + " if " + std::to_string(op.expected);
      text += "; ";
    }
    text += "\n";
  }
  return text;
}

std::string print(const Graphs& graphs) {
  std::string text;
  for (const Graph& graph : graphs) {
    for (const int n : graph) text += n < 0 ? "- " : std::to_string(n) + " ";
    text += "\n";
  }
  return text;
}

std::string difference(const Graphs& expected, const Graphs& actual) {
  Graphs missing;
  Graphs extra;
  std::set_difference(expected.begin(), expected.end(), actual.begin(), actual.end(),
                      std::inserter(missing, missing.begin()));
  std::set_difference(actual.begin(), actual.end(), expected.begin(), expected.end(),
                      std::inserter(extra, extra.begin()));
  return "not generated:\n" + print(missing) + "not allowed:\n" + print(extra);
}

class Reference : public testing::TestWithParam<Family> {};

TEST_P(Reference, ReducedSearchGeneratesExactlyTheConsistentGraphs) {
  std::uint64_t graphs = 0;
  std::uint64_t executions = 0;
  for (std::uint64_t seed = 1; seed <= 1'500; ++seed) {
    Dice dice(seed);
    const Program program = random_program(dice, GetParam(), 8);
    const Enumeration reference(program);
    Result result;
    const Graphs explored = explore(program, {.name = "reference"}, result);
    ASSERT_TRUE(result.ok) << result.report;
    ASSERT_TRUE(result.exhaustive) << result.report;
    ASSERT_TRUE(explored == reference.graphs()) << "seed " << seed << "\n"
                                                << print(program) << difference(reference.graphs(), explored);
    graphs += explored.size();
    executions += result.executions;
  }
  // The reduction is worth its name: on average there is less than one repetition for each graph.
  EXPECT_LT(executions, 2 * graphs);
  RecordProperty("graphs", std::to_string(graphs));
  RecordProperty("executions", std::to_string(executions));
}

TEST_P(Reference, UnreducedSearchGeneratesTheSame) {
  for (std::uint64_t seed = 10'001; seed <= 10'100; ++seed) {
    Dice dice(seed);
    const Program program = random_program(dice, GetParam(), 6);
    const Enumeration reference(program);
    Result result;
    const Graphs explored = explore(program, {.name = "unreduced", .reduction = false}, result);
    ASSERT_TRUE(result.exhaustive) << result.report;
    ASSERT_TRUE(explored == reference.graphs()) << "seed " << seed << "\n"
                                                << print(program) << difference(reference.graphs(), explored);
  }
}

TEST_P(Reference, BoundedAndRandomSearchGenerateNothingElse) {
  for (std::uint64_t seed = 20'001; seed <= 20'050; ++seed) {
    Dice dice(seed);
    const Program program = random_program(dice, GetParam(), 7);
    const Enumeration reference(program);
    for (const Options& options :
         {Options{.preemption_bound = 1}, Options{.mode = Mode::kRandom, .max_executions = 100},
          Options{.mode = Mode::kPct, .max_executions = 100}}) {
      Result result;
      const Graphs explored = explore(program, options, result);
      ASSERT_TRUE(result.ok) << result.report;
      ASSERT_TRUE(std::includes(reference.graphs().begin(), reference.graphs().end(), explored.begin(), explored.end()))
          << "seed " << seed << "\n"
          << print(program) << difference(reference.graphs(), explored);
    }
  }
}

std::string family_name(const testing::TestParamInfo<Family>& info) {
  std::string name = info.param.name;
  std::erase_if(name, [](char c) { return c == ' ' || c == '-' || c == '_'; });
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, Reference, testing::ValuesIn(kFamilies), family_name);

}  // namespace
}  // namespace rota::interleave
