#include "rota/flow/config.h"

#include <array>
#include <charconv>
#include <cstdlib>
#include <string>
#include <thread>

#include "base/log.h"

namespace rota::flow {

ILogger::~ILogger() = default;

namespace {

class ProcessLog final : public ILogger {
 public:
  void log(Level level, std::string_view message) override {
    switch (level) {
      case Level::kInfo:
        ROTA_LOG(kInfo, message);
        break;
      case Level::kWarning:
        ROTA_LOG(kWarn, message);
        break;
      case Level::kError:
        ROTA_LOG(kError, message);
        break;
    }
  }
};

constexpr std::uint64_t kUint32Max = 0xffffffffU;

// The rows that hold a number are in the order of apply().
constexpr std::array<EnvironmentRow, 8> kRows{{
    {"STV_SCHEDULER", "threadpool (default) or simple", 0, 0},
    {"STV_SCHED_WORKERS", "threads of the pool; 0: one a core", 0, 1024},
    {"STV_SCHED_CPU_SLOTS", "CPU slots, a hard limit; 0: as many as workers", 0, kUint32Max},
    {"STV_SCHED_RAM_MB_SOFT", "RAM in MB, a soft limit; 0: unlimited", 0, graph::kMemoryMbMax},
    {"STV_SCHED_VRAM_MB_SOFT", "VRAM in MB, a soft limit; 0: unlimited", 0, graph::kMemoryMbMax},
    {"STV_SCHED_AGING_INTERVAL_MS", "a ready task's priority rises each time it has waited so long", 1, kUint32Max},
    {"STV_SCHED_AGING_BOOST", "by how much it rises", 0, kUint32Max},
    {"STV_SCHED_PAUSE_TIMEOUT_MS", "a running task that does not pause within this is cancelled", 1, kUint32Max},
}};

void apply(SchedulerConfig& config, std::size_t row, std::uint64_t value) {
  const auto small = static_cast<std::uint32_t>(value);
  switch (row) {
    case 1:
      config.workers = small;
      break;
    case 2:
      config.budget.cpu_slots_hard = small;
      break;
    case 3:
      config.budget.ram_mb_soft = value;
      break;
    case 4:
      config.budget.vram_mb_soft = value;
      break;
    case 5:
      config.aging.interval_ms = small;
      break;
    case 6:
      config.aging.boost = small;
      break;
    case 7:
      config.pause.timeout_ms = small;
      break;
    default:
      break;
  }
}

}  // namespace

std::shared_ptr<ILogger> default_logger() {
  static const std::shared_ptr<ILogger> logger = std::make_shared<ProcessLog>();
  return logger;
}

std::span<const EnvironmentRow> environment_rows() { return kRows; }

SchedulerConfig config_from_environment(SchedulerConfig config, ILogger& logger, const EnvironmentLookup& lookup) {
  const auto warn = [&](const EnvironmentRow& row, std::string_view text, const std::string& right) {
    logger.log(ILogger::Level::kWarning, std::string(row.name) + "='" + std::string(text) + "' is not valid; give " +
                                             right + ". The value is ignored.");
  };
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    const EnvironmentRow& row = kRows[i];
    const char* found = lookup ? lookup(row.name.data()) : std::getenv(row.name.data());
    if (found == nullptr) continue;
    const std::string_view text(found);
    if (i == 0) {
      if (text == "simple") {
        config.kind = SchedulerKind::kSimple;
      } else if (text == "threadpool") {
        config.kind = SchedulerKind::kThreadPool;
      } else {
        warn(row, text, "threadpool or simple");
      }
      continue;
    }
    std::uint64_t value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status != std::errc() || end != text.data() + text.size() || value < row.lowest || value > row.highest) {
      warn(row, text, "a number from " + std::to_string(row.lowest) + " to " + std::to_string(row.highest));
      continue;
    }
    apply(config, i, value);
  }
  return config;
}

Result<SchedulerConfig> SchedulerConfig::checked() const {
  SchedulerConfig full = *this;
  if (workers > 1024) {
    return Error{ErrorCode::kInvalidArgument,
                 std::to_string(workers) + " workers are too many; at most 1024 are allowed"};
  }
  if (full.workers == 0) full.workers = std::max(1U, std::thread::hardware_concurrency());
  if (full.budget.cpu_slots_hard == 0) full.budget.cpu_slots_hard = full.workers;
  ROTA_TRY(graph::check(full.budget));
  ROTA_TRY(graph::check(full.aging));
  if (full.pause.timeout_ms == 0) {
    return Error{ErrorCode::kInvalidArgument, "a pause timeout of 0 ms would cancel every task; give at least 1"};
  }
  if (trace_slices > (1U << 24)) {
    return Error{ErrorCode::kInvalidArgument,
                 std::to_string(trace_slices) + " trace slices are too many; at most 2^24 are allowed"};
  }
  return full;
}

}  // namespace rota::flow
