// The interface of every bus (U-1): one host and many workers, ordered messages in both directions, delivered at least
// once. The messages are those of model/message.h.
//
// After rewind(), or after a restart of the receiver, every message that was received and not acknowledged is delivered
// again. A host acknowledges a message after the record of its decision is durable; a worker does so after it has
// handled the message. Acknowledging a message acknowledges all messages that this receiver got before it.
//
// Every queue is bounded. A sender waits for room, which parks its task. A receiver that holds as many unacknowledged
// messages as the queue has room for gets QueueFull.
//
// Thread safety: send() from any number of tasks; receive(), acknowledge() and rewind() from one task at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "model/message.h"
#include "rota/result.h"

namespace rota::bus {

struct DeliveryToWorker {
  std::uint64_t id = 0;
  model::ToWorker message;
};

struct DeliveryFromWorker {
  std::uint64_t id = 0;
  std::string worker;
  model::FromWorker message;
};

// A worker's end of the bus.
class WorkerEnd {
 public:
  virtual ~WorkerEnd() = default;
  // Timeout; Closed when the bus is closed for good; Unavailable when it cannot be reached now; Cancelled.
  virtual Result<DeliveryToWorker> receive(std::chrono::nanoseconds limit) = 0;
  virtual Result<void> acknowledge(std::uint64_t id) = 0;
  // Closed, Unavailable, Cancelled. After an error the message was probably not sent.
  virtual Result<void> send(model::FromWorker message) = 0;
};

// The host's end of the bus.
class HostEnd {
 public:
  virtual ~HostEnd() = default;
  // As WorkerEnd::receive().
  virtual Result<DeliveryFromWorker> receive(std::chrono::nanoseconds limit) = 0;
  virtual Result<void> acknowledge(std::uint64_t id) = 0;
  // NotFound: no worker of this name is known to the bus. TooLarge, InvalidArgument: the bus never carries this
  // message. Otherwise as WorkerEnd::send().
  virtual Result<void> send(const std::string& worker, model::ToWorker message) = 0;
  // Delivers again from the oldest message that is not acknowledged.
  virtual Result<void> rewind() = 0;
  // Whether the host counts on this worker; initially it does not. What the bus keeps for a worker that is not expected
  // may be removed when the worker has been silent for a while. If it speaks later, it is a new worker to the bus.
  // Never waits; may be called for a name that the bus does not know yet.
  virtual void expect(const std::string& worker, bool expected) {
    (void)worker;
    (void)expected;
  }
};

}  // namespace rota::bus
