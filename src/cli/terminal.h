// What the terminal can show (C-3): its size, and whether escape sequences are welcome; and text that fits its columns.
//
// Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace rota::cli {

struct Terminal {
  bool is_terminal = false;
  bool escapes = false;  // Colour and cursor movement: a terminal, without NO_COLOR, and TERM is not dumb.
  std::size_t columns = 80;
  std::size_t rows = 24;
};

// The size is asked for each time: a window may change.
[[nodiscard]] Terminal terminal_of(std::FILE* out);

// How many columns a text takes: wide characters (CJK, emoji) take two, combining marks none.
// REQUIRES: no control characters.
[[nodiscard]] std::size_t display_width(std::string_view text);
// At most `width` columns; of a longer text the middle is replaced by "..", so that both ends can be read.
[[nodiscard]] std::string fit_middle(std::string_view text, std::size_t width);
// At most `width` columns; the end is cut off.
[[nodiscard]] std::string fit_end(std::string_view text, std::size_t width);
// Filled with spaces at the end, or at the front, to `width` columns.
[[nodiscard]] std::string padded(std::string text, std::size_t width);
[[nodiscard]] std::string padded_front(const std::string& text, std::size_t width);

enum class Colour { kRed, kGreen, kYellow, kDim, kBold };
// The text in this colour, if escapes are welcome.
[[nodiscard]] std::string coloured(std::string_view text, Colour colour, bool escapes);

}  // namespace rota::cli
