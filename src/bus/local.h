// The bus within one process: queues in memory (U-1). Messages live as long as the process.
//
// A worker's queue is kept when the worker disconnects. When it connects again, it gets the messages that it has not
// acknowledged.
// Thread safety: as bus.h says; host(), connect() and close() from any task. The bus outlives its ends.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/sync.h"
#include "bus/bus.h"
#include "bus/queue.h"

namespace rota::bus {

class LocalBus {
 public:
  static constexpr std::size_t kCapacity = 4096;
  // `capacity`: how many messages each queue holds; there is one queue per worker, and one for the host.
  explicit LocalBus(std::size_t capacity = kCapacity);
  ~LocalBus();
  LocalBus(const LocalBus&) = delete;
  LocalBus& operator=(const LocalBus&) = delete;

  HostEnd& host();
  // AlreadyExists while a worker of this name is connected. Destroying the end disconnects it.
  Result<std::unique_ptr<WorkerEnd>> connect(const std::string& worker);
  // Every send() and receive() returns Closed from now on, but messages sent before can still be received.
  void close();

 private:
  struct FromEnvelope {
    std::string worker;
    model::FromWorker message;
  };
  struct Lane {
    explicit Lane(std::size_t capacity) : queue(capacity) {}
    Queue<model::ToWorker> queue;
    bool connected = false;  // Under mutex_.
  };
  class Host;
  class Worker;
  std::shared_ptr<Lane> find(const std::string& worker);

  const std::size_t capacity_;
  Queue<FromEnvelope> to_host_;
  std::unique_ptr<Host> host_;
  sync::Mutex mutex_;
  bool closed_ ROTA_GUARDED_BY(mutex_) = false;
  std::map<std::string, std::shared_ptr<Lane>> lanes_ ROTA_GUARDED_BY(mutex_);
};

}  // namespace rota::bus
