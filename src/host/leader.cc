#include "host/leader.h"

#include <algorithm>
#include <utility>

#include "base/json_text.h"
#include "base/log.h"
#include "base/sim_hooks.h"
#include "host/follower.h"
#include "ledger/replicated_ledger.h"
#include "rota/fiber/error.h"
#include "rota/fiber/time.h"

namespace rota::host {

using std::chrono::nanoseconds;

namespace {

constexpr std::size_t kInputs = 4096;
constexpr std::size_t kBatches = 64;        // Decided, and not yet durable.
constexpr std::size_t kMostInBatch = 1024;  // Inputs per batch.
constexpr nanoseconds kLong = std::chrono::hours(1);
constexpr nanoseconds kRetryAfter = std::chrono::milliseconds(200);  // While the bus is unavailable.
constexpr nanoseconds kAcknowledgeAfter = std::chrono::milliseconds(100);
constexpr nanoseconds kTickAgainAfter = std::chrono::milliseconds(10);  // After a tick without an event.
constexpr nanoseconds kLanesEnd = std::chrono::seconds(1);
constexpr nanoseconds kClockEvery = std::chrono::seconds(10);  // How often the system's clock is compared.
constexpr std::int64_t kSlewPart = 20;  // The host's clock is corrected by at most 1/20 of the time.

}  // namespace

Leader::Leader(ledger::Ledger& ledger, const std::vector<bus::HostEnd*>& buses, const HostOptions& options,
               HostObserver* observer, Follower* follower, TimeHistogram& decision_times)
    : ledger_(ledger),
      pumps_(buses.size()),
      options_(options),
      observer_(observer),
      follower_(follower),
      decision_times_(decision_times),
      inputs_(kInputs),
      batches_(kBatches) {
  ROTA_ASSERT(!buses.empty(), "a host needs a bus");
  for (Port port = 0; port < buses.size(); ++port) pumps_[port].bus = buses[port];
}

std::int64_t Leader::fiber_now_ns() { return fiber::now().count(); }

void Leader::fail(Error error) {
  {
    const sync::MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = std::move(error);
  }
  failed_.store(true);
  inputs_.close();
  batches_.close();
}

void Leader::discard() {
  inputs_.close();
  while (inputs_.try_receive().ok()) {
  }
  while (batches_.try_receive().ok()) {
  }
}

Result<void> Leader::run(Recovered recovered, std::optional<model::Term> term) {
  // Time never goes back behind the latest record.
  const std::int64_t now_ns = fiber::now().count();
  wall_offset_ns_ = std::max(options_.wall_ns ? *options_.wall_ns - now_ns : fiber::wall_offset().count(),
                             recovered.brain.state().time_ns() - now_ns);
  for (Pump& pump : pumps_) {
    if (ROTA_GUARD("host: unacknowledged messages are read again", true)) ROTA_TRY(pump.bus->rewind());
  }
  clock_compared_ = fiber::now();
  Decider decider(options_, std::move(recovered), term);
  try {
    fiber::with_scope([&](fiber::Nursery& scope) { serve(decider, scope); });
  } catch (const fiber::Cancelled&) {
    return ErrorCode::kCancelled;
  } catch (const fiber::FiberError& error) {
    // The scope takes no more tasks from the moment of a cancellation on, so a spawn may learn of it before a wait
    // does.
    if (error.code() != ErrorCode::kNurseryNotActive) throw;
    return ErrorCode::kCancelled;
  }
  const sync::MutexLock lock(mutex_);
  return std::move(failure_);
}

// Shutdown happens in this order: the decider takes the last input; the releaser releases the last batch; the lanes
// send what they have, for at most kLanesEnd; the pump ends, and the handled messages are acknowledged.
void Leader::serve(Decider& decider, fiber::Nursery& scope) {
  nursery_ = &scope;
  fiber::Task<void> releaser = scope.spawn([this] { release(); });
  fiber::Task<void> deposition;
  if (is_replicated()) {
    // A host that was deposed stops at once, and does not wait for its next append to fail.
    deposition = scope.spawn([this] {
      Error error = options_.replica->wait_deposed();
      if (error.code != ErrorCode::kCancelled) fail(std::move(error));
    });
  } else if (follower_ != nullptr) {
    scope.launch([this] { follow(); });
    scope.launch([this] { follower_->save(); });
  }
  decider.begin(wall_ns());
  bool alive = hand_over(decider);
  std::vector<fiber::Task<void>> pumping;
  for (Port port = 0; port < pumps_.size(); ++port) {
    pumping.push_back(scope.spawn([this, port] { pump(port); }));
  }
  if (alive) decide(decider);
  inputs_.close();
  batches_.close();
  releaser.wait();
  if (is_replicated()) {
    deposition.cancel();
  } else if (follower_ != nullptr) {
    follower_->close();
  }
  for (auto& [name, lane] : lanes_) lane.messages.close();
  // Another host sends these messages again if this one does not lead any more.
  if (!is_replicated() || !failed_.load()) (void)lanes_open_.wait_for(kLanesEnd);
  for (auto& [name, lane] : lanes_) lane.task.cancel();
  for (auto& [name, task] : ending_) task.cancel();
  for (fiber::Task<void>& each : pumping) each.cancel();
  for (fiber::Task<void>& each : pumping) each.wait();
  for (Pump& pump : pumps_) acknowledge(pump);
}

// ------------------------------------------------------------------------------------------------------------ decide

void Leader::decide(Decider& decider) {
  bool fruitless = false;  // The last tick had no event.
  for (;;) {
    follow_clock();
    const std::int64_t now = wall_ns();
    const std::int64_t due = decider.next_due_ns();
    nanoseconds limit = due - now >= kLong.count() ? kLong : nanoseconds(std::max<std::int64_t>(due - now, 0));
    if (fruitless) limit = std::max(limit, kTickAgainAfter);
    Result<Input> input = limit.count() == 0 ? inputs_.try_receive() : inputs_.receive_for(limit);
    if (!input.ok() && input.code() == ErrorCode::kClosed) return;
    // Takes what is ready and does not wait for more. The clock is read once for each.
    std::int64_t taken_ns = wall_ns();
    for (std::size_t taken = 0; taken < kMostInBatch && input.ok(); ++taken) {
      decider.take(std::move(*input), taken_ns);
      const std::int64_t done_ns = wall_ns();
      decision_times_.add(done_ns - taken_ns);
      taken_ns = done_ns;
      if (const std::optional<model::Term> newer = decider.newer_term()) {
        return fail(Error{ErrorCode::kNotLeader, "a worker has heard of term " + std::to_string(newer->value()) +
                                                     ", which is newer than this host's"}
                        .with("newer_term", std::to_string(newer->value())));
      }
      input = inputs_.try_receive();
    }
    // After the messages that have arrived, so that no worker counts as silent whose heartbeat is among them.
    if (const std::int64_t until = deaf_until_ns_.load(); until != 0) decider.listening_since(wall_offset_ns_ + until);
    fruitless = false;
    if (decider.next_due_ns() <= wall_ns()) fruitless = !decider.tick(wall_ns());
    if (!hand_over(decider)) return;
  }
}

// Wall time follows the system's clock slowly: if that is set forward or back by hours, no timeout fires early or late.
void Leader::follow_clock() {
  const nanoseconds now = fiber::now();
  if (options_.wall_ns || now - clock_compared_ < kClockEvery) return;
  const std::int64_t most = (now - clock_compared_).count() / kSlewPart;
  wall_offset_ns_ += std::clamp(fiber::wall_offset().count() - wall_offset_ns_, -most, most);
  clock_compared_ = now;
}

// Returns false when the host must stop.
bool Leader::hand_over(Decider& decider) {
  Decider::Output output = decider.finish(wall_ns());
  if (output.records.empty() && output.batch.effects.empty() && output.batch.received.empty()) return true;
  if (!output.records.empty()) {
    Result<void> taken = ledger_.submit(output.records);
    while (!taken.ok() && taken.code() == ErrorCode::kQueueFull) {
      ROTA_SOMETIMES("host: waits for the ledger");
      taken = ledger_.wait_durable(ledger_.submitted_index());
      if (taken.ok()) taken = ledger_.submit(output.records);
    }
    if (!taken.ok()) {
      fail(std::move(taken).take_error());
      return false;
    }
  }
  if (!batches_.send(std::move(output.batch))) return false;
  return true;
}

void Leader::follow() {
  if (Result<void> followed = follower_->run(); !followed.ok() && followed.code() != ErrorCode::kCancelled) {
    fail(std::move(followed).take_error());
  }
}

// ----------------------------------------------------------------------------------------------------------- release

namespace {

std::vector<fleet::Record> records_of(Batch batch) {
  std::vector<fleet::Record> records;
  for (Effect& effect : batch.effects) {
    if (auto* record = std::get_if<fleet::Record>(&effect)) records.push_back(std::move(*record));
  }
  return records;
}

}  // namespace

void Leader::release() {
  while (std::optional<Batch> batch = batches_.receive()) {
    if (ROTA_GUARD("host: effects after durability", true)) {
      if (Result<void> durable = ledger_.wait_durable(batch->durable); !durable.ok()) {
        return fail(std::move(durable).take_error());
      }
    }
    // A batch without records is durable at once; after a deposition nothing may follow from it.
    if (is_replicated() && failed_.load()) return;
    release_effects(*batch);
    if (follower_ == nullptr) continue;
    const Hash128 chain = batch->chain;
    follower_->offer(records_of(std::move(*batch)), chain);
  }
}

void Leader::release_effects(Batch& batch) {
  for (Effect& effect : batch.effects) {
    if (const auto* record = std::get_if<fleet::Record>(&effect)) {
      if (observer_ != nullptr) observer_->on_record(*record);
    } else if (auto* answered = std::get_if<Answered>(&effect)) {
      answered->answer.give(std::move(answered->result));
    } else if (const auto* presence = std::get_if<Presence>(&effect)) {
      for (Pump& pump : pumps_) pump.bus->expect(presence->worker, presence->here);
      if (!presence->here) end_lane(presence->worker);
    } else if (const auto* reported = std::get_if<Reported>(&effect)) {
      if (observer_ != nullptr) observer_->on_report(reported->worker, reported->report);
    } else {
      send(std::move(std::get<ToSend>(effect)));
    }
  }
  for (Port port = 0; port < batch.received.size(); ++port) {
    if (batch.received[port] == 0) continue;
    pumps_[port].handled.store(batch.received[port]);
    pumps_[port].handled_more.set();
  }
}

void Leader::send(ToSend message) {
  auto [place, added] = lanes_.try_emplace(message.worker);
  Lane& lane = place->second;
  if (added) {
    lanes_open_.add();
    fiber::Task<void> before;  // The lane of an earlier stay of this worker: the order of messages is kept.
    if (const auto found = ending_.find(message.worker); found != ending_.end()) {
      before = std::move(found->second);
      ending_.erase(found);
    }
    lane.task =
        nursery_->spawn([this, name = message.worker, messages = lane.messages, before = std::move(before)]() mutable {
          if (ROTA_GUARD("host: lanes keep the order", before.valid()) && !before.wait(std::nothrow).ok())
            before.cancel();
          run_lane(name, messages);
          lanes_open_.done();
        });
  }
  (void)lane.messages.send(std::move(message));
}

// The worker is gone. Its lane sends what it has, and ends; a later message makes a new one.
void Leader::end_lane(const std::string& worker) {
  std::erase_if(ending_, [](const auto& each) { return each.second.is_completed(); });
  const auto found = lanes_.find(worker);
  if (found == lanes_.end()) return;
  found->second.messages.close();
  ending_.insert_or_assign(worker, std::move(found->second.task));
  lanes_.erase(found);
}

// The bus will never carry this message. The tasks of an assignment fail for good: another worker would be sent the
// same. Returns false when the host ends.
bool Leader::give_up(const std::string& worker, const ToSend& message, const Error& error) {
  ROTA_LOG(kError, "a message cannot be sent", {"worker", worker}, {"why", error.message});
  const auto* assign = std::get_if<model::Assign>(&message.message);
  if (assign == nullptr) return true;
  std::vector<model::AttemptId> tasks;
  for (const model::MergedTask& task : assign->merged) tasks.push_back(task.id);
  if (tasks.empty()) tasks.push_back(assign->id);
  for (const model::AttemptId& id : tasks) {
    fleet::ReportEnded failed{id.task, id.attempt, {}};
    failed.outcome.message = "the task cannot be sent to its worker: " + error.message;
    failed.outcome.final = tasks.size() == 1;
    failed.outcome.batch = tasks.size() > 1;  // Each alone may be small enough.
    if (!inputs_.send(Input{std::move(failed)})) return false;
  }
  return true;
}

void Leader::run_lane(const std::string& worker, const fiber::Channel<ToSend>& messages) {
  try {
    while (std::optional<ToSend> message = messages.receive()) {
      for (;;) {
        const Result<void> sent = send_now(worker, *message);
        if (sent.ok()) break;
        if (sent.code() == ErrorCode::kClosed || sent.code() == ErrorCode::kCancelled) return;
        if (sent.code() == ErrorCode::kNotFound) {
          // The ledger knows this worker, but the bus has never seen it.
          if (!inputs_.send(Input{fleet::WorkerLost{worker, sent.error().message}})) return;
          break;
        }
        if (sent.code() == ErrorCode::kTooLarge || sent.code() == ErrorCode::kInvalidArgument) {
          if (!give_up(worker, *message, sent.error())) return;
          break;
        }
        ROTA_SOMETIMES("host: a message to a worker is retried");
        if (!ROTA_GUARD("host: messages are retried", true)) break;
        if (!fiber::sleep_for(kRetryAfter).ok()) return;
      }
    }
  } catch (const fiber::Cancelled&) {
  }
}

// A worker that was not heard yet is looked for on every bus.
Result<void> Leader::send_now(const std::string& worker, const ToSend& message) {
  if (message.port) return pumps_[*message.port].bus->send(worker, message.message);
  Result<void> sent;
  for (Pump& pump : pumps_) {
    sent = pump.bus->send(worker, message.message);
    if (sent.code() != ErrorCode::kNotFound) break;
  }
  return sent;
}

// -------------------------------------------------------------------------------------------------------------- pump

// The only task that receives and acknowledges on this bus, as the bus requires.
void Leader::pump(Port port) {
  Pump& own = pumps_[port];
  try {
    for (;;) {
      acknowledge(own);
      Result<bus::DeliveryFromWorker> delivery =
          own.bus->receive(own.received > own.acknowledged ? kAcknowledgeAfter : kLong);
      if (delivery.ok()) {
        own.received = delivery->id;
        if (!ROTA_GUARD("host: acknowledges after durability", true)) (void)own.bus->acknowledge(delivery->id);
        if (!inputs_.send(Input{.what = std::move(*delivery), .port = port})) return;
      } else if (delivery.code() == ErrorCode::kQueueFull) {
        ROTA_SOMETIMES("host: holds as many messages as the bus has room for");
        own.handled_more.reset();  // Before the check: the releaser sets it after each advance.
        if (own.handled.load() == own.acknowledged) own.handled_more.wait();
      } else if (delivery.code() == ErrorCode::kClosed || delivery.code() == ErrorCode::kCancelled) {
        // Another host has taken the workers over.
        if (is_replicated() && delivery.code() == ErrorCode::kClosed) {
          Error error = std::move(delivery).take_error();
          error.code = ErrorCode::kNotLeader;
          fail(std::move(error));
        }
        return;
      } else if (delivery.code() != ErrorCode::kTimeout) {
        const bool ended = !fiber::sleep_for(kRetryAfter).ok();
        deaf_until_ns_.store(fiber::now().count());
        if (ended) return;
      }
    }
  } catch (const fiber::Cancelled&) {
  }
}

void Leader::acknowledge(Pump& pump) {
  const std::uint64_t id = pump.handled.load();
  if (id == pump.acknowledged) return;
  // After a failure the bus delivers them again.
  if (pump.bus->acknowledge(id).ok()) pump.acknowledged = id;
}

}  // namespace rota::host
