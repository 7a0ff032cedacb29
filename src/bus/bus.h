// The one interface of all buses (U-1): a host with many workers, ordered messages each way, delivered at least once.
//
// A message that was received is delivered again after rewind() (a restart of the receiver) until it is acknowledged.
// A host acknowledges after the record of what it decided is durable; a worker after it has taken the message in.
// Acknowledging one acknowledges all that this receiver was given before it.
//
// Every queue is bounded. A sender waits for room, which parks its task; a receiver that never acknowledges gets
// QueueFull when it holds as many as the queue.
//
// Thread safety: send() from any number of tasks; receive(), acknowledge() and rewind() from one at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "bus/message.h"
#include "rota/result.h"

namespace rota::bus {

struct DeliveryToWorker {
  std::uint64_t id = 0;
  ToWorker message;
};

struct DeliveryFromWorker {
  std::uint64_t id = 0;
  std::string worker;
  FromWorker message;
};

// A worker's end.
class WorkerEnd {
 public:
  virtual ~WorkerEnd() = default;
  // Timeout; Closed when the bus is closed for good; Unavailable when it cannot be reached now; Cancelled.
  virtual Result<DeliveryToWorker> receive(std::chrono::nanoseconds limit) = 0;
  virtual Result<void> acknowledge(std::uint64_t id) = 0;
  // Closed, Unavailable, Cancelled. Not sent then, as far as is known.
  virtual Result<void> send(FromWorker message) = 0;
};

// The host's end.
class HostEnd {
 public:
  virtual ~HostEnd() = default;
  virtual Result<DeliveryFromWorker> receive(std::chrono::nanoseconds limit) = 0;
  virtual Result<void> acknowledge(std::uint64_t id) = 0;
  // NotFound: no worker of this name has ever been there.
  virtual Result<void> send(const std::string& worker, ToWorker message) = 0;
  // From the oldest that is not acknowledged.
  virtual Result<void> rewind() = 0;
};

}  // namespace rota::bus
