// Independent checkers: judge a run by what workers and clients saw and by the final log, never by the brain's state
// (S-2).
//
//   told          what a client was told is in the log; one_per_key: once per key
//   ends_once     each task and workflow ends once; none is lost (lost)
//   results       successors used the result of the one attempt that counts, and a worker returned that result
//   dependencies  each task started after its predecessors' success was durable
//   resources     no worker ran more than it has, by its own accounting and by the log's
//   ran_once      no attempt ran twice
//   terms         one host per term; no effect of an older term at a worker that knows a newer one
//   chain         the log's hash chain is intact
//   recorded      every message that a worker got has its record, which was durable before
//   stale         what runs although its attempt no longer counts is stopped
//   reports       every final report of a worker is acknowledged to it
//   reads         a reader sees at least what it was told
//   replay        deciding again gives the same log; snapshot and tail give the same state
//   liveness      without faults, everything ends, and no report is sent for ever
// and the rules of log_rules.h: pause, quota, backoff, attempts, placement, gang, merge, fence, workers,
// fleet_resource, when, finally, parallel, deadline, fail_fast, stopped, fan_out, binding.
//
// Thread safety: a function without state.
#pragma once

#include <vector>

#include "sim/log_rules.h"
#include "sim/witness.h"

namespace rota::sim {

// At most a few violations; none: the run is fine.
[[nodiscard]] std::vector<Violation> check(const Witness& witness);

}  // namespace rota::sim
