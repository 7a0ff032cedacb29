// Streams the output of a program to its viewers (U-2): in chunks, and at a bounded rate.
//
// A chunk of a stream is sent when kChunkBytes have come together, or kAfter its first byte. Output above
// kBytesPerSecond is held back until kResumeBytes may be sent again, or until the end; only the last kTailBytes of it
// are kept, and what is dropped before them is counted. So a program that prints without end produces a bounded number
// of chunks per second, and its last lines, which may say why it failed, are always sent.
//
// Thread safety: none; one task owns it.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace rota::worker {

class OutputStream {
 public:
  static constexpr std::size_t kChunkBytes = 16 * 1024;
  static constexpr std::chrono::milliseconds kAfter{100};
  static constexpr std::uint64_t kBytesPerSecond = 1024 * 1024;  // Also the largest burst.
  static constexpr std::uint64_t kResumeBytes = kBytesPerSecond / 4;
  static constexpr std::size_t kTailBytes = 64 * 1024;  // Per stream; up to twice that is kept.

  // `dropped`: how many bytes were dropped before these.
  using Send = std::function<void(bool from_stderr, std::string bytes, std::uint64_t dropped)>;
  explicit OutputStream(Send send) : send_(std::move(send)) {}

  void feed(bool from_stderr, std::string_view bytes, std::chrono::nanoseconds now);
  // When send_due() will have something to send; max() if nothing is buffered.
  [[nodiscard]] std::chrono::nanoseconds due() const;
  void send_due(std::chrono::nanoseconds now);
  // Sends the rest.
  void finish();

 private:
  struct Lane {
    std::string buffered{};
    std::string tail{};         // Held back; it comes after `buffered`.
    std::uint64_t dropped = 0;  // Before `buffered`, or before `tail` if there is one.
    std::chrono::nanoseconds due = std::chrono::nanoseconds::max();
  };
  void send(bool from_stderr);
  // Sends what was held back.
  void send_tail(bool from_stderr);

  Send send_;
  std::array<Lane, 2> lanes_;             // stdout, stderr.
  std::uint64_t room_ = kBytesPerSecond;  // Bytes that may be sent now.
  std::chrono::nanoseconds room_at_{0};   // When `room_` was computed.
  bool begun_ = false;
  bool dropping_ = false;
};

}  // namespace rota::worker
