// The text of a policy after --policy: `mode=static_worker,lambda_other=0.2,elastic.enable=true`.
#pragma once

#include <string>
#include <string_view>

#include "rota/result.h"

namespace rota::cli {

// Converts it to fields as in fleet/text.h: separated by spaces, fractions in billionths. InvalidArgument or ParseError
// with what is wrong and what would be right; the names and values of the fields are checked by their reader.
[[nodiscard]] Result<std::string> policy_fields(std::string_view text);

}  // namespace rota::cli
