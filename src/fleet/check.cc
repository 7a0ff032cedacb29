#include "fleet/check.h"

#include <string>

namespace rota::fleet {

Result<void> in_range(std::string_view what, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return {};
  return Error{ErrorCode::kInvalidArgument, std::string(what) + " is " + std::to_string(value) + "; allowed is " +
                                                std::to_string(least) + " to " + std::to_string(most)};
}

}  // namespace rota::fleet
