// Leader: decides, as long as this host is entitled to. A host with a ledger of its own has one from its start to its
// end; a host of a replicated ledger has one for each term. host.h has the picture and the invariants.
//
// Thread safety: take(), stop() and fail() from any task; run() once.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/sync.h"
#include "base/time_histogram.h"
#include "host/batch.h"
#include "host/decider.h"
#include "host/host.h"
#include "host/recovery.h"
#include "rota/fiber/channel.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/sync.h"

namespace rota::host {

class Follower;

class Leader {
 public:
  // REQUIRES: everything outlives it. `follower` may be null.
  Leader(ledger::Ledger& ledger, const std::vector<bus::HostEnd*>& buses, const HostOptions& options,
         HostObserver* observer, Follower* follower, TimeHistogram& decision_times);

  // Runs until stop() or fail(), and returns ok when everything accepted before stop() is durable and released.
  // `term`: the one that the ledger issued; none: the next one of the log.
  // The ledger's error, or what fail() was given; Cancelled. Called in a scope in which follower->run() and save() run
  // already if the ledger is replicated; otherwise it starts them.
  Result<void> run(Recovered recovered, std::optional<model::Term> term);
  // False: it takes nothing any more. May wait for room.
  bool take(Input input) { return inputs_.send(std::move(input)); }
  // Takes no more inputs; run() returns when those that were taken are dealt with.
  void stop() { inputs_.close(); }
  // Stops everything: nothing is accepted or released any more. The first error is kept.
  void fail(Error error);
  // For a host that only shows its ledger: waits until stop(), and answers nobody.
  void wait_for_stop() {
    while (inputs_.receive()) {
    }
  }
  // After run(): clients whose commands were not executed get Closed.
  void discard();

 private:
  // One bus and the task that receives from it.
  struct Pump {
    bus::HostEnd* bus = nullptr;
    sync::Atomic<std::uint64_t> handled{0};  // Messages up to this one may be acknowledged.
    fiber::Event handled_more{};             // Set when `handled` advances.
    std::uint64_t acknowledged = 0;          // The pump's.
    std::uint64_t received = 0;              // The pump's.
  };
  struct Lane {
    fiber::Channel<ToSend> messages = fiber::Channel<ToSend>::unbounded();
    fiber::Task<void> task{};
  };

  [[nodiscard]] std::int64_t wall_ns() const { return wall_offset_ns_ + fiber_now_ns(); }
  [[nodiscard]] static std::int64_t fiber_now_ns();
  [[nodiscard]] bool is_replicated() const { return options_.replica != nullptr; }
  void serve(Decider& decider, fiber::Nursery& scope);
  void decide(Decider& decider);
  void follow_clock();
  bool hand_over(Decider& decider);
  // A state that does not follow from the log means that the log cannot be recovered: the host must not continue it.
  void follow();
  void release();
  void release_effects(Batch& batch);
  void send(ToSend message);
  void end_lane(const std::string& worker);
  bool give_up(const std::string& worker, const ToSend& message, const Error& error);
  void run_lane(const std::string& worker, const fiber::Channel<ToSend>& messages);
  [[nodiscard]] Result<void> send_now(const std::string& worker, const ToSend& message);
  void pump(Port port);
  static void acknowledge(Pump& pump);

  ledger::Ledger& ledger_;
  std::vector<Pump> pumps_;  // By port.
  const HostOptions& options_;
  HostObserver* const observer_;
  Follower* const follower_;
  TimeHistogram& decision_times_;
  fiber::Channel<Input> inputs_;
  fiber::Channel<Batch> batches_;
  sync::Atomic<std::int64_t> deaf_until_ns_{0};  // The bus was last found unreachable at this time; 0: never.
  sync::Atomic<bool> failed_{false};
  fiber::Nursery* nursery_ = nullptr;
  std::map<std::string, Lane> lanes_;  // The releaser's.
  // Lanes of workers that are gone, which still have messages: the releaser's.
  std::map<std::string, fiber::Task<void>> ending_;
  fiber::WaitGroup lanes_open_;
  std::int64_t wall_offset_ns_ = 0;
  std::chrono::nanoseconds clock_compared_{0};

  sync::Mutex mutex_;
  Result<void> failure_ ROTA_GUARDED_BY(mutex_);
};

}  // namespace rota::host
