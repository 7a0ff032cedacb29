// Runs a worker as a daemon: it joins a fleet over Redis and serves until it is told to stop.
//
// The first SIGTERM or SIGINT: the worker leaves; tasks that run may end within `drain`. The second: tasks that run are
// stopped and given back to the host. The third exits at once; guards kill the programs. SIGHUP reopens the log.
//
// Thread safety: one session per process at a time; it uses the process's signals.
#pragma once

#include <optional>
#include <string>

#include "base/log.h"
#include "cli/worker_identity.h"
#include "rota/clock.h"
#include "rota/result.h"
#include "rota/worker.h"

namespace rota::cli {

struct WorkerSetup {
  WorkerOptions options{};
  JoinOptions join{};
  Duration drain{};
  LogOptions log{};
  std::optional<WorkerIdentity> identity{};  // Renewed while the worker runs.
  std::string identity_file{};
};

[[nodiscard]] Result<void> run_worker(const WorkerSetup& setup);

}  // namespace rota::cli
