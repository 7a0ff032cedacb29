#include "host/host.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "base/log.h"
#include "base/sync.h"
#include "host/batch.h"
#include "host/decider.h"
#include "host/recovery.h"
#include "rota/clock.h"
#include "rota/fiber/channel.h"
#include "rota/fiber/error.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/sync.h"
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

}  // namespace

struct Host::Body {
  Body(ledger::Ledger& the_ledger, bus::HostEnd& the_bus, HostOptions the_options, HostObserver* the_observer)
      : ledger(the_ledger), bus(the_bus), options(std::move(the_options)), observer(the_observer) {}

  ledger::Ledger& ledger;
  bus::HostEnd& bus;
  const HostOptions options;
  HostObserver* const observer;
  fiber::Channel<Input> inputs{kInputs};
  fiber::Channel<Batch> batches{kBatches};
  fiber::Channel<ledger::Snapshot> snapshots{1};
  sync::Atomic<bool> snapshot_under_way{false};
  sync::Atomic<std::uint64_t> handled{0};  // Workers' messages up to this one may be acknowledged.
  fiber::Event handled_more{};             // Set when `handled` advances.
  fiber::Nursery* nursery = nullptr;
  struct Lane {
    fiber::Channel<model::ToWorker> messages = fiber::Channel<model::ToWorker>::unbounded();
    fiber::Task<void> task{};
  };
  std::map<std::string, Lane> lanes;  // The releaser's.
  fiber::WaitGroup lanes_open;
  std::int64_t wall_offset_ns = 0;
  std::uint64_t acknowledged = 0;  // The pump's.
  std::uint64_t received = 0;      // The pump's.

  sync::Mutex mutex;
  bool ran ROTA_GUARDED_BY(mutex) = false;
  Result<void> failure ROTA_GUARDED_BY(mutex);

  // Stops everything: nothing is accepted or released any more. The first error is kept.
  void fail(Error error) {
    {
      const sync::MutexLock lock(mutex);
      if (failure.ok()) failure = std::move(error);
    }
    inputs.close();
    batches.close();
  }
  [[nodiscard]] std::int64_t wall_ns() const { return wall_offset_ns + fiber::now().count(); }

  Result<void> look(Inspection inspection);
  Result<void> run();
  void serve(Decider& decider, fiber::Nursery& scope);
  void decide(Decider& decider);
  bool hand_over(Decider& decider);
  void release();
  void release_effects(Batch& batch);
  void send(const std::string& worker, model::ToWorker message);
  void run_lane(const std::string& worker, const fiber::Channel<model::ToWorker>& messages);
  void pump();
  void acknowledge();
  void save_snapshots();
};

Host::Host(ledger::Ledger& ledger, bus::HostEnd& bus, HostOptions options, HostObserver* observer)
    : body_(std::make_unique<Body>(ledger, bus, std::move(options), observer)) {}
Host::~Host() = default;

Result<void> Host::run() {
  {
    const sync::MutexLock lock(body_->mutex);
    if (std::exchange(body_->ran, true)) return Error{ErrorCode::kFailedPrecondition, "this host has run already"};
  }
  Result<void> result = body_->run();
  // Clients whose commands were not executed get Closed when their inputs are destroyed.
  body_->inputs.close();
  while (body_->inputs.try_receive().ok()) {
  }
  while (body_->batches.try_receive().ok()) {
  }
  return result;
}

void Host::stop() { body_->inputs.close(); }

Result<fleet::Events> Host::execute(fleet::Command command) {
  auto place = std::make_shared<Answer::Place>();
  try {
    if (!body_->inputs.send(Input{std::move(command), Answer(place)})) return ErrorCode::kClosed;
    ROTA_TRY(place->done.wait(std::nothrow));
  } catch (const fiber::Cancelled&) {
    return ErrorCode::kCancelled;
  }
  return std::move(place->result);
}

Result<void> Host::inspect(std::function<void(const fleet::State&)> look) {
  return body_->look(Inspection{std::move(look), true});
}

Result<void> Host::peek(std::function<void(const fleet::State&)> look) {
  return body_->look(Inspection{std::move(look), false});
}

Result<void> Host::Body::look(Inspection inspection) {
  auto place = std::make_shared<Answer::Place>();
  try {
    if (!inputs.send(Input{std::move(inspection), Answer(place)})) return ErrorCode::kClosed;
    ROTA_TRY(place->done.wait(std::nothrow));
  } catch (const fiber::Cancelled&) {
    return ErrorCode::kCancelled;
  }
  if (!place->result.ok()) return place->result.error();
  return {};
}

// --------------------------------------------------------------------------------------------------------------- run

Result<void> Host::Body::run() {
  // A policy that the brain refuses is an error here, and not a line in a log while another one stays in force (B-24).
  if (options.policy) ROTA_TRY(fleet::check_policy(*options.policy));
  ROTA_TRY_ASSIGN(Recovered recovered, recover(ledger));
  // Time never goes back behind the latest record.
  const std::int64_t now_ns = fiber::now().count();
  wall_offset_ns = std::max(options.wall_ns ? *options.wall_ns - now_ns : fiber::wall_offset().count(),
                            recovered.brain.state().time_ns() - now_ns);
  ROTA_TRY(bus.rewind());
  Decider decider(options, std::move(recovered));
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
  const sync::MutexLock lock(mutex);
  return std::move(failure);
}

// Shutdown happens in this order: the decider takes the last input; the releaser releases the last batch; the lanes
// send what they have, for at most kLanesEnd; the pump ends, and the handled messages are acknowledged.
void Host::Body::serve(Decider& decider, fiber::Nursery& scope) {
  nursery = &scope;
  fiber::Task<void> releaser = scope.spawn([this] { release(); });
  scope.launch([this] { save_snapshots(); });
  decider.begin(wall_ns());
  bool alive = hand_over(decider);
  fiber::Task<void> pumping = scope.spawn([this] { pump(); });
  if (alive) decide(decider);
  inputs.close();
  batches.close();
  snapshots.close();
  releaser.wait();
  for (auto& [name, lane] : lanes) lane.messages.close();
  (void)lanes_open.wait_for(kLanesEnd);
  for (auto& [name, lane] : lanes) lane.task.cancel();
  pumping.cancel();
  pumping.wait();
  acknowledge();
}

// ------------------------------------------------------------------------------------------------------------ decide

void Host::Body::decide(Decider& decider) {
  bool fruitless = false;  // The last tick had no event.
  for (;;) {
    const std::int64_t now = wall_ns();
    const std::int64_t due = decider.next_due_ns();
    nanoseconds limit = due - now >= kLong.count() ? kLong : nanoseconds(std::max<std::int64_t>(due - now, 0));
    if (fruitless) limit = std::max(limit, kTickAgainAfter);
    Result<Input> input = limit.count() == 0 ? inputs.try_receive() : inputs.receive_for(limit);
    if (!input.ok() && input.code() == ErrorCode::kClosed) return;
    if (input.ok()) decider.take(std::move(*input), wall_ns());
    fruitless = false;
    if (decider.next_due_ns() <= wall_ns()) fruitless = !decider.tick(wall_ns());
    // Takes what is ready and does not wait for more.
    for (std::size_t taken = 1; taken < kMostInBatch; ++taken) {
      Result<Input> more = inputs.try_receive();
      if (!more.ok()) break;
      decider.take(std::move(*more), wall_ns());
    }
    if (!hand_over(decider)) return;
  }
}

// Returns false when the host must stop.
bool Host::Body::hand_over(Decider& decider) {
  Decider::Output output = decider.finish(wall_ns());
  if (output.records.empty() && output.batch.effects.empty() && output.batch.received == 0) return true;
  if (!output.records.empty()) {
    Result<void> taken = ledger.submit(output.records);
    while (!taken.ok() && taken.code() == ErrorCode::kQueueFull) {
      taken = ledger.wait_durable(ledger.submitted_index());
      if (taken.ok()) taken = ledger.submit(output.records);
    }
    if (!taken.ok()) {
      fail(std::move(taken).take_error());
      return false;
    }
  }
  if (!batches.send(std::move(output.batch))) return false;
  if (options.snapshot_every != 0 &&
      decider.index() / options.snapshot_every != (decider.index() - output.records.size()) / options.snapshot_every &&
      !snapshot_under_way.exchange(true)) {
    (void)snapshots.try_send(decider.snapshot());
  }
  return true;
}

void Host::Body::save_snapshots() {
  try {
    while (std::optional<ledger::Snapshot> snapshot = snapshots.receive()) {
      const std::uint64_t index = snapshot->index;
      Result<void> saved = ledger.wait_durable(index);
      if (saved.ok()) saved = ledger.save_snapshot(std::move(*snapshot));
      if (saved.ok() && options.compact) saved = ledger.compact(index);
      if (!saved.ok()) {
        // A failed snapshot is not a reason to stop: the log alone is enough.
        ROTA_LOG(kWarn, "snapshot not saved", {"record", index}, {"why", saved.error().message});
      }
      snapshot_under_way.store(false);
    }
  } catch (const fiber::Cancelled&) {
  }
}

// ----------------------------------------------------------------------------------------------------------- release

void Host::Body::release() {
  while (std::optional<Batch> batch = batches.receive()) {
    if (Result<void> durable = ledger.wait_durable(batch->durable); !durable.ok()) {
      return fail(std::move(durable).take_error());
    }
    release_effects(*batch);
  }
}

void Host::Body::release_effects(Batch& batch) {
  for (Effect& effect : batch.effects) {
    if (const auto* record = std::get_if<fleet::Record>(&effect)) {
      if (observer != nullptr) observer->on_record(*record);
    } else if (auto* answered = std::get_if<Answered>(&effect)) {
      answered->answer.give(std::move(answered->result));
    } else if (const auto* reported = std::get_if<Reported>(&effect)) {
      if (observer != nullptr) observer->on_report(reported->worker, reported->report);
    } else {
      auto& to_send = std::get<ToSend>(effect);
      send(to_send.worker, std::move(to_send.message));
    }
  }
  if (batch.received != 0) {
    handled.store(batch.received);
    handled_more.set();
  }
}

void Host::Body::send(const std::string& worker, model::ToWorker message) {
  auto [place, added] = lanes.try_emplace(worker);
  Lane& lane = place->second;
  if (added) {
    lanes_open.add();
    lane.task = nursery->spawn([this, name = worker, messages = lane.messages] {
      run_lane(name, messages);
      lanes_open.done();
    });
  }
  (void)lane.messages.send(std::move(message));
}

void Host::Body::run_lane(const std::string& worker, const fiber::Channel<model::ToWorker>& messages) {
  try {
    while (std::optional<model::ToWorker> message = messages.receive()) {
      for (;;) {
        Result<void> sent = bus.send(worker, *message);
        if (sent.ok()) break;
        if (sent.code() == ErrorCode::kClosed || sent.code() == ErrorCode::kCancelled) return;
        if (sent.code() == ErrorCode::kNotFound) {
          // The ledger knows this worker, but the bus has never seen it.
          if (!inputs.send(Input{fleet::WorkerLost{worker, sent.error().message}})) return;
          break;
        }
        if (!fiber::sleep_for(kRetryAfter).ok()) return;
      }
    }
  } catch (const fiber::Cancelled&) {
  }
}

// -------------------------------------------------------------------------------------------------------------- pump

// The only task that receives and acknowledges, as the bus requires.
void Host::Body::pump() {
  try {
    for (;;) {
      acknowledge();
      Result<bus::DeliveryFromWorker> delivery = bus.receive(received > acknowledged ? kAcknowledgeAfter : kLong);
      if (delivery.ok()) {
        received = delivery->id;
        if (!inputs.send(Input{std::move(*delivery)})) return;
      } else if (delivery.code() == ErrorCode::kQueueFull) {
        handled_more.reset();  // Before the check: the releaser sets it after each advance.
        if (handled.load() == acknowledged) handled_more.wait();
      } else if (delivery.code() == ErrorCode::kClosed || delivery.code() == ErrorCode::kCancelled) {
        return;
      } else if (delivery.code() != ErrorCode::kTimeout) {
        if (!fiber::sleep_for(kRetryAfter).ok()) return;
      }
    }
  } catch (const fiber::Cancelled&) {
  }
}

void Host::Body::acknowledge() {
  const std::uint64_t id = handled.load();
  if (id == acknowledged) return;
  // After a failure the bus delivers them again.
  if (bus.acknowledge(id).ok()) acknowledged = id;
}

}  // namespace rota::host
