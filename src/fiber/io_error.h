// Errors of I/O operations that are not the operating system's (base/os_error.h), and how every operation begins.
#pragma once

#include <string_view>

#include "base/os_error.h"
#include "rota/fiber/detail/core.h"
#include "rota/result.h"

namespace rota::fiber::detail {

// The operation ended early for the caller's reasons. `what` says which operation.
[[nodiscard]] [[gnu::cold]] [[gnu::noinline]] Error deadline_error(std::string_view what);
[[nodiscard]] [[gnu::cold]] [[gnu::noinline]] Error closed_error(std::string_view what);
[[nodiscard]] [[gnu::cold]] [[gnu::noinline]] Error outside_error(std::string_view what);

// Every operation calls this first: it charges the task's budget (F-10) and returns kCancelled if the task is
// cancelled. kOk outside the runtime. The task may be on another thread worker afterwards.
[[nodiscard]] ErrorCode begin_operation();

}  // namespace rota::fiber::detail
