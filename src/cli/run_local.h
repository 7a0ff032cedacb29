// What `rota run` and `rota each` have in common: the workers of this process, the policy for them; and the exit status
// of a workflow, also for `rota submit --wait`.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <string>

#include "cli/run_session.h"
#include "fleet/event.h"
#include "rota/result.h"

namespace rota::cli {

// Fills in the workers (of a fleet file; empty: one for this machine, with `jobs` CPUs, 0: all of them), the policy
// that suits them, and the user.
[[nodiscard]] Result<void> use_workers(RunSetup& setup, const std::string& fleet_file, std::int64_t jobs);

// 0 success, 1 failure, 7 cancelled.
[[nodiscard]] int exit_status_of(fleet::Outcome outcome);

}  // namespace rota::cli
