// What a command wrote, kept within a bound (U-3).
//
// The first half of the bound and the last half are kept, in one file; what was between them is counted and said in the
// file. While the command runs, the second half of the file is a ring; finish() puts it in order. So a command may
// print for ever: the disk never holds more than the bound and a sentence, memory never more than half the bound, and
// nobody waits for anybody but the disk.
//
// A disk that fails does not stop the command: its output is still taken, and the first error is told by finish().
// The file is made with the first byte.
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

  // Takes it; writes when there is enough of it to be worth a write.
  void append(std::string_view bytes);
  // Writes what append() has taken.
  void flush();
  [[nodiscard]] bool is_dirty() const { return !pending_.empty(); }

  struct Summary {
    std::uint64_t total_bytes = 0;
    std::uint64_t dropped_bytes = 0;
    Result<void> written;  // The first error, if the disk had one.
  };
  // Once, at the end.
  Summary finish();

 private:
  void write(std::string_view bytes);
  Result<void> put_in_order();

  std::string path_;
  std::uint64_t head_bytes_;
  std::uint64_t tail_bytes_;
  std::uint64_t total_ = 0;  // Written, or dropped because of an error.
  std::string pending_;
  fiber::File file_;
  Result<void> written_;
};

// Remembers the last line of a stream that is not empty.
class LastLine {
 public:
  static constexpr std::size_t kLongest = 64 * 1024;
  void feed(std::string_view bytes);
  // Without its end. Empty if there was none, or if it was longer than kLongest.
  [[nodiscard]] std::string_view line() const;
  [[nodiscard]] bool too_long() const { return current_.empty() ? last_too_long_ : current_too_long_; }

 private:
  std::string last_;
  std::string current_;  // The line in progress, up to kLongest of it.
  bool last_too_long_ = false;
  bool current_too_long_ = false;
};

}  // namespace rota::worker
