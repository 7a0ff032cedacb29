// Descriptors: attempts, and waits when they would block. io_slot.h argues the races, reactor.h the polling.
#include "rota/fiber/io.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "fiber/io_error.h"
#include "fiber/io_slot.h"
#include "fiber/reactor.h"
#include "fiber/runtime_core.h"
#include "fiber/waiting.h"

namespace rota::fiber {

using namespace detail;

namespace {

// A wait in progress, in the frame of the waiting fiber.
struct IoWait {
  IoWaiter waiter;
  IoSlot* slot;
  RuntimeCore* runtime;
  Nanoseconds deadline;  // Or kNever.
  bool published = false;
  WakeTimer timer{};
};

// Runs after the fiber has left its stack. Nobody resumes it before this has returned.
bool publish_wait(ThreadWorker* /*worker*/, void* argument) {
  auto* wait = static_cast<IoWait*>(argument);
  wait->published = true;
  if (wait->deadline != kNever) wait->timer.arm(wait->runtime, wait->waiter.fiber, wait->deadline);
  wait->slot->lock.unlock();
  return true;
}

// Waits for the next edge after `seen`, unless it has come. Ends the caller's use of the slot. kDone means that another
// attempt is useful, also if the slot was closed. `error` is set if epoll does not accept the descriptor.
// REQUIRES: in a task; the caller has a use of the slot.
[[gnu::noinline]] WakeReason wait_ready(IoSlot* slot, std::uint32_t generation, Direction direction, std::uint32_t seen,
                                        std::chrono::nanoseconds deadline, const char* what, int* error) {
  ThreadWorker* worker = current_worker();
  RuntimeCore* runtime = worker->runtime;
  Reactor* reactor = runtime->reactor.get();
  // Before the lock: linking the nursery may run callbacks of a cancellation, and one of them may close this slot.
  try {
    ensure_parkable(worker);
  } catch (...) {
    end_use(slot);
    throw;
  }
  worker = current_worker();
  static_assert(std::chrono::nanoseconds::max().count() == kNever);
  IoWait wait{{worker->fiber}, slot, runtime, deadline.count()};
  IoQueue& queue = slot->waiting[static_cast<std::size_t>(direction)];
  reactor->begin_wait();
  slot->lock.lock();
  const bool changed =
      !slot->is(generation) || slot->tick[static_cast<std::size_t>(direction)].load(std::memory_order_relaxed) != seen;
  if (!changed) *error = reactor->watch(slot);
  if (changed || *error != 0) {
    slot->lock.unlock();
    end_use(slot);
    reactor->end_wait();
    return WakeReason::kDone;
  }
  queue.add(&wait.waiter);
  end_use(slot);  // A thread that closes it now must wait for the lock, and finds the waiter.
  const WakeReason reason = park(worker, publish_wait, &wait, true, what);
  wait.timer.disarm(runtime);  // It neither fires nor is firing any more.
  if (wait.published && reason != WakeReason::kDone) slot->lock.lock();
  if (!wait.published || reason != WakeReason::kDone) {  // Not published: this fiber still has the lock.
    if (wait.waiter.queued) queue.remove(&wait.waiter);
    slot->lock.unlock();
  }
  reactor->end_wait();
  return reason;
}

struct ReadArguments {
  std::byte* data;
  std::size_t size;
};

struct WriteArguments {
  const std::byte* data;
  std::size_t size;
};

std::int64_t attempt_read(int fd, bool socket, void* argument) {
  const auto* read = static_cast<ReadArguments*>(argument);
  const ssize_t count = socket ? ::recv(fd, read->data, read->size, MSG_DONTWAIT) : ::read(fd, read->data, read->size);
  return count >= 0 ? count : -errno;
}

// write() to a descriptor that is not a socket. There is no flag against SIGPIPE, so the signal is blocked while it may
// be raised, and consumed if it was: it is sent to the thread that writes.
std::int64_t write_quietly(int fd, const std::byte* data, std::size_t size) {
  sigset_t pipe_signal;
  sigset_t before;
  sigset_t pending;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  sigpending(&pending);
  const bool was_pending = sigismember(&pending, SIGPIPE) == 1;
  pthread_sigmask(SIG_BLOCK, &pipe_signal, &before);
  const ssize_t count = ::write(fd, data, size);
  const int error = errno;
  if (count < 0 && error == EPIPE && !was_pending) {
    const timespec none{};
    sigtimedwait(&pipe_signal, nullptr, &none);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return count >= 0 ? count : -error;
}

std::int64_t attempt_write(int fd, bool socket, void* argument) {
  const auto* write = static_cast<WriteArguments*>(argument);
  if (!socket) return write_quietly(fd, write->data, write->size);
  const ssize_t count = ::send(fd, write->data, write->size, MSG_DONTWAIT | MSG_NOSIGNAL);
  return count >= 0 ? count : -errno;
}

// Readiness as reported by poll(2): `argument` is POLLIN or POLLOUT.
std::int64_t attempt_poll(int fd, bool /*socket*/, void* argument) {
  pollfd entry{fd, *static_cast<short*>(argument), 0};
  const int ready = ::poll(&entry, 1, 0);
  if (ready < 0) return -errno;
  return ready == 0 ? -EAGAIN : 0;
}

// Adds to an error in a series of transfers how far it got.
[[gnu::cold]] [[gnu::noinline]] Error after(Error&& error, std::size_t done) {
  return std::move(error).with("done_bytes", std::to_string(done));
}

// "read (descriptor 7, peer 127.0.0.1:80): Connection reset by peer".
[[gnu::cold]] [[gnu::noinline]] Error failure(IoSlot* slot, std::uint32_t generation, int error, const char* what) {
  std::string where = what;
  if (begin_use(slot, generation)) {
    where += " (descriptor " + std::to_string(slot->fd);
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    if (slot->socket && getpeername(slot->fd, reinterpret_cast<sockaddr*>(&storage), &size) == 0) {
      where += ", peer " + Address::native(&storage, size).to_string();
    }
    where += ")";
    end_use(slot);
  }
  return os_error(error, where);
}

}  // namespace

Deadline Deadline::after(std::chrono::nanoseconds within) {
  const std::chrono::nanoseconds start = now();
  return at(within > std::chrono::nanoseconds::max() - start ? std::chrono::nanoseconds::max() : start + within);
}

// ----------------------------------------------------------------------------------------------------- descriptors

Result<Descriptor> Descriptor::wrap(int fd, bool socket) {
  Descriptor descriptor;
  descriptor.slot_ = take_slot(fd, socket);
  if (descriptor.slot_ == nullptr) {
    ::close(fd);
    return Error{ErrorCode::kResourceExhausted, "more than " + std::to_string(kMaxSlots) + " descriptors are open"};
  }
  descriptor.generation_ = descriptor.slot_->generation();
  return descriptor;
}

Result<Descriptor> Descriptor::adopt(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) return os_error(errno, "adopt descriptor " + std::to_string(fd));
  if ((flags & O_NONBLOCK) == 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    const int error = errno;
    ::close(fd);
    return os_error(error, "make descriptor " + std::to_string(fd) + " non-blocking");
  }
  int type = 0;
  socklen_t size = sizeof type;
  return wrap(fd, getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0);
}

void Descriptor::drop() noexcept {
  if (slot_ != nullptr) close_slot(slot_, generation_);
  slot_ = nullptr;
}

Result<void> Descriptor::close() {
  const int error = close_slot(slot_, generation_);
  if (error > 0) return os_error(error, "close");
  return {};
}

bool Descriptor::is_open() const { return slot_ != nullptr && slot_->is(generation_); }

int Descriptor::native() const {
  if (slot_ == nullptr || !begin_use(slot_, generation_)) return -1;
  const int fd = slot_->fd;
  end_use(slot_);
  return fd;
}

int Descriptor::release() {
  const int fd = release_slot(slot_, generation_);
  slot_ = nullptr;
  return fd;
}

Result<std::size_t> Descriptor::operate(Direction direction, Deadline deadline, const char* what, Attempt attempt,
                                        void* argument) {
  if (const ErrorCode code = begin_operation(); code != ErrorCode::kOk) [[unlikely]]
    return code;
  // The object itself is not accessed after a wait: everything needed is in the slot.
  IoSlot* slot = slot_;
  const std::uint32_t generation = generation_;
  for (;;) {
    if (slot == nullptr || !begin_use(slot, generation)) [[unlikely]]
      return closed_error(what);
    // Acquire, partner: wake_waiters(). Before the attempt, so that no edge after it is missed.
    const std::uint32_t seen = slot->tick[static_cast<std::size_t>(direction)].load(std::memory_order_acquire);
    std::int64_t count = 0;
    do {
      count = attempt(slot->fd, slot->socket, argument);
    } while (count == -EINTR);
    if (count != -EAGAIN) {
      end_use(slot);
      if (count < 0) [[unlikely]]
        return failure(slot, generation, static_cast<int>(-count), what);
      // The descriptor may always be ready: yield now and then.
      if (ThreadWorker* worker = current_worker(); worker != nullptr && (++worker->tick & 63) == 0) [[unlikely]]
        yield_slow();
      return static_cast<std::size_t>(count);
    }
    ThreadWorker* worker = current_worker();
    if (worker == nullptr || worker->runtime->now() >= deadline.time().count()) [[unlikely]] {
      end_use(slot);
      return worker == nullptr ? outside_error(what) : deadline_error(what);
    }
    int error = 0;
    const WakeReason reason = wait_ready(slot, generation, direction, seen, deadline.time(), what, &error);
    if (error != 0) [[unlikely]]
      return os_error(error, what);
    if (reason == WakeReason::kCancelled) return ErrorCode::kCancelled;
    if (reason == WakeReason::kTimeout) return deadline_error(what);
  }
}

Result<std::size_t> Descriptor::read_some(std::span<std::byte> buffer, Deadline deadline) {
  if (buffer.empty()) return std::size_t{0};
  ReadArguments read{buffer.data(), buffer.size()};
  return operate(Direction::kRead, deadline, "read", attempt_read, &read);
}

Result<void> Descriptor::read_exactly(std::span<std::byte> buffer, Deadline deadline) {
  for (std::size_t done = 0; done < buffer.size();) {
    Result<std::size_t> count = read_some(buffer.subspan(done), deadline);
    if (!count.ok()) [[unlikely]]
      return after(std::move(count).take_error(), done);
    if (*count == 0) {
      return after(Error{ErrorCode::kClosed, "read: the stream ended after " + std::to_string(done) + " of " +
                                                 std::to_string(buffer.size()) + " bytes"},
                   done);
    }
    done += *count;
  }
  return {};
}

Result<std::size_t> Descriptor::write_some(std::span<const std::byte> bytes, Deadline deadline) {
  if (bytes.empty()) return std::size_t{0};
  WriteArguments write{bytes.data(), bytes.size()};
  return operate(Direction::kWrite, deadline, "write", attempt_write, &write);
}

Result<void> Descriptor::write_all(std::span<const std::byte> bytes, Deadline deadline) {
  for (std::size_t done = 0; done < bytes.size();) {
    Result<std::size_t> count = write_some(bytes.subspan(done), deadline);
    if (!count.ok()) [[unlikely]]
      return after(std::move(count).take_error(), done);
    done += *count;
  }
  return {};
}

Result<void> Descriptor::wait_readable(Deadline deadline) {
  short events = POLLIN;
  ROTA_TRY(operate(Direction::kRead, deadline, "wait to read", attempt_poll, &events));
  return {};
}

Result<void> Descriptor::wait_writable(Deadline deadline) {
  short events = POLLOUT;
  ROTA_TRY(operate(Direction::kWrite, deadline, "wait to write", attempt_poll, &events));
  return {};
}

Result<Pipe> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) return os_error(errno, "create a pipe");
  Result<Descriptor> read_end = Descriptor::adopt(ends[0]);
  Result<Descriptor> write_end = Descriptor::adopt(ends[1]);
  if (!read_end.ok()) return std::move(read_end).take_error();
  if (!write_end.ok()) return std::move(write_end).take_error();
  return Pipe{std::move(*read_end), std::move(*write_end)};
}

}  // namespace rota::fiber
