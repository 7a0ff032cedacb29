// From what was decided to what a worker is told.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>

#include "bus/message.h"
#include "fleet/state.h"
#include "rota/result.h"

namespace rota::host {

// The message for an execution that is at its worker: the payload with every reference replaced, what it holds, and, if
// it is several merged tasks, each of them with its inputs, the leading one first. A pure function of the state: said
// again, it is the same message. An error if a reference leads nowhere.
// REQUIRES: `lead` is the execution's, and has not ended.
[[nodiscard]] Result<bus::Assign> assignment(const fleet::State& state, const fleet::Execution& execution,
                                             std::uint64_t term);

// The execution that `task` is part of now, or null.
[[nodiscard]] const fleet::Execution* execution_of(const fleet::State& state, model::TaskId task);

// It waits at its worker for devices, and the worker does not know of it yet: only when it starts it is known which.
[[nodiscard]] inline bool is_withheld(const fleet::Execution& execution) {
  return execution.queued && execution.gpus > 0;
}

}  // namespace rota::host
