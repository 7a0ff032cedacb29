// LogFollower: what a task has written, as it grows.
//
// A log is appended to until its bound; beyond that its second half is a ring, which is put in order when the task has
// ended, with a notice before it that says how much was dropped (worker/output.h). So what a follower reads is what was
// written, until the bound. At the end, if the file is not what was read before, it goes on at the notice.
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
  // What came since the last call; at most a few MiB, so call it until it gives nothing. Empty if there is no file.
  Result<std::string> more();
  // The same once the task has ended, to be called until it gives nothing.
  Result<std::string> rest();

 private:
  Result<std::string> read(std::uint64_t from, std::size_t most) const;

  std::string path_;
  std::uint64_t offset_ = 0;  // Read so far.
  std::string last_;          // The end of that.
  bool checked_ = false;      // rest() has looked whether it still stands there.
};

// The last `lines` lines of a text.
[[nodiscard]] std::string_view last_lines(std::string_view text, std::size_t lines);

}  // namespace rota::cli
