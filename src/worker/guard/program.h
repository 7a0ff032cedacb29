// How the guard starts a program: the request, the cgroup and the child process.
//
// Thread safety: none; the guard has one thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "worker/guard_protocol.h"

namespace rota::worker::guard {

// The open descriptors that a child gets as 0 to 3. All are above 3 and close on exec.
struct ChildFds {
  int null = -1;
  int out = -1;
  int err = -1;
  int progress = -1;
};

// A StartHeader with its payload taken apart.
struct Request {
  StartHeader header;
  std::string directory;
  std::string cgroup;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
};
// False if the payload does not match the header.
bool parse_request(const StartHeader& header, const std::string& payload, Request* request);

// A cgroup for one program, below the one that the worker was given. Before make(), every function does nothing.
class Cgroup {
 public:
  // Makes the group and sets the limits that its controllers support. Returns an errno, or 0.
  int make(const std::string& parent, const std::string& name, const StartHeader& header);
  [[nodiscard]] bool is_open() const { return !path_.empty(); }
  [[nodiscard]] bool limits_memory() const { return limits_memory_; }
  [[nodiscard]] int procs_fd() const { return procs_fd_; }
  void close_procs();
  [[nodiscard]] bool killed_for_memory() const;
  void kill() const;
  // True when the group is removed, or there is none. False while processes in it are still dying.
  [[nodiscard]] bool remove();

 private:
  std::string path_;
  int procs_fd_ = -1;
  bool limits_memory_ = false;
};

// Raises the guard's own limit of open files to the maximum: it has one socket per program. Programs get
// `inherited`, a number in decimal: the soft limit that the worker was started with.
void take_open_files(const char* inherited);

struct StartResult {
  pid_t pid = -1;
  Stage stage = Stage::kNone;
  int error = 0;
};
// Starts the program of the request in a process group of its own. Returns when the child has executed its program, or
// has failed to.
StartResult start_child(const Request& request, const Cgroup& cgroup, const ChildFds& fds);

}  // namespace rota::worker::guard
