// Host: runs the brain. Clients and workers send commands; the host decides them, makes the decisions durable, and only
// then releases what follows from them: responses to clients, messages to workers, acknowledgements of reports (L-1).
//
//   clients ── execute() ─┐
//   bus ──► pump ─────────┴► inputs ──► decider ── records ──► ledger
//                                          │                      │ durable
//                                          └── batches ──────► releaser ──► responses, the observer, acknowledgements
//                                                                 ├──► one lane per worker ──► bus
//                                                                 └──► follower ──► readers, snapshots
//
// Four kinds of fiber tasks. The decider owns the brain: it takes the inputs that are ready, without waiting for more,
// executes each command, hands the records to the ledger and their effects, as one batch, to the releaser. The next
// batch is decided while the previous one syncs. The releaser waits until a batch's last record is durable and releases
// its effects, batch by batch, in the order of the decisions. The pump and the lanes use the bus.
//
// Invariants:
//   (1) An effect is released after every record up to and including its own is durable.
//   (2) Effects are released in the order of the decisions; the messages to one worker arrive in that order.
//   (3) A worker's message is acknowledged after the decision about it is durable; until then the bus delivers it
//   again. (4) After an error of the ledger nothing is released and nothing is acknowledged. (5) The releaser never
//   waits for a worker or a client, because the lanes are unbounded. Their content is bounded by
//       what the brain has assigned to live workers and not seen the end of: a few messages per task. Therefore the
//       ring of bounded queues (inputs, batches, the bus's own) has no cycle of waits, however slowly a worker reads.
//
// Recovery: run() starts from the ledger's snapshot and records. When a known worker sends a message again, the host
// sends it once more what it should be running, because the last messages may have been lost with the previous host;
// the worker ignores what it has. The same happens if a registration arrives a second time, which its incarnation
// shows. A worker that registers with another incarnation has lost its tasks. The term increases with each start, so
// that messages of the previous host are recognised; it is at least the wall time in milliseconds, so that it increases
// even if the log was lost.
//
// Several hosts. With a replicated ledger run() follows the log until the ledger makes this host the leader, leads
// until it is deposed, and follows again. A follower answers readers from its copy of the state, and refuses commands
// with NotLeader and the leader's address. At a takeover the decider starts from the follower's copy, which has applied
// every record, so it has the same hash as the leader that wrote them. The ledger issues the term. What a deposed host
// has decided and not committed is dropped with its decider.
//
// Time is the runtime's clock, which may be virtual: wall time is the time at the start plus what has passed since, and
// never less than the latest time in the ledger. Unless the start was given, it follows the system's clock slowly.
//
// Thread safety: execute(), inspect(), peek() and stop() from any task; run() once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/time_histogram.h"
#include "bus/bus.h"
#include "fleet/command.h"
#include "fleet/event.h"
#include "fleet/policy.h"
#include "fleet/record.h"
#include "ledger/ledger.h"
#include "model/message.h"
#include "rota/result.h"

namespace rota::fleet {
class State;
}
namespace rota::ledger {
class ReplicatedLedger;
}

namespace rota::host {

class Follower;

struct HostOptions {
  // Set in the brain at the start if the brain has another one.
  std::optional<fleet::Policy> policy{};
  // True for workers that live in the host's process: at the start, the tasks that they had are given back without
  // spending an attempt. None: all workers outlive the host.
  std::function<bool(const model::WorkerSpec&)> ends_with_host{};
  // Submissions wait until this many workers have registered: without workers they would be refused.
  std::size_t await_workers = 0;
  // Keep a copy of the state for readers (follower()), which makes snapshots as well. Without it, there are neither.
  bool follow = false;
  // The registrations of these workers wait for each other and are decided in this order, so that ids and the orders
  // that depend on them (first_fit, round_robin) are those of the list.
  std::vector<std::string> registration_order{};
  std::uint64_t snapshot_every = 100'000;  // Records; 0: never.
  bool compact = true;                     // Remove the records that a snapshot covers.
  std::optional<std::int64_t> wall_ns{};   // Wall time at the start; none: the system clock's.
  // Show what the ledger has, and decide nothing (`rota view`): execute() returns FailedPrecondition. Needs `follow`.
  bool read_only = false;
  // The host's ledger, if other hosts share it (L-3): see "Several hosts". Needs `follow`; then `ends_with_host`,
  // `await_workers` and `registration_order` are not allowed.
  ledger::ReplicatedLedger* replica = nullptr;
  // Opens the buses at the beginning of each term that this host leads, and closes them at its end.
  std::function<Result<std::vector<bus::HostEnd*>>(std::uint64_t term)> open_buses{};
  std::function<void()> close_buses{};
};

// Sees what is durable, in order. Called by one task at a time; while it works, no effect is released.
class HostObserver {
 public:
  virtual ~HostObserver() = default;
  virtual void on_record(const fleet::Record& record) { (void)record; }
  // Every report of a worker: starts, progress, log lines and output, and final reports beside their records.
  virtual void on_report(const std::string& worker, const model::Report& report) { (void)worker, (void)report; }
};

class Host {
 public:
  // A worker may connect to any of the buses, and is answered on the one on which it was last heard.
  // REQUIRES: ledger, buses and observer outlive it; at least one bus.
  Host(ledger::Ledger& ledger, std::vector<bus::HostEnd*> buses, HostOptions options = {},
       HostObserver* observer = nullptr);
  Host(ledger::Ledger& ledger, bus::HostEnd& bus, HostOptions options = {}, HostObserver* observer = nullptr);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  // Runs until stop(), and returns ok when everything accepted before that is durable and released. The ledger's error
  // if the ledger fails; Cancelled if the task is cancelled; FailedPrecondition if the host ran before.
  Result<void> run();
  void stop();

  // Ok unless another host decides, or may decide because this one could not renew its lease in time: then NotLeader,
  // with the address of the other one, if it is known, as the detail "leader".
  [[nodiscard]] Result<void> check_leads() const;
  // Ok, or why no decision becomes durable at this moment.
  [[nodiscard]] Result<void> check_writable() const;
  // The address of the host that decides, if hosts share the ledger; empty: none is known.
  [[nodiscard]] std::string leader_url() const;
  // Waits until the decision is durable. Returns its events (none if nothing followed from the command) or the reason
  // why it was refused; NotLeader as check_leads(). Closed, or NotLeader without an address, if the host ended or was
  // deposed first: then the command may have been executed or not. The record says who asked for it.
  Result<fleet::Events> execute(fleet::Command command, fleet::Origin origin = {});
  // For readers: pages, lists, streams, snapshots (H-6). REQUIRES: HostOptions::follow, and that run() was called.
  [[nodiscard]] Follower& follower();

  [[nodiscard]] bool is_read_only() const;
  // How long the decider took for each input.
  [[nodiscard]] TimeHistogram::Reading decision_times() const;

  // The last durable record. Everything that execute() has answered so far is at or before it.
  [[nodiscard]] std::uint64_t durable_index() const;

  // For the program that embeds the host, and for tests; readers use follower(), because this takes the decider's time.
  // Calls look(state) between two commands and returns when everything that it saw is durable. `look` must not wait and
  // must own what it uses: it may still be called after this returned Cancelled.
  Result<void> inspect(std::function<void(const fleet::State&)> look);
  // The same without waiting for durability: what `look` saw must have no effect outside this process.
  Result<void> peek(std::function<void(const fleet::State&)> look);

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace rota::host
