// ControlServer: answers requests on a host's control socket (control_protocol.h).
//
// Each connection is a task. At most kMostConnections are served at a time; further ones wait to be accepted. A client
// that sends nothing for kIdle is disconnected. Reads use the host's follower and cost the brain nothing (H-6).
//
// Thread safety: run() once; refuse_submissions() from any task.
#pragma once

#include <chrono>
#include <cstddef>

#include "base/sync.h"
#include "host/control_protocol.h"
#include "host/host.h"
#include "net/stream.h"
#include "rota/result.h"

namespace rota::host {

class ControlServer {
 public:
  static constexpr std::size_t kMostConnections = 64;
  static constexpr std::chrono::seconds kIdle{60};

  // REQUIRES: the host has a follower; both outlive it.
  ControlServer(Host& host, net::Listener& listener) : host_(host), listener_(listener) {}

  // Serves until the listener is closed or the task is cancelled.
  void run();
  // From now on a submission is answered with Unavailable.
  void refuse_submissions() { refusing_.store(true); }

 private:
  void serve(net::ByteStream& stream);
  ControlAnswer answer(const ControlRequest& request);
  ControlAnswer answer_one(const Ping& request);
  ControlAnswer answer_one(const Execute& request);
  ControlAnswer answer_one(const AwaitEnd& request);

  Host& host_;
  net::Listener& listener_;
  sync::Atomic<bool> refusing_{false};
};

}  // namespace rota::host
