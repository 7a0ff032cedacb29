// What commands are checked with, in one way and with one sentence.
#pragma once

#include <cstdint>
#include <string_view>

#include "rota/result.h"

namespace rota::fleet {

// kInvalidArgument, with the value and what is allowed, unless least <= value <= most.
[[nodiscard]] Result<void> in_range(std::string_view what, std::int64_t value, std::int64_t least, std::int64_t most);

}  // namespace rota::fleet
