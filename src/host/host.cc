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
#include "host/follower.h"
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
constexpr nanoseconds kClockEvery = std::chrono::seconds(10);  // How often the system's clock is compared.
constexpr std::int64_t kSlewPart = 20;  // The host's clock is corrected by at most 1/20 of the time.

}  // namespace

struct Host::Body {
  // One bus and the task that receives from it.
  struct Pump {
    bus::HostEnd* bus = nullptr;
    sync::Atomic<std::uint64_t> handled{0};  // Messages up to this one may be acknowledged.
    fiber::Event handled_more{};             // Set when `handled` advances.
    std::uint64_t acknowledged = 0;          // The pump's.
    std::uint64_t received = 0;              // The pump's.
  };

  Body(ledger::Ledger& the_ledger, const std::vector<bus::HostEnd*>& buses, HostOptions the_options,
       HostObserver* the_observer)
      : ledger(the_ledger), pumps(buses.size()), options(std::move(the_options)), observer(the_observer) {
    ROTA_ASSERT(!buses.empty(), "a host needs a bus");
    for (Port port = 0; port < buses.size(); ++port) pumps[port].bus = buses[port];
  }

  ledger::Ledger& ledger;
  std::vector<Pump> pumps;  // By port.
  const HostOptions options;
  HostObserver* const observer;
  fiber::Channel<Input> inputs{kInputs};
  fiber::Channel<Batch> batches{kBatches};
  std::unique_ptr<Follower> follower;
  sync::Atomic<std::int64_t> deaf_until_ns{0};  // The bus was last found unreachable at this time; 0: never.
  fiber::Nursery* nursery = nullptr;
  struct Lane {
    fiber::Channel<ToSend> messages = fiber::Channel<ToSend>::unbounded();
    fiber::Task<void> task{};
  };
  std::map<std::string, Lane> lanes;  // The releaser's.
  // Lanes of workers that are gone, which still have messages: the releaser's.
  std::map<std::string, fiber::Task<void>> ending;
  fiber::WaitGroup lanes_open;
  std::int64_t wall_offset_ns = 0;
  nanoseconds clock_compared{0};

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
  void follow_clock();
  bool hand_over(Decider& decider);
  void release();
  void release_effects(Batch& batch);
  void send(ToSend message);
  void end_lane(const std::string& worker);
  bool give_up(const std::string& worker, const ToSend& message, const Error& error);
  void run_lane(const std::string& worker, const fiber::Channel<ToSend>& messages);
  [[nodiscard]] Result<void> send_now(const std::string& worker, const ToSend& message);
  void pump(Port port);
  static void acknowledge(Pump& pump);
  void follow();
};

Host::Host(ledger::Ledger& ledger, bus::HostEnd& bus, HostOptions options, HostObserver* observer)
    : Host(ledger, std::vector<bus::HostEnd*>{&bus}, std::move(options), observer) {}

Host::Host(ledger::Ledger& ledger, std::vector<bus::HostEnd*> buses, HostOptions options, HostObserver* observer)
    : body_(std::make_unique<Body>(ledger, buses, std::move(options), observer)) {
  if (!body_->options.follow) return;
  body_->follower = std::make_unique<Follower>(
      ledger, Follower::Options{.snapshot_every = body_->options.snapshot_every, .compact = body_->options.compact});
}
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

Follower& Host::follower() {
  ROTA_ASSERT(body_->follower != nullptr, "HostOptions::follow is not set");
  return *body_->follower;
}

std::uint64_t Host::durable_index() const { return body_->ledger.last_index(); }

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
  for (Pump& pump : pumps) ROTA_TRY(pump.bus->rewind());
  clock_compared = fiber::now();
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
  if (follower != nullptr) {
    scope.launch([this] { follow(); });
    scope.launch([this] { follower->save(); });
  }
  decider.begin(wall_ns());
  bool alive = hand_over(decider);
  std::vector<fiber::Task<void>> pumping;
  for (Port port = 0; port < pumps.size(); ++port) {
    pumping.push_back(scope.spawn([this, port] { pump(port); }));
  }
  if (alive) decide(decider);
  inputs.close();
  batches.close();
  releaser.wait();
  if (follower != nullptr) follower->close();
  for (auto& [name, lane] : lanes) lane.messages.close();
  (void)lanes_open.wait_for(kLanesEnd);
  for (auto& [name, lane] : lanes) lane.task.cancel();
  for (auto& [name, task] : ending) task.cancel();
  for (fiber::Task<void>& each : pumping) each.cancel();
  for (fiber::Task<void>& each : pumping) each.wait();
  for (Pump& pump : pumps) acknowledge(pump);
}

// ------------------------------------------------------------------------------------------------------------ decide

void Host::Body::decide(Decider& decider) {
  bool fruitless = false;  // The last tick had no event.
  for (;;) {
    follow_clock();
    const std::int64_t now = wall_ns();
    const std::int64_t due = decider.next_due_ns();
    nanoseconds limit = due - now >= kLong.count() ? kLong : nanoseconds(std::max<std::int64_t>(due - now, 0));
    if (fruitless) limit = std::max(limit, kTickAgainAfter);
    Result<Input> input = limit.count() == 0 ? inputs.try_receive() : inputs.receive_for(limit);
    if (!input.ok() && input.code() == ErrorCode::kClosed) return;
    if (input.ok()) decider.take(std::move(*input), wall_ns());
    // Takes what is ready and does not wait for more.
    for (std::size_t taken = 1; taken < kMostInBatch; ++taken) {
      Result<Input> more = inputs.try_receive();
      if (!more.ok()) break;
      decider.take(std::move(*more), wall_ns());
    }
    // After the messages that have arrived, so that no worker counts as silent whose heartbeat is among them.
    if (const std::int64_t until = deaf_until_ns.load(); until != 0) decider.listening_since(wall_offset_ns + until);
    fruitless = false;
    if (decider.next_due_ns() <= wall_ns()) fruitless = !decider.tick(wall_ns());
    if (!hand_over(decider)) return;
  }
}

// Wall time follows the system's clock slowly: if that is set forward or back by hours, no timeout fires early or late.
void Host::Body::follow_clock() {
  const nanoseconds now = fiber::now();
  if (options.wall_ns || now - clock_compared < kClockEvery) return;
  const std::int64_t most = (now - clock_compared).count() / kSlewPart;
  wall_offset_ns += std::clamp(fiber::wall_offset().count() - wall_offset_ns, -most, most);
  clock_compared = now;
}

// Returns false when the host must stop.
bool Host::Body::hand_over(Decider& decider) {
  Decider::Output output = decider.finish(wall_ns());
  if (output.records.empty() && output.batch.effects.empty() && output.batch.received.empty()) return true;
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
  return true;
}

// A state that does not follow from the log means that the log cannot be recovered: the host must not continue it.
void Host::Body::follow() {
  if (Result<void> followed = follower->run(); !followed.ok() && followed.code() != ErrorCode::kCancelled) {
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

void Host::Body::release() {
  while (std::optional<Batch> batch = batches.receive()) {
    if (Result<void> durable = ledger.wait_durable(batch->durable); !durable.ok()) {
      return fail(std::move(durable).take_error());
    }
    release_effects(*batch);
    if (follower == nullptr) continue;
    const Hash128 chain = batch->chain;
    follower->offer(records_of(std::move(*batch)), chain);
  }
}

void Host::Body::release_effects(Batch& batch) {
  for (Effect& effect : batch.effects) {
    if (const auto* record = std::get_if<fleet::Record>(&effect)) {
      if (observer != nullptr) observer->on_record(*record);
    } else if (auto* answered = std::get_if<Answered>(&effect)) {
      answered->answer.give(std::move(answered->result));
    } else if (const auto* presence = std::get_if<Presence>(&effect)) {
      for (Pump& pump : pumps) pump.bus->expect(presence->worker, presence->here);
      if (!presence->here) end_lane(presence->worker);
    } else if (const auto* reported = std::get_if<Reported>(&effect)) {
      if (observer != nullptr) observer->on_report(reported->worker, reported->report);
    } else {
      send(std::move(std::get<ToSend>(effect)));
    }
  }
  for (Port port = 0; port < batch.received.size(); ++port) {
    if (batch.received[port] == 0) continue;
    pumps[port].handled.store(batch.received[port]);
    pumps[port].handled_more.set();
  }
}

void Host::Body::send(ToSend message) {
  auto [place, added] = lanes.try_emplace(message.worker);
  Lane& lane = place->second;
  if (added) {
    lanes_open.add();
    fiber::Task<void> before;  // The lane of an earlier stay of this worker: the order of messages is kept.
    if (const auto found = ending.find(message.worker); found != ending.end()) {
      before = std::move(found->second);
      ending.erase(found);
    }
    lane.task =
        nursery->spawn([this, name = message.worker, messages = lane.messages, before = std::move(before)]() mutable {
          if (before.valid() && !before.wait(std::nothrow).ok()) before.cancel();
          run_lane(name, messages);
          lanes_open.done();
        });
  }
  (void)lane.messages.send(std::move(message));
}

// The worker is gone. Its lane sends what it has, and ends; a later message makes a new one.
void Host::Body::end_lane(const std::string& worker) {
  std::erase_if(ending, [](const auto& each) { return each.second.is_completed(); });
  const auto found = lanes.find(worker);
  if (found == lanes.end()) return;
  found->second.messages.close();
  ending.insert_or_assign(worker, std::move(found->second.task));
  lanes.erase(found);
}

// The bus will never carry this message. The tasks of an assignment fail for good: another worker would be sent the
// same. Returns false when the host ends.
bool Host::Body::give_up(const std::string& worker, const ToSend& message, const Error& error) {
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
    if (!inputs.send(Input{std::move(failed)})) return false;
  }
  return true;
}

void Host::Body::run_lane(const std::string& worker, const fiber::Channel<ToSend>& messages) {
  try {
    while (std::optional<ToSend> message = messages.receive()) {
      for (;;) {
        const Result<void> sent = send_now(worker, *message);
        if (sent.ok()) break;
        if (sent.code() == ErrorCode::kClosed || sent.code() == ErrorCode::kCancelled) return;
        if (sent.code() == ErrorCode::kNotFound) {
          // The ledger knows this worker, but the bus has never seen it.
          if (!inputs.send(Input{fleet::WorkerLost{worker, sent.error().message}})) return;
          break;
        }
        if (sent.code() == ErrorCode::kTooLarge || sent.code() == ErrorCode::kInvalidArgument) {
          if (!give_up(worker, *message, sent.error())) return;
          break;
        }
        if (!fiber::sleep_for(kRetryAfter).ok()) return;
      }
    }
  } catch (const fiber::Cancelled&) {
  }
}

// A worker that was not heard yet is looked for on every bus.
Result<void> Host::Body::send_now(const std::string& worker, const ToSend& message) {
  if (message.port) return pumps[*message.port].bus->send(worker, message.message);
  Result<void> sent;
  for (Pump& pump : pumps) {
    sent = pump.bus->send(worker, message.message);
    if (sent.code() != ErrorCode::kNotFound) break;
  }
  return sent;
}

// -------------------------------------------------------------------------------------------------------------- pump

// The only task that receives and acknowledges on this bus, as the bus requires.
void Host::Body::pump(Port port) {
  Pump& own = pumps[port];
  try {
    for (;;) {
      acknowledge(own);
      Result<bus::DeliveryFromWorker> delivery =
          own.bus->receive(own.received > own.acknowledged ? kAcknowledgeAfter : kLong);
      if (delivery.ok()) {
        own.received = delivery->id;
        if (!inputs.send(Input{.what = std::move(*delivery), .port = port})) return;
      } else if (delivery.code() == ErrorCode::kQueueFull) {
        own.handled_more.reset();  // Before the check: the releaser sets it after each advance.
        if (own.handled.load() == own.acknowledged) own.handled_more.wait();
      } else if (delivery.code() == ErrorCode::kClosed || delivery.code() == ErrorCode::kCancelled) {
        return;
      } else if (delivery.code() != ErrorCode::kTimeout) {
        const bool ended = !fiber::sleep_for(kRetryAfter).ok();
        deaf_until_ns.store(fiber::now().count());
        if (ended) return;
      }
    }
  } catch (const fiber::Cancelled&) {
  }
}

void Host::Body::acknowledge(Pump& pump) {
  const std::uint64_t id = pump.handled.load();
  if (id == pump.acknowledged) return;
  // After a failure the bus delivers them again.
  if (pump.bus->acknowledge(id).ok()) pump.acknowledged = id;
}

}  // namespace rota::host
