#include "fiber/condition.h"

#include <utility>

#include "fiber/baton.h"
#include "fiber/no_task.h"
#include "rota/fiber/time.h"

namespace rota::fiber {

struct Condition::Node {
  Baton baton;
  Node* next = nullptr;
  Node* previous = nullptr;
  bool listed = true;
};

Result<void> Condition::wait(sync::Mutex& mutex, const char* waits_for) { return wait(mutex, nullptr, waits_for); }

Result<void> Condition::wait_until(sync::Mutex& mutex, std::chrono::nanoseconds time, const char* waits_for) {
  if (time == std::chrono::nanoseconds::max()) return wait(mutex, nullptr, waits_for);
  const std::chrono::nanoseconds limit = time - now();
  if (limit.count() <= 0) return ErrorCode::kDeadlineExceeded;
  return wait(mutex, &limit, waits_for);
}

Result<void> Condition::wait(sync::Mutex& mutex, const std::chrono::nanoseconds* limit, const char* waits_for) {
  if (!in_task() && !detail::may_block_thread()) return ErrorCode::kOutsideRuntime;
  Node node;
  node.next = first_;
  if (first_ != nullptr) first_->previous = &node;
  first_ = &node;
  mutex.unlock();
  Baton::End end = Baton::End::kPosted;
  if (limit != nullptr) {
    end = node.baton.wait_for(*limit, waits_for);
  } else if (!node.baton.wait(waits_for)) {
    end = Baton::End::kCancelled;
  }
  mutex.lock();
  if (node.listed) {
    (node.previous == nullptr ? first_ : node.previous->next) = node.next;
    if (node.next != nullptr) node.next->previous = node.previous;
  }
  if (end == Baton::End::kPosted) return {};
  return end == Baton::End::kTimeout ? ErrorCode::kDeadlineExceeded : ErrorCode::kCancelled;
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
