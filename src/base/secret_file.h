// Reads the values of secrets from a directory with one file for each (U-7): DIR/hf, or DIR/hf@2 for its version 2.
//
// The directory and its files must belong to this process's user or to root, and no one else may read or write them. A
// link is followed, and what it leads to is checked. One line feed at the end of a file is not part of the value.
//
// Thread safety: functions without state. They block.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "rota/result.h"

namespace rota {

inline constexpr std::size_t kSecretLeastBytes = 4;  // A shorter value would be masked in unrelated output.
inline constexpr std::size_t kSecretMostBytes = 32 * 1024;

// True for 1 to 128 letters, digits and `.`, `_`, `-`, the first of them a letter or a digit: the name of a file, and
// never a path. A version that is not empty has the same form.
[[nodiscard]] bool is_secret_name(std::string_view name);

// The file's name: "hf", or "hf@2".
[[nodiscard]] std::string secret_file_name(std::string_view name, std::string_view version);

// InvalidArgument if the length is outside the bounds or the value contains a zero byte; the message has no part of it.
[[nodiscard]] Result<void> check_secret_value(std::string_view value);

// FailedPrecondition, with what to do, if the directory does not exist or others may read it.
[[nodiscard]] Result<void> check_secret_directory(const std::string& directory);

// NotFound if there is no such file; FailedPrecondition for wrong owners or modes; InvalidArgument for names and values
// that are not allowed; IoError.
[[nodiscard]] Result<std::string> read_secret_file(const std::string& directory, std::string_view name,
                                                   std::string_view version);

}  // namespace rota
