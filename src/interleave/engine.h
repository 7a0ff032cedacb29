// Runs one execution at a time: the threads, the objects they share, and the effect of each operation. The memory model
// says what an operation may see, the search chooses, the engine carries it out. Only sync_types.h and check() use it.
//
// Each thread runs up to its next operation whose outcome depends on when it happens (a read, a lock, anything on a
// queue of waiters); when all threads have reached one, the search picks a thread. Stores, fences, unlocks and plain
// accesses take effect at once (search.cc explains why no execution is lost).
//
// Invariant: the thread that executes operation code is running_, on its own stack; the host stack runs only
// between executions.
// Thread safety: none; everything happens on one OS thread.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "interleave/interleave.h"
#include "interleave/memory_model.h"
#include "interleave/objects.h"
#include "interleave/search.h"
#include "interleave/stack.h"
#include "interleave/trace.h"

namespace rota::interleave {

class Engine final : private OutcomeOracle {
 public:
  using Modify = Value (*)(Value old, const void* context);
  using ThreadEntry = void (*)(void* argument);

  Engine();
  ~Engine() override;

  // The engine whose execution the caller is part of. Aborts when there is none.
  static Engine& current();
  static bool inside();

  // --- for check()
  struct Outcome {
    Failure failure = Failure::kNone;
    std::string message;
    std::uint32_t steps = 0;
    bool spin_cut = false;        // A bounded spin loop was not explored in all its rounds.
    bool candidates_cut = false;  // More than 64 outcomes somewhere.
  };
  Outcome run(const Options& options, Search& search, const std::function<void(Execution&)>& body, Trace* trace);
  const Path& path() const { return path_; }

  // --- atomics
  void construct(ObjectKind kind, const void* address, Value initial, std::size_t bytes);
  void destroy(ObjectKind kind, const void* address);
  Value load(const void* address, std::memory_order order, Where where);
  void store(const void* address, Value value, std::memory_order order, Where where);
  Value modify(const void* address, std::memory_order order, Modify apply, const void* context, const char* what,
               Where where);
  bool compare_exchange(const void* address, Value& expected, Value desired, std::memory_order success,
                        std::memory_order failure, bool weak, Where where);
  void fence(std::memory_order order, Where where);
  void pause(Where where);

  // --- plain variables
  void plain_read(const void* address, Where where);
  void plain_write(const void* address, Where where);

  // --- blocking
  // False only when the time ran out.
  bool wait_on_value(const void* address, Value expected, bool timed, Where where);
  int wake(const void* address, int count, Where where);
  void lock(const void* mutex, Where where);
  bool try_lock(const void* mutex, Where where);
  void unlock(const void* mutex, Where where);
  bool wait_on_condition(const void* condition, const void* mutex, bool timed, Where where);
  void notify(const void* condition, int count, Where where);
  int spawn(ThreadEntry entry, void* argument, Where where);
  void join(int thread, Where where);

  void name(const void* address, const char* text);
  std::vector<Value> modification_order(const void* address);
  [[noreturn]] void fail(Failure failure, std::string message);

 private:
  enum class Status : std::uint8_t {
    kUnused,
    kReady,  // Can run up to its next operation.
    kRunning,
    kPending,  // At an operation that needs a turn.
    kWaiting,  // In a queue of waiters.
    kJoining,
    kPaused,  // Spins and has seen nothing new.
    kFinished,
  };
  // An operation that needs a turn.
  enum class Kind : std::uint8_t {
    kLoad,
    kModify,    // Read-modify-write.
    kExchange,  // Compare-exchange, try_lock.
    kLock,      // The same, but only when it succeeds.
    kWait,      // On the value of an atomic.
    kQueue,     // Only on a queue: wakes, waits on conditions, timeouts.
  };
  struct Operation {
    Kind kind = Kind::kQueue;
    ObjectId object = kNoObject;  // With a location in the memory model, or none.
    ObjectId queue = kNoObject;
    std::memory_order order = std::memory_order_relaxed;
    std::memory_order failure = std::memory_order_relaxed;
    Value expected{};
    bool may_fail = false;  // Spuriously.
  };
  struct SpinRead {
    ObjectId object;
    Value value;
    std::uint32_t version;  // The store read; for a queue, the number of operations it had seen.
  };
  struct Thread {
    std::unique_ptr<Stack> stack;
    ThreadEntry entry = nullptr;
    void* argument = nullptr;
    Status status = Status::kUnused;
    Operation operation;  // The operation at which it is kPending or kWaiting.
    Turn turn;
    Where where;  // The source position of its last blocking operation.
    int joining = -1;
    bool timed = false;
    bool timed_out = false;
    int spurious_left = 0;
    int timeouts_left = 0;
    int locks_held = 0;
    // Spin loops: what was read in this round and the previous one, since the last cpu_pause().
    std::vector<SpinRead> round;
    std::vector<SpinRead> last_round;
    bool wrote_in_round = false;
    int same_rounds = 0;
    bool voluntary = false;
    bool newest_only = false;  // It has read the same old values long enough.
    int probing = 0;    // Rounds for which it continues to read them, to see whether its loop ends without new values.
    bool held = false;  // It was prevented from repeating rounds, or made to: its loop must not end without new values.
  };
  struct Event {
    int thread;
    Epoch epoch;
    int node;
    bool modified;  // Made what it read unavailable to others: a read-modify-write, or any operation on a queue.
  };
  // A store to read; for a compare-exchange: as a success; for a futex wait: as the expected value.
  struct Choice {
    std::uint32_t position;
    bool success;
  };

  static void thread_main(void* thread);
  void enter_body();
  Thread& self() { return threads_[static_cast<std::size_t>(running_)]; }
  Thread& thread(int id) { return threads_[static_cast<std::size_t>(id)]; }
  int start(ThreadEntry entry, void* argument);
  [[noreturn]] void finish_thread();

  // Scheduling.
  void step();
  void take_turn(const Operation& operation, Where where);
  void dispatch();
  bool wake_ready_threads();
  ThreadMask enabled_threads(bool last_resort, SchedulePoint& point);
  void resume(int id);
  [[noreturn]] void report_stuck();
  std::string describe_wait(int id);

  // Choosing and recording.
  std::uint32_t choose(std::uint32_t count, std::uint64_t allowed);
  std::uint32_t forced_choice() const;
  // Collects all outcomes that the pending operation of thread `id` has now into choices_.
  void collect_choices(int id);
  bool is_fresh(const Operation& operation, const Choice& choice, const Progress& since) const;
  bool has_fresh_outcome(int id, const Progress& since) override;
  // Chooses an outcome of the running thread's operation: the first choice of a turn.
  Choice choose_outcome();
  void record_event(ObjectId object, bool reads, bool modified, int node);
  void report_races(ObjectId object, bool wrote, const Clock* source_cause = nullptr);
  int first_step_after(std::size_t event, const Clock& cause) const;
  void note_read(ObjectId object, std::uint32_t version, Value value);
  void note_write();
  bool has_news(const Thread& thread) const;
  void make_room_for_sc(std::memory_order order);

  // Objects.
  ObjectId find(ObjectKind kind, const void* address, Where where);
  void check_access(ObjectId object, Where where);
  ObjectId queue_of(ObjectId object);
  StoreId place_store(ObjectId object, Value value, std::memory_order order);
  void queue_operation(ObjectId queue);
  bool sleep_in(ObjectId queue, bool timed);
  int wake_from(ObjectId queue, int count);
  bool exchange(Value& expected, Value desired, const char* what, Where where);
  void release_mutex(ObjectId mutex, Where where);
  TraceEntry* trace(const char* what, ObjectId object, Where where);

  const Options* options_ = nullptr;
  Search* search_ = nullptr;
  const std::function<void(Execution&)>* body_ = nullptr;
  Trace* trace_ = nullptr;
  MemoryModel model_;
  ObjectTable objects_;
  std::vector<Thread> threads_;
  int thread_count_ = 0;
  int live_threads_ = 0;
  int running_ = 0;
  Stack host_;
  Outcome outcome_;
  Path path_;
  std::vector<Event> events_;
  std::vector<std::uint32_t> positions_;
  std::vector<std::uint32_t> more_positions_;
  std::vector<Choice> choices_;
  int idle_rounds_ = 0;
  std::set<std::pair<std::string, int>> endless_loops_;  // Calls of cpu_pause() in loops that were found to be endless.
};

}  // namespace rota::interleave
