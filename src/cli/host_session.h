// Runs a host as a daemon: ledger, buses, local workers, control socket and signals, from the start to the end.
//
//   <state>/ledger.db          the log
//   <state>/logs/              what the tasks wrote: by local workers directly, of other machines through the bus
//   <state>/cache/             results of stages with `cache`, for local workers
//   <state>/control.sock       the control socket (host/control_protocol.h)
//
// SIGTERM and SIGINT: no more submissions are accepted, tasks of local workers may end within host.drain, then the host
// stops; tasks of other workers continue and are reported to the next host. A second signal exits at once. SIGHUP reads
// the settings again, applies those of the policy and the log, and says which others need a restart.
//
// Thread safety: one session per process at a time; it uses the process's signals.
#pragma once

#include <functional>
#include <string>

#include "base/log.h"
#include "fleet/policy.h"
#include "host/host_settings.h"
#include "rota/result.h"

namespace rota::cli {

struct HostSetup {
  host::HostConfig config{};
  fleet::Policy policy{};
  LogOptions log{};
};

// Returns when the host has stopped as it was told to. `reload` reads the settings again. The error is that of the
// ledger, of the bus, or of what could not be started.
[[nodiscard]] Result<void> run_host(const HostSetup& setup, const std::function<Result<HostSetup>()>& reload);

}  // namespace rota::cli
