// Checks that values can be put into the shell text of `rota each` so that each of them arrives as it is (Y-8, B-13).
//
// A value is a variable of the shell, in double quotes. Where {} stands between quotes, without quotes or inside of
// $(...), it can be inserted as a part of one word. In some places it cannot: in a here-document, in `...`, in ${...},
// in $((...)), and where the value would become code of another interpreter. There the command is refused before
// anything runs. The check reads the text as a shell does, as far as it has to; where it loses track, it refuses, too.
//
// Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "rota/result.h"

namespace rota::cli {

// `lists`: {} and {1} to {lists} are values. A text without any of them gets {} at its end. InvalidArgument.
[[nodiscard]] Result<void> check_shell_text(const std::string& text, std::size_t lists);

// The same for a program and its arguments: a `$` before a mark would make a reference of it.
[[nodiscard]] Result<void> check_arguments(const std::vector<std::string>& words, std::size_t lists);

}  // namespace rota::cli
