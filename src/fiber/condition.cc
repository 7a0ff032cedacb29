#include "fiber/condition.h"

#include <utility>

#include "fiber/baton.h"

namespace rota::fiber {

struct Condition::Node {
  Baton baton;
  Node* next = nullptr;
  Node* previous = nullptr;
  bool listed = true;
};

Result<void> Condition::wait(sync::Mutex& mutex, const char* waits_for) {
  Node node;
  node.next = first_;
  if (first_ != nullptr) first_->previous = &node;
  first_ = &node;
  mutex.unlock();
  const bool posted = node.baton.wait(waits_for);
  mutex.lock();
  if (node.listed) {
    (node.previous == nullptr ? first_ : node.previous->next) = node.next;
    if (node.next != nullptr) node.next->previous = node.previous;
  }
  if (!posted) return ErrorCode::kCancelled;
  return {};
}

void Condition::wake_all() {
  for (Node* node = std::exchange(first_, nullptr); node != nullptr;) {
    Node* next = node->next;
    node->listed = false;
    node->baton.post();  // The waiter must take the mutex before it returns, so the node is still valid.
    node = next;
  }
}

}  // namespace rota::fiber
