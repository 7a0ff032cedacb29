// What `rota host` and `rota worker` share as long-running processes: signals, the service manager, the log.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/settings.h"
#include "cli/subcommand.h"
#include "rota/fiber/io.h"
#include "rota/result.h"

namespace rota::cli {

enum class DaemonSignal : std::uint8_t {
  kStop,    // SIGTERM or SIGINT.
  kReload,  // SIGHUP.
};

// Turns signals into values that a task can wait for. One object per process at a time. The signal handlers are
// installed by the constructor and removed by the destructor.
//
// The stop signal number `exit_at` ends the process at once with status 7, even if no task runs any more; guards then
// kill the programs of the process.
class DaemonSignals {
 public:
  static Result<std::unique_ptr<DaemonSignals>> install(int exit_at);
  ~DaemonSignals();
  DaemonSignals(const DaemonSignals&) = delete;
  DaemonSignals& operator=(const DaemonSignals&) = delete;

  // Waits for the next signal; from one task. DeadlineExceeded, Cancelled.
  Result<DaemonSignal> next(fiber::Deadline deadline = {});

 private:
  DaemonSignals() = default;
  struct Saved;
  std::unique_ptr<Saved> saved_;
  fiber::Descriptor read_end_;
};

// Tells the service manager what the process does ("READY=1", "STOPPING=1", "STATUS=..."), if NOTIFY_SOCKET names its
// socket (sd_notify(3)). Failures are ignored: the manager has its own timeouts.
void notify_service_manager(std::string_view state);

// The rows log.level, log.format and log.file.
class LogSettings {
 public:
  explicit LogSettings(SettingsTable& table);
  [[nodiscard]] LogOptions options(const Settings& settings) const;

 private:
  Setting<LogLevel> level_;
  Setting<LogFormat> format_;
  Setting<std::string> file_;
};

// Loads the table from `arguments` (flags of the table), the environment, and `file` unless it is empty.
[[nodiscard]] Result<Settings> load_all(const SettingsTable& table, const std::vector<std::string>& arguments,
                                        const std::string& file);

// One option for each row of the table: its values are collected as arguments for load_all().
[[nodiscard]] std::vector<Option> setting_options(const SettingsTable& table, std::vector<std::string>* arguments);

}  // namespace rota::cli
