// Checks of what reaches a worker as text: a task's specification, and JSON from programs and handlers.
//
// Thread safety: functions without state.
#pragma once

#include <string>
#include <string_view>

#include "model/task_spec.h"
#include "rota/result.h"

namespace rota::worker {

// Is it one JSON value and nothing else? ParseError: "not valid JSON: byte 3: expected ..., found 'x'".
[[nodiscard]] Result<void> check_json(std::string_view text);
[[nodiscard]] bool is_utf8(std::string_view text);
// `text` as a JSON string.
[[nodiscard]] std::string json_string(std::string_view text);

// Can a worker run this? InvalidArgument says which part is wrong and what would be right.
[[nodiscard]] Result<void> validate(const model::TaskSpec& spec);

}  // namespace rota::worker
