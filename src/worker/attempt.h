// One attempt at a task, from its assignment to its end: a command or a handler.
//
// Life: made when the assignment is queued; run() once, by a task of its own; stop() any number of times from other
// tasks, before, while and after it runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/sync.h"
#include "bus/message.h"
#include "rota/fiber/cancel.h"
#include "rota/fiber/sync.h"
#include "rota/fiber/task.h"
#include "rota/worker.h"
#include "worker/command.h"
#include "worker/result_cache.h"

namespace rota::worker {

// Where the reports of an attempt go, and what it runs with.
class AttemptHost {
 public:
  virtual ~AttemptHost() = default;
  // Of what it is given, the identity is filled in. May wait; what cannot be sent is dropped.
  virtual void report(bus::Report report) = 0;
  // Of results; null: none are kept here.
  [[nodiscard]] virtual ResultCache* cache() = 0;
};

// How an attempt ended: what its final report says.
struct AttemptEnd {
  bus::ReportKind kind = bus::ReportKind::kFailed;
  bus::FailureCause cause = bus::FailureCause::kError;
  std::string text{};
  std::string json{};
  std::string log_path{};
  std::uint64_t cpu_us = 0;
  std::uint64_t max_rss_bytes = 0;
  std::uint64_t next = 0;  // The task that has started in its place; 0: none.
  bool cached = false;
  std::string note{};
};

class Attempt {
 public:
  Attempt(AttemptHost& host, bus::Assign assign) : host_(host), assign_(std::move(assign)), term_(assign_.term) {}
  virtual ~Attempt() = default;
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  // Never throws but Cancelled, when the worker itself is being cancelled.
  AttemptEnd run();
  void stop(bus::StopKind kind);

  // May run() be called before there is room for it, if stand_by() was? Then it begins with go(), or in the place of
  // another attempt, whose end names it.
  [[nodiscard]] virtual bool can_stand_by() const { return false; }
  virtual void stand_by() {}
  virtual void go() {}

  [[nodiscard]] const bus::Assign& assign() const { return assign_; }
  // The leader's term under which its reports go: a new leader may take over a running attempt. Relaxed: one number.
  [[nodiscard]] std::uint64_t term() const { return term_.load(std::memory_order_relaxed); }
  void set_term(std::uint64_t term) { term_.store(term, std::memory_order_relaxed); }
  [[nodiscard]] StopReason stop_reason() const { return stop_.load(std::memory_order_acquire); }

 protected:
  virtual AttemptEnd run_spec(TaskSpec spec) = 0;
  // Cancel or preempt, pause, resume; the reason is set already.
  virtual void do_stop(bus::StopKind kind) = 0;
  void report(bus::Report report) const;
  // The inputs of merged tasks, as one JSON array.
  [[nodiscard]] std::string merged_inputs() const;

  AttemptHost& host_;
  const bus::Assign assign_;

 private:
  // Runs it, unless an earlier success stands for it.
  AttemptEnd run_or_reuse(TaskSpec spec);

  sync::Atomic<std::uint64_t> term_;
  // Release in stop(), acquire in stop_reason(): who sees the reason sees it before what do_stop() does.
  sync::Atomic<StopReason> stop_{StopReason::kNone};
};

class CommandAttempt final : public Attempt, private CommandEvents {
 public:
  // `gpus`: of the machine. REQUIRES: guard and place outlive it.
  CommandAttempt(AttemptHost& host, bus::Assign assign, Guard& guard, const CommandPlace& place, std::uint32_t gpus);

  // Devices are not counted by the guard; and what may be in the cache is looked up when it is its turn.
  [[nodiscard]] bool can_stand_by() const override { return assign_.gpu_mask == 0 && assign_.stage.empty(); }
  void stand_by() override { stand_by_ = true; }
  void go() override;

 private:
  AttemptEnd run_spec(TaskSpec spec) override;
  void do_stop(bus::StopKind kind) override;
  void on_progress(std::uint32_t permille, const std::string& message) override;
  void on_checkpoint(const std::string& json) override;
  void on_log(const std::string& text) override;
  void on_cache(const std::string& kind, const std::string& name) override;
  void on_output(bool from_stderr, std::string bytes, std::uint64_t dropped_bytes) override;

  Guard& guard_;
  const CommandPlace& place_;
  const std::uint32_t gpus_;
  bool stand_by_ = false;  // Set before run().
  fiber::Mutex mutex_;
  bool gone_ = false;                   // Under mutex_: go() was called.
  std::unique_ptr<CommandRun> run_;     // Under mutex_.
  bool paused_ = false;                 // Under mutex_: said before there was a run_.
  std::chrono::milliseconds grace_{0};  // Of this task; set with run_.
};

class HandlerAttempt final : public Attempt {
 public:
  HandlerAttempt(AttemptHost& host, bus::Assign assign, const TaskHandler& handler);
  ~HandlerAttempt() override;

 private:
  friend class rota::TaskContext;
  AttemptEnd run_spec(TaskSpec spec) override;
  void do_stop(bus::StopKind kind) override;
  // The task of the handler, if it is there.
  std::shared_ptr<fiber::Task<void>> task();
  // Waits while it is paused.
  void pause_point();

  const TaskHandler& handler_;
  std::string inputs_;
  std::string last_checkpoint_;
  std::vector<std::string> merged_;
  fiber::CancelToken token_;
  fiber::Event going_{true};  // Reset while it is paused.
  // Progress that was too soon after the last to be sent; the handler's tasks may race for it.
  sync::Mutex progress_mutex_;
  bool progress_waits_ ROTA_GUARDED_BY(progress_mutex_) = false;
  bus::Report progress_ ROTA_GUARDED_BY(progress_mutex_);
  std::chrono::nanoseconds progress_at_ ROTA_GUARDED_BY(progress_mutex_){-1};
  sync::Mutex task_mutex_;
  std::shared_ptr<fiber::Task<void>> task_ ROTA_GUARDED_BY(task_mutex_);
};

}  // namespace rota::worker
