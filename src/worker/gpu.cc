#include "worker/gpu.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/json_text.h"
#include "base/os_error.h"
#include "base/units.h"
#include "worker/machine.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): not every system header declares it.

namespace rota::worker {

namespace {

constexpr std::size_t kMostOutput = std::size_t{1} << 20;
constexpr std::int64_t kMiB = 1 << 20;

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::string first_line(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return std::string(trimmed(line));
}

template <class Number>
bool parse_number(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// Reads until the end of the pipe. False: the time is over.
bool read_all(int fd, std::chrono::milliseconds within, std::string& text) {
  const auto until = std::chrono::steady_clock::now() + within;
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
    pollfd ready{fd, POLLIN, 0};
    if (left <= 0 || ::poll(&ready, 1, static_cast<int>(std::min<std::int64_t>(left, 1000))) < 0) {
      if (left > 0 && errno == EINTR) continue;
      return false;
    }
    if (ready.revents == 0) continue;
    std::array<char, 4096> buffer{};
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count == 0) return true;
    if (count < 0 && errno != EINTR) return false;
    if (count > 0 && text.size() < kMostOutput) text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

Result<std::string> output_of(const std::vector<std::string>& command, std::chrono::milliseconds within) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return os_error(errno, "pipe2");
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> words;
  words.reserve(command.size() + 1);
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t pid = 0;
  const int failed = ::posix_spawnp(&pid, words[0], &actions, nullptr, words.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (failed != 0) {
    ::close(ends[0]);
    return os_error(failed, command.front());
  }
  std::string text;
  const bool ended = read_all(ends[0], within, text);
  ::close(ends[0]);
  if (!ended) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended) return Error{ErrorCode::kTimeout, command.front() + " did not end within " + format_duration(within)};
  if (status != 0) return Error{ErrorCode::kInternal, command.front() + " failed"};
  return text;
}

std::vector<model::Device> parse_nvidia_smi(std::string_view text) {
  std::vector<model::Device> devices;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t comma = line.rfind(',');
    if (comma == std::string_view::npos) continue;
    model::Device device{.model = std::string(trimmed(line.substr(0, comma)))};
    std::int64_t mib = 0;
    if (parse_number(trimmed(line.substr(comma + 1)), mib) && mib > 0 && mib < (std::int64_t{1} << 40)) {
      device.memory_bytes = mib * kMiB;
    }
    if (device.model.empty() || devices.size() >= static_cast<std::size_t>(model::kMostDevices)) continue;
    devices.push_back(std::move(device));
  }
  return devices;
}

std::vector<model::Device> drm_devices(const std::string& directory) {
  std::vector<std::pair<int, std::filesystem::path>> cards;  // "card0", and not "card0-DP-1", which is a connector.
  std::error_code error;
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    int number = 0;
    if (name.starts_with("card") && parse_number(std::string_view(name).substr(4), number)) {
      cards.emplace_back(number, at->path() / "device");
    }
  }
  std::sort(cards.begin(), cards.end());
  std::vector<model::Device> devices;
  for (const auto& [number, path] : cards) {
    std::int64_t bytes = 0;
    if (!parse_number(std::string_view(first_line(path / "mem_info_vram_total")), bytes) || bytes <= 0) continue;
    std::string name = first_line(path / "product_name");
    if (name.empty()) name = "gpu-" + first_line(path / "vendor") + "-" + first_line(path / "device");
    if (devices.size() < static_cast<std::size_t>(model::kMostDevices)) devices.push_back({std::move(name), bytes});
  }
  return devices;
}

std::vector<model::Device> detect_gpus(std::chrono::milliseconds within) {
  std::vector<model::Device> devices;
  const std::vector<model::Device> named = nvidia_devices();
  if (const Result<std::string> text =
          output_of({"nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"}, within);
      text.ok()) {
    devices = parse_nvidia_smi(*text);
  } else {
    devices = named;
  }
  for (model::Device& device : drm_devices()) {
    if (devices.size() < static_cast<std::size_t>(model::kMostDevices)) devices.push_back(std::move(device));
  }
  return devices;
}

Result<std::vector<model::Device>> parse_devices(const std::vector<std::string>& texts) {
  std::vector<model::Device> devices;
  for (const std::string& text : texts) {
    if (text == "none") continue;
    const Error wrong{
        ErrorCode::kInvalidArgument,
        "'" + printable(text) + "' is not a list of GPUs; write COUNTxMODEL:MEMORY, like 2xA100:80GiB, or none"};
    std::string_view rest = text;
    std::int64_t count = 1;
    if (const std::size_t x = rest.find('x'); x != std::string_view::npos && parse_number(rest.substr(0, x), count)) {
      rest.remove_prefix(x + 1);
    }
    model::Device device{.model = std::string(rest.substr(0, rest.find(':')))};
    if (const std::size_t colon = rest.find(':'); colon != std::string_view::npos) {
      const Result<ByteSize> memory = parse_bytes(rest.substr(colon + 1));
      if (!memory.ok()) return wrong;
      device.memory_bytes = static_cast<std::int64_t>(memory->count);
    }
    if (device.model.empty() || count < 1 || count + static_cast<std::int64_t>(devices.size()) > model::kMostDevices) {
      return wrong;
    }
    devices.insert(devices.end(), static_cast<std::size_t>(count), device);
  }
  return devices;
}

}  // namespace rota::worker
