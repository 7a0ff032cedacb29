// Channel<T>: passes values between tasks (F-24).
//
//   Channel<std::string> lines(16);                       // room for 16; Channel<T>() is a rendezvous
//   nursery.launch([lines]() mutable {
//     while (std::optional<std::string> line = lines.receive()) use(*line);    // ends when closed and drained
//   });
//   if (!lines.send("hello")) ...                         // false: closed
//   lines.close();
//
// A Channel is a handle; copies refer to the same channel, which lives as long as one of them. Values arrive in the
// order in which they were sent; waiters are served first in, first out. A value is delivered exactly once, or not
// sent.
//
// Waiting parks the task, never the thread. send(), receive() and their timed forms are cancellation points: if the
// task is cancelled, they throw Cancelled, even if they need not wait, and nothing has been sent or received. They must
// be called in a task; everything else may be called from any thread.
//
// T needs only a move constructor. It is called while the channel is locked, so it must not wait or use the same
// channel. If it throws, the caller gets the exception, and the channel is unchanged.
//
// In metered profiles every send and receive costs a channel operation, successful or not, and creating a channel needs
// CapChannel where capabilities are checked.
#pragma once

#include <chrono>
#include <cstddef>
#include <iterator>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "rota/fiber/detail/channel_core.h"
#include "rota/fiber/error.h"
#include "rota/result.h"

namespace rota::fiber {

namespace detail {
// Throws FiberError with code Closed, WouldBlock or Timeout.
[[nodiscard]] constexpr ErrorCode code_of(ChannelStatus status) {
  return status == ChannelStatus::kClosed       ? ErrorCode::kClosed
         : status == ChannelStatus::kWouldBlock ? ErrorCode::kWouldBlock
         : status == ChannelStatus::kTimeout    ? ErrorCode::kTimeout
                                                : ErrorCode::kCancelled;
}
[[nodiscard]] inline ErrorCode code_of_nothrow(ChannelStatus status) {
  return status == ChannelStatus::kCancelled ? cancel_code() : code_of(status);
}
}  // namespace detail

template <class T>
class Channel {
  static_assert(std::is_object_v<T> && std::is_move_constructible_v<T>, "a channel's values are moved");

 public:
  // A buffer of `capacity` values; with 0, a send waits for its receiver. Throws CapabilityDenied.
  explicit Channel(std::size_t capacity = 0) : core_(detail::make_channel(detail::kValueOps<T>, capacity)) {}
  // A send never waits. The channel's memory is not bounded.
  static Channel unbounded() { return Channel(detail::kUnboundedCapacity); }

  Channel(const Channel& other) : core_(other.core_) { detail::share_channel(core_); }
  Channel(Channel&& other) noexcept : core_(std::exchange(other.core_, nullptr)) {}
  Channel& operator=(const Channel& other) {
    Channel(other).swap(*this);
    return *this;
  }
  Channel& operator=(Channel&& other) noexcept {
    Channel(std::move(other)).swap(*this);
    return *this;
  }
  ~Channel() { detail::drop_channel(core_); }
  void swap(Channel& other) noexcept { std::swap(core_, other.core_); }
  // True if both refer to the same channel.
  bool operator==(const Channel& other) const { return core_ == other.core_; }

  // Waits until there is room, or a receiver. False if the channel is closed, before or meanwhile; the caller then
  // still has `value`.
  [[nodiscard]] bool send(T&& value) const {
    return detail::channel_send(core_, std::addressof(value), nullptr) == detail::ChannelStatus::kDone;
  }
  [[nodiscard]] bool send(const T& value) const
    requires std::is_copy_constructible_v<T>
  {
    T copy(value);
    return send(std::move(copy));
  }
  // Waits until there is a value; none if the channel is closed and drained.
  [[nodiscard]] std::optional<T> receive() const {
    std::optional<T> value;
    (void)detail::channel_receive(core_, &value, nullptr);
    return value;
  }

  // The same without exceptions, which matters when many waiting tasks are cancelled together. Errors: Closed;
  // Cancelled, or BudgetExhausted if that is why. (OutsideRuntime, and what T's move throws, is still thrown.)
  Result<void> send(T&& value, std::nothrow_t) const {
    const detail::ChannelStatus status =
        detail::channel_send(core_, std::addressof(value), nullptr, detail::Leave::kReturn);
    if (status != detail::ChannelStatus::kDone) return detail::code_of_nothrow(status);
    return {};
  }
  Result<void> send(const T& value, std::nothrow_t tag) const
    requires std::is_copy_constructible_v<T>
  {
    T copy(value);
    return send(std::move(copy), tag);
  }
  [[nodiscard]] Result<T> receive(std::nothrow_t) const {
    std::optional<T> value;
    const detail::ChannelStatus status = detail::channel_receive(core_, &value, nullptr, detail::Leave::kReturn);
    if (status != detail::ChannelStatus::kDone) return detail::code_of_nothrow(status);
    return std::move(*value);
  }

  // The same within a limit. Errors: Timeout, Closed; these throw Cancelled.
  Result<void> send_for(T&& value, std::chrono::nanoseconds limit) const {
    const detail::ChannelStatus status = detail::channel_send(core_, std::addressof(value), &limit);
    if (status != detail::ChannelStatus::kDone) return detail::code_of(status);
    return {};
  }
  Result<void> send_for(const T& value, std::chrono::nanoseconds limit) const
    requires std::is_copy_constructible_v<T>
  {
    T copy(value);
    return send_for(std::move(copy), limit);
  }
  // Within a limit and without exceptions. Errors: Timeout, Closed, Cancelled, BudgetExhausted.
  Result<void> send_for(T&& value, std::chrono::nanoseconds limit, std::nothrow_t) const {
    const detail::ChannelStatus status =
        detail::channel_send(core_, std::addressof(value), &limit, detail::Leave::kReturn);
    if (status != detail::ChannelStatus::kDone) return detail::code_of_nothrow(status);
    return {};
  }
  [[nodiscard]] Result<T> receive_for(std::chrono::nanoseconds limit, std::nothrow_t) const {
    std::optional<T> value;
    const detail::ChannelStatus status = detail::channel_receive(core_, &value, &limit, detail::Leave::kReturn);
    if (status != detail::ChannelStatus::kDone) return detail::code_of_nothrow(status);
    return std::move(*value);
  }
  Result<T> receive_for(std::chrono::nanoseconds limit) const {
    std::optional<T> value;
    const detail::ChannelStatus status = detail::channel_receive(core_, &value, &limit);
    if (status != detail::ChannelStatus::kDone) return detail::code_of(status);
    return std::move(*value);
  }

  // The same without waiting. Errors: WouldBlock, Closed. From any thread.
  Result<void> try_send(T&& value) const {
    const detail::ChannelStatus status = detail::channel_try_send(core_, std::addressof(value));
    if (status != detail::ChannelStatus::kDone) return detail::code_of(status);
    return {};
  }
  Result<void> try_send(const T& value) const
    requires std::is_copy_constructible_v<T>
  {
    T copy(value);
    return try_send(std::move(copy));
  }
  Result<T> try_receive() const {
    std::optional<T> value;
    const detail::ChannelStatus status = detail::channel_try_receive(core_, &value);
    if (status != detail::ChannelStatus::kDone) return detail::code_of(status);
    return std::move(*value);
  }

  // After this, senders are refused; receivers get the buffered values and then nothing. True for the call that closed
  // the channel; closing again changes nothing. From any thread.
  bool close() const { return detail::channel_close(core_); }

  [[nodiscard]] bool is_closed() const { return detail::channel_closed(core_); }
  // The number of buffered values at this moment.
  [[nodiscard]] std::size_t size() const { return detail::channel_size(core_); }
  // SIZE_MAX if it is unbounded.
  [[nodiscard]] std::size_t capacity() const { return detail::channel_capacity(core_); }

  // for (T& value : channel): receives until it is closed and drained.
  class Iterator {
   public:
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::input_iterator_tag;
    explicit Iterator(const Channel* channel) : channel_(channel) { ++*this; }
    T& operator*() const { return *value_; }
    T* operator->() const { return &*value_; }
    Iterator& operator++() {
      value_.reset();
      if (std::optional<T> next = channel_->receive()) value_.emplace(std::move(*next));
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !value_.has_value(); }

   private:
    const Channel* channel_;
    mutable std::optional<T> value_;
  };
  [[nodiscard]] Iterator begin() const { return Iterator(this); }
  [[nodiscard]] std::default_sentinel_t end() const { return {}; }

  // For select() and the C interface.
  [[nodiscard]] detail::ChannelCore* core() const { return core_; }

 private:
  detail::ChannelCore* core_;  // Null in a moved-from handle, which may only be assigned, compared and destroyed.
};

}  // namespace rota::fiber
