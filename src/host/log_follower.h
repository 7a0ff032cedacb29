// LogFollower: reads the log of a task while it grows.
//
// The worker appends to a log until its limit; beyond that, the second half of the file is a ring buffer. When the task
// has ended, the worker puts the ring in order and inserts a notice of how much was dropped (worker/output.h). Until
// the limit, a follower therefore reads the output as it was written. If the file was rearranged at the end, the
// follower continues at the notice.
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "rota/result.h"

namespace rota::host {

class LogFollower {
 public:
  // Returns at most `most` bytes from `from` on; fewer only at the end of the log.
  using Read = std::function<Result<std::string>(std::uint64_t from, std::size_t most)>;

  LogFollower() = default;
  explicit LogFollower(std::string path);
  // Of a log that is read in another way: `name` says which it is.
  LogFollower(std::string name, Read read) : path_(std::move(name)), read_(std::move(read)) {}

  // Empty: none was chosen.
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  // Continues at this byte. REQUIRES: nothing was read yet.
  void skip(std::uint64_t offset) { offset_ = offset; }
  // The bytes since the last call, at most 1 MiB: call it until it returns an empty string. Empty if there is no file.
  Result<std::string> more();
  // The same after the task has ended.
  Result<std::string> rest();

 private:
  std::string path_;
  Read read_;
  std::uint64_t offset_ = 0;  // How much was read.
  std::string last_;          // The last bytes that were read.
  bool checked_ = false;      // rest() has checked whether last_ is still in its place.
};

// Reads a part of a file. Empty at its end, or if there is none.
[[nodiscard]] Result<std::string> read_file_part(const std::string& path, std::uint64_t from, std::size_t most);

// The last `lines` lines of a text.
[[nodiscard]] std::string_view last_lines(std::string_view text, std::size_t lines);

}  // namespace rota::host
