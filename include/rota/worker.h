// rota::Worker: runs the tasks that a host assigns, as programs and as C++ handlers (U-2, U-5).
//
//   Worker worker;
//   worker.handle("resize", [](TaskContext& task) -> std::string {
//     for (int i = 0; i < 10; ++i) {
//       task.progress(i * 10.0, "row " + std::to_string(i));
//       task.cancel_token().check().value();               // or any wait: cancelling a task wakes it
//     }
//     return R"({"width": 640})";                          // JSON
//   }).value();
//   worker.join({.redis = "redis://10.0.0.7"}).value();     // in a task, until stop()
//
// A handler runs as a task of the fiber runtime: it may wait, spawn and open nurseries. The string that it returns is
// the task's result; an exception that it throws is the task's failure, with what() as its message. When the host
// cancels or preempts the task, the handler's waits end with Cancelled; the handler may catch this, save a checkpoint,
// and rethrow or return.
//
// The worker starts assigned tasks in the order of arrival, each as soon as its resources are free. It ignores
// assignments that it already has, messages of an older leader, and messages about an older attempt. It sends the final
// report of a task again until the host acknowledges it, also after the bus was unreachable in between.
//
// Thread safety: handle() before run(); run() from one task; stop() from any task. A TaskContext belongs to its
// handler: its members may be called from the handler and from tasks that the handler waits for.
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
#include "rota/model/ids.h"
#include "rota/model/resources.h"
#include "rota/model/stored_file.h"
#include "rota/model/worker_spec.h"
#include "rota/result.h"

namespace rota {

namespace bus {
class WorkerEnd;
}
namespace worker {
class HandlerAttempt;
}  // namespace worker

// What this process may use of its machine: processors and memory within its cgroup, and NVIDIA devices.
[[nodiscard]] model::Resources machine_resources();

// The result that a task has already, and why it is still valid.
struct KeptResult {
  std::string result{};                      // JSON.
  std::string note{};                        // For people: "unchanged since wf-1".
  std::vector<model::StoredFile> outputs{};  // Its files. If one of them is no longer stored, the task runs.
};

// A secret that a program of this worker needs (U-7).
struct SecretRequest {
  std::string name{};
  std::string version{};  // Empty: the current one.
  model::TaskId task{};
  model::AttemptNumber attempt{};
};

// Where a worker looks up the secrets of its tasks, in this order. Without any, a task with secrets fails.
struct SecretSources {
  std::string directory{};   // One file for each, readable by this user alone.
  std::string command{};     // For `sh -c`; it prints the value of $ROTA_SECRET.
  bool environment = false;  // The variables ROTA_SECRET_<NAME> of this process.
  // The host. It is called from a task and may wait. NotFound if the host has no such secret.
  std::function<Result<std::string>(const SecretRequest&)> host{};
};

// Where a worker stores the files of its tasks (`outputs`) and fetches those that they need (`fetch`), by SHA-256
// (U-6): a directory that all workers of the fleet share, or the host. Without either, a task with files fails.
struct FileSources {
  std::string directory{};
  std::uint64_t directory_bytes = 0;      // The most that it may have; 0: no bound but that of the disk.
  std::string setting = "--files-bytes";  // What raises this bound, for messages.
  // Contents that this worker has made or fetched: a folder of its own, in which the least recently used ones are
  // removed. Needed with the host; with a directory, it is left out if reading there is as fast.
  std::string cache_directory{};
  std::uint64_t cache_bytes = std::uint64_t{20} << 30;
  // The host. They are called from tasks and may wait; an error like Unavailable is tried again.
  // Stores a piece of a content of `bytes` bytes. Returns how many bytes of it the host has, from the beginning on:
  // that is where the next piece begins. An empty piece asks for it.
  std::function<Result<std::uint64_t>(const std::string& sha256, std::uint64_t bytes, std::uint64_t offset,
                                      std::string_view piece)>
      put{};
  // The bytes from `offset` on, at most `most`. NotFound.
  std::function<Result<std::string>(const std::string& sha256, std::uint64_t offset, std::size_t most)> get{};
  // Asks the host to verify a content, because what arrived was damaged. An error if the host's is.
  std::function<Result<void>(const std::string& sha256)> check{};
};

struct WorkerOptions {
  // How the worker describes itself to the host. `handlers` is filled in by handle(). With `programs` false it runs
  // handlers only.
  model::WorkerSpec spec{};
  // Processors, memory and GPUs that `spec.resources` does not give are taken from machine_resources().
  bool detect_resources = true;
  bool expect_programs = false;  // Prepare for the first program at once instead of when it is assigned.
  std::string directory{};       // For logs and results of programs; empty: a new temporary directory.
  std::string cgroup{};          // A cgroup v2 directory for programs, or "auto"; empty: none.
  std::chrono::nanoseconds heartbeat_every = std::chrono::seconds(5);
  std::chrono::milliseconds grace{5000};  // Between TERM and KILL, unless the task says otherwise.
  std::size_t waiting_most = 100'000;     // Tasks that are assigned and not started; further ones fail.
  // Where results of tasks with `cache` are kept, to be used again while the task's inputs are unchanged; empty: such
  // tasks always run. Several workers may share the directory.
  std::string cache_directory{};
  bool cache_reuse = true;  // False: tasks with `cache` always run, and their new results replace the kept ones.
  // Asked once per assignment of a task without `cache` that was not merged. If it returns a result, the task succeeds
  // with it and is not run. `stage` and `item` are the names of its stage and its data as JSON, if it has any. It may
  // be called from several tasks at once.
  std::function<std::optional<KeptResult>(model::TaskId, const std::string& stage, const std::string& item)>
      kept_result{};
  bool stream_output = false;  // Report the output of programs while they write it.
  // Keep all that a program writes, each stream in a file of its own, next to its log: <task>-<attempt>.out and .err.
  // Their reader removes them. Programs that a task executes then have no results: a last line of any length is only
  // output.
  bool whole_output = false;
  SecretSources secrets{};
  FileSources files{};
  // The number of this life of the worker; it must differ from that of every earlier life under the same name. None:
  // derived from wall time and process id.
  std::optional<model::Incarnation> incarnation{};
  std::optional<std::int64_t> wall_ns{};  // Wall time when run() starts; none: the system's.
};

// The fleet that a worker joins.
struct JoinOptions {
  std::string redis{};          // redis://[user[:password]@]host[:port][/database], rediss:// for TLS.
  std::string prefix = "rota";  // Of the keys in Redis: that of the host.
  std::string redis_ca{};       // For rediss://: a PEM file with the CAs that may have signed the server's certificate.
  // Called in a task when Redis refuses the account in `redis`, which a restarted server may have forgotten: `redis`
  // with a new account, or why there is none. It is called again, after a pause, while Redis refuses. May be empty.
  std::function<Result<std::string>()> new_redis{};
};

enum class StopReason : std::uint8_t { kNone, kCancelled, kPreempted };

class TaskContext {
 public:
  [[nodiscard]] model::TaskId task() const;
  [[nodiscard]] model::AttemptNumber attempt() const;
  [[nodiscard]] const std::string& inputs() const;  // JSON.
  // The inputs of each task if several were merged into this execution. The result must then be a JSON array with one
  // value per task.
  [[nodiscard]] const std::vector<std::string>& merged_inputs() const;
  // JSON of an earlier attempt's last checkpoint; empty if there is none.
  [[nodiscard]] const std::string& last_checkpoint() const;
  // The files of other tasks that were placed for this one (`fetch`), by path, relative to the workflow's directory.
  [[nodiscard]] const std::vector<model::StoredFile>& fetched_files() const;

  // The following functions wait while the task is paused, and are cancellation points.
  // `percent` is from 0 to 100; other values are replaced by the nearer bound.
  void progress(double percent, std::string_view message = {});
  // Throws FiberError (ParseError) if it is not JSON.
  void checkpoint(std::string_view json);
  void log(std::string_view text);
  // Reports that this machine now has something at hand: ("model", "llama-7b").
  void cache(std::string_view kind, std::string_view name);

  // Cancelled when the host cancels or preempts the task, or when the worker ends.
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

  // AlreadyExists; InvalidArgument for an empty type or function.
  Result<void> handle(std::string type, TaskHandler handler);

  // Serves the bus until it is closed or stop() is called and every running task has ended and was reported. If this
  // task is cancelled, running tasks are cancelled and programs are killed, and the result is Cancelled.
  // FailedPrecondition if the worker ran before.
  Result<void> run(bus::WorkerEnd& bus);
  // Joins a fleet: connects to the Redis server that its host uses, and serves as run() does. While Redis or the host
  // cannot be reached, running tasks continue, and their ends are reported later. Closed, with the reason, if the host
  // does not accept this worker, or if another process joined under the same name.
  Result<void> join(const JoinOptions& options);

  // Tells the host that this worker leaves. Tasks that have not started are given back to the host; tasks that run may
  // end.
  void stop();
  // As stop(); tasks that run are told to stop, as for a preemption, and are given back to the host.
  void stop_tasks();

  // As it registers, with its resources and handlers.
  [[nodiscard]] const model::WorkerSpec& spec() const;

 private:
  Result<void> open_files();
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace rota
