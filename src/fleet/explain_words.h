// Numbers and lists as people read them, for explanations.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "rota/graph/task.h"

namespace rota::fleet {

// `value` of `one` parts as a decimal fraction without trailing zeros: (750, 1000) is "0.75". REQUIRES: one is a power
// of ten.
[[nodiscard]] std::string decimal(std::int64_t value, std::int64_t one);
// "3 workers", "1 worker".
[[nodiscard]] std::string counted(std::int64_t count, std::string_view what);
// "1st", "2nd", "11th".
[[nodiscard]] std::string ordinal(std::uint64_t number);
// "1m30s"; truncated to milliseconds from 10 ms on, to microseconds from 10 us on.
[[nodiscard]] std::string span_of(std::int64_t ns);
// "running"
[[nodiscard]] std::string lower(graph::TaskState state);
// "a, b and c": appends the next item.
void append_listed(std::string& out, std::string_view item, bool first, bool last);

}  // namespace rota::fleet
