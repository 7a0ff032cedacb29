// Runs one program from its specification to its outcome (U-2, U-3): environment, output, progress, result.
//
//   ProgramRun run(guards, place, request, events);
//   Result<AttemptResult> end = run.wait();    // one task; others may terminate(), pause() and resume() meanwhile
//
// One task serves a program: it waits for output, lines and end together.
//
// The result of a program that succeeds is the JSON in the file $ROTA_RESULT, if the program wrote one; otherwise its
// last line of output, unchanged if it is JSON and as a JSON string if not; otherwise null. A file $ROTA_RESULT that is
// not JSON, or too large, is a failure. With `whole_output` there is no result, and all output is kept, by stream.
//
// The values of the task's secrets are looked up before the program starts, and are masked in everything that it writes
// before anything else is done with it (secret_mask.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "rota/fiber/sync.h"
#include "rota/result.h"
#include "worker/executor.h"
#include "worker/lines.h"
#include "worker/output.h"
#include "worker/poll_set.h"
#include "worker/process.h"
#include "worker/secret_mask.h"
#include "worker/secrets.h"

namespace rota::worker {

// What the programs of a worker have in common.
struct ProgramPlace {
  std::string directory;                 // For logs and results; it exists. Absolute.
  std::vector<std::string> environment;  // Of every program, as NAME=value.
  std::string cgroup{};                  // See ProcessSpec.
  std::uint64_t output_bytes = 1 << 20;  // How much output of a program is kept, if its specification does not say.
  std::uint64_t result_bytes = 1 << 20;  // The largest result.
  std::chrono::milliseconds grace{5000};
  std::uint64_t room_permits = 0;    // Of `room`, altogether.
  fiber::Semaphore* room = nullptr;  // One permit per program, so that descriptors do not run out; null: no bound.
  bool stream_output = false;        // Report output while a program writes it.
  bool whole_output = false;         // See WorkerOptions.
  bool has_devices = false;          // The machine has GPUs: a program that holds none must see none.
  const Secrets* secrets = nullptr;  // Where the secrets of tasks are looked up; null: nowhere.
};

class ProgramRun final : public ProgramHandle {
 public:
  // REQUIRES: all of them outlive it.
  ProgramRun(GuardPool& guards, const ProgramPlace& place, ProgramRequest request, ProgramEvents& events);
  ~ProgramRun() override;
  ProgramRun(const ProgramRun&) = delete;
  ProgramRun& operator=(const ProgramRun&) = delete;

  Result<AttemptResult> wait() override;
  void terminate() override;
  void pause() override;
  void resume() override;
  void go() override;

 private:
  struct Streams;
  Result<AttemptResult> run();
  Result<void> take_room();
  // Runs the program; while the system has no room for another process or descriptor, waits and tries again.
  Result<AttemptResult> run_when_possible();
  // The values of the task's secrets, by variable.
  [[nodiscard]] Result<std::vector<model::Variable>> find_secrets() const;
  [[nodiscard]] Result<ProcessSpec> process_spec(const std::vector<model::Variable>& secrets) const;
  Result<void> variable_or_file(const std::string& name, const std::string& json,
                                std::map<std::string, std::string, std::less<>>* environment) const;
  [[nodiscard]] std::string path_of(std::string_view suffix) const;
  Result<ProcessEnd> serve(Streams& streams, PollSet& set, ProgramEvents& events);
  Result<void> launch(const ProcessSpec& spec, Streams& streams);
  // Fills in times, use and message.
  void describe(const ProcessEnd& end, const ProcessSpec& spec, model::AttemptOutcome* outcome) const;
  void remove_files(bool result_file) const;
  Result<std::string> read_result(const LastLine& last_line, const SecretMask& mask, bool* file_found) const;

  GuardPool& guards_;
  const ProgramPlace& place_;
  const ProgramRequest request_;
  const std::chrono::milliseconds grace_;
  ProgramEvents& events_;
  std::chrono::nanoseconds requested_at_{0};  // When wait() was called.
  // Under mutex_: the process, and the requests that came before there was one.
  fiber::Mutex mutex_;
  std::unique_ptr<Process> process_;
  fiber::Event started_;  // go() or terminate() was called.
  bool terminate_requested_ = false;
  bool paused_ = false;
  bool go_requested_ = false;
};

}  // namespace rota::worker
