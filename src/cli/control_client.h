// Both ends of a host's control socket as files: where it is, how to listen, how to connect (host/control_protocol.h).
//
// Thread safety: functions without state.
#pragma once

#include <memory>
#include <string>

#include "host/control_protocol.h"
#include "net/stream.h"
#include "rota/result.h"

namespace rota::cli {

// REQUIRES: the caller owns the ledger of this state folder, so that no other host uses the socket.
[[nodiscard]] Result<std::unique_ptr<net::Listener>> listen_for_control(const std::string& state);
void remove_control_socket(const std::string& state);

// Sends one request to the host of this state folder, or at this URL, and returns its answer. Unavailable, with what to
// do, if no host runs there. Starts a runtime of its own: call it outside of one.
[[nodiscard]] Result<host::ControlAnswer> ask_host(const std::string& target, const host::ControlRequest& request);

}  // namespace rota::cli
