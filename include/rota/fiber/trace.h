// The trace of a runtime: which task ran where and when, for chrome://tracing and ui.perfetto.dev (F-31).
//
// A runtime created with Config::trace_events > 0 keeps that many of the latest events of each thread worker; at the
// bound the oldest is dropped and counted. Tracing is fixed at creation; without it there are no additional checks, so
// it costs nothing. Times are those of the runtime's clock, virtual in deterministic mode, where the same seed gives
// the same file, byte for byte.
//
// The file has one track per thread worker, and one for the actions of outside threads. A task is a slice from its
// start or resumption until it blocks, yields or ends; a scope is a slice inside its task; a task that a join called in
// place is a slice inside the task that joined. Arrows lead from a spawn or wake-up to the start that it caused. Spawn,
// wake, steal, cancel, deadline and worker-panic events are marks.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "rota/fiber/runtime.h"
#include "rota/result.h"

namespace rota::fiber {

struct TraceSummary {
  std::uint64_t events = 0;   // Events written.
  std::uint64_t dropped = 0;  // Recorded but not written: older than the oldest that every thread worker has.
};

// Writes the events recorded so far; the runtime may continue to run and record. FailedPrecondition if it does not
// trace, IoError if the stream or file cannot be written. Thread safety: any thread. A thread worker that records an
// event while its ring is being copied (some milliseconds for a million events) waits for the copy.
Result<TraceSummary> write_trace(Runtime& runtime, std::ostream& out);
Result<TraceSummary> write_trace(Runtime& runtime, const std::string& path);

}  // namespace rota::fiber
