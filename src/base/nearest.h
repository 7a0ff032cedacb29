// "Did you mean ...?": the known word nearest to a mistyped one.
//
// Thread safety: functions without state.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace rota {

// How many insertions, deletions, replacements and swaps of neighbours turn `a` into `b` (optimal string alignment).
// Texts over 64 bytes are as far apart as they are long: nobody mistypes those, and the work stays bounded.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

// The nearest of `candidates`, if it is near enough to be a slip (at most a third of the word and at most 3, at least
// 1); otherwise empty. The first of several equally near.
[[nodiscard]] std::string_view nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace rota
