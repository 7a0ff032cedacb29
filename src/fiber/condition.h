// Condition: a condition variable for fibers and threads.
//
// It is used like std::condition_variable: the caller holds the mutex and waits in a loop until its predicate is true.
//
//   while (durable_ < index) ROTA_TRY(changed_.wait(mutex_, "a record"));
//
// Each waiter has a node with a Baton in its own frame. It adds the node to the list under the mutex, before it
// releases the mutex; wake_all() removes the node and posts the baton, also under the mutex. A waiter holds the mutex
// again before it leaves its frame, so wake_all() is done with the node by then; a waiter that was cancelled removes
// its own node.
//
// Bound: one node per waiter, in the waiter's frame; nothing is allocated.
// Thread safety: every call under the one mutex that is used with it.
#pragma once

#include <chrono>

#include "base/sync.h"
#include "rota/result.h"

namespace rota::fiber {

class Condition {
 public:
  Condition() = default;
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;

  // Releases the mutex, waits for the next wake_all(), and takes the mutex again. Cancelled if the caller is a task
  // that was cancelled; the mutex is held then, too. `waits_for` as in Baton::wait().
  Result<void> wait(sync::Mutex& mutex, const char* waits_for) ROTA_REQUIRES(mutex);
  // The same until `time` on the runtime's clock (now()), and then DeadlineExceeded; without a wait if it has passed.
  Result<void> wait_until(sync::Mutex& mutex, std::chrono::nanoseconds time, const char* waits_for)
      ROTA_REQUIRES(mutex);
  // Ends every wait that has begun. REQUIRES: the mutex is held.
  void wake_all();

 private:
  struct Node;
  Result<void> wait(sync::Mutex& mutex, const std::chrono::nanoseconds* limit, const char* waits_for)
      ROTA_REQUIRES(mutex);
  Node* first_ = nullptr;
};

}  // namespace rota::fiber
