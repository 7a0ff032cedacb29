#include "sim/world.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/hash.h"
#include "base/sim_hooks.h"
#include "fleet/state.h"
#include "host/follower.h"
#include "host/host.h"
#include "rota/fiber/error.h"
#include "rota/fiber/nursery.h"
#include "rota/fiber/runtime.h"
#include "rota/fiber/sync.h"
#include "rota/fiber/time.h"
#include "sim/sim_bus.h"
#include "sim/sim_etcd.h"
#include "sim/sim_ledger.h"
#include "sim/sim_redis.h"
#include "sim/sim_work.h"
#include "worker/engine.h"

namespace rota::sim {

namespace {

using std::chrono::milliseconds;

constexpr std::int64_t kWallNs = 1'700'000'000'000'000'000;
constexpr milliseconds kAnswerWithin{20'000};  // A client gives up a request after this time.
constexpr int kSubmitTries = 8;

class World {
 public:
  explicit World(const Scenario& scenario)
      : scenario_(scenario), noise_(scenario.noise), disk_(scenario.seed, witness_) {
    witness_.workers = scenario.workers;
    witness_.heartbeat = milliseconds(scenario.settings.heartbeat_ms);
    if (scenario.settings.over_redis) witness_.settle = std::chrono::seconds(10);  // Half-open connections.
    witness_.heartbeat_ttl = milliseconds(scenario.settings.policy.heartbeat_ttl_ms);
  }

  Witness run() {
    fiber::Runtime runtime({.worker_count = 1,
                            .stack_bytes = std::size_t{256} << 10,
                            .deterministic_seed = scenario_.seed,
                            .guard_stacks = true});
    runtime.run([this] {
      try {
        fiber::with_scope([this](fiber::Nursery& nursery) { live(nursery); });
      } catch (const fiber::Cancelled&) {  // live() cancels what is left at its end.
      }
      ended_ledgers_.clear();
    });
    witness_.event_hash = runtime.event_hash();
    if (auto snapshot = disk_.durable().latest_snapshot(); snapshot.ok() && *snapshot) {
      witness_.snapshot_index = (*snapshot)->index;
      witness_.snapshot = (*snapshot)->bytes;
    }
    return std::move(witness_);
  }

 private:
  struct HostLife {
    std::shared_ptr<Peer> peer = std::make_shared<Peer>();
    std::unique_ptr<LifeLedger> ledger;
    std::unique_ptr<bus::HostEnd> bus;
    std::unique_ptr<host::Host> host;
    fiber::Event over;  // It ended, or it must.
    bool crashed = false;
    std::uint64_t number = 0;
  };
  struct WorkerLife {
    std::shared_ptr<Peer> peer = std::make_shared<Peer>();
    std::unique_ptr<bus::WorkerEnd> end;
    std::unique_ptr<SimWork> work;
    std::unique_ptr<worker::testing::FakeExecutor> executor;
    std::unique_ptr<worker::Engine> engine;
    fiber::Event over;
    bool crashed = false;
  };
  struct WorkerPlace {
    std::shared_ptr<WorkerLife> life{};  // Null: it is dead.
    std::uint32_t lives = 0;
    std::int64_t slowness = 1;
    std::int64_t back_after_ms = 0;  // After the end of the current life; below 0: it stays away.
    fiber::Event wanted{true};
  };

  void live(fiber::Nursery& nursery);
  void serve_host(fiber::Nursery& nursery);
  void run_host_life(fiber::Nursery& nursery);
  void crash_host(HostLife& life);
  bool passes(CrashPoint point, HostLife& life);
  void serve_worker(fiber::Nursery& nursery, std::size_t index);
  void run_worker_life(fiber::Nursery& nursery, std::size_t index);
  void crash_worker(std::size_t index);

  void act(const ClientAction& action);
  void submit(const ClientAction& action);
  void read_follower();
  [[nodiscard]] Result<fleet::Events> ask(fleet::Command command, bool vanishes, const std::string& key);
  [[nodiscard]] std::optional<model::WorkflowId> id_of(std::int64_t workflow) const;
  void strike(const Fault& fault);
  void calm_down();
  void tidy_up();
  [[nodiscard]] nanoseconds liveness_limit() const;
  void see(const fleet::Record& record);

  static bool rest(std::int64_t ms) { return fiber::sleep_for(milliseconds(ms)).ok(); }

  const Scenario& scenario_;
  Noise noise_;
  Witness witness_;
  SimDisk disk_;
  std::unique_ptr<SimEtcd> etcd_;  // Null: the records are on the disk.
  std::unique_ptr<Transport> bus_;
  std::shared_ptr<HostLife> host_;  // Null: no host lives.
  std::vector<std::unique_ptr<LifeLedger>> ended_ledgers_;
  std::uint64_t host_lives_ = 0;
  std::int64_t restart_after_ms_ = 10;
  std::int64_t clock_off_ms_ = 0;
  std::array<std::int64_t, kCrashPoints> crash_in_{};  // Passes until the host crashes at this point; 0: it does not.
  std::vector<std::unique_ptr<WorkerPlace>> places_;
  bool calm_ = false;
  bool over_ = false;
  fiber::Event stop_host_;
  // What clients and the world learn from the durable log.
  std::map<std::string, model::WorkflowId> by_key_;
  std::set<model::WorkflowId> open_;
  std::set<model::TaskId> paused_;
  fiber::Event all_ended_;
};

// ---------------------------------------------------------------------------------------------------------- the whole

void World::live(fiber::Nursery& nursery) {
  if (scenario_.settings.over_redis) {
    bus_ = std::make_unique<SimRedis>(scenario_, witness_, nursery);
  } else {
    bus_ = std::make_unique<SimBus>(scenario_, noise_, witness_, nursery);
  }
  disk_.on_record = [this](const fleet::Record& record) { see(record); };
  if (scenario_.settings.on_etcd) {
    etcd_ = std::make_unique<SimEtcd>(noise_, disk_, nursery);
    nursery.launch([this] { etcd_->observe(); });
  }
  for (std::size_t i = 0; i < scenario_.workers.size(); ++i) places_.push_back(std::make_unique<WorkerPlace>());
  fiber::Task<void> host = nursery.spawn([&] { serve_host(nursery); });
  std::vector<fiber::Task<void>> workers;
  for (std::size_t i = 0; i < scenario_.workers.size(); ++i) {
    workers.push_back(nursery.spawn([&, i] { serve_worker(nursery, i); }));
  }
  fiber::WaitGroup acting(scenario_.actions.size());
  for (const ClientAction& action : scenario_.actions) {
    nursery.launch([&] {
      if (rest(action.at_ms)) act(action);
      acting.done();
    });
  }
  for (const Fault& fault : scenario_.faults) {
    nursery.launch([&] {
      if (rest(fault.at_ms)) strike(fault);
    });
  }
  (void)rest(scenario_.faults_end_ms);
  calm_down();
  acting.wait();  // Every client has got an answer or has given up.
  tidy_up();
  witness_.limit = fiber::now() + liveness_limit();
  while (fiber::now() < witness_.limit && !open_.empty()) {
    all_ended_.reset();
    (void)all_ended_.wait_for(std::min<nanoseconds>(witness_.limit - fiber::now(), std::chrono::seconds(10)));
  }
  witness_.all_ended = open_.empty();
  witness_.all_ended_at = fiber::now();
  // The last reports are acknowledged.
  (void)fiber::sleep_for(4 * witness_.heartbeat + std::chrono::seconds(1) + witness_.settle);
  witness_.ended = fiber::now();
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (places_[i]->life != nullptr && !places_[i]->life->crashed) witness_.alive.push_back({i, places_[i]->lives});
  }
  over_ = true;
  stop_host_.set();
  if (host_ != nullptr) host_->host->stop();
  host.wait();
  for (std::size_t i = 0; i < places_.size(); ++i) {
    crash_worker(i);
    places_[i]->wanted.set();
  }
  for (fiber::Task<void>& worker : workers) worker.wait();
  bus_->close();
  nursery.cancel();  // Late duplicates.
}

void World::see(const fleet::Record& record) {
  for (const fleet::Event& event : record.events) {
    if (const auto* accepted = std::get_if<fleet::WorkflowAccepted>(&event)) {
      open_.insert(accepted->workflow);
      if (const auto* submit = std::get_if<fleet::SubmitWorkflow>(&record.command)) {
        by_key_[submit->key] = accepted->workflow;
      }
    } else if (const auto* ended = std::get_if<fleet::WorkflowEnded>(&event)) {
      open_.erase(ended->workflow);
    } else if (const auto* forgotten = std::get_if<fleet::WorkflowForgotten>(&event)) {
      open_.erase(forgotten->workflow);
    } else if (const auto* requeued = std::get_if<fleet::TaskRequeued>(&event)) {
      open_.insert(requeued->task.workflow());  // A retry opens a workflow again.
    } else if (const auto* stopped = std::get_if<fleet::WorkflowStopped>(&event)) {
      if (stopped->cause == fleet::StopCause::kCancel) ROTA_SOMETIMES("workflow: cancelled, and `finally` runs");
      if (stopped->cause == fleet::StopCause::kDeadline) ROTA_SOMETIMES("workflow: stopped by its deadline");
      if (stopped->cause == fleet::StopCause::kFailFast) ROTA_SOMETIMES("workflow: stopped by its first failure");
    } else if (std::holds_alternative<fleet::StageExpanded>(event)) {
      ROTA_SOMETIMES("workflow: a fan-out is expanded");
    } else if (std::holds_alternative<fleet::StageCollapsed>(event)) {
      ROTA_SOMETIMES("workflow: a fan-out is expanded again after a retry");
    } else if (std::holds_alternative<fleet::TaskSkipped>(event)) {
      ROTA_SOMETIMES("workflow: a task is skipped because of `when`");
    } else if (const auto* paused = std::get_if<fleet::TaskPaused>(&event)) {
      paused_.insert(paused->task);
    } else if (const auto* resumed = std::get_if<fleet::TaskResumed>(&event)) {
      paused_.erase(resumed->task);
    }
  }
  if (open_.empty()) all_ended_.set();
}

// The faults are over. The first worker lives; the others are dead for good.
void World::calm_down() {
  calm_ = true;
  noise_ = Noise{};
  crash_in_.fill(0);
  clock_off_ms_ = 0;
  bus_->heal();
  disk_.heal();
  if (etcd_ != nullptr) etcd_->heal();
  if (host_ != nullptr) host_->peer->unreachable = 0;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    WorkerPlace& place = *places_[i];
    place.slowness = 1;
    place.back_after_ms = i == 0 ? 0 : -1;
    if (place.life != nullptr) place.life->peer->unreachable = 0;
    if (i > 0) crash_worker(i);
    place.wanted.set();
  }
  witness_.faults_ended = fiber::now();
}

// Everything that a client has ordered to wait may continue.
void World::tidy_up() {
  const auto insist = [this](const fleet::Command& command) {
    for (int tries = 0; tries < 20; ++tries) {
      const Result<fleet::Events> answer = ask(command, false, {});
      if (answer.ok() || (answer.code() != ErrorCode::kClosed && answer.code() != ErrorCode::kTimeout)) return;
      (void)rest(500);
    }
  };
  for (const char* user : {"ann", "bob"}) insist(fleet::SetQuota{.user = user});
  // Without such an order, elastic scaling alone must enable the worker again.
  if (std::any_of(scenario_.actions.begin(), scenario_.actions.end(), [](const ClientAction& action) {
        return action.kind == ClientActionKind::kDisableWorker && action.workflow == 0;
      })) {
    insist(fleet::SetWorkerEnabled{scenario_.workers[0].name, true, false});
  }
  const std::set<model::WorkflowId> open = open_;
  for (const model::WorkflowId id : open) {
    insist(fleet::Control{.action = fleet::Action::kResume, .workflow = id});
  }
  const std::set<model::TaskId> paused = paused_;
  for (const model::TaskId task : paused) {
    insist(fleet::Control{.action = fleet::Action::kResume, .workflow = task.workflow(), .task = task});
  }
}

// All tasks one after the other, with every attempt that they may have, and the timeouts of the policy.
nanoseconds World::liveness_limit() const {
  std::int64_t ms = 60'000;
  const fleet::Policy& policy = scenario_.settings.policy;
  ms += 6 * policy.heartbeat_ttl_ms + 4 * policy.no_worker_grace_ms + 4 * policy.elastic.poll_ms +
        4 * policy.elastic.cooldown_ms;
  for (const model::WorkflowSpec& workflow : scenario_.workflows) {
    for (const model::Stage& stage : workflow.stages) {
      const model::TaskTemplate& task = workflow.templates[static_cast<std::size_t>(stage.use)];
      // A fan-out has as many tasks as the stage that it runs over, and may be expanded again.
      std::size_t most = std::max<std::size_t>(stage.items.size(), 1);
      for (const model::Stage& source : workflow.stages) {
        if (stage.fan_out) most = std::max(most, 2 * source.items.size());
      }
      const auto tasks = static_cast<std::int64_t>(most);
      // What began while a worker was slow takes 100 times as long.
      ms += tasks * (task.retry.max_attempts + 4) * (3 * kLongestTaskMs / 2 + 8 * task.retry.backoff_ms);
    }
  }
  for (const Fault& fault : scenario_.faults) {
    if (fault.kind == FaultKind::kWorkerSlow) ms += 150 * kLongestTaskMs;
    if (fault.kind == FaultKind::kClockJump) ms += 3'600'000;
  }
  return milliseconds(ms);
}

// ----------------------------------------------------------------------------------------------------------- the host

void World::serve_host(fiber::Nursery& nursery) {
  try {
    while (!over_) {
      run_host_life(nursery);
      if (over_) return;
      (void)stop_host_.wait_for(milliseconds(calm_ ? 10 : restart_after_ms_));
    }
  } catch (const fiber::Cancelled&) {
  }
}

bool World::passes(CrashPoint point, HostLife& life) {
  if (life.peer->dead) return true;
  std::int64_t& left = crash_in_[static_cast<std::size_t>(point)];
  if (left == 0 || --left > 0) return false;
  switch (point) {
    case CrashPoint::kBeforeSubmit:
      ROTA_SOMETIMES("crash: before submit");
      break;
    case CrashPoint::kAfterSubmit:
      ROTA_SOMETIMES("crash: after submit");
      break;
    case CrashPoint::kAfterDurable:
      ROTA_SOMETIMES("crash: after durable");
      break;
    case CrashPoint::kBetweenEffects:
      ROTA_SOMETIMES("crash: between two effects");
      break;
    case CrashPoint::kInSnapshot:
      ROTA_SOMETIMES("crash: in a snapshot");
      break;
    case CrashPoint::kInCompaction:
      ROTA_SOMETIMES("crash: in a compaction");
      break;
    case CrashPoint::kInRecovery:
      ROTA_SOMETIMES("crash: in recovery");
      break;
  }
  crash_host(life);
  return true;
}

void World::crash_host(HostLife& life) {
  if (life.peer->dead) return;
  life.crashed = true;
  bus_->die(*life.peer);
  life.ledger->kill();
  life.over.set();
}

void World::run_host_life(fiber::Nursery& nursery) {
  auto life = std::make_shared<HostLife>();
  life->number = ++host_lives_;
  witness_.host_lives = host_lives_;
  witness_.host_started = fiber::now();
  const CrashCheck crashes = [this, raw = life.get()](CrashPoint point) { return passes(point, *raw); };
  if (etcd_ != nullptr) {
    life->ledger = etcd_->life(life->number, crashes);
  } else {
    SimLedger::Options of_disk{.noise = &noise_, .queue = scenario_.settings.ledger_queue};
    of_disk.life = life->number;
    of_disk.crashes = crashes;
    life->ledger = std::make_unique<SimLedger>(disk_, std::move(of_disk));
  }
  life->bus = bus_->host(life->peer, crashes);
  host::HostOptions options;
  options.policy = scenario_.settings.policy;
  options.follow = scenario_.settings.follow;
  options.snapshot_every = static_cast<std::uint64_t>(scenario_.settings.snapshot_every);
  options.compact = scenario_.settings.compact;
  options.wall_ns = kWallNs + fiber::now().count() + clock_off_ms_ * 1'000'000;
  life->host = std::make_unique<host::Host>(*life->ledger, *life->bus, options);
  host_ = life;
  Result<void> ended;
  fiber::Task<void> writer = nursery.spawn([life] { life->ledger->write_all(); });
  fiber::Task<void> runner = nursery.spawn([life, &ended] {
    ended = life->ledger->begin();
    if (ended.ok()) ended = life->host->run();
    life->over.set();
  });
  (void)life->over.wait(std::nothrow);
  host_ = nullptr;
  if (life->crashed) runner.cancel();
  runner.wait();
  writer.cancel();
  writer.wait();
  if (!life->crashed && !over_ && !life->ledger->is_broken()) {
    witness_.troubles.push_back("the host ended without a fault: " +
                                (ended.ok() ? std::string("without an error") : ended.error().to_string()));
    over_ = true;
    all_ended_.set();
  }
  bus_->die(*life->peer);
  life->ledger->kill();
  life->ledger->end();
  // Tasks of the replicated ledger may be in a call to its store, which must outlive them.
  if (etcd_ != nullptr) ended_ledgers_.push_back(std::move(life->ledger));
}

// -------------------------------------------------------------------------------------------------------- the workers

void World::serve_worker(fiber::Nursery& nursery, std::size_t index) {
  WorkerPlace& place = *places_[index];
  try {
    while (!over_) {
      run_worker_life(nursery, index);
      if (over_) return;
      if (place.back_after_ms < 0) {
        place.wanted.reset();
        place.wanted.wait();
      } else {
        place.wanted.reset();
        (void)place.wanted.wait_for(milliseconds(std::max<std::int64_t>(place.back_after_ms, 1)));
      }
      while (!over_ && calm_ && index > 0) {  // Dead for good.
        place.wanted.reset();
        place.wanted.wait();
      }
    }
  } catch (const fiber::Cancelled&) {
  }
}

void World::run_worker_life(fiber::Nursery& nursery, std::size_t index) {
  WorkerPlace& place = *places_[index];
  auto life = std::make_shared<WorkerLife>();
  const WorkerLifeId where{index, ++place.lives};
  Result<std::unique_ptr<bus::WorkerEnd>> end = bus_->worker(index, where.life, life->peer);
  if (!end.ok()) {
    witness_.troubles.push_back("worker " + scenario_.workers[index].name +
                                " cannot connect: " + end.error().to_string());
    over_ = true;
    return;
  }
  life->end = std::move(*end);
  life->work = std::make_unique<SimWork>(scenario_.seed, where, witness_, place.slowness);
  WorkerOptions options;
  options.spec = scenario_.workers[index];
  options.detect_resources = false;
  options.heartbeat_every = milliseconds(scenario_.settings.heartbeat_ms);
  life->engine = std::make_unique<worker::Engine>(options);
  (void)life->engine->handle("work", life->work->handler());
  if (options.spec.programs) {
    life->executor = std::make_unique<worker::testing::FakeExecutor>(life->work->behaviour(), life->work.get(),
                                                                     scenario_.settings.stand_by);
  }
  worker::Surroundings surroundings;
  surroundings.executor = life->executor.get();
  surroundings.wall_offset_ns =
      kWallNs + static_cast<std::int64_t>(draw(scenario_.seed, "skew", index) % 120'000) * 1'000'000;
  surroundings.incarnation = model::Incarnation(draw(scenario_.seed, "incarnation", index, where.life) | 1U);
  place.life = life;
  fiber::Task<void> runner = nursery.spawn([life, surroundings] {
    (void)life->engine->run(*life->end, surroundings);
    life->over.set();
  });
  (void)life->over.wait(std::nothrow);
  place.life = nullptr;
  if (life->crashed) runner.cancel();
  runner.wait();
  bus_->die(*life->peer);
  life->work->kill();
}

void World::crash_worker(std::size_t index) {
  const std::shared_ptr<WorkerLife> life = places_[index]->life;
  if (life == nullptr || life->crashed) return;
  life->crashed = true;
  bus_->die(*life->peer);
  life->work->kill();
  life->over.set();
}

// --------------------------------------------------------------------------------------------------------- the faults

void World::strike(const Fault& fault) {
  if (calm_) return;
  const bool has_worker = fault.worker >= 0 && fault.worker < static_cast<std::int64_t>(places_.size());
  const auto index = static_cast<std::size_t>(has_worker ? fault.worker : 0);
  WorkerPlace& place = *places_[index];
  const auto partition = [&](bool to_worker, bool to_host) {
    if (to_worker) bus_->block(index, true, true);
    if (to_host) bus_->block(index, false, true);
    (void)rest(fault.for_ms == 0 ? scenario_.faults_end_ms : fault.for_ms);
    if (calm_) return;  // Healed.
    if (to_worker) bus_->block(index, true, false);
    if (to_host) bus_->block(index, false, false);
  };
  switch (fault.kind) {
    case FaultKind::kHostCrash:
      restart_after_ms_ = fault.for_ms;
      if (host_ != nullptr) crash_host(*host_);
      break;
    case FaultKind::kHostCrashAt:
      restart_after_ms_ = fault.for_ms;
      crash_in_[static_cast<std::size_t>(fault.point)] = std::max<std::int64_t>(fault.count, 1);
      break;
    case FaultKind::kWorkerCrash:
      place.back_after_ms = fault.for_ms == 0 ? -1 : fault.for_ms;
      crash_worker(index);
      break;
    case FaultKind::kWorkerLeaves:
      place.back_after_ms = fault.for_ms == 0 ? -1 : fault.for_ms;
      if (place.life != nullptr && fault.count % 2 == 0) place.life->engine->stop();
      if (place.life != nullptr && fault.count % 2 != 0) place.life->engine->stop_tasks();
      break;
    case FaultKind::kPartition:
      return partition(true, true);
    case FaultKind::kPartitionToWorker:
      return partition(true, false);
    case FaultKind::kPartitionToHost:
      return partition(false, true);
    case FaultKind::kBusUnreachable: {
      const std::shared_ptr<Peer> peer = fault.worker < 0 ? (host_ != nullptr ? host_->peer : nullptr)
                                                          : (place.life != nullptr ? place.life->peer : nullptr);
      if (peer == nullptr) return;
      ++peer->unreachable;
      (void)rest(fault.for_ms == 0 ? scenario_.faults_end_ms : fault.for_ms);
      if (!calm_ && peer->unreachable > 0) --peer->unreachable;
      break;
    }
    case FaultKind::kWorkerSlow:
      place.slowness = fault.count;
      (void)rest(fault.for_ms);
      place.slowness = 1;
      break;
    case FaultKind::kDiskError:
      if (const std::shared_ptr<HostLife> life = host_; life != nullptr) life->ledger->disturb(fault);
      break;
    case FaultKind::kRedis: {
      bus_->disturb(fault);
      if (scenario_.settings.over_redis) break;
      // The in-process bus has no server that could be away: every process gets errors for a while.
      std::vector<std::shared_ptr<Peer>> peers;
      if (host_ != nullptr) peers.push_back(host_->peer);
      for (const auto& each : places_) {
        if (each->life != nullptr) peers.push_back(each->life->peer);
      }
      for (const auto& peer : peers) ++peer->unreachable;
      (void)rest(std::max<std::int64_t>(fault.for_ms, 1));
      for (const auto& peer : peers) {
        if (!calm_ && peer->unreachable > 0) --peer->unreachable;
      }
      break;
    }
    case FaultKind::kClockJump:
      clock_off_ms_ = fault.count;
      break;
    case FaultKind::kBusFull:
      bus_->set_full(true);
      (void)rest(std::max<std::int64_t>(fault.for_ms, 1));
      if (!calm_) bus_->set_full(false);
      break;
  }
}

// -------------------------------------------------------------------------------------------------------- the clients

std::optional<model::WorkflowId> World::id_of(std::int64_t workflow) const {
  const auto found = by_key_.find("key-" + std::to_string(workflow));
  return found == by_key_.end() ? std::nullopt : std::optional(found->second);
}

Result<fleet::Events> World::ask(fleet::Command command, bool vanishes, const std::string& key) {
  ClientAnswer answer{.asked = fiber::now(), .key = key, .command = command};
  const std::shared_ptr<HostLife> life = host_;
  if (life == nullptr || life->peer->dead) return ErrorCode::kClosed;
  // The client and its connection are a task of their own: a client that does not wait leaves the request behind.
  struct Request {
    Result<fleet::Events> result = ErrorCode::kTimeout;
    fiber::Event done;
  };
  auto request = std::make_shared<Request>();
  Result<fleet::Events> result = ErrorCode::kTimeout;
  if (vanishes) {
    ROTA_SOMETIMES("client: vanishes before the answer");
    fiber::with_scope([&](fiber::Nursery& scope) {
      auto task = scope.spawn(
          [life, command = std::move(command)]() mutable { return life->host->execute(std::move(command)).ok(); });
      (void)fiber::sleep_for(std::chrono::microseconds(draw(scenario_.seed, "vanish", witness_.answers.size()) % 5000));
      task.cancel();
      task.wait();
    });
  } else {
    fiber::with_scope([&](fiber::Nursery& scope) {
      auto task = scope.spawn([life, request, command = std::move(command)]() mutable {
        request->result = life->host->execute(std::move(command));
        request->done.set();
      });
      if (!request->done.wait_for(kAnswerWithin)) {
        task.cancel();
        request->result = ErrorCode::kTimeout;
      }
      task.wait();
    });
    result = std::move(request->result);
    if (!result.ok() && result.code() == ErrorCode::kCancelled) result = ErrorCode::kTimeout;
    // An answer that a dying host gave does not arrive.
    if (life->peer->dead) result = ErrorCode::kClosed;
    if (draw(scenario_.seed, "lost answer", witness_.answers.size()) % 1000 <
        static_cast<std::uint64_t>(noise_.lost_answer_permille)) {
      ROTA_SOMETIMES("client: the answer is lost");
      result = ErrorCode::kTimeout;
    }
  }
  answer.at = fiber::now();
  answer.code = result.code();
  if (result.ok()) answer.events = *result;
  const bool reads = result.ok() && draw(scenario_.seed, "reads", witness_.answers.size()) % 2 == 0;
  witness_.answers.push_back(std::move(answer));
  if (reads) read_follower();  // At once: the follower may not have got there yet.
  return result;
}

void World::submit(const ClientAction& action) {
  const std::string key = "key-" + std::to_string(action.workflow);
  const fleet::SubmitWorkflow command{key, scenario_.workflows[static_cast<std::size_t>(action.workflow)]};
  for (int tries = 0; tries < kSubmitTries; ++tries) {
    const Result<fleet::Events> answer = ask(command, action.vanishes && tries == 0, key);
    const bool again = draw(scenario_.seed, "same key", static_cast<std::uint64_t>(action.workflow),
                            static_cast<std::uint64_t>(tries)) %
                           1000 <
                       static_cast<std::uint64_t>(noise_.same_key_permille);
    if (answer.ok() && !again) return;
    if (!answer.ok() && answer.code() == ErrorCode::kAlreadyExists) return;
    if (!answer.ok() && answer.code() == ErrorCode::kInvalidArgument) {  // draw_scenario() draws valid workflows.
      witness_.troubles.push_back("a workflow is refused: " + answer.error().message);
      return;
    }
    if (answer.ok()) ROTA_SOMETIMES("client: repeats a submission that was accepted");
    if (!rest(200 << std::min(tries, 4))) return;
  }
}

void World::read_follower() {
  const std::shared_ptr<HostLife> life = host_;
  if (life == nullptr || life->peer->dead || !scenario_.settings.follow) return;
  ClientRead read{.wanted = disk_.durable().last_index(), .host_life = life->number};
  const Result<std::uint64_t> got =
      life->host->follower().read([](const fleet::State&) {}, read.wanted, std::chrono::seconds(10));
  if (!got.ok() || life->peer->dead) return;
  ROTA_SOMETIMES("client: reads what it was told");
  read.got = *got;
  read.at = fiber::now();
  witness_.reads.push_back(read);
}

void World::act(const ClientAction& action) {
  using K = ClientActionKind;
  try {
    if (action.kind == K::kSubmit) return submit(action);
    if (action.kind == K::kRead) return read_follower();
    if (action.kind == K::kDisableWorker || action.kind == K::kEnableWorker) {
      const std::string& name = scenario_.workers[static_cast<std::size_t>(action.workflow)].name;
      (void)ask(fleet::SetWorkerEnabled{name, action.kind == K::kEnableWorker, action.count % 2 == 0}, action.vanishes,
                {});
      return;
    }
    if (action.kind == K::kQuota) {
      const std::string& user = scenario_.workflows[static_cast<std::size_t>(action.workflow)].user;
      fleet::SetQuota quota{.user = user, .weight = 1 + action.count};
      quota.limits.tasks = action.count;
      (void)ask(quota, action.vanishes, {});
      return;
    }
    const std::optional<model::WorkflowId> id = id_of(action.workflow);
    if (!id) return;
    const model::TaskId task =
        action.task < 0 ? model::TaskId() : model::TaskId(*id, static_cast<std::uint32_t>(action.task));
    if (action.kind == K::kPriority) {
      (void)ask(fleet::SetPriority{*id, task, action.count - 2}, action.vanishes, {});
      return;
    }
    const fleet::Action what = action.kind == K::kPause    ? fleet::Action::kPause
                               : action.kind == K::kResume ? fleet::Action::kResume
                               : action.kind == K::kCancel ? fleet::Action::kCancel
                                                           : fleet::Action::kRetry;
    (void)ask(fleet::Control{what, *id, task}, action.vanishes, {});
  } catch (const fiber::Cancelled&) {
  }
}

}  // namespace

Witness run_scenario(const Scenario& scenario) { return World(scenario).run(); }

std::string fingerprint(const Witness& witness) {
  Hasher hasher;
  for (const StoredRecord& record : witness.log) hasher.add(record.bytes).add(record.durable_at.count());
  hasher.add(witness.event_hash).add(witness.messages).add(static_cast<std::uint64_t>(witness.executions.size()));
  return hasher.finish128().to_string();
}

}  // namespace rota::sim
