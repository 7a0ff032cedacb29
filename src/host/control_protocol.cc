#include "host/control_protocol.h"

#include <algorithm>
#include <array>
#include <utility>

#include "fleet/codec.h"

namespace rota::host {

namespace {

constexpr std::size_t kReadBytes = std::size_t{64} << 10;

template <class T>
std::string encode_versioned(const T& value) {
  std::string content(1, static_cast<char>(kControlVersion));
  model::encode(value, content);
  return content;
}

template <class T>
Result<T> decode_versioned(std::string_view content) {
  if (content.empty()) return Error{ErrorCode::kCorrupt, "the message on the control socket is empty"};
  const auto version = static_cast<std::uint8_t>(content.front());
  if (version != kControlVersion) {
    return Error{ErrorCode::kUnsupported, "the message on the control socket has version " + std::to_string(version) +
                                              "; this program reads version " + std::to_string(kControlVersion) +
                                              ". Use the release of rota that the host runs"};
  }
  return model::decode<T>(content.substr(1));
}

Error too_large(std::size_t bytes) {
  return Error{ErrorCode::kTooLarge, "a message of " + std::to_string(bytes) +
                                         " bytes; the control socket takes at most " + std::to_string(kMostFrameBytes)};
}

}  // namespace

ControlAnswer ControlAnswer::refusal(const Error& error) {
  ControlAnswer answer;
  answer.code = static_cast<std::uint32_t>(error.code);
  answer.message = error.message;
  for (const auto& [name, value] : error.details) answer.details.push_back({name, value});
  return answer;
}

Result<void> ControlAnswer::status() const {
  if (code == 0) return {};
  // A code that this release does not know has the meaning of Internal.
  Error error{error_code_info(static_cast<ErrorCode>(code)).code, message};
  for (const Detail& detail : details) error.details.push_back({detail.name, detail.value});
  return error;
}

std::string encode_control(const ControlRequest& request) { return encode_versioned(request); }
std::string encode_control(const ControlAnswer& answer) { return encode_versioned(answer); }
Result<ControlRequest> decode_control_request(std::string_view content) {
  return decode_versioned<ControlRequest>(content);
}
Result<ControlAnswer> decode_control_answer(std::string_view content) {
  return decode_versioned<ControlAnswer>(content);
}

Result<void> write_frame(net::ByteStream& stream, std::string_view content, net::Deadline deadline) {
  if (content.size() > kMostFrameBytes) return too_large(content.size());
  const auto size = static_cast<std::uint32_t>(content.size());
  std::string frame;
  frame.reserve(content.size() + 4);
  for (const int shift : {24, 16, 8, 0}) frame.push_back(static_cast<char>(size >> shift & 0xff));
  frame.append(content);
  return stream.write_all(frame, deadline);
}

Result<std::string> read_frame(net::ByteStream& stream, net::Deadline deadline) {
  std::array<char, 4> head{};
  ROTA_TRY(stream.read_exactly(head, deadline));
  std::size_t size = 0;
  for (const char byte : head) size = size << 8 | static_cast<std::uint8_t>(byte);
  if (size == 0) return Error{ErrorCode::kCorrupt, "a frame without content on the control socket"};
  if (size > kMostFrameBytes) return too_large(size);
  // Memory grows with what has really arrived, not with what the peer announces.
  std::string content;
  while (content.size() < size) {
    const std::size_t at = content.size();
    content.resize(std::min(size, at + kReadBytes));
    ROTA_TRY(stream.read_exactly({content.data() + at, content.size() - at}, deadline));
  }
  return content;
}

Result<ControlAnswer> call(net::ByteStream& stream, const ControlRequest& request, net::Deadline deadline) {
  ROTA_TRY(write_frame(stream, encode_control(request), deadline));
  ROTA_TRY_ASSIGN(const std::string content, read_frame(stream, deadline));
  ROTA_TRY_ASSIGN(ControlAnswer answer, decode_control_answer(content));
  ROTA_TRY(answer.status());
  return answer;
}

}  // namespace rota::host
