// One attempt at a task, from its assignment to its end: a program or a handler (handler_attempt.h).
//
// Life: made when the assignment arrives; run() once, by a task of its own; control() any number of times from other
// tasks, before, during and after run().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/sync.h"
#include "model/message.h"
#include "model/outcome.h"
#include "rota/fiber/sync.h"
#include "rota/worker.h"
#include "worker/executor.h"
#include "worker/result_cache.h"
#include "worker/task_files.h"

namespace rota::worker {

// Where the reports of an attempt go, and what it runs with.
class AttemptHost {
 public:
  virtual ~AttemptHost() = default;
  // May wait; a report that cannot be sent is dropped.
  virtual void report(model::Report report) = 0;
  // The cache of results; null: this worker keeps none.
  [[nodiscard]] virtual ResultCache* cache() = 0;
  // The files of tasks; null: this worker has no store for them.
  [[nodiscard]] virtual TaskFiles* files() = 0;
  // This machine has the item at hand now; the host hears of it with the next registration.
  virtual void note_cached(const std::string& item) = 0;
  [[nodiscard]] virtual WallClock clock() const = 0;
};

class Attempt {
 public:
  Attempt(AttemptHost& host, model::Assign assign)
      : host_(host), assign_(std::move(assign)), term_(assign_.term.value()) {}
  virtual ~Attempt() = default;
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  // Never throws but Cancelled, when the worker itself is being cancelled.
  AttemptResult run();
  void control(model::AttemptAction action);

  // Why the worker refuses to run it; empty: it does not. An attempt that is refused is never run().
  [[nodiscard]] virtual const std::string& refusal() const;

  // If true, run() may be called before there is room for the attempt, after stand_by(). The attempt then starts with
  // go(), or in the place of another attempt, whose result names it.
  [[nodiscard]] virtual bool can_stand_by() const { return false; }
  virtual void stand_by() {}
  virtual void go() {}

  // The specification in it is only there until run() is called.
  [[nodiscard]] const model::Assign& assign() const { return assign_; }
  [[nodiscard]] const model::AttemptId& id() const { return assign_.id; }
  // The term of the leader for its reports: a new leader may take over a running attempt. Relaxed: a single number.
  [[nodiscard]] model::Term term() const { return model::Term(term_.load(std::memory_order_relaxed)); }
  void set_term(model::Term term) { term_.store(term.value(), std::memory_order_relaxed); }
  // Notes that the message has arrived. False: it is older than one before it, from the same leader, and must be
  // ignored. REQUIRES: the engine's lock.
  [[nodiscard]] bool take_in_order(const model::ControlAttempt& control);
  [[nodiscard]] StopReason stop_reason() const { return stop_.load(std::memory_order_acquire); }
  // The outcome of an attempt that was stopped before it started.
  [[nodiscard]] model::AttemptOutcome stopped_before_start() const;

 protected:
  virtual AttemptResult run_spec() = 0;
  // Its files are fetched and stored. Not if it does not run.
  [[nodiscard]] virtual bool uses_files() const { return assign_.spec.files.has_value(); }
  // The stop reason is set already.
  virtual void do_control(model::AttemptAction action) = 0;
  void report(model::ReportBody body) const;
  // The inputs of merged tasks, as one JSON array.
  [[nodiscard]] std::string merged_inputs() const;
  // Wall time now.
  [[nodiscard]] std::int64_t wall_ns() const;

  AttemptHost& host_;
  model::Assign assign_;

 private:
  // Fetches its files, runs it, and stores those that it made (U-6).
  AttemptResult run_with_files();
  // Runs the task unless a kept result of an earlier success can be used.
  AttemptResult run_or_reuse();
  // Is true when the attempt was told to stop, or its worker is being cancelled. May be called from any thread.
  [[nodiscard]] std::function<bool()> stopped() const;

  sync::Atomic<std::uint64_t> term_;
  // The leader and the record of the latest control message. Under the engine's lock.
  model::Term control_term_{};
  std::uint64_t control_decided_in_ = 0;
  // Release in control(), acquire in stop_reason(): a reader that sees the effect of do_control() sees the reason.
  sync::Atomic<StopReason> stop_{StopReason::kNone};
};

class ProgramAttempt final : public Attempt, private ProgramEvents {
 public:
  // REQUIRES: the executor outlives it.
  ProgramAttempt(AttemptHost& host, model::Assign assign, Executor& executor);

  [[nodiscard]] bool can_stand_by() const override { return can_stand_by_; }
  void stand_by() override { stand_by_ = true; }
  void go() override;

 private:
  AttemptResult run_spec() override;
  void do_control(model::AttemptAction action) override;
  void on_progress(std::uint32_t permille, const std::string& message) override;
  void on_checkpoint(const std::string& json) override;
  void on_log(const std::string& text) override;
  void on_cached(const std::string& item) override;
  void on_output(bool from_stderr, std::string bytes, std::uint64_t dropped_bytes) override;

  Executor& executor_;
  const bool can_stand_by_;
  bool stand_by_ = false;         // Set before run().
  std::uint64_t sent_bytes_ = 0;  // Of its output; run()'s.
  fiber::Mutex mutex_;
  // Under mutex_: the program, and the requests that came before there was one.
  std::unique_ptr<ProgramHandle> program_;
  bool go_requested_ = false;
  bool paused_ = false;
};

// A task that has its result already (WorkerOptions::kept_result).
class KeptAttempt final : public Attempt {
 public:
  KeptAttempt(AttemptHost& host, model::Assign assign, KeptResult kept)
      : Attempt(host, std::move(assign)), kept_(std::move(kept)) {}

 private:
  AttemptResult run_spec() override;
  [[nodiscard]] bool uses_files() const override { return false; }
  void do_control(model::AttemptAction) override {}

  KeptResult kept_;
};

// An attempt that this worker cannot run.
class RefusedAttempt final : public Attempt {
 public:
  RefusedAttempt(AttemptHost& host, model::Assign assign, std::string why)
      : Attempt(host, std::move(assign)), why_(std::move(why)) {}
  [[nodiscard]] const std::string& refusal() const override { return why_; }

 private:
  AttemptResult run_spec() override { return {}; }
  void do_control(model::AttemptAction) override {}

  const std::string why_;
};

}  // namespace rota::worker
