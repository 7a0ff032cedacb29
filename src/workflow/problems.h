// What is wrong with a file: all of it, each with its place.
//
// Bounded: the first kMostProblems are kept, the rest are counted.
//
// Thread safety: none; one reader owns it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rota/result.h"

namespace rota::workflow {

// Counted from 1, columns in characters. Line 0: the file as a whole. File 0 is the file itself, others are files that
// it includes (Problems::add_file).
struct Position {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::uint32_t file = 0;
  friend auto operator<=>(const Position&, const Position&) = default;
};

struct Problem {
  Position at{};
  std::string message{};
  friend auto operator<=>(const Problem&, const Problem&) = default;
};

class Problems {
 public:
  static constexpr std::size_t kMostProblems = 100;

  void add(Position at, std::string message);
  // The number of a file that is included at this place. A problem in it is reported there, with the file's name and
  // its own position in front.
  std::uint32_t add_file(std::string path, Position included_at);
  // No more are kept: it is not worth finding words for another.
  [[nodiscard]] bool full() const { return list_.size() == kMostProblems; }
  [[nodiscard]] bool empty() const { return list_.empty(); }
  // In the order of the file, each once; the last one says how many more there are, if any.
  [[nodiscard]] std::vector<Problem> take();

 private:
  std::vector<Problem> list_{};
  std::size_t dropped_ = 0;
  struct File {
    std::string path;
    Position included_at;
  };
  std::vector<File> files_{};
};

// "train.yaml:3:12: ..."
[[nodiscard]] std::string to_string(std::string_view path, const Problem& problem);
// One error for all: a line a problem, and each once more as a detail "problem". REQUIRES: there is one.
[[nodiscard]] Error to_error(std::string_view path, const std::vector<Problem>& problems);

}  // namespace rota::workflow
