// Signal: a condition variable for fibers and threads alike.
//
// Used like one: hold the mutex, and wait while what you wait for is not so.
//
//   while (durable_ < index) ROTA_TRY(changed_.wait(mutex_));
//
// A waiting fiber has a node in its own frame, with an event in it. It is in nodes_ from before it releases the mutex;
// whoever wakes takes it out and sets the event, all under the mutex. The fiber takes the mutex again before it leaves
// its frame, and so after the waker is done with the node; if it was cancelled, it takes the node out itself then.
//
// Bound: as many nodes as there are fibers that wait.
// Thread safety: everything under the one mutex that is used with it.
#pragma once

#include "base/sync.h"
#include "rota/result.h"

namespace rota::ledger::detail {

class Signal {
 public:
  Signal() = default;
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  // Releases the mutex, waits for the next wake_all() (or ends early, as condition variables do), and holds it again.
  // Cancelled if the caller is a fiber whose task was cancelled.
  Result<void> wait(sync::Mutex& mutex) ROTA_REQUIRES(mutex);
  // REQUIRES: the mutex is held.
  void wake_all();

 private:
  struct Node;
  Node* nodes_ = nullptr;
  sync::CondVar threads_;
};

// True if the caller is a task on a runtime, and so must not block its thread.
[[nodiscard]] bool in_task();
// True if that runtime is in deterministic mode, where nothing but its own tasks can end a wait.
[[nodiscard]] bool in_deterministic_task();

}  // namespace rota::ledger::detail
