#include "ledger/signal.h"

#include <new>

#include "fiber/runtime_core.h"
#include "rota/fiber/sync.h"

namespace rota::ledger::detail {

struct Signal::Node {
  fiber::Event event;
  Node* next = nullptr;
  Node* previous = nullptr;
  bool queued = false;
};

bool in_task() {
  const fiber::detail::Worker* worker = fiber::detail::current_worker();
  return worker != nullptr && worker->fiber->task != nullptr;
}

bool in_deterministic_task() { return in_task() && fiber::detail::current_worker()->runtime->deterministic; }

Result<void> Signal::wait(sync::Mutex& mutex) {
  if (!in_task()) {
    threads_.wait(mutex);
    return {};
  }
  Node node;
  node.next = nodes_;
  if (nodes_ != nullptr) nodes_->previous = &node;
  nodes_ = &node;
  node.queued = true;
  mutex.unlock();
  Result<void> woken = node.event.wait(std::nothrow);
  mutex.lock();
  if (node.queued) {  // Cancelled before anybody woke it.
    (node.previous == nullptr ? nodes_ : node.previous->next) = node.next;
    if (node.next != nullptr) node.next->previous = node.previous;
  }
  return woken;
}

void Signal::wake_all() {
  for (Node* node = nodes_; node != nullptr;) {
    Node* next = node->next;
    node->queued = false;
    node->event.set();  // The frame stays until the fiber has had the mutex.
    node = next;
  }
  nodes_ = nullptr;
  threads_.notify_all();
}

}  // namespace rota::ledger::detail
