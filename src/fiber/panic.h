// What happens when the loop of a thread worker throws: the thread is replaced, the thread worker continues (F-20).
//
// Such a fault is an exception from the runtime's own code around the tasks: looking for work, polling, sleeping,
// finishing a task, running a token's or timer's callback. In practice it is std::bad_alloc, or an error of the
// system's locks. (An exception of a task is its outcome and never gets here.)
//
// The exception is caught at the bottom of the loop's stack. What the thread worker had taken is returned: its seat in
// the parking lot, its count as a searcher, the poller's role. The item it holds stays the next one, and the event is
// counted (Stats::worker_panics) and traced. The thread leaves the loop and ends; a new one takes over the same
// ThreadWorker, with its deque, spare stacks and counters. If the system provides no new thread, the old one continues.
// It also continues in deterministic mode, where one thread acts as all thread workers.
//
// A task that was being finished is finished by the same thread first: with its own outcome if it had one, otherwise as
// Failed with WorkerPanic. So no task is lost, and no nursery waits forever.
//
// The following end the process with a message: a failed assertion; a signal such as SIGSEGV (memory cannot be trusted
// any more); an exception from code that runs between two stacks (publishing a wait); a second fault while the task of
// the first one is being finished; pthread_exit() or pthread_cancel() of a thread worker.
#pragma once

#include <cstdint>

#include "rota/fiber/detail/core.h"

namespace rota::fiber::detail {

// ThreadWorker::idle: what a loop that dies must return.
inline constexpr std::uint8_t kBusy = 0;
inline constexpr std::uint8_t kSearching = 1;  // Counted as a searcher.
inline constexpr std::uint8_t kSeated = 2;     // On the list of sleepers, or just chosen from it.
inline constexpr std::uint8_t kPolling = 3;    // Seated, and the poller.

// Tests make the loop throw at these places. All are off the hot path, or behind ThreadWorker::hooks.
enum class FaultPoint : std::uint8_t {
  kSearch,  // While it searches.
  kInHand,  // While it holds an item.
  kSeat,    // About to sleep.
  kPoll,    // As the poller.
  kStart,   // While a task is being started, or resumed after a wait.
  kFinish,  // While a task is being finished.
};
using FaultHook = void (*)(ThreadWorker*, FaultPoint);
// Copied by each runtime when it is created. Null except in tests.
extern FaultHook g_fault_hook;

// The loop of this thread's thread worker has thrown. REQUIRES: the exception is handled, and this is the loop's own
// stack. Returns on the thread that continues.
void worker_panicked();

}  // namespace rota::fiber::detail
