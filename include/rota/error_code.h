// All error codes of Rota, in one table: number, name, HTTP status, exit status and meaning.
//
// The numbers are stable, because programs, logs and the C interface store them. A code may be added with a new number;
// none is renumbered or reused (a test checks the list). A test compares docs/errors.md with this table, and the C
// interface, the HTTP responses and the exit status of `rota` are derived from it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

// X(Name, number, http_status, exit_status, meaning)
//
// Exit statuses: 0 success, 1 internal failure, 2 invalid request, 3 not found, 4 conflict with existing state,
// 5 a limit was reached, 6 took too long, 7 cancelled, 8 temporarily unavailable (try again), 9 not permitted,
// 10 damaged data or device.
#define ROTA_ERROR_TABLE(X)                                                                                 \
  X(Ok, 0, 200, 0, "no error")                                                                              \
  X(Internal, 1, 500, 1, "a bug in Rota, or a failure without a more specific code")                        \
  X(InvalidArgument, 2, 400, 2, "an argument has a value that is never allowed")                            \
  X(NotFound, 3, 404, 3, "the named object does not exist")                                                 \
  X(AlreadyExists, 4, 409, 4, "an object with this name already exists")                                    \
  X(Conflict, 5, 409, 4, "another change came first; read again and retry")                                 \
  X(FailedPrecondition, 6, 412, 4, "the object is not in a state that allows this")                         \
  X(Capacity, 7, 503, 5, "the request exceeds the capacity")                                                \
  X(QueueFull, 8, 503, 5, "a bounded queue is full")                                                        \
  X(Timeout, 9, 504, 6, "an operation took longer than its own limit")                                      \
  X(DeadlineExceeded, 10, 504, 6, "the caller's deadline passed")                                           \
  X(Cancelled, 11, 499, 7, "the operation was cancelled")                                                   \
  X(Closed, 12, 410, 4, "the other side, or the object itself, is closed")                                  \
  X(WouldBlock, 13, 503, 8, "it cannot be done now without waiting")                                        \
  X(Unavailable, 14, 503, 8, "a required service does not respond")                                         \
  X(NotLeader, 15, 503, 8, "another host is the leader; send the request there")                            \
  X(Unauthenticated, 16, 401, 9, "no valid token was given")                                                \
  X(PermissionDenied, 17, 403, 9, "the token's role does not allow this")                                   \
  X(ResourceExhausted, 18, 429, 5, "a quota or a resource of the machine is used up")                       \
  X(DataLoss, 19, 500, 10, "data that was acknowledged cannot be read back")                                \
  X(Corrupt, 20, 500, 10, "data has a wrong form or checksum")                                              \
  X(IoError, 21, 500, 10, "the operating system reported an input or output error")                         \
  X(NoSpace, 22, 507, 5, "the disk is full")                                                                \
  X(ParseError, 23, 400, 2, "text could not be parsed; the message says where")                             \
  X(Unsupported, 24, 501, 2, "this build, system or version cannot do it")                                  \
  X(TooLarge, 25, 413, 2, "a request or a value exceeds its size limit")                                    \
  X(Overloaded, 26, 429, 8, "more work arrives than can be accepted; try again later")                      \
  X(SpawnBudgetExhausted, 100, 429, 5, "the fiber may spawn no more tasks")                                 \
  X(MemoryBudgetExhausted, 101, 429, 5, "the fiber's memory budget is used up")                             \
  X(BudgetExhausted, 102, 429, 5, "another of the fiber's budgets is used up")                              \
  X(NurseryNotActive, 103, 409, 4, "the nursery is closing or closed and takes no tasks")                   \
  X(StackOverflow, 104, 500, 1, "a fiber used more stack than it has")                                      \
  X(WorkerPanic, 105, 500, 1, "a thread worker died of a fault in the runtime's own loop and was replaced") \
  X(CapabilityDenied, 106, 403, 9, "the runtime's profile does not allow this operation")                   \
  X(OutsideRuntime, 107, 409, 4, "called from a thread that is not running a fiber")                        \
  X(Deadlock, 108, 500, 1, "all tasks wait for something that can never happen")

namespace rota {

enum class ErrorCode : std::uint16_t {
#define ROTA_ERROR_ENUMERATOR(name, number, http, exit, meaning) k##name = number,
  ROTA_ERROR_TABLE(ROTA_ERROR_ENUMERATOR)
#undef ROTA_ERROR_ENUMERATOR
};

// One row of the table.
struct ErrorCodeInfo {
  ErrorCode code;
  std::string_view name;  // As in the table, for example "NotFound".
  int http_status;
  int exit_status;
  std::string_view meaning;
};

// All rows, by ascending number.
[[nodiscard]] std::span<const ErrorCodeInfo> error_codes() noexcept;

// The row of a code; for a number that is not in the table, the row of Internal.
[[nodiscard]] const ErrorCodeInfo& error_code_info(ErrorCode code) noexcept;

[[nodiscard]] inline std::string_view to_string(ErrorCode code) noexcept { return error_code_info(code).name; }
[[nodiscard]] inline int http_status(ErrorCode code) noexcept { return error_code_info(code).http_status; }
[[nodiscard]] inline int exit_status(ErrorCode code) noexcept { return error_code_info(code).exit_status; }

// The row with this name, or null.
[[nodiscard]] const ErrorCodeInfo* find_error_code(std::string_view name) noexcept;

}  // namespace rota
