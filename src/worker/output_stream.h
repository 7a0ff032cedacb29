// What a command writes, on its way to whoever watches (U-2): in chunks, and within a bound.
//
// A chunk leaves when kChunkBytes of a stream are there, or kAfter its first byte came; while nothing comes, nothing is
// due. Beyond kBytesASecond the rest is dropped and counted, until there is room for a good piece again: a command that
// prints for ever leads to a few chunks a second. The count goes with the next chunk of the same stream, or alone at
// the end.
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
  static constexpr std::uint64_t kBytesASecond = 256 * 1024;  // And as many at once.
  static constexpr std::uint64_t kGoodPiece = kBytesASecond / 4;

  // `dropped`: bytes that came before these.
  using Tell = std::function<void(bool from_stderr, std::string bytes, std::uint64_t dropped)>;
  explicit OutputStream(Tell tell) : tell_(std::move(tell)) {}

  void feed(bool from_stderr, std::string_view bytes, std::chrono::nanoseconds now);
  // When tell_due() has something to tell; max() if nothing waits.
  [[nodiscard]] std::chrono::nanoseconds due() const;
  void tell_due(std::chrono::nanoseconds now);
  // All that is left.
  void finish();

 private:
  struct Lane {
    std::string waiting;
    std::uint64_t dropped = 0;  // Before `waiting`.
    std::chrono::nanoseconds due = std::chrono::nanoseconds::max();
  };
  void tell(bool from_stderr);

  Tell tell_;
  std::array<Lane, 2> lanes_;  // Output, errors.
  std::uint64_t room_ = kBytesASecond;
  std::chrono::nanoseconds room_at_{0};  // When `room_` was right.
  bool begun_ = false;
  bool dropping_ = false;
};

}  // namespace rota::worker
