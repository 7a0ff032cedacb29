// A bounded queue with acknowledgements, built on a channel: one direction of a bus (bus.h).
//
// Invariants: a message that was sent is in the channel, in `redo_` or in `held_`, or it is acknowledged; ids rise in
// the order of sending; every message in `held_` is older than every message in `redo_`, and these are older than those
// in the channel.
// Thread safety: send() and close() from any task; the other functions from one task at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>

#include "rota/fiber/channel.h"
#include "rota/fiber/error.h"
#include "rota/result.h"

namespace rota::bus {

template <class T>
class Queue {
 public:
  explicit Queue(std::size_t capacity) : channel_(capacity), capacity_(capacity) {}

  Result<void> send(T message) {
    try {
      if (!channel_.send(std::move(message))) return ErrorCode::kClosed;
    } catch (const fiber::Cancelled&) {
      return ErrorCode::kCancelled;
    }
    return {};
  }

  struct Delivery {
    std::uint64_t id = 0;
    T message;
  };
  Result<Delivery> receive(std::chrono::nanoseconds limit) {
    if (held_.size() >= capacity_) {
      return Error{ErrorCode::kQueueFull,
                   "the receiver holds " + std::to_string(held_.size()) +
                       " messages that it has not acknowledged; acknowledge them before receiving more"};
    }
    if (redo_.empty()) {
      try {
        ROTA_TRY_ASSIGN(T message, channel_.receive_for(limit));
        redo_.push_back({++last_id_, std::move(message)});
      } catch (const fiber::Cancelled&) {
        return ErrorCode::kCancelled;
      }
    }
    held_.push_back(std::move(redo_.front()));
    redo_.pop_front();
    return held_.back();
  }

  // Acknowledges all messages up to `id`. Unknown ids, and ids acknowledged before, change nothing.
  void acknowledge(std::uint64_t id) {
    while (!held_.empty() && held_.front().id <= id) held_.pop_front();
  }

  void rewind() {
    while (!held_.empty()) {
      redo_.push_front(std::move(held_.back()));
      held_.pop_back();
    }
  }

  void close() { channel_.close(); }

 private:
  fiber::Channel<T> channel_;
  const std::size_t capacity_;
  std::uint64_t last_id_ = 0;
  std::deque<Delivery> redo_;  // To be delivered again.
  std::deque<Delivery> held_;  // Received and not acknowledged.
};

}  // namespace rota::bus
