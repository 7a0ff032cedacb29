// A redis-server for tests: on loopback, on a free port and a Unix socket, in a temporary directory.
//
// Its port stays reserved while the server is down, also for clients that the kernel gives a port: nobody else gets it
// before the restart, and no client connects to itself.
// It dies with the thread that started it (PR_SET_PDEATHSIG), so that a killed test leaves nothing behind: start it in
// main's thread, or in a thread that lives as long as it is needed.
// Thread safety: none.
#pragma once

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "net/redis_url.h"
#include "net/reserved_port_testing.h"
#include "rota/assert.h"

namespace rota::bus {

class RedisServer {
 public:
  // `options`: further arguments, {"--maxmemory", "8mb"}.
  explicit RedisServer(std::vector<std::string> options = {}) : options_(std::move(options)) {
    std::string name = (std::filesystem::temp_directory_path() / "rota-redis-XXXXXX").string();
    ROTA_ASSERT(::mkdtemp(name.data()) != nullptr, "no temporary directory");
    directory_ = name;
    start();
    ROTA_ASSERT(process_ > 0, "redis-server does not start; is the package redis-server installed?");
  }
  ~RedisServer() {
    kill();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  // Starts it again on the same port, with what SAVE wrote, if anything.
  void start() {
    int output[2];
    ROTA_ASSERT(::pipe2(output, O_CLOEXEC) == 0, "no pipe");
    std::vector<std::string> arguments = {"redis-server", "--port",     std::to_string(port()),
                                          "--bind",       "127.0.0.1",  "--unixsocket",
                                          socket_path(),  "--dir",      directory_,
                                          "--save",       "",           "--appendonly",
                                          "no",           "--loglevel", "notice"};
    arguments.insert(arguments.end(), options_.begin(), options_.end());
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    const pid_t parent = ::getpid();
    process_ = ::fork();
    ROTA_ASSERT(process_ >= 0, "no process");
    if (process_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      ::dup2(output[1], STDOUT_FILENO);
      ::execvp(pointers[0], pointers.data());
      ::_exit(127);
    }
    ::close(output[1]);
    // It says when it is ready, and closes its output when it ends.
    std::string said;
    char buffer[4096];
    bool ready = false;
    while (!ready) {
      const ssize_t size = ::read(output[0], buffer, sizeof buffer);
      if (size <= 0) break;
      said.append(buffer, static_cast<std::size_t>(size));
      ready = said.find("Ready to accept connections") != std::string::npos;
    }
    // From now on it writes into nothing; it ignores SIGPIPE.
    ::close(output[0]);
    if (!ready) {
      std::fprintf(stderr, "redis-server: %s\n", said.c_str());
      kill();
    }
  }
  void kill() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }
  void pause() const { ::kill(process_, SIGSTOP); }
  void resume() const { ::kill(process_, SIGCONT); }

  [[nodiscard]] net::RedisUrl url() const {
    net::RedisUrl url;
    url.endpoint.port = port();
    return url;
  }
  [[nodiscard]] net::RedisUrl url(std::string user, std::string password) const {
    net::RedisUrl url = this->url();
    url.user = std::move(user);
    url.password = std::move(password);
    return url;
  }
  [[nodiscard]] std::string socket_path() const { return directory_ + "/redis.sock"; }
  [[nodiscard]] std::uint16_t port() const { return port_.number(); }

 private:
  std::vector<std::string> options_;
  std::string directory_;
  const net::ReservedPort port_;
  pid_t process_ = -1;
};

}  // namespace rota::bus
