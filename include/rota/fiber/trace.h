// The trace of a runtime: who ran where and when, for chrome://tracing and ui.perfetto.dev (F-31).
//
// A runtime made with Config::trace_events > 0 keeps that many of the latest events of each worker; at the bound the
// oldest goes, and is counted. Whether a runtime traces is fixed when it is made: while it does not, there is nothing
// to check that is not checked anyway, so the trace is free. Times are the runtime's clock, virtual in
// deterministic mode, where the same seed gives the same file, byte by byte.
//
// The file has one track a worker, and one for what threads outside the runtime did. A task is a slice from when it
// starts or goes on until it blocks, yields or ends; a scope is a slice inside its task; a task that was called by a
// join is a slice inside the task that joined. Arrows go from a spawn or wake-up to the start that it caused. Spawn,
// wake, steal, cancel, deadline and worker-panic events are marks.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "rota/fiber/runtime.h"
#include "rota/result.h"

namespace rota::fiber {

struct TraceSummary {
  std::uint64_t events = 0;   // Written.
  std::uint64_t dropped = 0;  // Recorded, and not in the file: older than the oldest that every worker still has.
};

// Writes what was recorded so far; the runtime may be running, and records on. FailedPrecondition if it does not trace,
// IoError if the stream or file cannot be written.
// Thread safety: any thread. A worker that records an event while its ring is copied (some milliseconds for a million
// events) waits for the copy.
Result<TraceSummary> write_trace(Runtime& runtime, std::ostream& out);
Result<TraceSummary> write_trace(Runtime& runtime, const std::string& path);

}  // namespace rota::fiber
