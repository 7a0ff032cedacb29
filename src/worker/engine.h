// The worker behind rota::Worker: messages in, attempts run, reports out.
//
//   receiver ──► on(message) ──► Intake ──► start_ready() ──► one task for each attempt
//                                                                │ reports
//   bus ◄── sender ◄── outbox (bounded channel) ◄────────────────┘
//            ▲ heartbeat, final reports that nobody has acknowledged
//
// Final reports are kept in `unacknowledged_` from before they are sent until the host acknowledges them, and sent
// again with the heartbeat. Their number is bounded by what the host has assigned and not acknowledged.
//
// When the machine is full, the first few in line stand by: their commands are with the guard, which starts them in the
// place of those that end, without waiting for this process. The end of the one says which other has its place, and
// only then the Intake counts it as running: both happen under one hold of the lock, so what is counted is what runs.
//
// Locking: `mutex_` is for short looks at the state; nothing waits, sends, cancels or calls a user's function under it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/sync.h"
#include "bus/bus.h"
#include "rota/fiber/channel.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/sync.h"
#include "rota/worker.h"
#include "worker/attempt.h"
#include "worker/guard.h"
#include "worker/intake.h"

namespace rota::worker {

class Engine final : private AttemptHost {
 public:
  static constexpr std::size_t kOutbox = 1024;

  explicit Engine(WorkerOptions options);
  ~Engine() override;

  Result<void> handle(std::string type, TaskHandler handler);
  Result<void> run(bus::WorkerEnd& bus);
  void stop();
  [[nodiscard]] const Hardware& hardware() const { return hardware_; }

 private:
  using Key = std::pair<std::uint64_t, std::uint32_t>;  // Task, attempt.
  struct Final {
    bus::Report report;
    std::chrono::nanoseconds sent_at;
  };

  // AttemptHost.
  void report(bus::Report report) override;
  ResultCache* cache() override { return cache_.get(); }

  Result<void> prepare();
  void serve(bus::WorkerEnd& bus, fiber::Nursery& nursery);
  void receive_all(bus::WorkerEnd& bus);
  void send_all(bus::WorkerEnd& bus);
  void heartbeat(bus::WorkerEnd& bus);
  // False: the bus is closed for good.
  bool say_hello(bus::WorkerEnd& bus);

  void on(const bus::Assign& assign);
  void on(const bus::Stop& stop);
  void on(const bus::Acknowledge& acknowledge);
  void take(bus::Assign assign);
  Result<std::shared_ptr<Attempt>> make(const bus::Assign& assign);
  void start_ready();
  // Those first in line that may stand by get ready, as many as run.
  void stand_by();
  [[nodiscard]] static bus::Report started(const Attempt& attempt);
  // Of one that stands by, or did; once. What there is no room for is dropped, as nobody depends on it.
  void tell_started(const Attempt& attempt) ROTA_REQUIRES(mutex_);
  void launch(const std::shared_ptr<Attempt>& attempt);
  void run_attempt(const std::shared_ptr<Attempt>& attempt);
  // Final reports of the attempt, and of each task that was merged into it.
  void finish(const bus::Assign& assign, std::uint64_t term, AttemptEnd end);
  void send_final(bus::Report report);
  void note_state() ROTA_REQUIRES(mutex_);

  const WorkerOptions options_;
  const Hardware hardware_;
  std::uint64_t incarnation_ = 0;
  std::map<std::string, TaskHandler> handlers_;
  CommandPlace place_;
  bool own_directory_ = false;
  std::unique_ptr<Guard> guard_;
  std::unique_ptr<ResultCache> cache_;
  fiber::Nursery* nursery_ = nullptr;  // Where attempts run, while run() does.
  fiber::Channel<bus::Report> outbox_{kOutbox};
  fiber::Event stopping_;      // No more is taken.
  fiber::Event drained_;       // Stopping, and nothing runs.
  fiber::Event acknowledged_;  // And nobody waits for an acknowledgement.
  fiber::Event over_;          // For the heartbeat.
  sync::Atomic<bool> hello_needed_{true};

  sync::Mutex mutex_;
  bool ran_ ROTA_GUARDED_BY(mutex_) = false;
  bool stop_ ROTA_GUARDED_BY(mutex_) = false;
  Intake intake_ ROTA_GUARDED_BY(mutex_);
  std::map<std::uint64_t, std::shared_ptr<Attempt>> attempts_ ROTA_GUARDED_BY(mutex_);  // Waiting and running.
  std::set<std::uint64_t> standing_by_ ROTA_GUARDED_BY(mutex_);   // Of attempts_: those that wait, and are run already.
  std::set<std::uint64_t> told_started_ ROTA_GUARDED_BY(mutex_);  // Of attempts_, by tell_started().
  std::map<std::uint64_t, bus::Assign> successors_ ROTA_GUARDED_BY(mutex_);  // Newer attempts of what still runs.
  std::map<Key, Final> unacknowledged_ ROTA_GUARDED_BY(mutex_);
};

}  // namespace rota::worker
