// An attempt that runs a C++ handler as a fiber task (U-5). TaskContext (rota/worker.h) is the handler's view of it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/sync.h"
#include "rota/fiber/cancel.h"
#include "rota/fiber/sync.h"
#include "rota/fiber/task.h"
#include "rota/worker.h"
#include "worker/attempt.h"

namespace rota::worker {

class HandlerAttempt final : public Attempt {
 public:
  // REQUIRES: the handler outlives it.
  HandlerAttempt(AttemptHost& host, model::Assign assign, const TaskHandler& handler);
  ~HandlerAttempt() override;

 private:
  friend class rota::TaskContext;
  AttemptResult run_spec() override;
  void do_control(model::AttemptAction action) override;
  // Calls the handler; every failure becomes the outcome.
  void call(model::AttemptOutcome* outcome);
  // The fiber task of the handler, if it exists.
  std::shared_ptr<fiber::Task<void>> task();
  // Waits while the task is paused.
  void pause_point();
  // Sends progress, or keeps it if the last one was sent less than Executor::kProgressEvery ago.
  void send_progress(model::Progress progress);
  void send_kept_progress();

  const TaskHandler& handler_;
  std::vector<std::string> merged_;
  fiber::CancelToken token_;
  fiber::Event unpaused_{true};  // Reset while the task is paused.
  // Progress that waits to be sent; the handler's tasks may race for it.
  sync::Mutex progress_mutex_;
  bool progress_kept_ ROTA_GUARDED_BY(progress_mutex_) = false;
  model::Progress progress_ ROTA_GUARDED_BY(progress_mutex_);
  std::chrono::nanoseconds progress_at_ ROTA_GUARDED_BY(progress_mutex_){-1};
  sync::Mutex task_mutex_;
  std::shared_ptr<fiber::Task<void>> task_ ROTA_GUARDED_BY(task_mutex_);
};

}  // namespace rota::worker
