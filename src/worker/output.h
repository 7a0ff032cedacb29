// Keeps the output of a program within a bound (U-3).
//
// One file keeps the beginning of the output, up to half the bound, and its end, up to the other half. A notice between
// them says how many bytes were dropped. While the program runs, the second half of the file is a ring; finish() puts
// it in order. So a program may print for ever: the disk never holds more than the bound and the notice, and memory
// never more than half the bound.
//
// A disk error does not stop the program: its output is still read, and finish() returns the first error. The file is
// made with the first byte.
//
// Thread safety: none; one task owns it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "rota/fiber/file.h"
#include "rota/result.h"

namespace rota::worker {

class KeptOutput {
 public:
  static constexpr std::uint64_t kLeastBytes = 1024;
  // At least kLeastBytes.
  KeptOutput(std::string path, std::uint64_t limit_bytes);

  // Buffers the bytes, and writes once enough of them have come together.
  void append(std::string_view bytes);
  // Writes the buffered bytes.
  void flush();
  [[nodiscard]] bool is_dirty() const { return !pending_.empty(); }

  struct Summary {
    std::uint64_t total_bytes = 0;
    std::uint64_t dropped_bytes = 0;
    Result<void> written;  // The first disk error, if there was one.
  };
  // Call it once, at the end.
  Summary finish();

 private:
  void write(std::string_view bytes);
  Result<void> put_in_order();

  std::string path_;
  std::uint64_t head_bytes_;
  std::uint64_t tail_bytes_;
  std::uint64_t total_ = 0;  // Bytes written, or dropped because of an error.
  std::string pending_;
  fiber::File file_;
  Result<void> written_;
};

// Remembers the last line of a stream that is not empty.
class LastLine {
 public:
  // Keeps a line of up to `longest` bytes.
  explicit LastLine(std::size_t longest) : longest_(longest) {}
  void feed(std::string_view bytes);
  // Without its line end. Empty if there was none, or if it was too long.
  [[nodiscard]] std::string_view line() const;
  [[nodiscard]] bool too_long() const { return current_.empty() ? last_too_long_ : current_too_long_; }

 private:
  std::size_t longest_;
  std::string last_;
  std::string current_;  // The line in progress, up to longest_ bytes.
  bool last_too_long_ = false;
  bool current_too_long_ = false;
};

}  // namespace rota::worker
