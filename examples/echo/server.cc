#include "server.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

namespace echo {

namespace {

// Converts what channels throw in a cancelled task into the Result that sockets return.
template <class F>
auto as_result(F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const Cancelled& cancelled) {
    return cancelled.code();
  }
}

ErrorCode as_deadline(ErrorCode code) { return code == ErrorCode::kTimeout ? ErrorCode::kDeadlineExceeded : code; }

struct Busy {
  explicit Busy(WaitGroup& counts) : group(counts) { group.add(); }
  ~Busy() { group.done(); }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  WaitGroup& group;
};

}  // namespace

Result<std::size_t> ChannelWire::read_some(std::span<std::byte> buffer, std::chrono::nanoseconds limit) {
  if (rest_.empty()) {
    Result<std::string> message = as_result([&] { return in_.receive_for(limit); });
    if (message.code() == ErrorCode::kClosed) return std::size_t{0};
    if (!message.ok()) return as_deadline(message.code());
    rest_ = std::move(*message);
  }
  const std::size_t count = std::min(buffer.size(), rest_.size());
  std::memcpy(buffer.data(), rest_.data(), count);
  rest_.erase(0, count);
  return count;
}

Result<void> ChannelWire::write_all(std::span<const std::byte> bytes, std::chrono::nanoseconds limit) {
  std::string message(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const Result<void> sent = as_result([&] { return out_.send_for(std::move(message), limit); });
  if (!sent.ok()) return as_deadline(sent.code());
  return {};
}

Result<void> Server::listen(std::uint16_t port) {
  ROTA_TRY_ASSIGN(listener_, TcpListener::bind("127.0.0.1", port));
  return {};
}

// An echo is a read and a write. Ops are not a separate bound here: an echo uses two, plus one for reading the clock.
Budget Server::client_budget() const {
  const auto pairs = static_cast<std::uint16_t>(2 * limits_.burst);
  return {.ops = 64U * (limits_.burst + 1U), .memory = 1 << 16, .channel_ops = pairs, .syscalls = pairs};
}

End Server::end_of(ErrorCode code) const {
  switch (code) {
    case ErrorCode::kDeadlineExceeded:
      return End::kIdle;
    case ErrorCode::kClosed:
      return End::kLeft;
    case ErrorCode::kBudgetExhausted:
      return End::kFlooded;
    case ErrorCode::kCancelled:  // By stop() or by its budget; nothing else cancels a connection.
      return stopping_ ? End::kStopped : End::kFlooded;
    default:
      return End::kBroken;
  }
}

template <class Wire>
End Server::serve(Wire& wire) {
  const Budget full = client_budget();
  std::array<std::byte, kPieceBytes> piece;
  std::chrono::nanoseconds filled = now();
  while (!stopping_) {
    const Result<std::size_t> got = wire.read_some(piece, limits_.idle);
    if (!got.ok()) return end_of(got.code());
    if (*got == 0) return End::kLeft;
    const Result<void> sent = [&] {
      const Busy busy(busy_);
      return wire.write_all(std::span(piece.data(), *got), limits_.idle);
    }();
    if (!sent.ok()) return end_of(sent.code());
    echoes_.fetch_add(1, std::memory_order_relaxed);
    if (now() - filled >= 1s) {  // Refilled, not added: an hour of silence does not pay for an hour of flooding.
      filled = now();
      const Budget left = current_budget();
      Budget missing = full;
      missing.ops -= std::min(missing.ops, left.ops);
      missing.memory = 0;
      missing.channel_ops = static_cast<std::uint16_t>(full.channel_ops - std::min(full.channel_ops, left.channel_ops));
      missing.syscalls = static_cast<std::uint16_t>(full.syscalls - std::min(full.syscalls, left.syscalls));
      if (const Result<void> got_more = recharge(missing); !got_more.ok()) return End::kFlooded;
    }
  }
  return End::kStopped;
}

// REQUIRES: a seat has been acquired for it. Releases the seat when the connection ends.
template <class Wire>
void Server::launch(Wire wire) {
  open_.fetch_add(1);
  const auto leave = [this] {
    open_.fetch_sub(1);
    seats_.release();
  };
  try {
    clients_->launch([this, leave, wire = std::move(wire)]() mutable {
      End end = End::kBroken;
      try {
        end = serve(wire);
      } catch (...) {  // An exception would fail the nursery and thereby end all other connections.
      }
      ended_[static_cast<std::size_t>(end)].fetch_add(1);
      leave();
    });
  } catch (...) {
    leave();
    throw;
  }
}

void Server::attach(ChannelWire wire) {
  seats_.acquire();
  launch(std::move(wire));
}

void Server::accept_all() {
  bool told = false;
  for (;;) {
    seats_.acquire();
    Result<TcpStream> stream = listener_.accept();
    if (stream.ok()) {
      launch(std::move(*stream));
      told = false;
      continue;
    }
    seats_.release();
    if (stream.code() == ErrorCode::kCancelled) return;
    // No descriptors left, or a client that gave up: try again with the next client.
    if (!std::exchange(told, true)) std::fprintf(stderr, "echo: %s\n", stream.error().to_string().c_str());
    if (!sleep_for(10ms).ok()) return;
  }
}

void Server::run() {
  Nursery clients(NurseryOptions{.default_child = client_budget(), .on_exhausted = OnExhausted::kCancel});
  clients_ = &clients;
  {
    // A nursery inside another one inherits its metering unless it sets its own: this one spawns, and is recharged.
    constexpr Budget kSlice{.ops = 1'000'000, .spawn_count = 10'000, .channel_ops = 10'000, .syscalls = 10'000};
    Nursery accepting(NurseryOptions{.default_child = kSlice, .on_exhausted = OnExhausted::kRecharge});
    accepting.launch([this] { accept_all(); });
    started_.set();
    stop_.wait();
    accepting.cancel();
    (void)accepting.close();  // Returns Cancelled, as expected.
  }
  (void)listener_.close();
  stopping_ = true;
  (void)busy_.wait_for(1s);
  clients.cancel();
  (void)clients.close();
}

}  // namespace echo
