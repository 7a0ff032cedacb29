// The shared objects of one execution, found by their address.
//
// The checker keeps everything about an object here and nothing in the object itself, so a use after destruction is
// noticed without touching freed memory.
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "interleave/memory_model.h"

namespace rota::interleave {

struct Where {
  const char* file = nullptr;
  int line = 0;
};

enum class ObjectKind : std::uint8_t { kAtomic, kPlain, kMutex, kCondition, kQueue };

using ObjectId = std::uint32_t;
inline constexpr ObjectId kNoObject = 0xffffffff;

struct Object {
  ObjectKind kind = ObjectKind::kAtomic;
  bool dead = false;
  std::uint8_t bytes = 0;
  std::uint16_t ordinal = 0;  // Number among its kind, for its name in traces.
  const void* address = nullptr;
  const char* name = nullptr;
  LocationId location = 0;              // Atomics and mutexes (0 free, 1 held).
  ObjectId queue = kNoObject;           // Its queue of waiters, if it ever had one; for a queue: its owner.
  std::vector<std::uint32_t> accesses;  // Events that read it (for a queue: all its operations).

  int owner = -1;  // Mutex.

  // Plain: last write and last read of each thread.
  int writer = -1;
  Epoch written = 0;
  Where write_where;
  Clock reads;
  Where read_where[kMaxThreads];

  // Queue.
  std::vector<int> waiters;
  std::uint32_t operations = 0;
  Clock seen;   // Everything known to the threads that operated on it, as the kernel's lock on a futex orders it.
  Clock cause;  // The same in sb + rf.

  void reset();
};

class ObjectTable {
 public:
  ObjectTable();

  void reset();
  std::size_t size() const { return count_; }
  Object& operator[](ObjectId id) { return objects_[id]; }
  const Object& operator[](ObjectId id) const { return objects_[id]; }
  // Creates an object; it replaces a dead one at the same address.
  ObjectId add(ObjectKind kind, const void* address);
  // Creates an object without an address.
  ObjectId add_hidden(ObjectKind kind);
  std::string name_of(ObjectId id) const;
  // Also finds dead objects; kNoObject if there never was one.
  ObjectId find(ObjectKind kind, const void* address) const;

 private:
  struct Slot {
    std::uintptr_t key = 0;
    std::uint32_t generation = 0;
    ObjectId object = 0;
  };
  static std::uintptr_t key_of(ObjectKind kind, const void* address);
  std::size_t slot_of(std::uintptr_t key) const;
  void grow();

  std::vector<Object> objects_;  // The first count_ are in use; the rest keep their capacity.
  std::size_t count_ = 0;
  std::vector<Slot> slots_;
  std::size_t used_slots_ = 0;
  std::uint32_t generation_ = 1;
  std::uint16_t ordinals_[5] = {};
};

}  // namespace rota::interleave
