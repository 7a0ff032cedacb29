// The `rota` command: see cli/commands.h.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>

#include "cli/commands.h"
#include "rota/error_code.h"

namespace {

// Whoever starts us without standard descriptors would otherwise find our words in the first file that we open.
void fill_standard_descriptors() {
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) == -1) (void)::open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);  // The lowest free one.
  }
}

// A reader that went away has seen what it wanted; what did not fit the disk must not look like success.
int status_with_output(int status) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  pollfd out{STDOUT_FILENO, 0, 0};
  const bool reader_gone = ::poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
  std::fprintf(stderr, "rota: %s\n",
               reader_gone ? "nobody reads the output any more; not all of it was written"
                           : "not all of the output could be written: is its disk full?");
  if (reader_gone || status != 0) return status;
  return rota::exit_status(rota::ErrorCode::kIoError);
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_descriptors();
  // A file at its size limit (ulimit -f) is an error of that write, like a full disk, and not the end of us. Commands
  // are started with all signals as they are by default.
  std::signal(SIGXFSZ, SIG_IGN);
  return status_with_output(rota::cli::run_command(argc, argv));
}
