// ControlServer: answers requests on a host's control socket (control_protocol.h).
//
// Each connection is a task. At most kMostConnections are served at a time; further ones wait to be accepted. A client
// that waits for the end of a workflow does not count among them: kMostWaiting may do so, and a further one is answered
// at once that its workflow still runs. A client that sends nothing for kIdle is disconnected. Reads use the host's
// follower and cost the brain nothing (H-6); one task looks for the ends of all workflows that clients wait for, so
// that a record costs the same however many clients wait.
//
// Thread safety: run() once; refuse_submissions() from any task.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>

#include "base/sync.h"
#include "host/control_protocol.h"
#include "host/host.h"
#include "net/stream.h"
#include "rota/fiber/sync.h"
#include "rota/result.h"

namespace rota::host {

class ControlServer {
 public:
  static constexpr std::size_t kMostConnections = 64;
  static constexpr std::size_t kMostWaiting = 512;
  static constexpr std::chrono::seconds kIdle{60};

  // REQUIRES: the host has a follower; both outlive it. The bounds are those above, except in tests.
  ControlServer(Host& host, net::Listener& listener, std::size_t most_connections = kMostConnections,
                std::size_t most_waiting = kMostWaiting)
      : host_(host), listener_(listener), free_(most_connections), free_to_wait_(most_waiting) {}

  // Serves until the listener is closed or the task is cancelled.
  void run();
  // From now on a submission is answered with Unavailable.
  void refuse_submissions() { refusing_.store(true); }

 private:
  // The right of a connection to be served.
  struct Slot {
    fiber::Semaphore& free;
    bool held = true;
    void acquire() {
      if (!held) free.acquire();
      held = true;
    }
    void release() {
      if (held) free.release();
      held = false;
    }
    ~Slot() { release(); }
  };
  void serve(net::ByteStream& stream, Slot& slot);
  ControlAnswer answer(const ControlRequest& request, Slot& slot);
  ControlAnswer answer_one(const Ping& request);
  ControlAnswer answer_one(const Execute& request);
  ControlAnswer await_end(const AwaitEnd& request, Slot& slot);
  // The workflow as the follower knows it now.
  [[nodiscard]] ControlAnswer outcome_of(model::WorkflowId workflow);
  void wait_for_end(model::WorkflowId workflow, std::chrono::nanoseconds limit);
  // A task: sets the events of workflows that have ended.
  void watch_ends();

  using Waiting = std::multimap<model::WorkflowId, std::shared_ptr<fiber::Event>>;

  Host& host_;
  net::Listener& listener_;
  fiber::Semaphore free_;          // Connections that may be served.
  fiber::Semaphore free_to_wait_;  // Clients that may wait.
  sync::Atomic<bool> refusing_{false};
  fiber::Event somebody_waits_;
  sync::Mutex mutex_;
  Waiting waiting_ ROTA_GUARDED_BY(mutex_);
  bool stopping_ ROTA_GUARDED_BY(mutex_) = false;  // The follower has ended.
};

}  // namespace rota::host
