// What a tracing runtime records: a bounded ring of events for each worker, and one for threads outside (F-31).
//
// Invariants:
//   (1) A ring holds at most its capacity; the oldest event makes room, and is counted.
//   (2) `sequence` is drawn from one counter, so that events are in an order that respects what happened before what,
//       whatever the clock's resolution; within a ring it ascends.
// Thread safety: record() by the ring's worker (any thread for the outside ring), read() by anyone: a spin lock a ring,
// taken only while tracing, and a leaf of the order of locks.
#pragma once

#include <cstdint>
#include <memory>
#include <ostream>
#include <vector>

#include "fiber/runtime_core.h"
#include "rota/fiber/trace.h"

namespace rota::fiber::detail {

struct TraceEvent {
  std::uint64_t sequence;
  Nanoseconds at;
  std::uint64_t id;       // Of the task; 0 for none.
  const Fiber* fiber;     // The stack that it happened on; null outside. Never dereferenced.
  const char* waits_for;  // kBlock: what for; a string that lives for ever.
  std::uint32_t detail;   // See Event.
  std::uint32_t track;    // The worker's index; the worker count for outside.
  Event what;
};

class Trace {
 public:
  Trace(std::uint32_t workers, std::size_t events_a_worker);

  void record(std::uint32_t track, TraceEvent event);

  struct Snapshot {
    std::vector<TraceEvent> events;  // In order; complete from the first one on.
    std::uint64_t dropped = 0;
  };
  // A copy of what there is, without what is older than the first event that every ring still has: before that, the
  // picture would have holes.
  [[nodiscard]] Snapshot read() const;
  [[nodiscard]] std::uint32_t tracks() const { return static_cast<std::uint32_t>(rings_.size()); }

 private:
  struct alignas(sync::kCacheLineBytes) Ring {
    mutable SpinLock lock;
    std::unique_ptr<TraceEvent[]> slots;
    std::uint64_t count = 0;  // Ever recorded; the newest is at (count - 1) % capacity_.
  };

  const std::size_t capacity_;
  sync::Atomic<std::uint64_t> sequence_{0};
  std::vector<Ring> rings_;
};

// trace_json.cc
void write_json(const Trace::Snapshot& snapshot, std::uint32_t tracks, std::ostream& out);

}  // namespace rota::fiber::detail
