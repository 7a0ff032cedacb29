// The errors that every stream and network reports with the same code and the same sentence (stream.h).
//
// `operation` names what was tried and with whom: "read from 127.0.0.1:6379", "connect to redis.example:6379".
// Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "rota/result.h"

namespace rota::net {

[[nodiscard]] [[gnu::cold]] inline Error deadline_passed(std::string_view operation, std::size_t done_bytes = 0) {
  return Error{ErrorCode::kDeadlineExceeded, std::string(operation) + ": the deadline passed"}.with(
      "done_bytes", std::to_string(done_bytes));
}
// This end was closed by close().
[[nodiscard]] [[gnu::cold]] inline Error closed_here(std::string_view operation) {
  return Error{ErrorCode::kClosed, std::string(operation) + ": this end of the stream was closed"};
}
[[nodiscard]] [[gnu::cold]] inline Error reset_by_peer(std::string_view operation) {
  return Error{ErrorCode::kClosed, std::string(operation) + ": Connection reset by peer"}.with("errno", "ECONNRESET");
}
// A write after shutdown_write(), or to a peer that has closed its stream.
[[nodiscard]] [[gnu::cold]] inline Error broken_pipe(std::string_view operation) {
  return Error{ErrorCode::kClosed, std::string(operation) + ": Broken pipe"}.with("errno", "EPIPE");
}
// A write after a write that failed: the peer would take its bytes for the rest of the interrupted ones.
[[nodiscard]] [[gnu::cold]] inline Error after_failed_write(std::string_view operation) {
  return Error{ErrorCode::kClosed,
               std::string(operation) + ": an earlier write to this stream failed; close it and connect again"};
}
[[nodiscard]] [[gnu::cold]] inline Error refused(std::string_view operation) {
  return Error{ErrorCode::kUnavailable, std::string(operation) + ": Connection refused"}.with("errno", "ECONNREFUSED");
}

}  // namespace rota::net
