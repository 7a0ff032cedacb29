// Threads, scheduling and failure. The operations are in operations.cc (memory) and blocking.cc.
#include "interleave/engine.h"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

namespace rota::interleave {
namespace {

constexpr std::size_t kStackBytes = 256 * 1024;
constexpr int kMaxIdleRounds = 100;

Engine* g_engine = nullptr;

}  // namespace

Engine::Engine() : threads_(kMaxThreads) {}
Engine::~Engine() = default;

bool Engine::inside() { return g_engine != nullptr; }

Engine& Engine::current() {
  if (g_engine == nullptr) {
    std::fputs(
        "interleave: a checked object is used outside of interleave::check(); create it in the body (no globals, no "
        "thread_local, no real threads)\n",
        stderr);
    std::abort();
  }
  return *g_engine;
}

Engine::Outcome Engine::run(const Options& options, Search& search, const std::function<void(Execution&)>& body,
                            Trace* trace) {
  options_ = &options;
  search_ = &search;
  body_ = &body;
  trace_ = trace;
  model_.reset();
  objects_.reset();
  events_.clear();
  path_.clear();
  outcome_ = Outcome{};
  thread_count_ = 0;
  live_threads_ = 0;
  idle_rounds_ = 0;
  search.begin();

  start(nullptr, this);
  running_ = 0;
  thread(0).status = Status::kRunning;
  g_engine = this;
  Stack::switch_to(host_, *thread(0).stack);
  g_engine = nullptr;

  if (outcome_.failure != Failure::kNone) {
    for (int id = 0; id < thread_count_; ++id) {
      thread(id).stack->abandon();
      thread(id).stack.reset();
    }
  }
  return outcome_;
}

int Engine::start(ThreadEntry entry, void* argument) {
  if (thread_count_ == kMaxThreads) fail(Failure::kLimit, "more than 7 threads beside the body");
  const int id = thread_count_++;
  ++live_threads_;
  Thread& fresh = thread(id);
  if (fresh.stack == nullptr) fresh.stack = std::make_unique<Stack>(kStackBytes);
  fresh.entry = entry;
  fresh.argument = argument;
  fresh.status = Status::kReady;
  fresh.turn = Turn{};
  fresh.joining = -1;
  fresh.spurious_left = options_->spurious;
  fresh.timeouts_left = options_->timeouts;
  fresh.locks_held = 0;
  fresh.round.clear();
  fresh.last_round.clear();
  fresh.wrote_in_round = false;
  fresh.same_rounds = 0;
  fresh.voluntary = false;
  fresh.newest_only = false;
  fresh.probing = 0;
  fresh.held = false;
  fresh.stack->prepare(&Engine::thread_main, this);
  return id;
}

void Engine::thread_main(void* engine) {
  auto* const self = static_cast<Engine*>(engine);
  self->enter_body();
  self->finish_thread();
}

void Engine::enter_body() {
  try {
    if (running_ == 0) {
      Execution execution;
      (*body_)(execution);
    } else {
      self().entry(self().argument);
    }
  } catch (const std::exception& e) {
    fail(Failure::kAssertion, std::string("an exception left the thread: ") + e.what());
  } catch (...) {
    fail(Failure::kAssertion, "an exception left the thread");
  }
}

void Engine::finish_thread() {
  if (self().locks_held != 0) fail(Failure::kMisuse, "the thread ends while it holds a mutex");
  note_write();
  model_.tick(running_);
  self().status = Status::kFinished;
  --live_threads_;
  if (running_ == 0) {
    if (live_threads_ != 0) fail(Failure::kMisuse, "the body ends while its threads run");
    Stack::switch_to(*self().stack, host_);
  } else {
    dispatch();
  }
  std::abort();  // A finished thread is never resumed.
}

void Engine::fail(Failure failure, std::string message) {
  outcome_.failure = failure;
  const bool of_all = failure == Failure::kDeadlock || failure == Failure::kLivelock;
  outcome_.message = (of_all ? "" : "T" + std::to_string(running_) + ": ") + std::move(message);
  if (trace_ != nullptr) {
    trace_->orders.clear();
    for (std::size_t i = 0; i < objects_.size(); ++i) {
      const Object& object = objects_[static_cast<ObjectId>(i)];
      if (object.kind == ObjectKind::kAtomic || object.kind == ObjectKind::kMutex) {
        trace_->orders.push_back(model_.order_of(object.location));
      }
    }
  }
  Stack::switch_to(*self().stack, host_);
  std::abort();  // A failed execution is never resumed.
}

// --- scheduling

void Engine::step() {
  if (++outcome_.steps <= options_->max_steps) return;
  fail(Failure::kLivelock, "more than " + std::to_string(options_->max_steps) +
                               " operations in one execution: a livelock, or a test too big (max_steps)");
}

// Returns when the search has picked this thread to do its operation.
void Engine::take_turn(const Operation& operation, Where where) {
  step();
  Thread& me = self();
  me.operation = operation;
  me.where = where;
  me.turn = Turn{};
  if (live_threads_ == 1 && operation.kind != Kind::kLock) return;
  me.status = Status::kPending;
  dispatch();
}

void Engine::resume(int id) {
  Thread& next = thread(id);
  Thread& me = self();
  next.status = Status::kRunning;
  if (id == running_) return;
  running_ = id;
  Stack::switch_to(*me.stack, *next.stack);
}

// Joins whose thread has ended, and spinning threads that can see something new, can continue.
bool Engine::wake_ready_threads() {
  bool any = false;
  for (int id = 0; id < thread_count_; ++id) {
    Thread& t = thread(id);
    const bool ready = (t.status == Status::kJoining && thread(t.joining).status == Status::kFinished) ||
                       (t.status == Status::kPaused && has_news(t));
    if (ready) t.status = Status::kReady;
    any |= t.status == Status::kReady;
  }
  return any;
}

ThreadMask Engine::enabled_threads(bool last_resort, SchedulePoint& point) {
  point.enabled = 0;
  for (int id = 0; id < thread_count_; ++id) {
    const Thread& t = thread(id);
    bool enabled = false;
    if (t.status == Status::kPending) {
      const bool locks = t.operation.kind == Kind::kLock;
      enabled = !locks || model_.newest(objects_[t.operation.object].location).value == t.operation.expected;
    } else if (t.status == Status::kWaiting) {
      enabled = t.timed && (t.timeouts_left > 0 || last_resort);
    }
    if (!enabled) continue;
    point.enabled |= mask_of(id);
    Progress& progress = point.progress[static_cast<std::size_t>(id)];
    const Operation& operation = t.operation;
    if (operation.object != kNoObject) progress.stores = model_.store_count(objects_[operation.object].location);
    if (operation.queue != kNoObject) progress.queue = objects_[operation.queue].operations;
  }
  return point.enabled;
}

// Switches to the thread that should run next. The caller's status says what it waits for; returns when its turn has
// come (at once if it is chosen itself).
void Engine::dispatch() {
  for (;;) {
    if (wake_ready_threads()) {
      // Run each thread up to its next operation. The order does not matter.
      int id = running_;
      if (self().status != Status::kReady) {
        for (id = 0; thread(id).status != Status::kReady;) ++id;
      }
      resume(id);
      return;
    }
    SchedulePoint point;
    if (enabled_threads(false, point) == 0) {
      // Only spinning threads are left: let one continue (its loop may be bounded), but not forever.
      int spinner = -1;
      for (int i = 1; i <= thread_count_ && spinner < 0; ++i) {
        const int id = (running_ + i) % thread_count_;
        if (thread(id).status == Status::kPaused) spinner = id;
      }
      if (spinner >= 0) {
        if (++idle_rounds_ > kMaxIdleRounds) {
          fail(Failure::kLivelock, "all threads that are left spin, and nothing can change any more");
        }
        thread(spinner).held = true;
        thread(spinner).status = Status::kReady;
        continue;
      }
      point.last_resort = true;
      if (enabled_threads(true, point) == 0) report_stuck();
    }
    Thread& last = self();
    if ((point.enabled & mask_of(running_)) != 0 && last.status == Status::kPending) {
      point.current = running_;
      point.voluntary = last.voluntary;
    }
    last.voluntary = false;
    point.oracle = this;
    const Turn turn = search_->choose_thread(point);
    if ((point.enabled & (point.enabled - 1)) != 0) path_.push_back(static_cast<std::uint8_t>(turn.thread));
    Thread& next = thread(turn.thread);
    next.turn = turn;
    next.timed_out = next.status == Status::kWaiting;
    resume(turn.thread);
    return;
  }
}

std::string Engine::describe_wait(int id) {
  Thread& t = thread(id);
  std::string text = "T" + std::to_string(id);
  if (t.status == Status::kJoining) return text + " joins T" + std::to_string(t.joining);
  const ObjectId object = t.operation.object != kNoObject ? t.operation.object : t.operation.queue;
  const char* how = t.status != Status::kWaiting ? " wants to lock " : " sleeps on ";
  text += how + objects_.name_of(object);
  if (t.where.file != nullptr) {
    const std::string file = t.where.file;
    text += " at " + file.substr(file.rfind('/') + 1) + ":" + std::to_string(t.where.line);
  }
  return text;
}

void Engine::report_stuck() {
  std::string text;
  bool sleeper = false;
  for (int id = 0; id < thread_count_; ++id) {
    if (thread(id).status == Status::kFinished) continue;
    sleeper |= thread(id).status == Status::kWaiting;
    if (!text.empty()) text += ", ";
    text += describe_wait(id);
  }
  fail(Failure::kDeadlock, (sleeper ? "lost wake-up or deadlock: " : "deadlock: ") + text);
}

// --- choosing and recording

std::uint32_t Engine::choose(std::uint32_t count, std::uint64_t allowed) {
  if (count == 1) return 0;
  const bool forced = (self().newest_only || self().probing > 0) && !search_->replays();
  const std::uint32_t pick = forced ? forced_choice() : search_->choose_outcome(count, allowed);
  path_.push_back(static_cast<std::uint8_t>(pick));
  return pick;
}

// In a spin loop that repeats itself: the newest value, so that it ends, or (probing) the one of the last round.
std::uint32_t Engine::forced_choice() const {
  const Thread& me = threads_[static_cast<std::size_t>(running_)];
  if (me.probing == 0 || me.operation.object == kNoObject) return 0;
  const LocationId location = objects_[me.operation.object].location;
  for (const SpinRead& read : me.last_round) {
    if (read.object != me.operation.object) continue;
    for (std::size_t i = 0; i < choices_.size() && i < 64; ++i) {
      if (model_.at(location, choices_[i].position).value == read.value) return static_cast<std::uint32_t>(i);
    }
  }
  return 0;
}

// The thread whose step, after the event, leads to an operation of the running thread that has these causes.
int Engine::first_step_after(std::size_t event, const Clock& cause) const {
  for (std::size_t i = event + 1; i < events_.size(); ++i) {
    if (cause.covers(events_[i].thread, events_[i].epoch)) return events_[i].thread;
  }
  return running_;
}

// The operation of the running thread, which is about to be committed, might have come before earlier ones that read
// the same object: tell the search. `source_cause`: the causes of the store that this operation itself reads, if any.
// To come first with the same value it needs those too (unless they include the earlier event); to come first with
// some other value, only what led its thread here. Both are asked for.
void Engine::report_races(ObjectId object, bool wrote, const Clock* source_cause) {
  const Clock& cause = model_.cause(running_);
  for (const std::uint32_t index : objects_[object].accesses) {
    const Event& earlier = events_[index];
    if (earlier.node < 0 || earlier.thread == running_ || cause.covers(earlier.thread, earlier.epoch)) continue;
    if (!wrote && !earlier.modified) continue;
    search_->report_race(earlier.node, first_step_after(index, cause));
    if (source_cause == nullptr || source_cause->covers(earlier.thread, earlier.epoch)) continue;
    Clock all = cause;
    all.join(*source_cause);
    search_->report_race(earlier.node, first_step_after(index, all));
  }
}

// REQUIRES: the operation has just been committed to the memory model.
void Engine::record_event(ObjectId object, bool reads, bool modified, int node) {
  if (reads) objects_[object].accesses.push_back(static_cast<std::uint32_t>(events_.size()));
  events_.push_back({running_, model_.clock(running_)[running_], node, modified});
}

void Engine::note_write() {
  Thread& me = self();
  idle_rounds_ = 0;
  me.wrote_in_round = true;
  if (me.held) outcome_.spin_cut = true;
  me.held = false;
  me.newest_only = false;
  me.probing = 0;
}

void Engine::note_read(ObjectId object, std::uint32_t version, Value value) {
  Thread& me = self();
  if (me.held) {
    bool known = false;
    bool same = false;
    for (const SpinRead& read : me.last_round) {
      known |= read.object == object;
      same |= read.object == object && read.value == value;
    }
    if (!known) outcome_.spin_cut = true;
    if (!same) {
      me.held = false;
      me.newest_only = false;
      me.probing = 0;
    }
  }
  me.round.push_back({object, value, version});
}

// True if another thread has stored anything after what this one read in its last round, or has gone to sleep where
// this one woke nobody.
bool Engine::has_news(const Thread& t) const {
  const int id = static_cast<int>(&t - threads_.data());
  for (const SpinRead& read : t.last_round) {
    if (objects_[read.object].kind == ObjectKind::kQueue) {
      if (objects_[read.object].operations > read.version) return true;
      continue;
    }
    const LocationId location = objects_[read.object].location;
    for (std::uint32_t p = model_.store(read.version).position + 1; p < model_.store_count(location); ++p) {
      if (model_.at(location, p).thread != id) return true;
    }
  }
  return false;
}

// A spin loop. Rounds that read the same values and write nothing may as well not have happened, so a thread may
// repeat a round only options.free_spins times. Then, if there is something new that it could have read, the execution
// is the same as one without the repetition, and redundant; if not, the thread is held until there is.
//
// That is right for a loop that continues until it sees something else. A loop that gives up after some rounds does
// more than repeat itself: it needs its rounds (free_spins), and the search must not claim to be exhaustive if it did
// not get them. So a held thread that leaves its loop without having seen anything new sets spin_cut, and a redundant
// execution is used, once for each loop, to probe whether more repetitions end it.
void Engine::pause(Where where) {
  step();
  trace("pause", kNoObject, where);
  Thread& me = self();
  bool same = !me.wrote_in_round && !me.round.empty() && me.round.size() == me.last_round.size();
  for (std::size_t i = 0; same && i < me.round.size(); ++i) {
    same = me.round[i].object == me.last_round[i].object && me.round[i].value == me.last_round[i].value;
  }
  const bool wrote = me.wrote_in_round;
  me.same_rounds = same ? me.same_rounds + 1 : 0;
  me.last_round.swap(me.round);
  me.round.clear();
  me.wrote_in_round = false;
  me.voluntary = true;
  if (wrote || me.last_round.empty()) return;
  const bool news = has_news(me);
  const std::pair<std::string, int> place(where.file, where.line);
  if (me.probing > 0 && --me.probing == 0) endless_loops_.insert(place);
  if (me.same_rounds > options_->free_spins && news) {
    search_->mark_redundant();
    if (me.probing == 0 && !endless_loops_.contains(place)) me.probing = kMaxIdleRounds;
    me.newest_only = me.probing == 0;
    me.held = true;
  }
  if (me.same_rounds >= options_->free_spins && !news && live_threads_ > 1) {
    me.status = Status::kPaused;
    me.operation = Operation{};
    dispatch();
  }
}

}  // namespace rota::interleave
