#include "worker/engine.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <variant>

#include "base/hash.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/nearest.h"
#include "rota/clock.h"
#include "rota/fiber/error.h"
#include "rota/fiber/time.h"
#include "worker/cgroup.h"

namespace rota::worker {

using bus::Acknowledge;
using bus::Assign;
using bus::FromWorker;
using bus::Report;
using bus::ReportKind;
using bus::Stop;
using bus::StopKind;
using std::chrono::nanoseconds;

namespace {
constexpr nanoseconds kLong = std::chrono::hours(24);
constexpr nanoseconds kRetryAfter = std::chrono::milliseconds(200);  // A bus that was away.

// Workers of one name are one process after the other, or one after the other in a process: the time tells the first
// apart, also when the clock was set back by chance to the very same nanosecond; the count tells the others apart.
std::uint64_t make_incarnation() {
  static sync::Atomic<std::uint64_t> count{0};
  const std::uint64_t number = hash_of(system_clock().wall().time_since_epoch().count(),
                                       static_cast<std::int64_t>(::getpid()), count.fetch_add(1))
                                   .low;
  return number == 0 ? 1 : number;
}

}  // namespace

Engine::Engine(WorkerOptions options)
    : options_(std::move(options)),
      hardware_(options_.hardware ? *options_.hardware : Hardware::detect()),
      intake_(hardware_, options_.waiting_most) {}

Engine::~Engine() {
  guard_.reset();
  std::error_code ignored;
  if (own_directory_) std::filesystem::remove_all(place_.directory, ignored);
}

Result<void> Engine::handle(std::string type, TaskHandler handler) {
  if (type.empty() || handler == nullptr) {
    return Error{ErrorCode::kInvalidArgument, "a handler needs a type and a function"};
  }
  if (handlers_.contains(type)) {
    return Error{ErrorCode::kAlreadyExists, "there is a handler for '" + printable(type) + "' already"};
  }
  handlers_.emplace(std::move(type), std::move(handler));
  return {};
}

Result<void> Engine::prepare() {
  std::error_code error;
  if (!options_.cache_directory.empty()) {
    const std::string path = std::filesystem::absolute(options_.cache_directory, error).string();
    if (error) return Error{ErrorCode::kIoError, "no directory for results: " + error.message()};
    cache_ = std::make_unique<ResultCache>(path, options_.cache_reuse);
  }
  if (!options_.commands) return {};
  if (options_.directory.empty()) {
    std::string name = (std::filesystem::temp_directory_path(error) / "rota-worker-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) {
      return Error{ErrorCode::kIoError,
                   "no directory for the output of commands: " + std::generic_category().message(errno)};
    }
    place_.directory = name;
    own_directory_ = true;
  } else {
    std::filesystem::create_directories(options_.directory, error);
    if (!error) place_.directory = std::filesystem::absolute(options_.directory, error).string();
    if (error) {
      return Error{ErrorCode::kIoError, "no directory '" + printable(options_.directory, 200) +
                                            "' for the output of commands: " + error.message()};
    }
  }
  for (char** entry = environ; *entry != nullptr; ++entry) place_.environment.emplace_back(*entry);
  place_.grace = options_.grace;
  place_.stream_output = options_.stream_output;
  ROTA_TRY_ASSIGN(place_.cgroup, usable_cgroup(options_.cgroup));
  ROTA_LOG(kInfo, "how commands are limited", {"by", place_.cgroup.empty() ? "rlimits" : "cgroup"},
           {"cgroup", place_.cgroup});
  guard_ = std::make_unique<Guard>();
  return {};
}

Result<void> Engine::run(bus::WorkerEnd& bus) {
  {
    const sync::MutexLock lock(mutex_);
    if (std::exchange(ran_, true)) return Error{ErrorCode::kFailedPrecondition, "this worker has run already"};
  }
  ROTA_TRY(prepare());
  incarnation_ = options_.incarnation ? *options_.incarnation : make_incarnation();
  try {
    fiber::with_scope([&](fiber::Nursery& nursery) { serve(bus, nursery); });
  } catch (const fiber::Cancelled&) {
    return ErrorCode::kCancelled;
  }
  return {};
}

// Ends in this order: nothing more is started; what runs ends; its reports are acknowledged, or that takes too long;
// the receiver, the heartbeat and the sender end. If this task is cancelled, all of them are.
void Engine::serve(bus::WorkerEnd& bus, fiber::Nursery& nursery) {
  nursery_ = &nursery;
  say_hello(bus);
  if (guard_ != nullptr && options_.expect_commands) {
    // If this fails, the first command fails, and says why.
    nursery.launch([this] { (void)guard_->start_one(); });
  }
  nursery.launch([this, &bus] { send_all(bus); });
  nursery.launch([this, &bus] { heartbeat(bus); });
  fiber::Task<void> receiver = nursery.spawn([this, &bus] { receive_all(bus); });
  stopping_.wait();
  drained_.wait();
  (void)acknowledged_.wait_for(2 * options_.heartbeat_every);
  over_.set();
  receiver.cancel();
  receiver.wait();
  outbox_.close();
}

void Engine::stop() {
  std::vector<std::shared_ptr<Attempt>> unstarted;
  std::vector<std::shared_ptr<Attempt>> standing_by;
  {
    const sync::MutexLock lock(mutex_);
    if (std::exchange(stop_, true)) return;
    for (const auto& [task, attempt] : attempts_) {
      if (!intake_.is_waiting(task)) continue;
      (standing_by_.contains(task) ? standing_by : unstarted).push_back(attempt);
    }
    for (const auto& attempt : unstarted) {
      attempts_.erase(attempt->assign().task);
      intake_.end(attempt->assign().task);
    }
    note_state();
  }
  for (const auto& attempt : unstarted) {
    finish(attempt->assign(), attempt->term(), {.kind = ReportKind::kPreempted, .text = "the worker stops"});
  }
  for (const auto& attempt : standing_by) attempt->stop(StopKind::kPreempt);
  stopping_.set();
}

void Engine::note_state() {
  if (!stop_ || !attempts_.empty()) return;
  drained_.set();
  if (unacknowledged_.empty()) acknowledged_.set();
}

// ---------------------------------------------------------------------------------------------------------- messages

void Engine::receive_all(bus::WorkerEnd& bus) {
  for (;;) {
    Result<bus::DeliveryToWorker> delivery = bus.receive(kLong);
    if (!delivery.ok()) {
      if (delivery.code() == ErrorCode::kCancelled) return;
      if (delivery.code() == ErrorCode::kTimeout) continue;
      if (delivery.code() == ErrorCode::kClosed) {
        // For good: what runs ends, and nobody is there to acknowledge it.
        stop();
        acknowledged_.set();
        return;
      }
      hello_needed_.store(true);
      if (!fiber::sleep_for(kRetryAfter).ok()) return;
      continue;
    }
    std::visit([this](const auto& message) { on(message); }, delivery->message);
    // A failure only means that it comes again.
    (void)bus.acknowledge(delivery->id);
  }
}

void Engine::on(const Assign& assign) {
  std::shared_ptr<Attempt> older;
  {
    const sync::MutexLock lock(mutex_);
    if (!intake_.hear(assign.term)) return;
    if (const auto known = attempts_.find(assign.task); known != attempts_.end()) {
      const Assign& current = known->second->assign();
      if (current.attempt == assign.attempt) known->second->set_term(assign.term);  // A new leader took it over.
      if (current.attempt >= assign.attempt) return;
      // The host has given the older one up. The newer takes its place when it has ended.
      older = known->second;
      const auto successor = successors_.find(assign.task);
      if (successor == successors_.end() || successor->second.attempt < assign.attempt) {
        successors_.insert_or_assign(assign.task, assign);
      }
    }
  }
  if (older == nullptr) return take(assign);
  on(Stop{.task = older->assign().task, .attempt = older->assign().attempt, .term = assign.term});
}

Result<std::shared_ptr<Attempt>> Engine::make(const Assign& assign) {
  AttemptHost& self = *this;
  if (assign.kind == bus::TaskKind::kCommand) {
    if (!options_.commands) return Error{ErrorCode::kUnsupported, "this worker runs handlers, no commands"};
    return std::shared_ptr<Attempt>(std::make_shared<CommandAttempt>(self, assign, *guard_, place_, hardware_.gpus));
  }
  const auto handler = handlers_.find(assign.type);
  if (handler == handlers_.end()) {
    std::vector<std::string> types;
    for (const auto& [type, unused] : handlers_) types.push_back(type);
    const std::string_view near = nearest(assign.type, types);
    return Error{ErrorCode::kNotFound, "this worker has no handler for '" + printable(assign.type) + "'" +
                                           (near.empty() ? "" : "; did you mean '" + std::string(near) + "'?")};
  }
  return std::shared_ptr<Attempt>(std::make_shared<HandlerAttempt>(self, assign, handler->second));
}

void Engine::take(Assign assign) {
  const Demand demand{assign.cpu_millis, assign.memory_bytes, assign.gpu_mask};
  Result<std::shared_ptr<Attempt>> attempt = make(assign);
  AttemptEnd refused;
  std::optional<Report> again;
  {
    const sync::MutexLock lock(mutex_);
    if (stop_) {
      refused = {.kind = ReportKind::kPreempted, .text = "the worker stops"};
    } else {
      switch (intake_.offer(assign.task, assign.attempt, demand)) {
        case Intake::Verdict::kQueued:
          if (attempt.ok()) {
            attempts_.emplace(assign.task, std::move(attempt).value());
          } else {
            intake_.end(assign.task);
            refused.text = attempt.error().message;
          }
          break;
        case Intake::Verdict::kDuplicate:
          // It has ended. If the end is not known to be known, once more.
          if (const auto final = unacknowledged_.find({assign.task, assign.attempt}); final != unacknowledged_.end()) {
            final->second.report.term = assign.term;
            again = final->second.report;
            break;
          }
          return;
        case Intake::Verdict::kStale:
          return;
        case Intake::Verdict::kImpossible:
          refused.text = "it asks for " + std::to_string(demand.cpu_millis) + " thousandths of a processor, " +
                         std::to_string(demand.memory_bytes) + " bytes and the devices " +
                         std::to_string(demand.gpu_mask) + "; this worker has " + std::to_string(hardware_.cpu_millis) +
                         ", " + std::to_string(hardware_.memory_bytes) + " and " + std::to_string(hardware_.gpus) +
                         " devices";
          break;
        case Intake::Verdict::kFull:
          refused.text =
              "this worker has " + std::to_string(options_.waiting_most) + " tasks waiting and takes no more";
          break;
      }
    }
  }
  if (again) return report(std::move(*again));
  if (!refused.text.empty()) return finish(assign, assign.term, std::move(refused));
  start_ready();
}

void Engine::on(const Stop& stop) {
  std::shared_ptr<Attempt> attempt;
  bool unstarted = false;
  std::optional<Assign> successor;
  {
    const sync::MutexLock lock(mutex_);
    if (!intake_.hear(stop.term)) return;
    const auto known = attempts_.find(stop.task);
    if (known == attempts_.end() || known->second->assign().attempt != stop.attempt) return;
    attempt = known->second;
    unstarted = intake_.is_waiting(stop.task) && !standing_by_.contains(stop.task) &&
                (stop.kind == StopKind::kCancel || stop.kind == StopKind::kPreempt);
    if (unstarted) {
      intake_.end(stop.task);
      attempts_.erase(known);
      if (auto next = successors_.extract(stop.task); !next.empty()) successor = std::move(next.mapped());
      note_state();
    }
  }
  attempt->stop(stop.kind);
  if (!unstarted) return;
  if (successor) return take(std::move(*successor));
  const bool preempt = stop.kind == StopKind::kPreempt;
  finish(attempt->assign(), attempt->term(),
         {.kind = preempt ? ReportKind::kPreempted : ReportKind::kCancelled, .text = "before it began"});
  start_ready();  // It may have been the one that did not fit.
}

void Engine::on(const Acknowledge& acknowledge) {
  const sync::MutexLock lock(mutex_);
  if (!intake_.hear(acknowledge.term)) return;
  unacknowledged_.erase({acknowledge.task, acknowledge.attempt});
  note_state();
}

// ---------------------------------------------------------------------------------------------------------- attempts

void Engine::start_ready() {
  for (;;) {
    std::shared_ptr<Attempt> attempt;
    bool stood_by = false;
    {
      const sync::MutexLock lock(mutex_);
      const std::optional<std::uint64_t> task = stop_ ? std::nullopt : intake_.start_next();
      if (!task) break;
      attempt = attempts_.at(*task);
      stood_by = standing_by_.erase(*task) != 0;
      if (stood_by) tell_started(*attempt);
    }
    if (stood_by) {
      attempt->go();
    } else {
      report(started(*attempt));
      launch(attempt);
    }
  }
  stand_by();
}

void Engine::stand_by() {
  std::vector<std::shared_ptr<Attempt>> chosen;
  {
    const sync::MutexLock lock(mutex_);
    if (stop_ || intake_.waiting() == 0 || standing_by_.size() >= intake_.running()) return;
    for (const std::uint64_t task : intake_.first_in_line(intake_.running())) {
      const std::shared_ptr<Attempt>& attempt = attempts_.at(task);
      if (!attempt->can_stand_by()) break;  // Nobody behind it shall overtake it.
      if (standing_by_.insert(task).second) chosen.push_back(attempt);
    }
  }
  for (const std::shared_ptr<Attempt>& attempt : chosen) {
    attempt->stand_by();
    launch(attempt);
  }
}

void Engine::launch(const std::shared_ptr<Attempt>& attempt) {
  // Refused when the worker is being cancelled: then nothing more runs, and nobody is there to be told.
  (void)nursery_->try_spawn([this, attempt] { run_attempt(attempt); });
}

Report Engine::started(const Attempt& attempt) {
  const Assign& assign = attempt.assign();
  return {.task = assign.task, .attempt = assign.attempt, .term = attempt.term(), .kind = ReportKind::kStarted};
}

// Under the lock, and so without waiting: whoever finds out next that it runs, or has run, tells nothing before this.
void Engine::tell_started(const Attempt& attempt) {
  if (told_started_.insert(attempt.assign().task).second) (void)outbox_.try_send(started(attempt));
}

void Engine::run_attempt(const std::shared_ptr<Attempt>& attempt) {
  const Assign& assign = attempt->assign();
  AttemptEnd end = attempt->run();
  const std::uint64_t next_task = end.next;
  std::optional<Assign> successor;
  {
    const sync::MutexLock lock(mutex_);
    if (auto next = successors_.extract(assign.task); !next.empty()) successor = std::move(next.mapped());
    // It had the place of one whose end this worker has not seen yet.
    const bool ran = end.kind == ReportKind::kSucceeded || end.kind == ReportKind::kFailed;
    if (ran && standing_by_.contains(assign.task)) tell_started(*attempt);
  }
  // Kept before the task is forgotten: at any time it is either running here, or its end is to be reported.
  if (!successor) finish(assign, attempt->term(), std::move(end));
  {
    const sync::MutexLock lock(mutex_);
    attempts_.erase(assign.task);
    standing_by_.erase(assign.task);
    told_started_.erase(assign.task);
    intake_.end(assign.task);
    if (standing_by_.contains(next_task) && intake_.start(next_task)) {
      standing_by_.erase(next_task);
      tell_started(*attempts_.at(next_task));
    }
    // One may have come meanwhile; then the older attempt's report is out, and ignored as what it is.
    if (auto next = successors_.extract(assign.task); !next.empty()) successor = std::move(next.mapped());
    note_state();
  }
  if (successor) take(std::move(*successor));
  start_ready();
}

void Engine::finish(const Assign& assign, std::uint64_t term, AttemptEnd end) {
  if (!assign.children.empty()) {
    std::vector<std::string> values;
    if (end.kind == ReportKind::kSucceeded) {
      Result<std::vector<std::string>> split = split_array(end.json);
      if (split.ok() && split->size() == assign.children.size()) {
        values = std::move(*split);
      } else {
        end.kind = ReportKind::kFailed;
        end.text = "the result of " + std::to_string(assign.children.size()) +
                   " merged tasks must be a JSON array with one value for each, in their order";
        end.json.clear();
      }
    }
    for (std::size_t i = 0; i < assign.children.size(); ++i) {
      const bus::ChildTask& child = assign.children[i];
      send_final({.task = child.task,
                  .attempt = child.attempt,
                  .term = term,
                  .kind = end.kind,
                  .cause = end.cause,
                  .text = end.text,
                  .json = values.empty() ? std::string() : std::move(values[i]),
                  .log_path = end.log_path});
    }
  }
  send_final({.task = assign.task,
              .attempt = assign.attempt,
              .term = term,
              .kind = end.kind,
              .cause = end.cause,
              .text = std::move(end.text),
              .json = std::move(end.json),
              .log_path = std::move(end.log_path),
              .cpu_us = end.cpu_us,
              .max_rss_bytes = end.max_rss_bytes,
              .cached = end.cached,
              .note = std::move(end.note)});
}

void Engine::send_final(Report final) {
  {
    const sync::MutexLock lock(mutex_);
    unacknowledged_.insert_or_assign({final.task, final.attempt}, Final{final, fiber::now()});
  }
  report(std::move(final));
}

// ------------------------------------------------------------------------------------------------------------ sending

// In a cancelled task, which may want to save a checkpoint, a report still goes out if there is room for it.
void Engine::report(Report report) {
  if (outbox_.try_send(std::move(report)).code() != ErrorCode::kWouldBlock) return;
  (void)outbox_.send(std::move(report));
}

void Engine::send_all(bus::WorkerEnd& bus) {
  while (std::optional<Report> report = outbox_.receive()) {
    // What cannot be sent is dropped, if it is not final; the heartbeat sends finals again.
    const Result<void> sent = bus.send(std::move(*report));
    if (sent.code() == ErrorCode::kCancelled) return;
    if (!sent.ok() && sent.code() != ErrorCode::kClosed) hello_needed_.store(true);
  }
}

bool Engine::say_hello(bus::WorkerEnd& bus) {
  bus::Register hello;
  hello.incarnation = incarnation_;
  hello.cpu_millis = hardware_.cpu_millis;
  hello.memory_bytes = hardware_.memory_bytes;
  hello.gpus = hardware_.gpus;
  hello.commands = options_.commands;
  for (const auto& [type, unused] : handlers_) hello.types.push_back(type);
  {
    const sync::MutexLock lock(mutex_);
    for (const auto& [task, attempt] : attempts_) hello.held.push_back({task, attempt->assign().attempt});
    for (const auto& [key, unused] : unacknowledged_) hello.held.push_back({key.first, key.second});
  }
  const bool sent = bus.send(FromWorker(std::move(hello))).ok();
  hello_needed_.store(!sent);
  return sent;
}

void Engine::heartbeat(bus::WorkerEnd& bus) {
  while (!over_.wait_for(options_.heartbeat_every)) {
    if (hello_needed_.load() && !say_hello(bus)) continue;
    bus::Heartbeat beat;
    std::vector<Report> again;
    {
      const sync::MutexLock lock(mutex_);
      beat.running = intake_.running();
      beat.waiting = intake_.waiting();
      const nanoseconds now = fiber::now();
      for (auto& [key, final] : unacknowledged_) {
        if (now - final.sent_at < options_.heartbeat_every) continue;
        final.sent_at = now;
        again.push_back(final.report);
      }
    }
    if (!bus.send(FromWorker(beat)).ok()) continue;
    for (Report& report : again) {
      if (!bus.send(FromWorker(std::move(report))).ok()) break;
    }
  }
}

}  // namespace rota::worker

namespace rota {

Worker::Worker(WorkerOptions options) : engine_(std::make_unique<worker::Engine>(std::move(options))) {}
Worker::~Worker() = default;
Result<void> Worker::handle(std::string type, TaskHandler handler) {
  return engine_->handle(std::move(type), std::move(handler));
}
Result<void> Worker::run(bus::WorkerEnd& bus) { return engine_->run(bus); }
void Worker::stop() { engine_->stop(); }
Hardware Worker::hardware() const { return engine_->hardware(); }

}  // namespace rota
