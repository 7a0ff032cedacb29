// A policy as it is written after --policy: `mode=static_worker,lambda_other=0.2,elastic.enable=true`.
#pragma once

#include <string>
#include <string_view>

#include "rota/result.h"

namespace rota::cli {

// The same as fields of fleet/text.h: separated by spaces, fractions in billionths. InvalidArgument or ParseError with
// what is wrong and what would be right; names and values of the fields are looked at by who reads them.
[[nodiscard]] Result<std::string> policy_fields(std::string_view text);

}  // namespace rota::cli
