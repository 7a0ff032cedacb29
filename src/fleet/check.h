// Checks of numbers in commands.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "rota/model/resources.h"
#include "rota/result.h"

namespace rota::fleet {

// kInvalidArgument, with the value and what is allowed, unless least <= value <= most.
[[nodiscard]] Result<void> in_range(std::string_view what, std::int64_t value, std::int64_t least, std::int64_t most);

// The same for all amounts, none of which may be below 0. `of` begins the sentence: "the worker's ".
[[nodiscard]] Result<void> amounts_in_range(const std::string& of, const model::Amounts& amounts);

// Larger amounts are refused, so that sums and scores cannot overflow.
inline constexpr std::int64_t kMostAmount = std::int64_t{1} << 50;  // Bytes and times.
inline constexpr std::int64_t kMostCount = 1'000'000'000;           // Thousandths of a core, and counts.

}  // namespace rota::fleet
