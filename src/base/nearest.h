// "Did you mean ...?": the known word nearest to a mistyped one.
//
// Thread safety: functions without state.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace rota {

// The number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b` (optimal string
// alignment). For texts over 64 bytes it is their length, which bounds the work; such texts are not typing errors.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

// The nearest of `candidates`, if the distance is plausible for a typing error (at most a third of the word, at most 3,
// and 1 is always allowed); otherwise empty. The first of several equally near ones.
[[nodiscard]] std::string_view nearest(std::string_view word, std::span<const std::string> candidates);

}  // namespace rota
