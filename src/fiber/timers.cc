#include "fiber/timers.h"

#include <mutex>

#include "fiber/wait_word.h"
#include "rota/assert.h"

namespace rota::fiber::detail {

bool Timers::add(Timer* timer) {
  std::lock_guard guard(lock_);
  timer->sequence = sequence_++;
  timer->done.store(false, std::memory_order_relaxed);
  heap_.push_back(timer);
  timer->index = heap_.size() - 1;
  up(timer->index);
  publish_next();
  return heap_[0] == timer;
}

bool Timers::remove(Timer* timer) {
  lock_.lock();
  if (timer->index < Timer::kFiring) {
    take_out(timer->index);
    timer->index = Timer::kIdle;
    timer->done.store(true, std::memory_order_relaxed);
    publish_next();
    lock_.unlock();
    return true;
  }
  lock_.unlock();
  // It is firing on another thread worker, or has fired: wait for the few remaining instructions.
  // Acquire, partner: fire_due()'s release.
  for (ShortWait pause; !timer->done.load(std::memory_order_acquire);) pause.round();
  return false;
}

std::uint32_t Timers::fire_due(Nanoseconds now) {
  std::uint32_t fired = 0;
  while (next() <= now) {
    lock_.lock();
    if (heap_.empty() || heap_[0]->at > now) {
      lock_.unlock();
      break;
    }
    Timer* timer = heap_[0];
    take_out(0);
    timer->index = Timer::kFiring;
    publish_next();
    lock_.unlock();
    // The memory of a firing timer stays valid until `done`; the callback may end the wait of its owner, which then
    // waits for `done`.
    struct Done {
      Timer* timer;
      ~Done() { timer->done.store(true, std::memory_order_release); }  // Also if it throws. Partner: remove().
    } done{timer};
    timer->fire(timer);
    ++fired;
  }
  return fired;
}

std::size_t Timers::size() {
  std::lock_guard guard(lock_);
  return heap_.size();
}

void Timers::up(std::size_t index) {
  Timer* timer = heap_[index];
  while (index > 0) {
    const std::size_t parent = (index - 1) / 4;
    if (!before(timer, heap_[parent])) break;
    put(index, heap_[parent]);
    index = parent;
  }
  put(index, timer);
}

void Timers::down(std::size_t index) {
  Timer* timer = heap_[index];
  for (;;) {
    const std::size_t first = index * 4 + 1;
    if (first >= heap_.size()) break;
    std::size_t best = first;
    for (std::size_t child = first + 1; child < first + 4 && child < heap_.size(); ++child) {
      if (before(heap_[child], heap_[best])) best = child;
    }
    if (!before(heap_[best], timer)) break;
    put(index, heap_[best]);
    index = best;
  }
  put(index, timer);
}

void Timers::take_out(std::size_t index) {
  ROTA_DASSERT(index < heap_.size());
  Timer* last = heap_.back();
  heap_.pop_back();
  if (index == heap_.size()) return;
  put(index, last);
  down(index);
  up(last->index);
}

}  // namespace rota::fiber::detail
