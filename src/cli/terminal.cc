#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/json_text.h"

namespace rota::cli {

namespace {

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

// East Asian wide and fullwidth characters, and emoji that terminals draw in two columns (Unicode 15).
constexpr std::array kWide = {
    Range{0x1100, 0x115f},   Range{0x231a, 0x231b},   Range{0x2329, 0x232a},   Range{0x23e9, 0x23ec},
    Range{0x23f0, 0x23f0},   Range{0x23f3, 0x23f3},   Range{0x25fd, 0x25fe},   Range{0x2614, 0x2615},
    Range{0x2648, 0x2653},   Range{0x267f, 0x267f},   Range{0x2693, 0x2693},   Range{0x26a1, 0x26a1},
    Range{0x26aa, 0x26ab},   Range{0x26bd, 0x26be},   Range{0x26c4, 0x26c5},   Range{0x26ce, 0x26ce},
    Range{0x26d4, 0x26d4},   Range{0x26ea, 0x26ea},   Range{0x26f2, 0x26f3},   Range{0x26f5, 0x26f5},
    Range{0x26fa, 0x26fa},   Range{0x26fd, 0x26fd},   Range{0x2705, 0x2705},   Range{0x270a, 0x270b},
    Range{0x2728, 0x2728},   Range{0x274c, 0x274c},   Range{0x274e, 0x274e},   Range{0x2753, 0x2755},
    Range{0x2757, 0x2757},   Range{0x2795, 0x2797},   Range{0x27b0, 0x27b0},   Range{0x27bf, 0x27bf},
    Range{0x2b1b, 0x2b1c},   Range{0x2b50, 0x2b50},   Range{0x2b55, 0x2b55},   Range{0x2e80, 0x303e},
    Range{0x3041, 0x33ff},   Range{0x3400, 0x4dbf},   Range{0x4e00, 0x9fff},   Range{0xa000, 0xa4cf},
    Range{0xa960, 0xa97f},   Range{0xac00, 0xd7a3},   Range{0xf900, 0xfaff},   Range{0xfe10, 0xfe19},
    Range{0xfe30, 0xfe6f},   Range{0xff00, 0xff60},   Range{0xffe0, 0xffe6},   Range{0x1f004, 0x1f004},
    Range{0x1f0cf, 0x1f0cf}, Range{0x1f18e, 0x1f18e}, Range{0x1f191, 0x1f19a}, Range{0x1f200, 0x1f320},
    Range{0x1f32d, 0x1f335}, Range{0x1f337, 0x1f37c}, Range{0x1f37e, 0x1f393}, Range{0x1f3a0, 0x1f3ca},
    Range{0x1f3cf, 0x1f3d3}, Range{0x1f3e0, 0x1f3f0}, Range{0x1f3f4, 0x1f3f4}, Range{0x1f3f8, 0x1f43e},
    Range{0x1f440, 0x1f440}, Range{0x1f442, 0x1f4fc}, Range{0x1f4ff, 0x1f53d}, Range{0x1f54b, 0x1f54e},
    Range{0x1f550, 0x1f567}, Range{0x1f57a, 0x1f57a}, Range{0x1f595, 0x1f596}, Range{0x1f5a4, 0x1f5a4},
    Range{0x1f5fb, 0x1f64f}, Range{0x1f680, 0x1f6c5}, Range{0x1f6cc, 0x1f6cc}, Range{0x1f6d0, 0x1f6d2},
    Range{0x1f6d5, 0x1f6df}, Range{0x1f6eb, 0x1f6ec}, Range{0x1f6f4, 0x1f6fc}, Range{0x1f7e0, 0x1f7eb},
    Range{0x1f90c, 0x1f93a}, Range{0x1f93c, 0x1f945}, Range{0x1f947, 0x1faff}, Range{0x20000, 0x3fffd}};

// Combining marks, joiners and variation selectors.
constexpr std::array kZero = {
    Range{0x0300, 0x036f}, Range{0x0483, 0x0489},   Range{0x0591, 0x05bd},  Range{0x0610, 0x061a},
    Range{0x064b, 0x065f}, Range{0x06d6, 0x06dc},   Range{0x0900, 0x0902},  Range{0x093c, 0x093c},
    Range{0x0941, 0x0948}, Range{0x0e31, 0x0e31},   Range{0x0e34, 0x0e3a},  Range{0x0e47, 0x0e4e},
    Range{0x1ab0, 0x1aff}, Range{0x1dc0, 0x1dff},   Range{0x200b, 0x200f},  Range{0x20d0, 0x20ff},
    Range{0x302a, 0x302d}, Range{0x3099, 0x309a},   Range{0xfe00, 0xfe0f},  Range{0xfe20, 0xfe2f},
    Range{0xfeff, 0xfeff}, Range{0x1f3fb, 0x1f3ff}, Range{0xe0100, 0xe01ef}};

template <class Ranges>
bool in(const Ranges& ranges, std::uint32_t c) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), c,
                                      [](std::uint32_t value, const Range& range) { return value < range.first; });
  return after != ranges.begin() && c <= std::prev(after)->last;
}

struct Character {
  std::size_t bytes = 1;
  std::size_t width = 1;
};

// The first character of a text that is not empty. A byte that is not UTF-8 takes one column.
Character first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i])); };
  const std::size_t bytes = utf8_length(text);
  if (bytes <= 1) return {};
  std::uint32_t c = byte(0) & (bytes == 2 ? 0x1fU : bytes == 3 ? 0x0fU : 0x07U);
  for (std::size_t i = 1; i < bytes; ++i) c = c << 6 | (byte(i) & 0x3fU);
  return {bytes, in(kZero, c) ? 0U : in(kWide, c) ? 2U : 1U};
}

// The number of bytes at the front that take at most `width` columns, with the marks that follow.
std::size_t front_bytes(std::string_view text, std::size_t width) {
  std::size_t bytes = 0;
  std::size_t used = 0;
  while (bytes < text.size()) {
    const Character c = first_of(text.substr(bytes));
    if (used + c.width > width) break;
    used += c.width;
    bytes += c.bytes;
  }
  return bytes;
}

}  // namespace

Terminal terminal_of(std::FILE* out) {
  Terminal terminal;
  const int fd = ::fileno(out);
  terminal.is_terminal = ::isatty(fd) == 1;
  if (!terminal.is_terminal) return terminal;
  const char* kind = std::getenv("TERM");           // NOLINT(concurrency-mt-unsafe): nothing sets variables.
  const char* no_colour = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe)
  terminal.escapes = kind != nullptr && *kind != '\0' && std::string_view(kind) != "dumb" &&
                     (no_colour == nullptr || *no_colour == '\0');
  struct winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0) {
    if (size.ws_col > 0) terminal.columns = size.ws_col;
    if (size.ws_row > 0) terminal.rows = size.ws_row;
  }
  return terminal;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const Character c = first_of(text);
    width += c.width;
    text.remove_prefix(c.bytes);
  }
  return width;
}

std::string fit_end(std::string_view text, std::size_t width) {
  return std::string(text.substr(0, front_bytes(text, width)));
}

std::string fit_middle(std::string_view text, std::size_t width) {
  const std::size_t whole = display_width(text);
  if (whole <= width) return std::string(text);
  constexpr std::string_view kGap = "..";
  if (width <= kGap.size() + 1) return fit_end(text, width);
  const std::size_t tail = (width - kGap.size()) / 2;
  const std::size_t head = width - kGap.size() - tail;
  // The end: skip characters until what is left fits.
  std::string_view rest = text;
  std::size_t left = whole;
  while (left > tail) {
    const Character c = first_of(rest);
    left -= c.width;
    rest.remove_prefix(c.bytes);
  }
  while (!rest.empty() && first_of(rest).width == 0) rest.remove_prefix(first_of(rest).bytes);
  return std::string(text.substr(0, front_bytes(text, head))).append(kGap).append(rest);
}

std::string padded(std::string text, std::size_t width) {
  const std::size_t used = display_width(text);
  if (used < width) text.append(width - used, ' ');
  return text;
}

std::string padded_front(const std::string& text, std::size_t width) {
  const std::size_t used = display_width(text);
  return used < width ? std::string(width - used, ' ') + text : text;
}

std::string coloured(std::string_view text, Colour colour, bool escapes) {
  if (!escapes) return std::string(text);
  const char* code = "0";
  switch (colour) {
    case Colour::kRed:
      code = "31";
      break;
    case Colour::kGreen:
      code = "32";
      break;
    case Colour::kYellow:
      code = "33";
      break;
    case Colour::kDim:
      code = "2";
      break;
    case Colour::kBold:
      code = "1";
      break;
  }
  return std::string("\x1b[").append(code).append("m").append(text).append("\x1b[0m");
}

}  // namespace rota::cli
