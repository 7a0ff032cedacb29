// The recorded events of a tracing runtime: a bounded ring per thread worker, and one for outside threads (F-31).
//
// Invariants:
//   (1) A ring holds at most its capacity; when it is full, the oldest event is dropped and counted.
//   (2) `sequence` is drawn from one counter, so the order of events respects causality at any resolution of the clock;
//       within a ring it ascends.
// Thread safety: record() by the ring's thread worker (any thread for the outside ring), read() by any thread: one spin
// lock per ring, taken only while tracing, and a leaf in the lock order.
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
  const Fiber* fiber;     // The stack on which it happened; null outside. Never dereferenced.
  const char* waits_for;  // For kBlock: what it waits for; a string literal.
  std::uint32_t detail;   // See TaskEvent.
  std::uint32_t track;    // The thread worker's index; the number of thread workers for outside.
  TaskEvent what;
};

class Trace {
 public:
  Trace(std::uint32_t workers, std::size_t events_a_worker);

  void record(std::uint32_t track, TraceEvent event);

  struct Snapshot {
    std::vector<TraceEvent> events;  // In order; complete from the first one on.
    std::uint64_t dropped = 0;
  };
  // A copy of the events, without those that are older than the first event that every ring still has, because the
  // trace would be incomplete before it.
  [[nodiscard]] Snapshot read() const;
  [[nodiscard]] std::uint32_t tracks() const { return static_cast<std::uint32_t>(rings_.size()); }

 private:
  struct alignas(sync::kCacheLineBytes) Ring {
    mutable SpinLock lock;
    std::unique_ptr<TraceEvent[]> slots;
    std::uint64_t count = 0;  // Total number recorded; the newest is at (count - 1) % capacity_.
  };

  const std::size_t capacity_;
  sync::Atomic<std::uint64_t> sequence_{0};
  std::vector<Ring> rings_;
};

// trace_json.cc
void write_json(const Trace::Snapshot& snapshot, std::uint32_t tracks, std::ostream& out);

}  // namespace rota::fiber::detail
