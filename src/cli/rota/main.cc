// The `rota` program: prepares the process, then runs the subcommand that its arguments name (cli/arguments.h).
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "cli/arguments.h"
#include "cli/subcommands.h"
#include "rota/error_code.h"

namespace {

// If a standard descriptor is closed at the start, the first file that Rota opens would get its number, and messages
// would be written into that file.
void fill_standard_descriptors() {
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) == -1)
      (void)::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);  // Gets the lowest free number: fd.
  }
}

// Turns a failed write of the output into an error, except when the reader of a pipe has gone: a reader that closes the
// pipe early (`| head`) has seen what it wanted.
int status_with_output(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  pollfd out{STDOUT_FILENO, 0, 0};
  const bool reader_gone = ::poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
  std::fprintf(stderr, "rota: %s\n",
               reader_gone ? "the reader of the output has closed it; not all of it was written"
                           : "not all of the output could be written; is its disk full?");
  if (reader_gone || status != 0) return status;
  return rota::exit_status(rota::ErrorCode::kIoError);
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_descriptors();
  // A write beyond the file size limit (ulimit -f) then fails with an error, like a full disk, instead of killing the
  // process. The worker starts programs with the default signal handlers.
  std::signal(SIGXFSZ, SIG_IGN);
  return status_with_output(rota::cli::run_command(rota::cli::subcommands(), {argv + (argc > 0 ? 1 : 0), argv + argc}));
}
