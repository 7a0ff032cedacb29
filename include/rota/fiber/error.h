// The exceptions of the fiber runtime. Functions that return a plain value (get(), spawn(), with_scope()) throw them,
// with the codes that Result-returning functions use.
#pragma once

#include <exception>
#include <string>

#include "rota/fiber/state.h"
#include "rota/result.h"

namespace rota::fiber {

class FiberError : public std::exception {
 public:
  explicit FiberError(Error error) : error_(std::move(error)), what_(error_.to_string()) {}
  [[nodiscard]] const char* what() const noexcept override { return what_.c_str(); }
  [[nodiscard]] const Error& error() const noexcept { return error_; }
  [[nodiscard]] ErrorCode code() const noexcept { return error_.code; }

 private:
  Error error_;
  std::string what_;
};

// Thrown by a wait that was cancelled. If it escapes from a task that is being cancelled, the task ends as Cancelled.
class Cancelled : public FiberError {
 public:
  explicit Cancelled(CancelReason reason);
  [[nodiscard]] CancelReason reason() const noexcept { return reason_; }

 protected:
  Cancelled(CancelReason reason, Error error) : FiberError(std::move(error)), reason_(reason) {}

 private:
  CancelReason reason_;
};

namespace detail {
[[noreturn]] [[gnu::cold]] void throw_error(ErrorCode code, const char* message);
[[noreturn]] [[gnu::cold]] void throw_error(Error error);
[[noreturn]] [[gnu::cold]] void throw_outside_runtime(const char* what);
}  // namespace detail

}  // namespace rota::fiber
