// Decider: owns the brain. Inputs in, a batch of records and effects out; it waits for nothing.
//
// Thread safety: none; one owner.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "fleet/brain.h"
#include "host/batch.h"
#include "host/host.h"
#include "host/recovery.h"

namespace rota::host {

class Decider {
 public:
  Decider(const HostOptions& options, Recovered recovered);

  // What must be decided before anything else: the policy, and what became of the workers of an earlier life.
  void begin(std::int64_t wall_ns);
  void take(Input input, std::int64_t wall_ns);
  // Timers that are due. False if nothing came of it.
  bool tick(std::int64_t wall_ns);
  // When tick() would lead to something.
  [[nodiscard]] std::int64_t next_due_ns() const { return brain_.next_due_ns(); }

  // What has come together since the last time.
  struct Output {
    std::vector<ledger::Record> records{};
    Batch batch{};
  };
  [[nodiscard]] Output finish(std::int64_t wall_ns);
  [[nodiscard]] bool empty() const { return records_.empty() && batch_.effects.empty() && batch_.received == 0; }
  // After the last record that finish() gave.
  [[nodiscard]] ledger::Snapshot snapshot() const;
  [[nodiscard]] std::uint64_t index() const { return brain_.state().globals().index; }

 private:
  void hear(const bus::DeliveryFromWorker& delivery);
  void on(const std::string& worker, const bus::Register& message);
  void on(const std::string& worker, const bus::Heartbeat& message);
  void on(const std::string& worker, const bus::Report& message);
  [[nodiscard]] model::WorkerSpec spec_of(const std::string& worker, const bus::Register& message) const;
  // Executes, with what follows from it by itself. Errors are for a client that asked, or logged.
  void execute(fleet::Command command, Answer answer = {});
  [[nodiscard]] Result<fleet::Events> execute_one(fleet::Command command, bool wants_events);
  void effects_of(const fleet::Record& record);
  void assign(const fleet::Execution& execution, const std::string& worker);
  void tell(model::TaskId task, bus::StopKind kind);
  void tell_again(const fleet::Worker& worker);
  void give_back_all();

  const HostOptions& options_;
  fleet::Brain brain_;
  Hash128 chain_;
  std::int64_t wall_ns_ = 0;
  std::vector<ledger::Record> records_;
  Batch batch_;
  std::vector<std::string> heartbeats_;        // Of this batch: one command for all.
  std::deque<fleet::Command> follow_ups_;      // What the host itself has to report about what was just decided.
  std::size_t awaited_;                        // Workers, before a submission is looked at.
  std::vector<Input> held_;                    // Submissions until then: one for each client that waits.
  std::set<std::string, std::less<>> unsure_;  // Workers that have not spoken since the start.
};

}  // namespace rota::host
