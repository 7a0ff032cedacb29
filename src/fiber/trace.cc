// Recording events, for the trace and for the hash of deterministic mode.
#include "fiber/trace.h"

#include <algorithm>
#include <fstream>
#include <mutex>
#include <span>

#include "base/hash.h"

namespace rota::fiber {

namespace detail {

Trace::Trace(std::uint32_t workers, std::size_t events_a_worker) : capacity_(events_a_worker), rings_(workers + 1) {
  // Not written here, so that pages are taken from the system as the ring fills.
  for (Ring& ring : rings_) ring.slots = std::make_unique_for_overwrite<TraceEvent[]>(capacity_);
}

void Trace::record(std::uint32_t track, TraceEvent event) {
  Ring& ring = rings_[track];
  std::lock_guard guard(ring.lock);
  event.sequence = sequence_.fetch_add(1, std::memory_order_relaxed);
  event.track = track;
  ring.slots[ring.count++ % capacity_] = event;
}

Trace::Snapshot Trace::read() const {
  Snapshot snapshot;
  std::uint64_t recorded = 0;
  std::uint64_t first_complete = 0;
  for (const Ring& ring : rings_) {
    std::lock_guard guard(ring.lock);
    const std::uint64_t kept = std::min<std::uint64_t>(ring.count, capacity_);
    recorded += ring.count;
    for (std::uint64_t i = ring.count - kept; i < ring.count; ++i) {
      snapshot.events.push_back(ring.slots[i % capacity_]);
    }
    if (ring.count > kept) {
      first_complete = std::max(first_complete, ring.slots[ring.count % capacity_].sequence);
    }
  }
  std::erase_if(snapshot.events, [&](const TraceEvent& event) { return event.sequence < first_complete; });
  std::ranges::sort(snapshot.events, {}, &TraceEvent::sequence);
  snapshot.dropped = recorded - snapshot.events.size();
  return snapshot;
}

void note_event(ThreadWorker* worker, TaskEvent what, std::uint64_t id, std::uint32_t detail) {
  RuntimeCore& runtime = *worker->runtime;
  if (runtime.fault != nullptr) {
    if (what == TaskEvent::kStart) runtime.fault(worker, FaultPoint::kStart);
    if (what == TaskEvent::kComplete) runtime.fault(worker, FaultPoint::kFinish);
  }
  // The hash ignores events that are only recorded while tracing, so that tracing does not change it.
  if (runtime.deterministic && what < kFirstUnhashed) {
    const std::uint64_t words[4] = {runtime.event_hash,
                                    static_cast<std::uint64_t>(what) | static_cast<std::uint64_t>(worker->index) << 8,
                                    id, static_cast<std::uint64_t>(runtime.virtual_now)};
    runtime.event_hash = hash64(std::as_bytes(std::span(words)));
    ++runtime.event_count;
  }
  if (runtime.trace == nullptr) return;
  const Fiber* fiber = worker->fiber;
  const char* waits_for = nullptr;
  if (what == TaskEvent::kBlock) {
    const bool yields = fiber->task->state.load(std::memory_order_relaxed) == TaskState::kReady;
    waits_for = yields ? "its next turn" : fiber->waits_for;
  }
  runtime.trace->record(worker->index, {0, runtime.now(), id, fiber, waits_for, detail, 0, what});
}

void note_outside_event(RuntimeCore* runtime, TaskEvent what, std::uint64_t id) {
  runtime->trace->record(runtime->worker_count, {0, runtime->now(), id, nullptr, nullptr, 0, 0, what});
}

}  // namespace detail

Result<TraceSummary> write_trace(Runtime& runtime, std::ostream& out) {
  const detail::Trace* trace = runtime.core()->trace.get();
  if (trace == nullptr) {
    return Error{ErrorCode::kFailedPrecondition,
                 "this runtime records no trace; create it with Config::trace_events > 0"};
  }
  const detail::Trace::Snapshot snapshot = trace->read();
  detail::write_json(snapshot, trace->tracks(), out);
  out.flush();
  if (!out) return Error{ErrorCode::kIoError, "the trace could not be written"};
  return TraceSummary{snapshot.events.size(), snapshot.dropped};
}

Result<TraceSummary> write_trace(Runtime& runtime, const std::string& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file) return Error{ErrorCode::kIoError, "the file for the trace could not be opened"}.with("path", path);
  return write_trace(runtime, file);
}

}  // namespace rota::fiber
