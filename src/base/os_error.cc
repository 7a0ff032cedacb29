// The table from errno to ErrorCode. See base/os_error.h.
#include "base/os_error.h"

#include <cerrno>
#include <cstring>
#include <string>

namespace rota {

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

}  // namespace rota
