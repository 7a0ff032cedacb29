// The configuration of a scheduler, and the environment variables that change it (G-10).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "rota/graph/resources.h"
#include "rota/graph/roster.h"
#include "rota/graph/task.h"
#include "rota/result.h"

namespace rota::flow {

using graph::AgingPolicy;
using graph::PausePolicy;
using graph::ResourceBudget;
using graph::ResourceDemand;
using graph::RetryPolicy;
using graph::TaskState;

// The error of a task or a command: a stable code, a sentence, details. A Result<T> of this library is a
// Result<T, TaskError>.
using TaskError = Error;

enum class SchedulerKind : std::uint8_t {
  kThreadPool,  // Stages run as fibers on a pool of threads.
  kSimple,      // One stage at a time, on one thread.
};

// Receives warnings. log() may be called from any thread and must not call the scheduler.
class ILogger {
 public:
  enum class Level : std::uint8_t { kInfo, kWarning, kError };
  virtual ~ILogger();
  virtual void log(Level level, std::string_view message) = 0;
};
// Writes to the process's own log.
[[nodiscard]] std::shared_ptr<ILogger> default_logger();

struct SchedulerConfig {
  SchedulerKind kind = SchedulerKind::kThreadPool;  // For create_scheduler(); the other factories ignore it.
  std::uint32_t workers = 0;                        // 0: one per core. At most 1024.
  // cpu_slots_hard may be 0 here (and only here): as many slots as there are workers.
  ResourceBudget budget{.cpu_slots_hard = 0, .ram_mb_soft = 0, .vram_mb_soft = 0};
  AgingPolicy aging{};
  PausePolicy pause{};
  // How many of the latest runs of tasks to keep for write_trace(); the oldest is dropped first. 0: no trace. At most
  // 2^24.
  std::size_t trace_slices = 0;
  // How many ended tasks to keep; beyond that, the task that ended first is forgotten (IScheduler::forget). 0: all are
  // kept until they are forgotten by request.
  std::size_t max_ended_tasks = 0;

  // This configuration with defaults filled in, or an error that says which value is wrong.
  [[nodiscard]] Result<SchedulerConfig> checked() const;
};

// One environment variable.
struct EnvironmentRow {
  std::string_view name;
  std::string_view meaning;
  std::uint64_t lowest, highest;  // Range of a number; 0, 0 for STV_SCHEDULER.
};
// All of them, in the order of the documentation.
[[nodiscard]] std::span<const EnvironmentRow> environment_rows();

// Returns `base` with the values of the STV_* variables applied. A value that cannot be parsed or is out of range
// causes a warning and changes nothing. `lookup` is std::getenv by default.
using EnvironmentLookup = std::function<const char*(const char* name)>;
[[nodiscard]] SchedulerConfig config_from_environment(SchedulerConfig base, ILogger& logger,
                                                      const EnvironmentLookup& lookup = {});

}  // namespace rota::flow
