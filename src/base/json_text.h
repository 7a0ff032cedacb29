// Writing JSON strings, for log lines and printed tables.
//
// Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rota {

// The length of the UTF-8 sequence at the front of `text` (well-formed as of Unicode table 3-7), or 0 if it is none.
// REQUIRES: text is not empty.
[[nodiscard]] std::size_t utf8_length(std::string_view text);

// Appends `text` as a JSON string with its quotes. Control characters are escaped; bytes that are not UTF-8 become
// U+FFFD, so that the output is always valid JSON.
void append_json_string(std::string& out, std::string_view text);

// `text` as it may be shown in one line of a message: control characters and bytes that are not UTF-8 escaped as \xNN,
// backslashes and quotes as they are, and at most `most` bytes of it followed by "..." if there is more.
[[nodiscard]] std::string printable(std::string_view text, std::size_t most = 80);

}  // namespace rota
