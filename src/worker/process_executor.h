// The executor of a real worker: programs run as processes, started by guards (guard_pool.h).
//
// Thread safety: start() from any task; make() and the destructor from one.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "rota/fiber/sync.h"
#include "rota/result.h"
#include "worker/executor.h"
#include "worker/guard_pool.h"
#include "worker/program.h"
#include "worker/secrets.h"

namespace rota::worker {

class ProcessExecutor final : public Executor {
 public:
  struct Options {
    std::string directory{};  // For logs and results; empty: a new temporary directory, removed at the end.
    std::string cgroup{};     // A cgroup v2 directory, or "auto"; empty: none.
    std::chrono::milliseconds grace{5000};
    bool stream_output = false;
    bool whole_output = false;
    bool has_devices = false;  // See ProgramPlace.
    SecretSources secrets{};
  };
  // Makes the directory, takes this process's environment for the programs, and prepares the cgroup.
  static Result<std::unique_ptr<ProcessExecutor>> make(const Options& options);
  ~ProcessExecutor() override;
  ProcessExecutor(const ProcessExecutor&) = delete;
  ProcessExecutor& operator=(const ProcessExecutor&) = delete;

  std::unique_ptr<ProgramHandle> start(ProgramRequest request, ProgramEvents& events) override;
  [[nodiscard]] bool has_stand_by() const override { return true; }
  void prepare() override;

 private:
  ProcessExecutor() = default;

  ProgramPlace place_;
  std::unique_ptr<Secrets> secrets_;
  std::unique_ptr<fiber::Semaphore> room_;
  bool own_directory_ = false;
  std::unique_ptr<GuardPool> guards_;
};

}  // namespace rota::worker
