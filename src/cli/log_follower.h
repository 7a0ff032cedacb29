// LogFollower: reads the log of a task while it grows.
//
// The worker appends to a log until its limit; beyond that, the second half of the file is a ring buffer. When the task
// has ended, the worker puts the ring in order and inserts a notice of how much was dropped (worker/output.h). Until
// the limit, a follower therefore reads the output as it was written. If the file was rearranged at the end, the
// follower continues at the notice.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <string>

#include "rota/result.h"

namespace rota::cli {

class LogFollower {
 public:
  LogFollower() = default;
  explicit LogFollower(std::string path) : path_(std::move(path)) {}

  [[nodiscard]] const std::string& path() const { return path_; }
  // The bytes since the last call, at most 1 MiB: call it until it returns an empty string. Empty if there is no file.
  Result<std::string> more();
  // The same after the task has ended.
  Result<std::string> rest();

 private:
  Result<std::string> read(std::uint64_t from, std::size_t most) const;

  std::string path_;
  std::uint64_t offset_ = 0;  // How much was read.
  std::string last_;          // The last bytes that were read.
  bool checked_ = false;      // rest() has checked whether last_ is still in its place.
};

// The last `lines` lines of a text.
[[nodiscard]] std::string_view last_lines(std::string_view text, std::size_t lines);

}  // namespace rota::cli
