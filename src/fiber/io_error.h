// The operating system's errors as Rota's: which code, and a sentence.
#pragma once

#include <string>
#include <string_view>

#include "rota/fiber/detail/core.h"
#include "rota/result.h"

namespace rota::fiber::detail {

[[nodiscard]] ErrorCode code_of_errno(int error);
// "connect to 127.0.0.1:1: Connection refused", with the detail errno=ECONNREFUSED.
[[nodiscard]] [[gnu::cold]] [[gnu::noinline]] Error os_error(int error, std::string_view what);

// How an operation ended for the caller's reasons. `what` says what was tried.
[[nodiscard]] [[gnu::cold]] [[gnu::noinline]] Error deadline_error(std::string_view what);
[[nodiscard]] [[gnu::cold]] [[gnu::noinline]] Error closed_error(std::string_view what);
[[nodiscard]] [[gnu::cold]] [[gnu::noinline]] Error outside_error(std::string_view what);

// What every operation begins with: it is paid for (F-10) and the task is not cancelled. kOk outside the runtime.
// The worker may be another one afterwards.
[[nodiscard]] ErrorCode begin_operation();

}  // namespace rota::fiber::detail
