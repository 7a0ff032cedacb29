// Runs one command from its specification to its result (U-2, U-3): surroundings, output, progress, result.
//
//   CommandRun run(guard, place, request, events);
//   Result<CommandEnd> end = run.run();        // one task; others may terminate(), pause() and resume() meanwhile
//
// One task serves a command: its output, its lines and its end are waited for together.
//
// The result of a command that succeeds is the JSON in the file $ROTA_RESULT, if it wrote one; else its last line of
// output, as it is if it is JSON, as a JSON string if not; else null. A result that is no JSON, or too large, is a
// failure.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rota/fiber/sync.h"
#include "rota/result.h"
#include "worker/json.h"
#include "worker/lines.h"
#include "worker/output.h"
#include "worker/process.h"

namespace rota::worker {

// Where commands of this worker run.
struct CommandPlace {
  std::string directory;                 // For logs and results; it exists. Absolute.
  std::vector<std::string> environment;  // What every command has, as NAME=value.
  std::string cgroup{};                  // See ProcessSpec.
  std::uint64_t output_bytes = 1 << 20;  // Kept of a command's output, if its specification says nothing.
  std::uint64_t result_bytes = 1 << 20;  // A result may have.
  std::chrono::milliseconds grace{5000};
  bool stream_output = false;  // Tell what a command writes, as it writes it.
};

struct CommandRequest {
  std::uint64_t task = 0;
  std::uint32_t attempt = 0;
  TaskSpec spec{};
  std::uint64_t cpu_millis = 0;
  std::uint64_t memory_bytes = 0;  // The task's demand; a limit in the specification may be another.
  bool stand_by = false;           // It waits for another's end, or for go().
  std::vector<std::pair<std::string, std::string>> variables{};  // More of the environment: GPU devices and the like.
};

// What a command says while it runs. Called from the task that runs it, which may wait here.
class CommandEvents {
 public:
  virtual ~CommandEvents() = default;
  // At most one every kProgressEvery, and the last one.
  virtual void on_progress(std::uint32_t permille, const std::string& message) = 0;
  virtual void on_checkpoint(const std::string& json) = 0;
  // A line of the protocol, or a sentence of the worker's about a line that was none.
  virtual void on_log(const std::string& text) = 0;
  virtual void on_cache(const std::string& kind, const std::string& name) = 0;
  // If CommandPlace says so: what it wrote, coalesced and bounded (output_stream.h).
  virtual void on_output(bool from_stderr, std::string bytes, std::uint64_t dropped_bytes) {
    (void)from_stderr, (void)bytes, (void)dropped_bytes;
  }
};

struct CommandEnd {
  Outcome outcome;
  std::string message{};        // How it ended, for people; empty for a plain success.
  bool success = false;         // By its outcome and its result.
  std::string result = "null";  // JSON.
  KeptOutput::Summary output;
  std::string log_path{};  // Empty: it wrote nothing.
};

class CommandRun {
 public:
  static constexpr std::chrono::milliseconds kProgressEvery{50};

  // REQUIRES: all outlive it.
  CommandRun(Guard& guard, const CommandPlace& place, CommandRequest request, CommandEvents& events);
  ~CommandRun();
  CommandRun(const CommandRun&) = delete;
  CommandRun& operator=(const CommandRun&) = delete;

  // Once. Errors: it could not start; Cancelled, and then all of it is killed.
  Result<CommandEnd> run();

  // From other tasks, at any time: before the start they take effect with it, after the end they do nothing.
  void terminate(std::chrono::milliseconds grace);
  void pause();
  void resume();
  void go();

 private:
  struct Streams;
  [[nodiscard]] Result<ProcessSpec> process_spec() const;
  Result<void> variable_or_file(const std::string& name, const std::string& json,
                                std::map<std::string, std::string, std::less<>>* environment) const;
  [[nodiscard]] std::string path_of(std::string_view suffix) const;
  Result<Outcome> serve(Streams& streams);
  Result<void> launch(const ProcessSpec& spec, Streams& streams);
  void take_line(Result<Line> line);
  void report_progress(bool last);
  Result<std::string> read_result(const LastLine& last_line, bool* file_found) const;

  Guard& guard_;
  const CommandPlace& place_;
  const CommandRequest request_;
  CommandEvents& events_;
  // Of the line protocol; the running task's alone.
  std::uint32_t permille_ = 0;
  std::string progress_text_;
  bool progress_new_ = false;
  std::chrono::nanoseconds progress_at_{0};
  std::uint32_t bad_lines_ = 0;
  // For the controls, under mutex_.
  fiber::Mutex mutex_;
  std::unique_ptr<Process> process_;
  bool terminated_ = false;
  bool paused_ = false;
  bool gone_ = false;  // go() was called.
  std::chrono::milliseconds terminate_grace_{0};
};

}  // namespace rota::worker
