// The bus within one process: queues in memory (U-1). Nothing is lost while the process lives, and all of it with it.
//
// A worker's queue stays when the worker disconnects, with what is not acknowledged: it gets it when it connects again.
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
  // So many messages wait in each direction of each worker, and so many for the host.
  explicit LocalBus(std::size_t capacity = kCapacity);
  ~LocalBus();
  LocalBus(const LocalBus&) = delete;
  LocalBus& operator=(const LocalBus&) = delete;

  HostEnd& host();
  // AlreadyExists while a worker of this name is connected. Destroying the end disconnects it.
  Result<std::unique_ptr<WorkerEnd>> connect(const std::string& worker);
  // Ends receive() and send() of all with Closed; what was sent before may still be received.
  void close();

 private:
  struct FromEnvelope {
    std::string worker;
    FromWorker message;
  };
  struct Lane {
    explicit Lane(std::size_t capacity) : queue(capacity) {}
    Queue<ToWorker> queue;
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
