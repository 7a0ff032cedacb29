// When the worker's loop itself throws: the thread goes, the worker stays (F-20).
//
// What counts as such a fault: an exception out of the runtime's own code around the tasks -- looking for work,
// polling, sleeping, finishing a task, what a token's or timer's end sets off. In practice that is std::bad_alloc, or
// an error of the system's locks. (What a task throws is its outcome and never gets here.)
//
// What happens: the exception is caught at the bottom of the loop's stack. What the worker had taken is put back -- its
// seat in the parking lot, its count as a searcher, the poller's seat -- the item in its hand stays its next one, and
// the event is counted (Stats::worker_panics) and traced. The thread leaves the loop and ends; a new one becomes the
// same Worker, with its deque, its spare stacks and its counters, and goes on. If the system gives no new thread, the
// old one goes on. In deterministic mode, where one thread plays all workers, it goes on as well.
//
// A task that was being finished is finished by the same thread before it goes: with its own outcome if it had one,
// otherwise as Failed with WorkerPanic. So no task is lost, and no nursery waits for ever.
//
// What is not survived, and ends the process with a message: a failed assert, a signal such as SIGSEGV (memory cannot
// be trusted any more), an exception from what runs between two stacks (publishing a wait), a second fault while the
// first one's task is being finished, pthread_exit() or pthread_cancel() of a worker.
#pragma once

#include <cstdint>

#include "rota/fiber/detail/core.h"

namespace rota::fiber::detail {

// Worker::idle: what a loop that dies must give back.
inline constexpr std::uint8_t kBusy = 0;
inline constexpr std::uint8_t kSearching = 1;  // Counted as a searcher.
inline constexpr std::uint8_t kSeated = 2;     // On the list of sleepers, or just chosen from it.
inline constexpr std::uint8_t kPolling = 3;    // Seated, and the poller.

// Tests make the loop throw at these places. All are off the hot path, or behind Worker::hooks.
enum class FaultPoint : std::uint8_t {
  kSearch,  // While it searches.
  kInHand,  // With an item in its hand.
  kSeat,    // About to sleep.
  kPoll,    // As the poller.
  kStart,   // While a task is being started, or goes on after a wait.
  kFinish,  // While a task is being finished.
};
using FaultHook = void (*)(Worker*, FaultPoint);
// Taken over by each runtime when it is made. Null except in tests.
extern FaultHook g_fault_hook;

// The loop of this thread's worker has thrown; REQUIRES: the exception is handled, and this is the loop's own stack.
// Returns on the thread that goes on.
void worker_panicked();

}  // namespace rota::fiber::detail
