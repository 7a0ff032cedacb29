// The C++20 memory model as a machine: which stores may a load read, and where in the modification order may a store be
// placed, so that the execution stays consistent? The caller picks one of the answers and commits it.
//
// An execution is a graph: sequenced-before (sb), reads-from (rf), one modification order (mo) per location. This
// class generates every graph that
//   - is consistent by [intro.races] and [atomics.order] of C++20 (coherence, atomicity of read-modify-writes,
//     release sequences, fences, and the order S of seq_cst operations), and
//   - has no cycle in sb + rf. That excludes load buffering (two threads that each read the other's later
//     store). C++20 allows it for relaxed operations and so does ARM hardware; x86 never shows it. A machine that
//     runs each thread in program order cannot know a store before it is reached; RC11 rules it out as well.
// `memory_order_consume` is treated as acquire, as every compiler does.
//
// Why it is sufficient to look at one event at a time. Events are added in an order that extends sb and rf, hence
// also happens-before (hb). A new event has no hb-successor and, if it is a store, no reader. So consistency asks
// only how it stands to older events:
//   coherence   A load, or a store, by thread t on x must not go behind a store that t already knows: one that
//               happens before it or that was read by something that happens before it. The last such store is
//               the *floor*; a load reads the floor or later, a store goes behind the floor. (CoRR, CoWR, CoRW,
//               CoWW in one rule.) A store need not come last: two threads' relaxed stores may be ordered in mo
//               against the order in which they ran, without which 2+2W would be missed.
//   atomicity   A read-modify-write reads a store and comes immediately behind it. So a store that has been read
//               by one is taken: no second may read it, nothing may be put between them. It need not read the
//               last store *so far*: those later in mo may well run earlier here.
//   seq_cst     S exists iff the order it must respect has no cycle. See "The order S" below.
// Consistency is closed under prefixes, so every consistent graph is reached in every order that extends sb + rf.
// The search relies on that: it needs to vary only who reads what, not how independent events are interleaved.
//
// The order S. Its events are the seq_cst operations and fences. Let A be coherence-ordered before B if both are on
// one location and A comes first: in mo, or by reading an earlier store, or B reads A's store. S must put
//   (1) A before B if A strongly happens before B;
//   (2) X before Y if A is coherence-ordered before B, where X is A itself or a seq_cst fence that happens before
//       A, and Y is B itself or a seq_cst fence that B happens before.
// We keep for each event of S the set of all that must precede it (`before_`, transitively closed). A new event
// mostly has predecessors only, which is harmless; when it reads a stale value or goes between older stores, it
// gets successors too, and is refused if one of them already precedes it (or precedes a fence that (2) puts in
// its place).
// Strongly happens before is weaker than hb: sb, and sb;hb;sb, closed. A seq_cst store that is read by an acquire
// load does *not* strongly happen before what follows that load. So View::strong of a message leaves out the
// releasing event itself and holds only what is sequenced before it. (The third case of the standard, a
// synchronising pair that is seq_cst on both sides, is implied by (2).)
// S need not extend the order in which we run events: a seq_cst load may miss a seq_cst store that ran before. That
// is what really happens for  y.store(1, seq_cst); x.store(1, relaxed)  ||  x.load(acquire); y.load(seq_cst)
// with 1 then 0 on ARMv8, and what a model with one global seq_cst clock does not show.
//
// Thread safety: none.
#pragma once

#include <atomic>
#include <vector>

#include "interleave/clock.h"

namespace rota::interleave {

using LocationId = std::uint32_t;
using StoreId = std::uint32_t;

// Up to 16 bytes of a trivially copyable type, the rest zero.
struct Value {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend bool operator==(const Value&, const Value&) = default;
};

struct Store {
  Value value;
  int thread = 0;
  Epoch epoch = 0;
  std::uint32_t position = 0;  // In the location's modification order; shifts when others are put before it.
  std::uint32_t number = 0;    // How many stores of this location were made before it.
  std::uint32_t event = 0;     // The checker's event that made it.
  bool taken = false;          // A read-modify-write has read it.
  int sc_event = -1;           // Its number in S, or -1.
  View message;                // What an acquire that reads it learns.
  Clock cause;                 // Everything before it in sb + rf, itself included.
  FirstSeen seen;              // Who wrote or read it, and when first.
  ScSet write_sources;         // The X of rule (2) when A is this store,
  ScSet read_sources;          // ... and when A is one of its loads.
  ScSet sc_reads;              // Its seq_cst loads.
};

constexpr bool is_acquire(std::memory_order order) {
  return order == std::memory_order_acquire || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst || order == std::memory_order_consume;
}
constexpr bool is_release(std::memory_order order) {
  return order == std::memory_order_release || order == std::memory_order_acq_rel || order == std::memory_order_seq_cst;
}
constexpr bool is_seq_cst(std::memory_order order) { return order == std::memory_order_seq_cst; }

class MemoryModel {
 public:
  // Forgets everything but its memory; thread 0 exists.
  void reset();

  // --- threads
  void start_thread(int child, int parent);  // What the parent did happens before what the child does.
  void join_thread(int waiter, int finished);
  // A step with no effect on memory: gives it an epoch.
  Epoch tick(int thread);
  const Clock& clock(int thread) const { return threads_[index(thread)].view.clock; }
  const Clock& cause(int thread) const { return threads_[index(thread)].cause; }
  // Orders `thread` behind `other` in sb + rf without happens-before: for wake-ups and queues of waiters.
  void add_cause(int thread, const Clock& other) { threads_[index(thread)].cause.join(other); }
  // The epoch that a plain access made now belongs to: covered by the thread's *next* release, not by its last.
  Epoch plain_epoch(int thread) const { return clock(thread)[thread] + 1; }

  // --- locations
  LocationId create(int thread, Value initial, std::uint32_t event);
  const std::vector<StoreId>& order_of(LocationId location) const { return locations_[location].order; }
  std::uint32_t store_count(LocationId location) const {
    return static_cast<std::uint32_t>(locations_[location].order.size());
  }
  const Store& store(StoreId id) const { return stores_[id]; }
  const Store& at(LocationId location, std::uint32_t position) const {
    return stores_[locations_[location].order[position]];
  }
  const Store& newest(LocationId location) const { return stores_[locations_[location].order.back()]; }
  // Is the construction ordered before what `thread` does now? Otherwise the access races with it.
  bool constructed_for(int thread, LocationId location) const;
  // Is every access so far ordered before what `thread` does now? Otherwise destruction races with one.
  bool quiet_for(int thread, LocationId location) const;

  // --- questions: positions in the modification order, newest first
  // Which stores may a load of `thread` read? `also_seen`: a further clock that raises the floor, or null.
  void readable(int thread, LocationId location, std::memory_order order, const Clock* also_seen,
                std::vector<std::uint32_t>& positions) const;
  // Which stores may a read-modify-write read?
  void modifiable(int thread, LocationId location, std::memory_order order,
                  std::vector<std::uint32_t>& positions) const;
  // At which positions may a store go?
  void placeable(int thread, LocationId location, std::memory_order order, std::vector<std::uint32_t>& positions) const;

  // --- commits, of one of the answers. The new epoch is clock(thread)[thread] afterwards.
  StoreId commit_load(int thread, LocationId location, std::uint32_t position, std::memory_order order);
  StoreId commit_store(int thread, LocationId location, std::uint32_t position, Value value, std::memory_order order,
                       std::uint32_t event);
  // Returns the store that it made; the one read is at `position`, the new one right behind it.
  StoreId commit_modify(int thread, LocationId location, std::uint32_t position, Value value, std::memory_order order,
                        std::uint32_t event);
  void commit_fence(int thread, std::memory_order order);

  // There is room for one more event of S. When not, the execution is too long to be checked.
  bool has_sc_room() const { return sc_count_ + 1 < kMaxScEvents; }

 private:
  struct ThreadState {
    View view;
    View pending_acquire;  // Messages read by relaxed loads, for a later acquire fence.
    View release_fence;    // The view at the last release fence, for later relaxed stores.
    Clock cause;
  };
  struct Location {
    std::vector<StoreId> order;
    Clock last_access;  // By thread.
    int creator = 0;
    Epoch created = 0;
  };
  struct ScFence {
    int event;
    int thread;
    Epoch epoch;
    Clock clock;
  };
  // Where an event stands in its location's coherence order.
  struct Rank {
    std::uint32_t writes_before;  // Stores at positions below are coherence-ordered before it,
    std::uint32_t reads_before;   // loads of stores at positions below as well,
    std::uint32_t after_from;     // and from here on stores and their loads come after it.
  };
  static Rank load_rank(std::uint32_t position) { return {position + 1, position, position + 1}; }
  static Rank store_rank(std::uint32_t position) { return {position, position, position}; }
  static Rank modify_rank(std::uint32_t position) { return {position + 1, position + 1, position + 1}; }

  static std::size_t index(int thread) { return static_cast<std::size_t>(thread); }
  ThreadState& state(int thread) { return threads_[index(thread)]; }
  const ThreadState& state(int thread) const { return threads_[index(thread)]; }
  Epoch touch(int thread, Location& location);
  std::uint32_t floor(const Location& location, const Clock& clock) const;
  StoreId insert(Location& location, std::uint32_t position, Store store);
  StoreId new_store();

  void close(ScSet& set) const;  // Adds all that must precede its members.
  // seq_cst fences that happen before the thread's next event. (Those that an acquire learns of by that very event need
  // not be counted: they happen before the head of the release sequence, which is no later in mo than what is read.)
  ScSet fences_before(int thread) const;
  ScSet predecessors(int thread, const Location& location, Rank rank) const;
  // X of rule (2) with all that precede them / Y of rule (2), for an event as A with all later events as B.
  ScSet sources_closed(int thread, const Location& location, Rank rank, bool seq_cst) const;
  ScSet targets(const Location& location, Rank rank) const;
  bool sc_allows(int thread, const Location& location, Rank rank, bool seq_cst) const;
  // Enters an event into S. Returns its number, or -1 when it is not seq_cst.
  int sc_commit(int thread, const Location& location, Rank rank, bool seq_cst);
  ScSet sources(int thread, int sc_event) const;

  std::array<ThreadState, kMaxThreads> threads_;
  std::vector<Location> locations_;  // The first location_count_ are in use; the rest keep their capacity.
  std::size_t location_count_ = 0;
  std::vector<Store> stores_;
  std::size_t store_total_ = 0;
  std::vector<ScFence> fences_;
  std::vector<ScSet> before_ = std::vector<ScSet>(kMaxScEvents);
  int sc_count_ = 0;
};

}  // namespace rota::interleave
