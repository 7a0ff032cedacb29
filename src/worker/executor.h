// Executor: what runs programs for the worker. The real one starts processes (process_executor.h); a simulation lets
// virtual time pass instead. The engine and its attempts know only this interface.
//
// A program may stand by: it is handed to the executor while the machine is full. The executor starts it in the place
// of a program that ends and held at least as much processor and memory, in the order of arrival; the result of the
// program that ended names the one that took its place. go() starts it as well. This spares the worker two messages
// between the end of one program and the start of the next.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "model/message.h"
#include "model/outcome.h"
#include "model/task_spec.h"
#include "rota/model/resources.h"
#include "rota/result.h"

namespace rota::worker {

// Converts times of the fiber runtime's clock into wall time. A clock that is set while the worker runs changes the
// offset, never the runtime's clock: durations stay right.
struct WallClock {
  std::int64_t offset_ns = 0;
  [[nodiscard]] std::int64_t at(std::chrono::nanoseconds time) const { return offset_ns + time.count(); }
};

struct ProgramRequest {
  model::AttemptId id{};
  model::TaskSpec spec{};          // REQUIRES: spec.program.
  model::ResourceUse resources{};  // What the task holds.
  bool stand_by = false;           // Start it in the place of another program, or with go().
  WallClock clock{};               // For the times of the outcome.
};

// What a program says while it runs. The functions are called from the task that waits for the program, and may wait.
class ProgramEvents {
 public:
  virtual ~ProgramEvents() = default;
  // At most one call per kProgressEvery, and always the last value.
  virtual void on_progress(std::uint32_t permille, const std::string& message) = 0;
  virtual void on_checkpoint(const std::string& json) = 0;
  // A log line of the program, or a sentence of the worker about a line that it could not read.
  virtual void on_log(const std::string& text) = 0;
  // The program left something at hand on this machine: "model:llama-7b".
  virtual void on_cached(const std::string& item) = 0;
  // Called only by an executor that streams output: coalesced and bounded (output_stream.h).
  virtual void on_output(bool from_stderr, std::string bytes, std::uint64_t dropped_bytes) {
    (void)from_stderr, (void)bytes, (void)dropped_bytes;
  }
};

struct AttemptResult {
  model::AttemptOutcome outcome{};
  model::AttemptId next{};  // The attempt that was standing by and has started in the place of this one, if any.
};

// A program that was handed to an executor. Destroying it kills the program if it still runs.
//
// terminate(), pause(), resume() and go() may be called from any task at any time: before the start they take effect
// with it, and after the end they do nothing.
class ProgramHandle {
 public:
  virtual ~ProgramHandle() = default;
  // Waits until the program has ended; call it once. A program that could not start has failed: the outcome says why.
  // Error: Cancelled, and then the program is killed.
  virtual Result<AttemptResult> wait() = 0;
  // TERM, then KILL when the grace period is over. A program that stands by never starts.
  virtual void terminate() = 0;
  virtual void pause() = 0;
  virtual void resume() = 0;
  // Starts a program that stands by; nothing for others.
  virtual void go() = 0;
};

class Executor {
 public:
  static constexpr std::chrono::milliseconds kProgressEvery{50};

  virtual ~Executor() = default;
  // The program starts now or, at the latest, with wait(). `events` and the executor outlive the handle.
  virtual std::unique_ptr<ProgramHandle> start(ProgramRequest request, ProgramEvents& events) = 0;
  // True if programs may stand by here.
  [[nodiscard]] virtual bool has_stand_by() const = 0;
  // Prepares for the first program, if that takes time. Called from a task of its own.
  virtual void prepare() {}
};

}  // namespace rota::worker
