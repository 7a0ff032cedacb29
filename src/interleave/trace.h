// The trace of a failed execution, for people.
//
// Events are shown in an order in which sequential memory would have given the same values, if there is one: then the
// bug is one of interleaving. If there is none, the bug needs weak memory; events are shown in the order in which they
// ran, and loads that returned an old value are marked. Thread safety: none.
#pragma once

#include <string>
#include <vector>

#include "interleave/objects.h"

namespace rota::interleave {

inline constexpr StoreId kNoStore = 0xffffffff;

struct TraceEntry {
  int thread = 0;
  std::string what;    // "load acquire"
  std::string object;  // "ready"
  ObjectId id = kNoObject;
  Where where;
  std::string detail;        // "= 1"
  StoreId read = kNoStore;   // The store that it read.
  StoreId wrote = kNoStore;  // The store that it made.
  bool stale = false;        // A newer store existed.
  int other = -1;            // The thread that it started or joined.
  bool queue = false;        // It is ordered with all others on the same queue
  bool plain = false;        // ... or with all accesses to the same variable.
  ObjectId queue_id = kNoObject;
};

class Trace {
 public:
  std::vector<TraceEntry> entries;
  std::vector<std::vector<StoreId>> orders;  // Modification orders, by location.
  std::vector<std::uint32_t> makers;         // The entry that made a store, by store.

  std::string render() const;

 private:
  // Indices of entries in a sequentially consistent order; empty if there is none.
  std::vector<std::size_t> sequential_order() const;
};

const char* name_of(std::memory_order order);
std::string format_value(Value value, std::size_t bytes);

}  // namespace rota::interleave
