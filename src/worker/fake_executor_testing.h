// An executor for tests: programs are durations of the fiber runtime's clock, so that engines run under virtual time.
#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/sync.h"
#include "rota/fiber/cancel.h"
#include "rota/fiber/error.h"
#include "rota/fiber/sync.h"
#include "rota/fiber/time.h"
#include "worker/executor.h"

namespace rota::worker::testing {

// What a program does. It is found by the shell text of its specification.
struct FakeProgram {
  std::chrono::nanoseconds runs_for{0};
  model::AttemptEnd end = model::AttemptEnd::kSucceeded;
  std::string result = "null";
  std::string message{};
};

// Is told when a program starts and ends.
class FakeWatch {
 public:
  virtual ~FakeWatch() = default;
  virtual void on_start(const ProgramRequest& request) = 0;
  // `outcome` is null if the worker was cancelled.
  virtual void on_end(const ProgramRequest& request, const model::AttemptOutcome* outcome) = 0;
};

class FakeExecutor final : public Executor {
 public:
  using Behave = std::function<FakeProgram(const ProgramRequest&)>;

  explicit FakeExecutor(std::map<std::string, FakeProgram> programs, bool stand_by = true)
      : FakeExecutor(
            [programs = std::move(programs)](const ProgramRequest& request) {
              const auto found = programs.find(request.spec.program->shell);
              return found == programs.end() ? FakeProgram{} : found->second;
            },
            nullptr, stand_by) {}
  // `behave` is called when a program starts. `watch` may be null.
  FakeExecutor(Behave behave, FakeWatch* watch, bool stand_by)
      : behave_(std::move(behave)), watch_(watch), has_stand_by_(stand_by) {}

  std::unique_ptr<ProgramHandle> start(ProgramRequest request, ProgramEvents& events) override {
    return std::make_unique<Handle>(*this, std::move(request), events);
  }
  [[nodiscard]] bool has_stand_by() const override { return has_stand_by_; }

  // The most programs that ran at the same time, and how many started in the place of another one.
  [[nodiscard]] int most_at_once() {
    const sync::MutexLock lock(mutex_);
    return most_at_once_;
  }
  [[nodiscard]] int in_place() {
    const sync::MutexLock lock(mutex_);
    return in_place_;
  }

 private:
  class Handle final : public ProgramHandle {
   public:
    Handle(FakeExecutor& executor, ProgramRequest request, ProgramEvents& events)
        : executor_(executor), request_(std::move(request)), events_(events) {
      unpaused_.set();
    }
    Result<AttemptResult> wait() override {
      if (request_.stand_by) {
        executor_.stand_by(this);
        if (!go_.wait(std::nothrow).ok()) {
          executor_.give_up(this);
          return ErrorCode::kCancelled;
        }
      } else {
        executor_.begin();
      }
      return run();
    }
    void terminate() override {
      terminated_.set();
      unpaused_.set();
      if (request_.stand_by && executor_.give_up(this)) go_.set();
    }
    // A program that is paused does not end.
    void pause() override {
      if (!terminated_.is_set()) unpaused_.reset();
    }
    void resume() override { unpaused_.set(); }
    void go() override {
      if (request_.stand_by && executor_.start_now(this)) go_.set();
    }

   private:
    friend class FakeExecutor;
    Result<AttemptResult> run() {
      AttemptResult result;
      model::AttemptOutcome& outcome = result.outcome;
      if (terminated_.is_set() && request_.stand_by && !started_) return result;  // It never started.
      FakeWatch* const watch = executor_.watch_;
      if (watch != nullptr) watch->on_start(request_);
      const FakeProgram program = executor_.behave_(request_);
      outcome.started_ns = request_.clock.at(fiber::now());
      events_.on_log("started");
      bool killed = false;
      try {
        killed = terminated_.wait_for(program.runs_for);
        unpaused_.wait();
        killed = killed || terminated_.is_set();
      } catch (const fiber::Cancelled&) {
        if (watch != nullptr) watch->on_end(request_, nullptr);
        executor_.end(*this);
        return ErrorCode::kCancelled;
      }
      outcome.ended_ns = request_.clock.at(fiber::now());
      outcome.end = killed ? model::AttemptEnd::kFailed : program.end;
      outcome.message = killed ? "killed" : program.message;
      if (outcome.end == model::AttemptEnd::kSucceeded) outcome.result = program.result;
      if (watch != nullptr) watch->on_end(request_, &outcome);
      result.next = executor_.end(*this);
      return result;
    }

    FakeExecutor& executor_;
    const ProgramRequest request_;
    ProgramEvents& events_;
    bool started_ = false;  // Of one that stands by; under the executor's lock.
    fiber::Event go_;
    fiber::Event terminated_;
    fiber::Event unpaused_;  // Set in the constructor.
  };

  void begin() {
    const sync::MutexLock lock(mutex_);
    most_at_once_ = std::max(most_at_once_, ++running_);
  }
  void stand_by(Handle* handle) {
    const sync::MutexLock lock(mutex_);
    if (!handle->go_.is_set()) standing_by_.push_back(handle);
  }
  // Removes it from those that stand by. False: it has started.
  bool give_up(Handle* handle) {
    const sync::MutexLock lock(mutex_);
    if (handle->started_) return false;
    std::erase(standing_by_, handle);
    return true;
  }
  bool start_now(Handle* handle) {
    const sync::MutexLock lock(mutex_);
    if (std::exchange(handle->started_, true)) return false;
    std::erase(standing_by_, handle);
    most_at_once_ = std::max(most_at_once_, ++running_);
    return true;
  }
  // Ends a program, and starts the first that stands by in its place, if that holds no more.
  model::AttemptId end(const Handle& ended) {
    Handle* next = nullptr;
    {
      const sync::MutexLock lock(mutex_);
      --running_;
      if (standing_by_.empty()) return {};
      const model::ResourceUse& need = standing_by_.front()->request_.resources;
      const model::ResourceUse& had = ended.request_.resources;
      if (need.cpu_millis > had.cpu_millis || need.memory_bytes > had.memory_bytes) return {};
      next = standing_by_.front();
      standing_by_.pop_front();
      next->started_ = true;
      ++in_place_;
      most_at_once_ = std::max(most_at_once_, ++running_);
    }
    const model::AttemptId id = next->request_.id;
    next->go_.set();
    return id;
  }

  const Behave behave_;
  FakeWatch* const watch_;
  const bool has_stand_by_;
  sync::Mutex mutex_;
  std::deque<Handle*> standing_by_ ROTA_GUARDED_BY(mutex_);
  int running_ ROTA_GUARDED_BY(mutex_) = 0;
  int most_at_once_ ROTA_GUARDED_BY(mutex_) = 0;
  int in_place_ ROTA_GUARDED_BY(mutex_) = 0;
};

}  // namespace rota::worker::testing
