// Errors of the operating system as rota::Error.
//
// Thread safety: functions without state.
#pragma once

#include <string_view>

#include "rota/error_code.h"
#include "rota/result.h"

namespace rota {

// The code for an errno value; IoError for those without a better one.
[[nodiscard]] ErrorCode code_of_errno(int error);
// An error such as "connect to 127.0.0.1:1: Connection refused", with the detail errno=ECONNREFUSED. `what` says which
// operation failed.
[[nodiscard]] [[gnu::cold]] [[gnu::noinline]] Error os_error(int error, std::string_view what);

}  // namespace rota
