// A file descriptor that closes itself, and a pipe of which a program gets the write end.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "rota/fiber/io.h"
#include "rota/result.h"

namespace rota::worker {

class OwnedFd {
 public:
  OwnedFd() = default;
  explicit OwnedFd(int number) : fd(number) {}
  OwnedFd(OwnedFd&& other) noexcept : fd(other.release()) {}
  OwnedFd& operator=(OwnedFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd = other.release();
    }
    return *this;
  }
  ~OwnedFd() { reset(); }
  int release() { return std::exchange(fd, -1); }
  void reset() {
    if (fd >= 0) ::close(release());
  }

  int fd = -1;
};

// A program writes into this pipe and a task reads from it. The program's end blocks, as programs expect.
struct ProgramPipe {
  fiber::Descriptor read_end;
  OwnedFd write_end;

  static Result<ProgramPipe> make() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      return Error{ErrorCode::kResourceExhausted,
                   "cannot make a pipe for a program: " + std::generic_category().message(errno)};
    }
    ProgramPipe pipe;
    pipe.write_end = OwnedFd(ends[1]);
    ROTA_TRY_ASSIGN(pipe.read_end, fiber::Descriptor::adopt(ends[0]));
    return pipe;
  }
};

}  // namespace rota::worker
