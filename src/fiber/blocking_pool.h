// The helper threads of blocking().
//
// Invariants (under mutex_):
//   (1) there are at most bound_ threads_
//   (2) every queued job has a helper that will take it: each helper checks the queue before it waits or ends, and a
//       job is queued only if there is a helper, or one was created for it
//   (3) idle_ helpers wait on `work_`, or are returning from it
// Bounds: bound_ threads; the queue by the number of waiting tasks, in whose frames the jobs are.
// Thread safety: all members, from any thread. The destructor REQUIRES that nothing is queued or running.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>

#include "base/sync.h"
#include "rota/fiber/blocking.h"

namespace rota::fiber::detail {

class BlockingPool {
 public:
  static constexpr std::chrono::seconds kIdleLimit{10};

  explicit BlockingPool(std::size_t bound, std::chrono::nanoseconds idle_limit = kIdleLimit)
      : bound_(bound), idle_limit_(idle_limit) {}
  ~BlockingPool();
  BlockingPool(const BlockingPool&) = delete;
  BlockingPool& operator=(const BlockingPool&) = delete;

  // Queues the job. ResourceExhausted if there is no helper and none can be created.
  Result<void> submit(BlockingJob* job) ROTA_EXCLUDES(mutex_);
  // True if the job was still in the queue and will not run. False: it runs, or has run.
  bool withdraw(BlockingJob* job) ROTA_EXCLUDES(mutex_);

  [[nodiscard]] std::size_t threads() ROTA_EXCLUDES(mutex_);
  [[nodiscard]] std::size_t queued() ROTA_EXCLUDES(mutex_);

 private:
  using Threads = std::list<sync::Thread>;

  void help(Threads::iterator self) ROTA_EXCLUDES(mutex_);
  void unlink(BlockingJob* job) ROTA_REQUIRES(mutex_);
  bool add_helper() ROTA_REQUIRES(mutex_);

  const std::size_t bound_;
  const std::chrono::nanoseconds idle_limit_;
  sync::Mutex mutex_;
  sync::CondVar work_;
  sync::CondVar gone_;  // Signalled when a helper has ended.
  BlockingJob* first_ ROTA_GUARDED_BY(mutex_) = nullptr;
  BlockingJob* last_ ROTA_GUARDED_BY(mutex_) = nullptr;
  std::size_t queued_ ROTA_GUARDED_BY(mutex_) = 0;
  Threads threads_ ROTA_GUARDED_BY(mutex_);
  Threads ended_ ROTA_GUARDED_BY(mutex_);  // Helpers that have ended, or are about to.
  std::size_t idle_ ROTA_GUARDED_BY(mutex_) = 0;
  bool stopping_ ROTA_GUARDED_BY(mutex_) = false;
};

}  // namespace rota::fiber::detail
