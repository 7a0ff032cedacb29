// JSON strings and printable text for messages.
//
// Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rota {

// The length of the well-formed UTF-8 sequence at the front of `text` (Unicode table 3-7), or 0 if there is none.
// REQUIRES: text is not empty.
[[nodiscard]] std::size_t utf8_length(std::string_view text);

// Appends `text` as a JSON string with its quotes. Control characters are escaped; bytes that are not UTF-8 become
// U+FFFD, so that the output is always valid JSON.
void append_json_string(std::string& out, std::string_view text);

// `text` for one line of a message: control characters and bytes that are not UTF-8 are escaped as \xNN, backslashes
// and quotes are kept, and at most `most` bytes are shown, followed by "..." if there are more.
[[nodiscard]] std::string printable(std::string_view text, std::size_t most = 80);

}  // namespace rota
