// A channel independent of its value type: the basis of Channel<T>, select() and the C interface.
//
// Values are passed as void*: a sender's is a T, a receiver's is a std::optional<T> that is filled.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <utility>

#include "rota/error_code.h"
#include "rota/fiber/detail/waiting.h"

namespace rota::fiber::detail {

struct ChannelCore;

// The operations on T that the core needs. The first two may throw; the source is then as T's constructor left it.
struct ValueOps {
  std::size_t size;
  std::size_t alignment;
  void (*move)(void* raw, void* from);          // Constructs a T at `raw`.
  void (*emplace)(void* optional, void* from);  // Fills a std::optional<T>.
  void (*destroy)(void* value);
};

template <class T>
inline constexpr ValueOps kValueOps = {
    sizeof(T),
    alignof(T),
    [](void* raw, void* from) { ::new (raw) T(std::move(*static_cast<T*>(from))); },
    [](void* optional, void* from) {
      static_cast<std::optional<T>*>(optional)->emplace(std::move(*static_cast<T*>(from)));
    },
    [](void* value) { static_cast<T*>(value)->~T(); },
};

inline constexpr std::size_t kUnboundedCapacity = SIZE_MAX;

enum class ChannelStatus : std::uint8_t {
  kDone,
  kClosed,
  kWouldBlock,
  kTimeout,
  kCancelled,  // Only from calls with Leave::kReturn.
};

// How a call that waits reports that the task is cancelled.
enum class Leave : std::uint8_t { kThrow, kReturn };
// In a task that is being cancelled: BudgetExhausted if that is why, otherwise Cancelled.
[[nodiscard]] ErrorCode cancel_code();

// Throws CapabilityDenied. The caller owns the only reference.
ChannelCore* make_channel(const ValueOps& ops, std::size_t capacity);
// The same for the runtime's own use: it needs no capability.
ChannelCore* make_channel_unpermitted(const ValueOps& ops, std::size_t capacity);
void share_channel(ChannelCore* channel);
// The last release destroys the buffered values.
void drop_channel(ChannelCore* channel);

// These wait, without a limit if `timeout` is null, and return kDone, kClosed or kTimeout. They throw OutsideRuntime,
// Cancelled, BudgetExhausted (with Leave::kReturn they return kCancelled instead), and the exceptions of T's move
// constructor.
ChannelStatus channel_send(ChannelCore* channel, void* value, const std::chrono::nanoseconds* timeout,
                           Leave leave = Leave::kThrow);
ChannelStatus channel_receive(ChannelCore* channel, void* optional, const std::chrono::nanoseconds* timeout,
                              Leave leave = Leave::kThrow);
// Waits until the channel, which nobody sends to, is closed. Costs nothing. kClosed, kTimeout, kCancelled.
ChannelStatus channel_await_close(ChannelCore* channel, const std::chrono::nanoseconds* timeout, const char* waits_for);
// These never wait and need no task; they return kDone, kClosed or kWouldBlock.
ChannelStatus channel_try_send(ChannelCore* channel, void* value);
ChannelStatus channel_try_receive(ChannelCore* channel, void* optional);
// True for the call that closed the channel.
bool channel_close(ChannelCore* channel);
[[nodiscard]] bool channel_closed(ChannelCore* channel);
[[nodiscard]] std::size_t channel_size(ChannelCore* channel);
[[nodiscard]] std::size_t channel_capacity(const ChannelCore* channel);

// A case of a select: sends `value`, or receives into it. Without a channel it is never performed.
struct SelectCase {
  ChannelCore* channel = nullptr;
  void* value = nullptr;
  bool send = false;
  ChannelStatus status = ChannelStatus::kWouldBlock;  // Of the case that was performed: kDone or kClosed.
  Waiter waiter{};
};
// Performs exactly one of the cases and returns its index; kNoCase if `timeout` is given and ran out (at once, if it is
// not positive). Throws as channel_send() does; no case has been performed then.
inline constexpr std::size_t kNoCase = SIZE_MAX;
inline constexpr std::size_t kCancelledCase = SIZE_MAX - 1;  // Only with Leave::kReturn.
std::size_t select_case(SelectCase* cases, std::size_t count, const std::chrono::nanoseconds* timeout,
                        Leave leave = Leave::kThrow);

}  // namespace rota::fiber::detail
