// Runs a scenario: the real host and real workers as fibers on virtual time, on a simulated disk and network, with
// clients (S-1). Returns what was seen; checkers.h judges it.
//
//   clients ──► Host ──► SimLedger ──► SimDisk            one life of a host after the other
//                 │ SimBus (LocalBus with faults)
//               Engine, one per worker ──► SimWork          one life of each worker after the other
//
// A crash takes effect at once: from then on, nothing that the dying process calls has an effect on disk or network.
// Then its fibers are cancelled. After `faults_end_ms` everything heals, the first worker lives, all others are dead
// for good, paused workflows are resumed, and every workflow must end.
//
// The same scenario gives the same witness, byte for byte.
// Thread safety: a function without state; it uses the calling thread only.
#pragma once

#include "sim/scenario.h"
#include "sim/witness.h"

namespace rota::sim {

[[nodiscard]] Witness run_scenario(const Scenario& scenario);

// A hash of everything in the witness that a user could see: the log's bytes, and the order of all events.
[[nodiscard]] std::string fingerprint(const Witness& witness);

}  // namespace rota::sim
