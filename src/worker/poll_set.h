// Lets a task wait for several descriptors at once: an epoll descriptor, on which the task waits.
//
// Level-triggered: a descriptor that was not read to its end is ready again.
// Thread safety: none; one task owns it.
#pragma once

#include <sys/epoll.h>

#include <cerrno>
#include <system_error>

#include "rota/fiber/io.h"
#include "rota/result.h"

namespace rota::worker {

class PollSet {
 public:
  static Result<PollSet> make() {
    PollSet set;
    const int fd = ::epoll_create1(EPOLL_CLOEXEC);
    if (fd < 0)
      return Error{ErrorCode::kResourceExhausted,
                   "cannot make an epoll descriptor: " + std::generic_category().message(errno)};
    ROTA_TRY_ASSIGN(set.epoll_, fiber::Descriptor::adopt(fd));
    return set;
  }
  // REQUIRES: `tag` < 32. The caller keeps the descriptor.
  Result<void> add(int fd, unsigned tag) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = tag;
    if (::epoll_ctl(epoll_.native(), EPOLL_CTL_ADD, fd, &event) != 0) {
      return Error{ErrorCode::kIoError, "cannot watch a descriptor: " + std::generic_category().message(errno)};
    }
    return {};
  }
  void remove(int fd) { ::epoll_ctl(epoll_.native(), EPOLL_CTL_DEL, fd, nullptr); }
  // The tags of the descriptors that are ready, as bits; at least one. DeadlineExceeded, Cancelled.
  Result<unsigned> wait(fiber::Deadline deadline) {
    for (;;) {
      epoll_event events[8];
      const int count = ::epoll_wait(epoll_.native(), events, 8, 0);
      unsigned ready = 0;
      for (int i = 0; i < count; ++i) ready |= 1U << events[i].data.u32;
      if (ready != 0) return ready;
      ROTA_TRY(epoll_.wait_readable(deadline));
    }
  }

 private:
  fiber::Descriptor epoll_;
};

}  // namespace rota::worker
