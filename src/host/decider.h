// Decider: owns the brain. It turns inputs into batches of records and effects, and never waits.
//
// Thread safety: none; one owner.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "fleet/brain.h"
#include "host/batch.h"
#include "host/host.h"
#include "host/recovery.h"
#include "host/silence.h"

namespace rota::host {

class Decider {
 public:
  // `issued`: the term, from a ledger that issues terms; none: the next one after the log's.
  Decider(const HostOptions& options, Recovered recovered, std::optional<model::Term> issued = std::nullopt);

  // Decides what comes before any input: the policy, and what happens to the workers of the previous host.
  void begin(std::int64_t wall_ns);
  void take(Input input, std::int64_t wall_ns);
  // Lets due timers act, and reports workers that have been silent for too long. False if no event followed.
  bool tick(std::int64_t wall_ns);
  // When tick() may have an effect.
  [[nodiscard]] std::int64_t next_due_ns() const;
  // No message could arrive until this time: the silence of workers counts from it.
  void listening_since(std::int64_t wall_ns) { silence_.listening_since(wall_ns); }

  // The records and effects since the last call.
  struct Output {
    std::vector<ledger::RecordBytes> records{};
    Batch batch{};
  };
  [[nodiscard]] Output finish(std::int64_t wall_ns);
  [[nodiscard]] std::uint64_t index() const { return brain_.state().globals().index; }
  // A worker has heard of this term, which is newer than the issued one. Either another host leads, or the log is older
  // than the workers (it was restored from a backup). Nothing may be decided until that is clear.
  [[nodiscard]] std::optional<model::Term> newer_term() const { return newer_term_; }

 private:
  void handle(const bus::DeliveryFromWorker& delivery, Port port);
  void on(const std::string& worker, const model::Register& message);
  void take_registration(const std::string& worker, const model::Register& message);
  // The brain counts on this attempt of this worker.
  [[nodiscard]] bool is_wanted(const std::string& worker, const model::HeldAttempt& attempt) const;
  void stop_unwanted(const std::string& worker, const model::Report& report);
  // False: this attempt belongs to a log that was lost, or from which this one differs.
  [[nodiscard]] bool is_of_this_log(const model::AttemptId& id, std::int64_t assigned_ns) const;
  void on(const std::string& worker, const model::Heartbeat& message);
  void on(const std::string& worker, const model::Leave& message);
  void on(const std::string& worker, const model::Report& message);
  void on_report(const std::string& worker, const model::AttemptId& id, const model::Checkpoint& body);
  void on_report(const std::string& worker, const model::AttemptId& id, const model::Cached& body);
  void on_report(const std::string& worker, const model::AttemptId& id, const model::Ended& body);
  // Executes the command and the commands that follow from it. An error goes to the client that waits, or to the log.
  void execute(fleet::Command command, Answer answer = {}, fleet::Origin origin = {});
  [[nodiscard]] Result<fleet::Events> execute_one(fleet::Command command, bool wants_events, fleet::Origin origin = {});
  void collect_effects(const fleet::Record& record);
  void assign(const fleet::Execution& execution, const std::string& worker);
  void control(model::TaskId task, model::AttemptAction action);
  void send(const std::string& worker, model::ToWorker message);
  // The worker registered, or its state has changed.
  void note_presence(model::WorkerId id);
  // Sends everything again that the worker should have: messages may have been lost with the previous host.
  void resend(const fleet::Worker& worker);
  void give_back_all();
  [[nodiscard]] std::int64_t ttl_ns() const;
  [[nodiscard]] bool is_of_earlier_life(const bus::DeliveryFromWorker& delivery) const;
  // True if the worker is registered with this incarnation; otherwise asks it to register.
  [[nodiscard]] bool is_registered(const std::string& worker, model::Incarnation incarnation);

  const HostOptions& options_;
  const bool issued_;  // The term is the ledger's, and not changed here.
  std::optional<model::Term> newer_term_;
  fleet::Brain brain_;
  Hash128 chain_;
  std::int64_t wall_ns_ = 0;
  std::vector<ledger::RecordBytes> records_;
  Batch batch_;
  SilenceWatch silence_;                   // Of every worker that the brain believes to be reachable.
  std::vector<std::string> back_;          // Workers whose silence ended in this batch: one command for all of them.
  std::deque<fleet::Command> follow_ups_;  // Commands that the host itself issues because of what was just decided.
  std::size_t awaited_;                    // Workers that must register before a submission is decided.
  std::vector<Input> held_;                // Submissions until then: one for each client that waits.
  std::map<model::WorkerId, std::string> names_;  // Of the workers that the brain knows.
  std::unordered_map<std::string, Port> ports_;   // The bus on which each worker was last heard.
  std::set<std::string> ignored_;                 // Names that workers on two buses have: for the log.
  std::map<std::string, model::Register> early_;  // Registrations that wait for others (registration_order).
  bool in_order_ = true;                          // No registration has to wait any more.
  // Workers of the previous host that have not sent a message to this one yet.
  std::set<std::string, std::less<>> unheard_;
};

}  // namespace rota::host
