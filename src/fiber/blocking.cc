// blocking(): the helper threads, and the task that waits for one.
//
// A job is queued, taken by a helper, run, and then done; the pool's mutex decides between a helper that takes it and a
// task that withdraws it. At the end the helper and the task synchronise under the job's own lock: the helper sets
// `done` and wakes the waiter that it finds; a task that finds `done` does not wait. After it has released that lock
// the helper never touches the job again, because the task may have left its frame.
#include "rota/fiber/blocking.h"

#include <system_error>

#include "fiber/blocking_pool.h"
#include "fiber/io_error.h"
#include "fiber/meter_core.h"
#include "fiber/runtime_core.h"
#include "rota/assert.h"

namespace rota::fiber::detail {

namespace {

void run_job(BlockingJob* job) {
  {
    const ActingFor acting(job->runtime, job->caps);
    job->run(job);
  }
  job->lock.lock();
  job->done = true;
  Fiber* waiter = job->waiter;
  const bool mine = waiter != nullptr && claim_wake(waiter, WakeReason::kDone);
  job->lock.unlock();
  // If this thread could not claim the wake-up (the task was cancelled meanwhile), the task finds `done`.
  if (mine) schedule(waiter);
}

struct JobWait {
  BlockingJob* job;
  bool published;
};

bool publish_job(ThreadWorker* /*worker*/, void* argument) {
  auto* wait = static_cast<JobWait*>(argument);
  wait->published = true;
  wait->job->lock.unlock();
  return true;
}

// Parks until the job is done or, if `cancellable`, until the task is cancelled. True: done.
bool await(BlockingJob* job, bool cancellable) {
  ThreadWorker* worker = current_worker();
  JobWait wait{job, false};
  job->lock.lock();
  if (!job->done) {
    job->waiter = worker->fiber;
    park(worker, publish_job, &wait, cancellable, "a helper thread");
    if (wait.published) job->lock.lock();  // Otherwise it is still held.
    job->waiter = nullptr;
  }
  const bool done = job->done;
  job->lock.unlock();
  return done;
}

}  // namespace

Result<void> run_blocking(BlockingJob* job) {
  if (current_worker() == nullptr) return outside_error("blocking()");
  if (const ErrorCode code = begin_operation(); code != ErrorCode::kOk) return code;
  RuntimeCore* runtime = current_worker()->runtime;
  if (runtime->deterministic) {
    job->run(job);
    return {};
  }
  job->runtime = runtime;
  job->caps = current_rights();  // The task holds a reference as long as it waits here.
  // As in I/O: linking the nursery may run callbacks, so it must not happen under a lock.
  try {
    ensure_parkable(current_worker());
  } catch (const std::bad_alloc&) {
    return ErrorCode::kResourceExhausted;
  }
  ROTA_TRY(runtime->helpers->submit(job));
  if (await(job, true)) return {};
  if (runtime->helpers->withdraw(job)) return ErrorCode::kCancelled;
  const bool done = await(job, false);
  ROTA_ASSERT(done, "a task continued while its helper thread was running");
  return {};
}

// --------------------------------------------------------------------------------------------------------- the pool

BlockingPool::~BlockingPool() {
  Threads ended;  // Joined last, when the mutex is free.
  const sync::MutexLock lock(mutex_);
  ROTA_ASSERT(queued_ == 0, "the runtime ended with ", queued_, " calls of blocking() queued");
  stopping_ = true;
  work_.notify_all();
  while (!threads_.empty()) gone_.wait(mutex_);
  ended.swap(ended_);
}

bool BlockingPool::add_helper() {
  auto self = threads_.end();
  try {
    self = threads_.emplace(threads_.end());
  } catch (const std::bad_alloc&) {
    return false;
  }
  try {
    *self = sync::Thread([this, self] { help(self); });
  } catch (const std::exception&) {  // No memory, or a limit of the system.
    threads_.erase(self);
    return false;
  }
  return true;
}

Result<void> BlockingPool::submit(BlockingJob* job) {
  Threads ended;  // Joined last, when the mutex is free.
  const sync::MutexLock lock(mutex_);
  ended.swap(ended_);
  if (queued_ >= idle_ && threads_.size() < bound_ && !add_helper() && threads_.empty()) {
    return ErrorCode::kResourceExhausted;  // Without a text, which may need memory that is not there.
  }
  job->next = nullptr;
  job->previous = last_;
  (last_ == nullptr ? first_ : last_->next) = job;
  last_ = job;
  job->queued = true;
  ++queued_;
  if (idle_ > 0) work_.notify_one();
  return {};
}

bool BlockingPool::withdraw(BlockingJob* job) {
  const sync::MutexLock lock(mutex_);
  if (!job->queued) return false;
  unlink(job);
  return true;
}

void BlockingPool::unlink(BlockingJob* job) {
  (job->previous == nullptr ? first_ : job->previous->next) = job->next;
  (job->next == nullptr ? last_ : job->next->previous) = job->previous;
  job->queued = false;
  --queued_;
}

void BlockingPool::help(Threads::iterator self) {
  mutex_.lock();
  for (;;) {
    if (BlockingJob* job = first_; job != nullptr) {
      unlink(job);
      mutex_.unlock();
      run_job(job);
      mutex_.lock();
      continue;
    }
    if (stopping_) break;
    ++idle_;
    const bool notified = work_.wait_for(mutex_, idle_limit_);
    --idle_;
    if (!notified && first_ == nullptr) break;
  }
  ended_.splice(ended_.end(), threads_, self);
  gone_.notify_all();
  mutex_.unlock();
}

std::size_t BlockingPool::threads() {
  const sync::MutexLock lock(mutex_);
  return threads_.size();
}

std::size_t BlockingPool::queued() {
  const sync::MutexLock lock(mutex_);
  return queued_;
}

}  // namespace rota::fiber::detail
