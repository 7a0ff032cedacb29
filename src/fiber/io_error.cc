#include "fiber/io_error.h"

#include <cerrno>
#include <cstring>

#include "rota/fiber/detail/charge.h"

namespace rota::fiber::detail {

ErrorCode code_of_errno(int error) {
  switch (error) {
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENETUNREACH:
    case ENETDOWN:
    case ETIMEDOUT:
      return ErrorCode::kUnavailable;
    case ECONNRESET:
    case ECONNABORTED:
    case EPIPE:
    case ENOTCONN:
    case ESHUTDOWN:
    case EBADF:
      return ErrorCode::kClosed;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kPermissionDenied;
    case ENOENT:
    case ENOTDIR:
      return ErrorCode::kNotFound;
    case EEXIST:
    case EADDRINUSE:
      return ErrorCode::kAlreadyExists;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
      return ErrorCode::kResourceExhausted;
    case ENOSPC:
    case EDQUOT:
      return ErrorCode::kNoSpace;
    case EFBIG:
    case EMSGSIZE:
    case ENAMETOOLONG:
      return ErrorCode::kTooLarge;
    case EINVAL:
    case EADDRNOTAVAIL:
    case EAFNOSUPPORT:
    case EISDIR:
    case ENOTSOCK:
      return ErrorCode::kInvalidArgument;
    case EBUSY:
    case EISCONN:
    case EALREADY:
      return ErrorCode::kFailedPrecondition;
    case EOPNOTSUPP:
    case EPROTONOSUPPORT:
    case ENOSYS:
      return ErrorCode::kUnsupported;
    default:
      return ErrorCode::kIoError;
  }
}

Error os_error(int error, std::string_view what) {
  const char* sentence = strerrordesc_np(error);
  const char* name = strerrorname_np(error);
  const std::string number = std::to_string(error);
  return Error{code_of_errno(error),
               std::string(what) + ": " + (sentence == nullptr ? "unknown error " + number : std::string(sentence))}
      .with("errno", name == nullptr ? number : std::string(name));
}

Error deadline_error(std::string_view what) {
  return Error{ErrorCode::kDeadlineExceeded, std::string(what) + ": the deadline passed"};
}

Error closed_error(std::string_view what) {
  return Error{ErrorCode::kClosed, std::string(what) + ": the descriptor is closed"};
}

Error outside_error(std::string_view what) {
  return Error{ErrorCode::kOutsideRuntime, std::string(what) + " would have to wait: call it in a task"};
}

ErrorCode begin_operation() {
  Worker* worker = current_worker();
  if (worker == nullptr) return ErrorCode::kOk;
  if (const ErrorCode code = charge_syscall(worker); code != ErrorCode::kOk) [[unlikely]]
    return code;
  return cancelled_now(current_worker()) ? ErrorCode::kCancelled : ErrorCode::kOk;
}

}  // namespace rota::fiber::detail
