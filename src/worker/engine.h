// The worker behind rota::Worker: messages in, attempts run, reports out.
//
//   receiver ──► on(message) ──► TaskTable ──► start_ready() ──► one fiber task per attempt
//                                                                    │ reports
//   bus ◄── sender ◄── outbox (bounded channel) ◄────────────────────┘
//            ▲ registration, heartbeat, unacknowledged final reports
//
// A final report is kept in the table from before it is sent until the host acknowledges it, and is sent again with the
// heartbeat. The number of such reports is bounded by what the host has assigned and not acknowledged.
//
// When the machine is full, the first few tasks in line stand by (executor.h): the executor starts their programs in
// the place of those that end. The result of a program names the attempt that took its place. Both changes are made in
// the table under one hold of the lock, so that the table never counts more than what runs.
//
// The engine reads no clock, directory or environment of the operating system: time is that of the fiber runtime, and
// programs belong to the executor. So it runs unchanged under virtual time.
//
// Locking: `mutex_` protects short operations on the table. No code waits, sends, cancels or calls a user's function
// while it holds the lock.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/sync.h"
#include "bus/bus.h"
#include "rota/fiber/channel.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/sync.h"
#include "rota/worker.h"
#include "worker/attempt.h"
#include "worker/executor.h"
#include "worker/result_cache.h"
#include "worker/task_table.h"

namespace rota::worker {

// What an engine takes from its surroundings.
struct Surroundings {
  Executor* executor = nullptr;            // Null: the worker runs no programs.
  ResultCache* cache = nullptr;            // Null: no results are kept.
  TaskFiles* files = nullptr;              // Null: tasks with files fail.
  std::vector<model::CacheItem> cached{};  // What this machine has at hand.
  std::int64_t wall_offset_ns = 0;         // Wall time minus fiber::now().
  // Measures the offset again, with every heartbeat; null: it stays as it is.
  std::function<std::int64_t()> measure_wall_offset_ns{};
  model::Incarnation incarnation{};
};

class Engine final : private AttemptHost {
 public:
  static constexpr std::size_t kOutbox = 1024;
  static constexpr std::size_t kMostCacheItems = 1024;  // Reported caches that are remembered for registrations.

  // Of the options, it uses `spec`, whose resources must be complete, and the numbers.
  explicit Engine(const WorkerOptions& options);
  ~Engine() override;

  Result<void> handle(std::string type, TaskHandler handler);
  // REQUIRES: the surroundings outlive the call.
  Result<void> run(bus::WorkerEnd& bus, const Surroundings& surroundings);
  void stop();
  void stop_tasks();
  [[nodiscard]] const model::WorkerSpec& spec() const { return spec_; }

 private:
  // AttemptHost.
  void report(model::Report report) override;
  ResultCache* cache() override { return surroundings_.cache; }
  TaskFiles* files() override { return surroundings_.files; }
  void note_cached(const std::string& item) override;
  [[nodiscard]] WallClock clock() const override { return {wall_offset_ns_.load()}; }

  void serve(bus::WorkerEnd& bus, fiber::Nursery& nursery);
  void receive_all(bus::WorkerEnd& bus);
  void send_all(bus::WorkerEnd& bus);
  void heartbeat(bus::WorkerEnd& bus);
  // Registers; a worker that is stopping also says that it leaves. False: the bus did not take it.
  bool send_registration(bus::WorkerEnd& bus);

  // False: the term is older than one that was heard, and the worker registers again.
  bool hear(model::Term term) ROTA_REQUIRES(mutex_);
  void on(model::Assign& assign);
  void on(const model::ControlAttempt& control);
  void on(const model::AcknowledgeReport& acknowledge);
  void on(const model::RegisterAgain& again);
  void on(const model::LeaveFleet& leave);

  std::shared_ptr<Attempt> make_attempt(model::Assign assign);
  // Why this worker cannot run it; empty: it can.
  [[nodiscard]] std::string refusal_of(const model::Assign& assign) const;
  void take(const std::shared_ptr<Attempt>& attempt);
  void stop_older(const std::shared_ptr<Attempt>& older);
  // Ends a task that is queued, unless it has started or ended meanwhile. True: it was ended here.
  bool end_queued(const std::shared_ptr<Attempt>& attempt, model::AttemptOutcome outcome);
  void start_ready();
  void launch(const std::shared_ptr<Attempt>& attempt);
  void run_attempt(const std::shared_ptr<Attempt>& attempt);
  [[nodiscard]] static model::Report started(const Attempt& attempt, std::int64_t started_ns);
  // For an attempt that stood by; once. If the outbox is full, the message is dropped: it is for live views only.
  void tell_started(const Attempt& attempt, std::int64_t started_ns) ROTA_REQUIRES(mutex_);
  // The final reports of an attempt: one per merged task, or one.
  [[nodiscard]] static std::vector<model::Report> final_reports(const Attempt& attempt, model::AttemptOutcome outcome);
  // Moves the attempt to kReporting, or makes room for a newer attempt, which is returned. Reports that need not be
  // sent are removed from the list.
  std::shared_ptr<Attempt> end_attempt(const Attempt& attempt, std::vector<model::Report>* reports)
      ROTA_REQUIRES(mutex_);
  void send(model::FromWorker message);
  void note_state() ROTA_REQUIRES(mutex_);

  const WorkerOptions options_;
  model::WorkerSpec spec_;
  std::map<std::string, TaskHandler> handlers_;
  Surroundings surroundings_;
  sync::Atomic<std::int64_t> wall_offset_ns_{0};
  fiber::Nursery* nursery_ = nullptr;  // Where attempts run, during run().
  fiber::Channel<model::FromWorker> outbox_{kOutbox};
  fiber::Event stopping_;      // No more tasks are taken.
  fiber::Event drained_;       // Stopping, and no task waits or runs.
  fiber::Event acknowledged_;  // Drained, and every final report is acknowledged or never will be.
  fiber::Event wake_;          // Wakes the heartbeat early: to register again, or to end.
  sync::Atomic<bool> registration_needed_{true};
  sync::Atomic<bool> deaf_{false};  // The last receive() failed.
  sync::Atomic<bool> over_{false};

  sync::Mutex mutex_;
  bool ran_ ROTA_GUARDED_BY(mutex_) = false;
  bool stop_ ROTA_GUARDED_BY(mutex_) = false;
  TaskTable table_ ROTA_GUARDED_BY(mutex_);
  std::map<std::string, std::int64_t> caches_ ROTA_GUARDED_BY(mutex_);  // Item to the wall time of its last report.
};

}  // namespace rota::worker
