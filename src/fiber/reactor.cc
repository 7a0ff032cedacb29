#include "fiber/reactor.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include "fiber/io_slot.h"
#include "fiber/runtime_core.h"
#include "rota/assert.h"
#include "rota/fiber/error.h"

namespace rota::fiber::detail {

namespace {

// Events per call. They are on the stack of the caller of poll(), which may be a task's; the next call gets the rest.
constexpr int kBatch = 32;
constexpr std::uint64_t kBell = ~std::uint64_t{0};  // No slot: kMaxSlots is below 2^32.

}  // namespace

Reactor::Reactor(RuntimeCore* runtime)
    : runtime_((prepare_slots(), runtime)),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      bell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kBell;
  if (epoll_ >= 0 && bell_ >= 0 && epoll_ctl(epoll_, EPOLL_CTL_ADD, bell_, &event) == 0) return;
  const int error = errno;
  if (bell_ >= 0) close(bell_);
  if (epoll_ >= 0) close(epoll_);
  throw_error(Error{ErrorCode::kResourceExhausted,
                    std::string("the runtime could not get two descriptors, for epoll and to wake it: ") +
                        std::generic_category().message(error) + "; close some, or raise the limit (ulimit -n)"});
}

Reactor::~Reactor() {
  forget_reactor(this);
  close(bell_);
  close(epoll_);
}

int Reactor::wait(void* events, Nanoseconds timeout_ns) {
  auto* out = static_cast<epoll_event*>(events);
  if (timeout_ns == 0) return epoll_wait(epoll_, out, kBatch, 0);
  if (timeout_ns == kNever) return epoll_wait(epoll_, out, kBatch, -1);
  if (nanoseconds_) {
    const timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
    const int count = epoll_pwait2(epoll_, out, kBatch, &timeout, nullptr);
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
    nanoseconds_ = false;  // Linux before 5.11, or a filter that does not know it. Only the poller gets here.
  }
  const Nanoseconds ms = (timeout_ns + 999'999) / 1'000'000;
  return epoll_wait(epoll_, out, kBatch, static_cast<int>(std::min<Nanoseconds>(ms, 3'600'000)));
}

std::uint32_t Reactor::poll(Nanoseconds timeout_ns) {
  const bool blocks = timeout_ns > 0;
  // Acquire and release below: one thread at a time, for speed, not for safety.
  if (!blocks && looking_.exchange(true, std::memory_order_acquire)) return 0;
  epoll_event events[kBatch];
  const int count = wait(events, blocks ? timeout_ns : 0);
  if (!blocks) looking_.store(false, std::memory_order_release);
  std::uint32_t woken = 0;
  for (int i = 0; i < count; ++i) {  // -1 is EINTR: no events.
    const std::uint64_t what = events[i].data.u64;
    if (what == kBell) {
      std::uint64_t rings = 0;
      if (blocks) [[maybe_unused]]
        const auto drained = read(bell_, &rings, sizeof rings);
      continue;
    }
    const std::uint32_t flags = events[i].events;
    const bool failed = (flags & (EPOLLERR | EPOLLHUP)) != 0;
    woken += wake_waiters(slot_at(static_cast<std::uint32_t>(what)), static_cast<std::uint32_t>(what >> 32),
                          failed || (flags & (EPOLLIN | EPOLLRDHUP)) != 0, failed || (flags & EPOLLOUT) != 0);
  }
  return woken;
}

void Reactor::ring() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(bell_, &one, sizeof one);  // If it is full, it was already rung.
}

void Reactor::begin_wait() {
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  if (runtime_->deterministic || runtime_->poller.load(std::memory_order_seq_cst) >= 0) return;
  // Nobody waits in epoll. A searcher will poll; if there is none, a sleeper must be woken, because this thread worker
  // may be about to run a long task.
  const std::uint64_t idle = runtime_->lot.word().load(std::memory_order_seq_cst);
  if (ParkingLot::sleepers(idle) > 0 && ParkingLot::searchers(idle) == 0) runtime_->wake_one();
}

int Reactor::watch(IoSlot* slot) {
  if (slot->reactor == this) return 0;
  if (slot->reactor != nullptr) {  // Of another runtime. The slot may move if nobody waits for it there.
    if (slot->waiting[0].first != nullptr || slot->waiting[1].first != nullptr) return EBUSY;
    slot->reactor->unwatch(slot);
  }
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.u64 = static_cast<std::uint64_t>(slot->generation()) << 32 | slot->index;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, slot->fd, &event) != 0) return errno;
  slot->reactor = this;
  return 0;
}

void Reactor::unwatch(IoSlot* slot) {
  epoll_event unused{};  // Kernels before 2.6.9 require one.
  epoll_ctl(epoll_, EPOLL_CTL_DEL, slot->fd, &unused);
  slot->reactor = nullptr;
}

}  // namespace rota::fiber::detail
