#include "fiber/reactor.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "rota/assert.h"

namespace rota::fiber::detail {

Reactor::Reactor() : epoll_(epoll_create1(EPOLL_CLOEXEC)), bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  ROTA_ASSERT(epoll_ >= 0 && bell_ >= 0, "no descriptors for epoll and its bell: errno=", errno);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.ptr = nullptr;
  epoll_ctl(epoll_, EPOLL_CTL_ADD, bell_, &event);
}

Reactor::~Reactor() {
  close(bell_);
  close(epoll_);
}

std::uint32_t Reactor::poll(Nanoseconds timeout_ns) {
  std::array<epoll_event, 64> events;
  timespec time{};
  timespec* timeout = nullptr;
  if (timeout_ns != kNever) {
    time.tv_sec = timeout_ns / 1'000'000'000;
    time.tv_nsec = timeout_ns % 1'000'000'000;
    timeout = &time;
  }
  const int count = epoll_pwait2(epoll_, events.data(), static_cast<int>(events.size()), timeout, nullptr);
  std::uint32_t woken = 0;
  for (int i = 0; i < count; ++i) {
    if (events[static_cast<std::size_t>(i)].data.ptr == nullptr) {
      std::uint64_t rings = 0;
      [[maybe_unused]] const auto drained = read(bell_, &rings, sizeof rings);
    }
  }
  return woken;
}

void Reactor::ring() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(bell_, &one, sizeof one);  // Full means rung already.
}

}  // namespace rota::fiber::detail
