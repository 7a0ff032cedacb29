#include "worker/secrets.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <utility>
#include <vector>

#include "base/secret_file.h"
#include "rota/fiber/blocking.h"
#include "worker/owned_fd.h"

namespace rota::worker {

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

Error nothing(std::string why) { return Error{ErrorCode::kNotFound, std::move(why)}; }

// A command in a process group of its own, with its output in a pipe.
class CommandRun {
 public:
  CommandRun() = default;
  CommandRun(const CommandRun&) = delete;
  CommandRun& operator=(const CommandRun&) = delete;
  ~CommandRun() {
    if (pid_ <= 0) return;
    ::kill(-pid_, SIGKILL);
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  Result<void> start(const std::string& command, const std::vector<std::string>& extra) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return nothing("no pipe: " + std::generic_category().message(errno));
    out_ = OwnedFd(ends[0]);
    const OwnedFd write_end(ends[1]);
    std::vector<std::string> entries;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      if (!std::string_view(*entry).starts_with("ROTA_")) entries.emplace_back(*entry);
    }
    entries.insert(entries.end(), extra.begin(), extra.end());
    std::vector<char*> environment;
    for (std::string& entry : entries) environment.push_back(entry.data());
    environment.push_back(nullptr);
    std::string shell = "/bin/sh", option = "-c", text = command;
    char* arguments[] = {shell.data(), option.data(), text.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, write_end.fd, 1);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    sigset_t defaults, none;
    ::sigemptyset(&defaults);
    ::sigaddset(&defaults, SIGPIPE);
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigdefault(&attributes, &defaults);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    const int failed = ::posix_spawn(&pid_, shell.c_str(), &actions, &attributes, arguments, environment.data());
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
    if (failed != 0) {
      pid_ = -1;
      return nothing("it could not be started: " + std::generic_category().message(failed));
    }
    return {};
  }

  // Everything that it prints, up to one byte more than a secret may have.
  Result<std::string> read(steady_clock::time_point until) const {
    std::string value;
    char buffer[4096];
    for (;;) {
      const auto left = std::chrono::duration_cast<milliseconds>(until - steady_clock::now()).count();
      if (left <= 0) return nothing("it took too long and was killed");
      pollfd ready{out_.fd, POLLIN, 0};
      if (::poll(&ready, 1, static_cast<int>(left)) <= 0) continue;
      const ssize_t got = ::read(out_.fd, buffer, sizeof buffer);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return value;
      value.append(buffer, static_cast<std::size_t>(got));
      if (value.size() > kSecretMostBytes + 2) return nothing("it printed more than a secret may have");
    }
  }

  Result<void> wait(steady_clock::time_point until) {
    int status = 0;
    for (;;) {
      const pid_t ended = ::waitpid(pid_, &status, WNOHANG);
      if (ended == pid_) break;
      if (ended < 0 && errno != EINTR) return nothing("its exit status is not known");
      if (steady_clock::now() >= until) return nothing("it took too long and was killed");
      (void)::poll(nullptr, 0, 5);  // It has closed its output: it is about to end.
    }
    pid_ = -1;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
    return nothing(WIFEXITED(status) ? "it ended with status " + std::to_string(WEXITSTATUS(status))
                                     : "it was killed by signal " + std::to_string(WTERMSIG(status)));
  }

 private:
  OwnedFd out_;
  pid_t pid_ = -1;
};

Result<std::string> secret_of_environment(const std::string& name, const std::string& version) {
  const std::string variable = secret_variable(name, version);
  const char* value = std::getenv(variable.c_str());  // NOLINT(concurrency-mt-unsafe): nobody changes the environment.
  if (value == nullptr) return nothing("there is no variable " + variable);
  return std::string(value);
}

}  // namespace

std::string secret_variable(const std::string& name, const std::string& version) {
  std::string variable = "ROTA_SECRET_" + secret_file_name(name, version);
  for (char& c : variable) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (!((c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))) c = '_';
  }
  return variable;
}

Result<std::string> secret_of_command(const std::string& command, const std::string& name, const std::string& version,
                                      milliseconds most) {
  const auto until = steady_clock::now() + most;
  CommandRun run;
  ROTA_TRY(run.start(command, {"ROTA_SECRET=" + name, "ROTA_SECRET_VERSION=" + version}));
  ROTA_TRY_ASSIGN(std::string value, run.read(until));
  ROTA_TRY(run.wait(until));
  if (value.ends_with('\n')) value.pop_back();
  if (value.ends_with('\r')) value.pop_back();
  return value;
}

Result<std::string> Secrets::find(const model::SecretVariable& variable, const model::AttemptId& attempt) const {
  const std::string& name = variable.secret;
  const std::string& version = variable.version;
  const std::string what = "the secret '" + secret_file_name(name, version) + "' of the variable " + variable.name;
  std::string looked;
  // Whether the source has the secret. A value that cannot be used is an error, not a reason to look further.
  const auto take = [&](const char* where, Result<std::string> found, std::string& value) -> Result<bool> {
    if (found.code() == ErrorCode::kCancelled) return std::move(found).take_error();
    if (found.ok()) {
      if (Result<void> valid = check_secret_value(*found); !valid.ok()) {
        return nothing(what + ": " + where + ": " + valid.error().message);
      }
      value = std::move(*found);
      return true;
    }
    if (found.code() != ErrorCode::kNotFound) return nothing(what + ": " + where + ": " + found.error().message);
    looked += (looked.empty() ? "" : ", ") + std::string(where) + " (" + found.error().message + ")";
    return false;
  };
  std::string value;
  bool found = false;
  if (!sources_.directory.empty()) {
    Result<std::string> read = fiber::blocking([&] { return read_secret_file(sources_.directory, name, version); });
    ROTA_TRY_ASSIGN(found, take("in the worker's directory", std::move(read), value));
  }
  if (!found && !sources_.command.empty()) {
    Result<std::string> made = fiber::blocking([&] { return secret_of_command(sources_.command, name, version); });
    ROTA_TRY_ASSIGN(found, take("with the worker's command", std::move(made), value));
  }
  if (!found && sources_.environment) {
    ROTA_TRY_ASSIGN(found, take("in the environment", secret_of_environment(name, version), value));
  }
  if (!found && sources_.host) {
    ROTA_TRY_ASSIGN(found, take("at the host", sources_.host({name, version, attempt.task, attempt.attempt}), value));
  }
  if (found) return value;
  if (looked.empty()) {
    return nothing(what +
                   " cannot be looked up: this worker has no source of secrets; start it with --secrets-dir or "
                   "--secrets-command");
  }
  return nothing(what + " was not found; it was looked for " + looked);
}

}  // namespace rota::worker
