#include "cli/daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/os_error.h"
#include "cli/subcommand.h"
#include "workflow/settings_file.h"

namespace rota::cli {

namespace {

volatile std::sig_atomic_t stops_seen = 0;
volatile std::sig_atomic_t stops_to_exit = 2;
volatile std::sig_atomic_t write_end = -1;

extern "C" void on_daemon_signal(int number) {
  const int saved = errno;
  if (number != SIGHUP) {
    stops_seen = stops_seen + 1;
    if (stops_seen >= stops_to_exit) ::_exit(exit_status(ErrorCode::kCancelled));
  }
  const char byte = number == SIGHUP ? 'h' : 's';
  // If the pipe is full, enough signals wait to be seen.
  if (::write(write_end, &byte, 1) < 0) errno = saved;
  errno = saved;
}

constexpr std::array<int, 3> kSignals{SIGTERM, SIGINT, SIGHUP};

}  // namespace

struct DaemonSignals::Saved {
  std::array<struct sigaction, kSignals.size()> actions{};
  int write_fd = -1;
};

Result<std::unique_ptr<DaemonSignals>> DaemonSignals::install(int exit_at) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) return os_error(errno, "pipe2");
  std::unique_ptr<DaemonSignals> signals(new DaemonSignals());
  signals->saved_ = std::make_unique<Saved>();
  signals->saved_->write_fd = ends[1];
  ROTA_TRY_ASSIGN(signals->read_end_, fiber::Descriptor::adopt(ends[0]));
  stops_seen = 0;
  stops_to_exit = exit_at;
  write_end = ends[1];
  struct sigaction action{};
  action.sa_handler = on_daemon_signal;
  ::sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &signals->saved_->actions[i]);
  return signals;
}

DaemonSignals::~DaemonSignals() {
  if (saved_ == nullptr || saved_->write_fd < 0) return;
  if (write_end == saved_->write_fd) {
    for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &saved_->actions[i], nullptr);
    write_end = -1;
  }
  ::close(saved_->write_fd);
}

Result<DaemonSignal> DaemonSignals::next(fiber::Deadline deadline) {
  std::byte byte{};
  ROTA_TRY_ASSIGN(const std::size_t read, read_end_.read_some(std::span(&byte, 1), deadline));
  if (read == 0) return ErrorCode::kClosed;
  return byte == static_cast<std::byte>('h') ? DaemonSignal::kReload : DaemonSignal::kStop;
}

void notify_service_manager(std::string_view state) {
  const char* path = std::getenv("NOTIFY_SOCKET");  // NOLINT(concurrency-mt-unsafe): nobody changes the environment.
  if (path == nullptr || (*path != '/' && *path != '@')) return;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(path);
  if (length >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, path, length);
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';  // Linux's abstract namespace.
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  (void)::sendto(fd, state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), size);
  ::close(fd);
}

// ----------------------------------------------------------------------------------------------------------- settings

LogSettings::LogSettings(SettingsTable& table)
    : level_(table.add_enum({.name = "log.level", .meaning = "the least important lines that are logged"},
                            LogLevel::kInfo,
                            {std::pair<std::string_view, LogLevel>{"trace", LogLevel::kTrace},
                             {"debug", LogLevel::kDebug},
                             {"info", LogLevel::kInfo},
                             {"warn", LogLevel::kWarn},
                             {"error", LogLevel::kError},
                             {"off", LogLevel::kOff}})),
      format_(table.add_enum(
          {.name = "log.format", .meaning = "lines of text, or one JSON object per line"}, LogFormat::kText,
          {std::pair<std::string_view, LogFormat>{"text", LogFormat::kText}, {"json", LogFormat::kJson}})),
      file_(table.add_string({.name = "log.file", .meaning = "the log is appended to this file; empty: standard error"},
                             "")) {}

LogOptions LogSettings::options(const Settings& settings) const {
  LogOptions options;
  options.level = settings.get(level_);
  options.format = settings.get(format_);
  options.file = settings.get(file_);
  return options;
}

Result<Settings> load_all(const SettingsTable& table, const std::vector<std::string>& arguments,
                          const std::string& file) {
  SettingSources sources{.arguments = arguments, .environment = current_environment()};
  if (!file.empty()) {
    ROTA_TRY_ASSIGN(SettingsFile parsed, workflow::read_settings_file(file));
    sources.files.push_back(std::move(parsed));
  }
  SettingsLoad load = load_settings(table, sources);
  ROTA_TRY(load.status());
  for (const std::string& warning : load.warnings) ROTA_LOG(kWarn, warning);
  return std::move(load.settings);
}

std::vector<Option> setting_options(const SettingsTable& table, std::vector<std::string>* arguments) {
  std::vector<Option> options;
  for (const SettingRow& row : table.rows()) {
    std::string meaning = row.meaning;
    if (row.type() != SettingType::kEnum) {
      const std::string text = row.secret ? "" : format_setting(row, row.default_value);
      if (!text.empty()) meaning += " (" + text + (row.unit.empty() ? "" : " " + row.unit) + ")";
    } else {
      meaning += " (" + format_setting(row, row.default_value) + ")";
    }
    std::string value = "TEXT";
    switch (row.type()) {
      case SettingType::kBool:
        value = "true|false";
        break;
      case SettingType::kInt:
        value = "N";
        break;
      case SettingType::kFloat:
        value = "X";
        break;
      case SettingType::kDuration:
        value = "TIME";
        break;
      case SettingType::kBytes:
        value = "BYTES";
        break;
      case SettingType::kList:
        value = "LIST";
        break;
      case SettingType::kEnum:
        value.clear();
        for (const EnumName& name : row.names) value += (value.empty() ? "" : "|") + name.name;
        break;
      case SettingType::kString:
        break;
    }
    Option option;
    option.names = {"--" + row.flag};
    option.value = value;
    option.meaning = std::move(meaning);
    option.many = row.type() == SettingType::kList;
    if (row.type() == SettingType::kEnum) {
      for (const EnumName& name : row.names) option.choices.push_back(name.name);
    } else if (row.type() == SettingType::kBool) {
      option.choices = {"true", "false"};
    }
    option.set = [arguments, row](const std::string& given) -> Result<void> {
      if (const auto parsed = parse_setting(row, given); !parsed.ok()) {
        return Error{parsed.code(), parsed.error().message + "; allowed: " + allowed_text(row)};
      }
      arguments->push_back("--" + row.flag + "=" + given);
      return {};
    };
    options.push_back(std::move(option));
  }
  return options;
}

}  // namespace rota::cli
