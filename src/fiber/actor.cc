// The supervisor of actors: a task that receives notes about events and decides.
//
// Every event reaches it as a note in a list: an actor to start, one that has ended, one that has run out of budget, a
// request to stop. Only the supervisor's task touches the actors' tasks, so there is one order of decisions. Any thread
// writes notes, also on the stack of a task that has run out of budget: the list is under a spin lock and the signal is
// an Event, neither of which is charged or waited for.
//
// A task of an actor may be left without unwinding: its stack overflowed, or it is metered code that did not end when
// it was cancelled. Its closure is not destroyed then; the nursery calls Life::left() instead. No failure of an actor's
// task cancels that nursery.
//
// Ends: a cell that has ended for good is closed, so that tell() is refused, and the rest of its mailbox is dropped, so
// that waiting askers get an error. The supervisor's own end does that for all cells, on every path; a task that never
// ran reports its end by the destructor of its closure.
#include "rota/fiber/actor.h"

#include <algorithm>
#include <deque>
#include <list>
#include <mutex>
#include <vector>

#include "fiber/meter_core.h"
#include "fiber/runtime_core.h"
#include "rota/fiber/error.h"
#include "rota/fiber/sync.h"
#include "rota/fiber/time.h"

namespace rota::fiber::detail {

namespace {

struct Note {
  enum class What : std::uint8_t { kStart, kEnded, kExhausted, kStop, kStopAll };
  What what;
  std::shared_ptr<ActorCell> cell{};
  std::exception_ptr error{};  // kEnded: null if it ended normally, or never began.
  std::uint64_t life = 0;      // kEnded: which start.
  bool left = false;           // kEnded: it was left without unwinding.
  std::uint64_t task_id = 0;   // kExhausted.
  StopMode mode = StopMode::kDrain;
};

std::string describe(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

}  // namespace

struct SupervisorCore {
  explicit SupervisorCore(const ActorOptions& given) : options(given) {
    for (int i = 0; i < 2; ++i) stop_notes.push_back({.what = Note::What::kStopAll});
  }

  const ActorOptions options;
  Event signal;  // Set when there are notes.
  Event ended;

  SpinLock lock;  // For the rest.
  std::list<Note> notes;
  std::list<Note> stop_notes;  // For stop() and then the destructor, which may not need memory.
  bool closed = false;         // Accepts no more actors.
  bool over = false;           // Nobody reads notes any more, so they are dropped.
  std::exception_ptr gave_up;

  void tell(Note note) {
    std::list<Note> one;
    one.push_back(std::move(note));
    tell(one);
  }
  // The same without memory; the note is taken out of the list.
  void tell(std::list<Note>& one) noexcept {
    {
      const std::lock_guard guard(lock);
      if (over) return;
      notes.splice(notes.end(), one);
    }
    signal.set();
  }
  std::list<Note> take_notes() {
    signal.reset();  // First, so that a note that arrives now sets it again.
    const std::lock_guard guard(lock);
    return std::exchange(notes, {});
  }
  // Ends the notes. Actors that were to be started are closed.
  void finish() {
    std::list<Note> last;
    {
      const std::lock_guard guard(lock);
      closed = over = true;
      last = std::exchange(notes, {});
    }
    for (const Note& note : last) {
      if (note.what != Note::What::kStart) continue;
      note.cell->close();
      note.cell->discard();
    }
  }
};

namespace {

// The closure of the task of one life: reports its end, whether it ran or not.
class Life {
 public:
  Life(std::shared_ptr<SupervisorCore> core, std::shared_ptr<ActorCell> cell, std::uint64_t life)
      : core_(std::move(core)) {
    note_.push_back({.what = Note::What::kEnded, .cell = std::move(cell), .life = life});
  }
  Life(Life&&) = default;
  ~Life() {
    if (core_ != nullptr) core_->tell(note_);
  }
  void operator()() {
    try {
      note_.front().cell->live();
    } catch (...) {  // Also when it is cancelled.
      note_.front().error = std::current_exception();
    }
  }
  // Reports the end of a task whose closure will not be destroyed. The second time it does nothing.
  static void left(TaskRecord* task) {
    Life& life = static_cast<ClosureRecord<ClosureOf<Life>, void>*>(task)->closure;
    const std::shared_ptr<SupervisorCore> core = std::exchange(life.core_, nullptr);
    if (core == nullptr) return;
    life.note_.front().left = true;
    core->tell(life.note_);
    life.note_.clear();
  }

 private:
  std::shared_ptr<SupervisorCore> core_;  // Null in a moved-from object.
  std::list<Note> note_;                  // Made at the beginning: telling the end needs no memory.
};

class Manager {
 public:
  explicit Manager(std::shared_ptr<SupervisorCore> core)
      : core_(std::move(core)), options_(core_->options), nursery_(nursery_options()) {
    extras_of(nursery_.core())->on_left = &Life::left;
    nursery_.core()->failure_cancels = false;
  }
  // Nobody may wait for a mailbox that is not read any more. Then the nursery cancels the running actors, and waits.
  ~Manager() {
    core_->finish();
    for (const auto& cell : cells_) {
      cell->close();
      cell->discard();
    }
  }
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

  void run() {
    while (!done()) {
      core_->signal.wait();
      const std::list<Note> notes = core_->take_notes();
      // All notes are taken first: if one makes the supervisor give up, the actors that were to be started are closed.
      for (const Note& note : notes) {
        if (note.what == Note::What::kStart) cells_.push_back(note.cell);
      }
      for (const Note& note : notes) handle(note);
    }
    if (Result<void> closed = nursery_.close(); !closed.ok()) throw_error(std::move(closed).take_error());
  }

 private:
  NurseryOptions nursery_options() {
    NurseryOptions options;
    if (options_.on_exhausted == OnActorExhausted::kFail) {
      options.on_exhausted = OnExhausted::kCancel;
    } else {
      options.on_exhausted = OnExhausted::kWait;
      options.notify = [core = core_](const Exhaustion& exhaustion) {
        core->tell({.what = Note::What::kExhausted, .task_id = exhaustion.task_id});
      };
    }
    return options;
  }

  [[nodiscard]] bool done() const { return stopping_ && cells_.empty(); }

  void handle(const Note& note) {
    switch (note.what) {
      case Note::What::kStart:
        if (note.cell->life == 0) begin_life(note.cell);  // Otherwise it was started together with all others.
        break;
      case Note::What::kEnded:
        ended(note);
        break;
      case Note::What::kExhausted:
        exhausted(note.task_id);
        break;
      case Note::What::kStop:
        stop(note.cell, note.mode);
        break;
      case Note::What::kStopAll:
        stopping_ = true;
        for (const auto& cell : std::vector(cells_)) stop(cell, note.mode);
        break;
    }
  }

  void begin_life(const std::shared_ptr<ActorCell>& cell) {
    Life life(core_, cell, ++cell->life);
    cell->running = true;
    cell->task = cell->grant ? nursery_.spawn(*cell->grant, std::move(life)) : nursery_.spawn(std::move(life));
  }

  void ended(const Note& note) {
    const std::shared_ptr<ActorCell>& cell = note.cell;
    if (!cell->running || note.life != cell->life) return;  // Its end has already been handled.
    const std::exception_ptr error = note.error != nullptr ? note.error : failure_of(note);
    await_end(*cell);
    // An actor that was told to drop its messages ends by cancellation; one that drains and fails continues to drain.
    if (error == nullptr || cell->stopping) return bury(cell);
    restart(cell, error);
  }

  // The failure of a task that could not report it: it was left, or its thread worker failed. Null if there is none.
  std::exception_ptr failure_of(const Note& note) {
    Task<void>& task = note.cell->task;
    task.wait();
    if (!note.left && task.state() != TaskState::kFailed) return nullptr;
    try {
      task.get();
    } catch (...) {
      return std::current_exception();
    }
    return nullptr;
  }

  void restart(const std::shared_ptr<ActorCell>& cell, const std::exception_ptr& error) {
    if (options_.on_failure == OnFailure::kGiveUp) give_up(error);
    const std::chrono::nanoseconds at = now();
    while (!restarts_.empty() && restarts_.front() <= at - options_.window) restarts_.pop_front();
    if (restarts_.size() >= options_.max_restarts) {
      give_up(std::make_exception_ptr(FiberError(Error{
          ErrorCode::kResourceExhausted, "the actor '" + cell->name + "' failed, and its supervisor has used up its " +
                                             std::to_string(options_.max_restarts) + " restarts: " + describe(error)}
                                                     .with("actor", cell->name))));
    }
    restarts_.push_back(at);
    if (options_.on_failure == OnFailure::kRestartAll) {
      for (const auto& other : cells_) {
        if (other->running) other->task.cancel();
      }
      for (const auto& other : cells_) {
        if (other->running) await_end(*other);
      }
    }
    for (const auto& other : cells_) {
      if (other->running) continue;
      other->restarts.fetch_add(1, std::memory_order_relaxed);
      begin_life(other);
    }
  }

  void exhausted(std::uint64_t task_id) {
    const auto at = std::ranges::find_if(
        cells_, [task_id](const auto& cell) { return cell->running && cell->task.id() == task_id; });
    const std::shared_ptr<ActorCell> cell = at == cells_.end() ? nullptr : *at;
    // Without a cell: a task that an actor started, or one that has ended since.
    Result<void> recharged = recharge_task(nursery_.core(), task_id, options_.recharge);
    if (recharged.ok()) {
      if (cell != nullptr) cell->recharges.fetch_add(1, std::memory_order_relaxed);
    } else if (recharged.code() != ErrorCode::kFailedPrecondition) {  // Otherwise it was cancelled, or has enough.
      const auto error = std::make_exception_ptr(FiberError(std::move(recharged).take_error()));
      if (cell == nullptr) give_up(error);
      cell->task.cancel();
      await_end(*cell);
      restart(cell, error);
    }
  }

  void stop(const std::shared_ptr<ActorCell>& cell, StopMode mode) {
    cell->close();
    if (mode == StopMode::kDrain) return;  // Its life ends when the mailbox is empty.
    cell->stopping = true;
    cell->discard();
    if (cell->running) cell->task.cancel();
  }

  // REQUIRES: its life has ended, or will end. The note about that is then outdated.
  void await_end(ActorCell& cell) {
    if (cell.task.valid()) cell.task.wait();
    cell.running = false;
    cell.task = Task<void>();
  }

  void bury(const std::shared_ptr<ActorCell>& cell) {
    cell->close();
    cell->discard();
    std::erase(cells_, cell);
  }

  [[noreturn]] void give_up(const std::exception_ptr& error) {
    {
      const std::lock_guard guard(core_->lock);
      core_->gave_up = error;
    }
    std::rethrow_exception(error);
  }

  std::shared_ptr<SupervisorCore> core_;
  const ActorOptions& options_;
  std::vector<std::shared_ptr<ActorCell>> cells_;  // Those that have not ended for good.
  std::deque<std::chrono::nanoseconds> restarts_;  // The times of restarts within the window. At most max_restarts.
  bool stopping_ = false;
  Nursery nursery_;  // Last, so that it is destroyed first and waits for the actors.
};

// The closure of the supervisor's task: reports its end, whether it ran or not.
class Guard {
 public:
  explicit Guard(std::shared_ptr<SupervisorCore> core) : core_(std::move(core)) {}
  Guard(Guard&&) = default;
  ~Guard() {
    if (core_ == nullptr) return;
    core_->finish();
    core_->ended.set();
  }
  [[nodiscard]] const std::shared_ptr<SupervisorCore>& core() const { return core_; }

 private:
  std::shared_ptr<SupervisorCore> core_;  // Null in a moved-from object.
};

}  // namespace

std::shared_ptr<SupervisorCore> start_supervisor(Nursery& nursery, const ActorOptions& options) {
  auto core = std::make_shared<SupervisorCore>(options);
  // It spawns as many actors as it is told to start, where its nursery allows that.
  Grant grant;
  if (ThreadWorker* worker = current_worker(); is_metered(worker)) {
    grant.budget = scope_meter(nursery.core(), worker->runtime->meter.get()).default_child;
    grant.budget->spawn_count = Budget::unlimited().spawn_count;
  }
  nursery.launch(grant, [guard = Guard(core)] { Manager(guard.core()).run(); });
  return core;
}

void start_actor(const std::shared_ptr<SupervisorCore>& core, std::shared_ptr<ActorCell> cell) {
  cell->supervisor = core;
  {
    const std::lock_guard guard(core->lock);
    if (!core->closed) {
      core->notes.push_back({.what = Note::What::kStart, .cell = std::move(cell)});
      cell = nullptr;
    }
  }
  if (cell != nullptr) throw_error(ErrorCode::kClosed, "the supervisor has stopped and starts no more actors");
  core->signal.set();
}

void stop_actor(const std::shared_ptr<ActorCell>& cell, StopMode mode) {
  cell->close();
  cell->supervisor->tell({.what = Note::What::kStop, .cell = cell, .mode = mode});
}

void stop_supervisor(const std::shared_ptr<SupervisorCore>& core, StopMode mode, bool wait) {
  std::list<Note> note;
  {
    const std::lock_guard guard(core->lock);
    core->closed = true;
    if (!core->stop_notes.empty()) note.splice(note.end(), core->stop_notes, core->stop_notes.begin());
  }
  if (note.empty()) note.push_back({.what = Note::What::kStopAll});
  note.front().mode = mode;
  core->tell(note);
  if (wait) core->ended.wait();
}

void throw_if_gave_up(const std::shared_ptr<SupervisorCore>& core) {
  if (core == nullptr) return;
  std::exception_ptr error;
  {
    const std::lock_guard guard(core->lock);
    error = core->gave_up;
  }
  if (error != nullptr) std::rethrow_exception(error);
}

}  // namespace rota::fiber::detail
