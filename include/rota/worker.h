// rota::Worker: runs tasks that a host assigns, as commands and as C++ handlers (U-2, U-5).
//
//   Worker worker;
//   worker.handle("resize", [](TaskContext& task) -> std::string {
//     for (int i = 0; i < 10; ++i) {
//       task.progress(i * 10.0, "row " + std::to_string(i));
//       task.cancel_token().check().value();               // or any wait: a cancelled task is woken
//     }
//     return R"({"width": 640})";                          // JSON
//   }).value();
//   worker.run(bus).value();                                // in a task, until the bus closes or stop()
//
// A handler runs as a task of the fiber runtime: it may wait, spawn and open nurseries. What it returns is the task's
// result; what it throws is the task's failure, with what() as its message. When the host cancels or preempts it, its
// waits end with Cancelled; it may catch that, save a checkpoint, and rethrow or return.
//
// The worker starts what it is assigned in the order of arrival, as soon as the demand of the first in line fits what
// is free. It ignores what it has already, and what an older leader or about an older attempt says. The end of a task
// is reported until the host has said that it is safe, also when the bus was away in between.
//
// Thread safety: handle() before run(); run() from one task; stop() from any task. A TaskContext is its handler's: its
// members may be called from any task that the handler waits for.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rota/fiber/cancel.h"
#include "rota/result.h"

namespace rota {

namespace bus {
class WorkerEnd;
}
namespace worker {
class HandlerAttempt;
class Engine;
}  // namespace worker

// What a machine has. 1000 cpu_millis are a processor.
struct Hardware {
  std::uint64_t cpu_millis = 0;
  std::uint64_t memory_bytes = 0;
  std::uint32_t gpus = 0;  // At most 64.

  // Of this process: the processors and the memory it may use, within its cgroup; NVIDIA devices.
  [[nodiscard]] static Hardware detect();
};

struct WorkerOptions {
  std::optional<Hardware> hardware{};  // None: detected.
  bool commands = true;                // Does it run commands?
  bool expect_commands = false;        // Get ready for the first one at once, not when it comes.
  std::string directory{};             // For logs and results of commands; empty: a new one, among temporary files.
  std::string cgroup{};                // A cgroup v2 directory for commands, or "auto"; empty: none.
  std::chrono::nanoseconds heartbeat_every = std::chrono::seconds(5);
  std::chrono::milliseconds grace{5000};  // Between TERM and KILL, where a task says nothing else.
  std::size_t waiting_most = 100'000;     // Assigned and not started; more are refused with a failure.
  // Results of tasks with `cache` are kept here, and used again while what they come from is unchanged; empty: such
  // tasks always run. Any number of workers may share it.
  std::string cache_directory{};
  bool cache_reuse = true;     // False: such tasks run, whatever is kept, and what comes of it is kept instead.
  bool stream_output = false;  // Report what commands write, as they write it.
  // The number of this life of the worker: another one than in any earlier life under its name. None: made of the wall
  // time and the process.
  std::optional<std::uint64_t> incarnation{};
};

enum class StopReason : std::uint8_t { kNone, kCancelled, kPreempted };

class TaskContext {
 public:
  [[nodiscard]] std::uint64_t task() const;
  [[nodiscard]] std::uint32_t attempt() const;
  [[nodiscard]] const std::string& inputs() const;  // JSON.
  // The inputs of each, if several tasks were merged into this one: the result is then a JSON array, one value for
  // each.
  [[nodiscard]] const std::vector<std::string>& merged_inputs() const;
  // JSON of an earlier attempt's last checkpoint; empty if there is none.
  [[nodiscard]] const std::string& last_checkpoint() const;

  // All of these wait while the task is paused, and are cancellation points.
  // 0 to 100; what is outside is taken for the nearer end.
  void progress(double percent, std::string_view message = {});
  // Throws FiberError (ParseError) if it is not JSON.
  void checkpoint(std::string_view json);
  void log(std::string_view text);
  // Tells that this machine now has something at hand: ("model", "llama-7b").
  void cache(std::string_view kind, std::string_view name);

  // Cancelled when the host cancels or preempts the task, or the worker ends.
  [[nodiscard]] fiber::CancelToken cancel_token() const;
  [[nodiscard]] StopReason stop_reason() const;

 private:
  friend class worker::HandlerAttempt;
  explicit TaskContext(worker::HandlerAttempt* attempt) : attempt_(attempt) {}
  worker::HandlerAttempt* attempt_;
};

using TaskHandler = std::function<std::string(TaskContext&)>;

class Worker {
 public:
  explicit Worker(WorkerOptions options = {});
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // AlreadyExists, InvalidArgument (an empty type or function).
  Result<void> handle(std::string type, TaskHandler handler);

  // Serves the bus until it is closed or stop() is called, and what runs then has ended and was reported. Cancelled:
  // all that runs is cancelled, too, and commands are killed. FailedPrecondition if it ran before.
  Result<void> run(bus::WorkerEnd& bus);
  // Takes no more; what waits is not started, and what runs ends.
  void stop();

  [[nodiscard]] Hardware hardware() const;

 private:
  std::unique_ptr<worker::Engine> engine_;
};

}  // namespace rota
