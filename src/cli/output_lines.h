// OutputLines: joins the pieces in which a program's output arrives to whole lines.
//
// A line that does not end is passed on in pieces of kLongestLine bytes, so that the memory is bounded.
//
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rota::cli {

class OutputLines {
 public:
  static constexpr std::size_t kLongestLine = 16 * 1024;

  // The lines that `bytes` completes, without their ends.
  [[nodiscard]] std::vector<std::string> add(std::uint32_t task, bool from_stderr, std::string_view bytes);
  // The unfinished line of a stream, if it has one; the stream starts a new line.
  [[nodiscard]] std::vector<std::string> finish(std::uint32_t task, bool from_stderr);

 private:
  std::map<std::pair<std::uint32_t, bool>, std::string> unfinished_;  // By task and stream.
};

}  // namespace rota::cli
