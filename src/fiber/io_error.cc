#include "fiber/io_error.h"

#include <string>

#include "rota/fiber/detail/charge.h"

namespace rota::fiber::detail {

Error deadline_error(std::string_view what) {
  return Error{ErrorCode::kDeadlineExceeded, std::string(what) + ": the deadline passed"};
}

Error closed_error(std::string_view what) {
  return Error{ErrorCode::kClosed, std::string(what) + ": the descriptor is closed"};
}

Error outside_error(std::string_view what) {
  return Error{ErrorCode::kOutsideRuntime, std::string(what) + " would have to wait, which needs a task"};
}

ErrorCode begin_operation() {
  ThreadWorker* worker = current_worker();
  if (worker == nullptr) return ErrorCode::kOk;
  if (const ErrorCode code = charge_syscall(worker); code != ErrorCode::kOk) [[unlikely]]
    return code;
  return cancelled_now(current_worker()) ? ErrorCode::kCancelled : ErrorCode::kOk;
}

}  // namespace rota::fiber::detail
