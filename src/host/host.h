// Host: the brain's body. Commands in, from clients and from workers; what was decided becomes durable; then, and only
// then, what follows from it leaves: answers to clients, messages to workers, acknowledgements of what they said (L-1).
//
//   clients ── execute() ─┐
//   bus ──► pump ─────────┴► inputs ──► decider ── records ──► ledger
//                                          │                      │ durable
//                                          └── batches ──────► releaser ──► answers, the observer, acknowledgements
//                                                                 └──► a lane for each worker ──► bus
//
// Four kinds of tasks. The decider owns the brain: it takes what is there, without ever waiting for more, executes each
// command, hands the records to the ledger and what follows from them, as one batch, to the releaser; so the next batch
// is decided while the last one syncs. The releaser waits until a batch's last record is durable and lets its effects
// out, batch after batch, in the order in which they were decided. The pump and the lanes touch the bus.
//
// Invariants:
//   (1) An effect leaves after every record up to and including its own is durable.
//   (2) Effects leave in the order of the decisions; for one worker, they arrive in that order.
//   (3) A message of a worker is acknowledged after what was decided on it is durable; before that it would come again.
//   (4) After an error of the ledger nothing leaves any more, and nothing is acknowledged.
//   (5) No wait of the releaser is for a worker or a client: the lanes are unbounded. What is in them is bounded by
//   what
//       the brain has assigned to live workers and not heard the end of, a few messages each. So the ring of bounded
//       queues (inputs, batches, the bus's) has no cycle of waits, however slow a worker reads.
//
// Recovery: run() begins with the ledger's snapshot and records. A worker that was there before and speaks again is
// told once more what it should be running, since the last messages may have been lost with the host; it ignores what
// it has. So is one whose registration comes a second time, which the incarnation in it tells: the crash may have been
// before its acknowledgement. One that registers with another incarnation lost what it ran. The term rises with each
// start, so that a message of the host before is known as such.
//
// Time is the runtime's clock, so that a virtual one works: wall time is that of the start plus what has passed since,
// and never less than what the ledger has seen.
//
// Thread safety: execute(), inspect() and stop() from any task; run() once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "bus/bus.h"
#include "fleet/command.h"
#include "fleet/event.h"
#include "fleet/policy.h"
#include "fleet/record.h"
#include "ledger/ledger.h"
#include "model/spec.h"
#include "rota/result.h"

namespace rota::fleet {
class State;
}

namespace rota::host {

struct HostOptions {
  // Made the brain's if it has another one.
  std::optional<fleet::Policy> policy{};
  // What is known of a worker beside what it says of itself; by name.
  std::map<std::string, model::WorkerSpec> workers{};
  // Workers live in this process: what they ran when it ended is given back at the start, and no attempt is spent.
  bool workers_end_with_host = false;
  // Submissions wait until so many workers have registered: without any, they would be refused.
  std::size_t await_workers = 0;
  std::uint64_t snapshot_every = 100'000;  // Records; 0: never.
  bool compact = true;                     // After a snapshot, the records that it stands for.
  std::optional<std::int64_t> wall_ns{};   // At the start; none: the system's.
};

// Sees what is durable, in order. Called by one task at a time; what it does holds up all effects.
class HostObserver {
 public:
  virtual ~HostObserver() = default;
  virtual void on_record(const fleet::Record& record) { (void)record; }
  // What workers say that is no command: that a task has started, its progress, its log, its output; and final reports,
  // beside the record that they led to.
  virtual void on_report(const std::string& worker, const bus::Report& report) { (void)worker, (void)report; }
};

class Host {
 public:
  // REQUIRES: ledger, bus and observer outlive it.
  Host(ledger::Ledger& ledger, bus::HostEnd& bus, HostOptions options = {}, HostObserver* observer = nullptr);
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  // Until stop(): ok, when all that was taken in until then is durable and out. Until the ledger fails: its error.
  // Cancelled if the task is. FailedPrecondition if it ran before.
  Result<void> run();
  void stop();

  // Waits until what was decided is durable. The events, none if nothing followed from it; or why it was refused.
  // Closed if the host ended before that: it may have been done or not.
  Result<fleet::Events> execute(fleet::Command command);
  // Calls look(state) between two commands, and returns when all that it saw is durable. It must not wait,
  // and must own what it uses: after a Cancelled it may still be called.
  Result<void> inspect(std::function<void(const fleet::State&)> look);
  // The same without waiting until it is durable: what it saw must have no effect outside of this process.
  Result<void> peek(std::function<void(const fleet::State&)> look);

 private:
  struct Body;
  std::unique_ptr<Body> body_;
};

}  // namespace rota::host
