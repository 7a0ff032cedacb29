#include "cli/control_client.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <utility>

#include "base/os_error.h"
#include "cli/remote_host.h"
#include "rota/fiber/runtime.h"

namespace rota::cli {

namespace {

constexpr std::chrono::seconds kAnswerWithin{90};

std::string socket_path(const std::string& state) { return state + "/" + std::string(host::kControlSocket); }

// The address of a Unix socket has at most 107 bytes. A path through a descriptor of the folder is always short enough.
class ShortPath {
 public:
  explicit ShortPath(const std::string& state)
      : fd_(::open(state.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)),
        path_("/proc/self/fd/" + std::to_string(fd_) + "/" + std::string(host::kControlSocket)) {}
  ~ShortPath() {
    if (fd_ >= 0) ::close(fd_);
  }
  ShortPath(const ShortPath&) = delete;
  ShortPath& operator=(const ShortPath&) = delete;
  [[nodiscard]] bool ok() const { return fd_ >= 0; }
  [[nodiscard]] net::Endpoint endpoint() const { return {.host = {}, .port = 0, .unix_path = path_}; }

 private:
  int fd_;
  std::string path_;
};

}  // namespace

Result<std::unique_ptr<net::Listener>> listen_for_control(const std::string& state) {
  const std::string path = socket_path(state);
  ::unlink(path.c_str());  // Of a host that was killed.
  const ShortPath place(state);
  if (!place.ok()) return os_error(errno, "open '" + state + "'");
  ROTA_TRY_ASSIGN(std::unique_ptr<net::Listener> listener, net::real_network().listen(place.endpoint()));
  if (::chmod(path.c_str(), 0600) != 0) return os_error(errno, "chmod '" + path + "'");
  return listener;
}

void remove_control_socket(const std::string& state) { ::unlink(socket_path(state).c_str()); }

Result<host::ControlAnswer> ask_host(const std::string& target, const host::ControlRequest& request) {
  if (is_url(target)) {
    ROTA_TRY_ASSIGN(const std::shared_ptr<RemoteHost> host, RemoteHost::open(target));
    return ask_remote(*host, request);
  }
  const std::string& state = target;
  const Error nobody{ErrorCode::kUnavailable, "no host runs with the state folder '" + state +
                                                  "'; start one with `rota host --state " + state + "`"};
  std::error_code error;
  if (!std::filesystem::exists(socket_path(state), error)) {
    if (error == std::errc::permission_denied) {
      return Error{ErrorCode::kPermissionDenied,
                   "the state folder '" + state + "' belongs to another user; run this as the user of the host"};
    }
    return nobody;
  }
  const ShortPath place(state);
  if (!place.ok()) return os_error(errno, "open '" + state + "'");
  ROTA_TRY_ASSIGN(const std::unique_ptr<fiber::Runtime> runtime,
                  fiber::Runtime::create({.worker_count = 1, .spin_count = 0}));
  return runtime->run([&]() -> Result<host::ControlAnswer> {
    Result<std::unique_ptr<net::ByteStream>> stream = net::real_network().connect(place.endpoint(), kAnswerWithin);
    if (!stream.ok()) {
      if (stream.code() == ErrorCode::kPermissionDenied) return std::move(stream).take_error();
      return nobody;
    }
    Result<host::ControlAnswer> answer = host::call(**stream, request, kAnswerWithin);
    if (!answer.ok() && answer.code() == ErrorCode::kClosed) {
      return Error{ErrorCode::kUnavailable,
                   "the host closed the connection before it answered; whether it accepted the command is not known"};
    }
    return answer;
  });
}

}  // namespace rota::cli
