// The protocol of a host's local control socket, <state>/control.sock: how `rota submit`, `rota cancel` and the others
// reach a running host on the same machine. It is not an interface for other software: both ends are one release of
// rota.
//
//   frame   = length content            length: 4 bytes, the highest first, 1 to kMostFrameBytes
//   content = version value             version: 1 byte; value: a ControlRequest or ControlAnswer as in model/codec.h
//
// The client sends a request and gets one answer; a connection may carry many pairs, one after the other. A frame that
// is too long, has another version or does not decode is answered with an error, and the connection is closed.
//
// Access: the socket belongs to the user who runs the host, with mode 0600, in a folder with mode 0700.
//
// Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "fleet/command.h"
#include "fleet/event.h"
#include "net/stream.h"
#include "rota/model/fields.h"
#include "rota/model/ids.h"
#include "rota/result.h"

namespace rota::host {

inline constexpr std::uint8_t kControlVersion = 1;
inline constexpr std::size_t kMostFrameBytes = std::size_t{16} << 20;
inline constexpr std::string_view kControlSocket = "control.sock";  // In the state folder.

// Is the host there? Answered with its last durable record.
struct Ping {
  static constexpr std::string_view kName = "Ping";
  ROTA_FIELDS()
};
// Executes a command of a user: SubmitWorkflow, Control, SetPriority, SetQuota, DrainWorker, SetWorkerEnabled or
// ForgetWorkflow. Others are refused.
struct Execute {
  static constexpr std::string_view kName = "Execute";
  fleet::Command command{};
  ROTA_FIELDS(command)
};
// Answered when the workflow has ended, or after wait_ms, at most kMostWaitMs.
struct AwaitEnd {
  static constexpr std::string_view kName = "AwaitEnd";
  static constexpr std::uint32_t kMostWaitMs = 60'000;
  model::WorkflowId workflow{};
  std::uint32_t wait_ms = 0;
  ROTA_FIELDS(workflow, wait_ms)
};
// The position in this list is the number in the encoding: append, never reorder.
using ControlRequest = std::variant<Ping, Execute, AwaitEnd>;

// A detail of the answer to an AwaitEnd, if the workflow was stopped early: its fleet::StopCause.
inline constexpr std::string_view kStoppedDetail = "stopped";

struct ControlAnswer {
  struct Detail {
    std::string name{};
    std::string value{};
    ROTA_FIELDS(name, value)
  };
  std::uint32_t code = 0;  // Of rota::ErrorCode; 0: success.
  std::string message{};
  std::vector<Detail> details{};
  std::uint64_t index = 0;  // The answer reflects the log up to this record.
  // Of a SubmitWorkflow.
  model::WorkflowId workflow{};
  bool throttle = false;                // The host asks its clients to slow down.
  std::vector<std::string> warnings{};  // Stages that no worker can run now, one sentence each.
  // Of an AwaitEnd.
  fleet::Outcome outcome = fleet::Outcome::kRunning;
  ROTA_FIELDS(code, message, details, index, workflow, throttle, warnings, outcome)

  static ControlAnswer refusal(const Error& error);
  // The error, or success.
  [[nodiscard]] Result<void> status() const;
};

// With the version, without the length.
[[nodiscard]] std::string encode_control(const ControlRequest& request);
[[nodiscard]] std::string encode_control(const ControlAnswer& answer);
// Unsupported for another version, with both versions in the sentence; Corrupt for anything else that is wrong.
[[nodiscard]] Result<ControlRequest> decode_control_request(std::string_view content);
[[nodiscard]] Result<ControlAnswer> decode_control_answer(std::string_view content);

// TooLarge.
[[nodiscard]] Result<void> write_frame(net::ByteStream& stream, std::string_view content, net::Deadline deadline);
// The content of the next frame. Closed at the end of the stream; Corrupt for a length of 0; TooLarge.
[[nodiscard]] Result<std::string> read_frame(net::ByteStream& stream, net::Deadline deadline);

// Sends the request and returns the answer; the answer's error as an error.
[[nodiscard]] Result<ControlAnswer> call(net::ByteStream& stream, const ControlRequest& request,
                                         net::Deadline deadline);

}  // namespace rota::host
