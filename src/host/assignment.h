// Builds the message that tells a worker to run an execution.
//
// Thread safety: functions without state.
#pragma once

#include "fleet/state.h"
#include "model/message.h"
#include "rota/result.h"

namespace rota::host {

// The message for an execution that is at its worker: the specification with every reference resolved, the resources
// that it holds and, if it consists of several merged tasks, each of them with its inputs, the leading task first. A
// pure function of the state: building it again gives the same message. An error if a reference does not resolve.
// REQUIRES: `execution.lead` has not ended.
[[nodiscard]] Result<model::Assign> assignment(const fleet::State& state, const fleet::Execution& execution,
                                               model::Term term);

// The execution that `task` is part of now, or null.
[[nodiscard]] const fleet::Execution* execution_of(const fleet::State& state, model::TaskId task);

// The execution waits at its worker for devices, and the worker does not know it yet: which devices it gets is known
// only when it starts.
[[nodiscard]] inline bool is_withheld(const fleet::Execution& execution) {
  return execution.queued && execution.held.gpus > 0;
}

}  // namespace rota::host
