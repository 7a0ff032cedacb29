#include "model/message.h"

#include "model/codec.h"

namespace rota::model {

namespace {

template <class Message>
std::string encode_versioned(const Message& message) {
  std::string bytes(1, static_cast<char>(kMessageVersion));
  encode(message, bytes);
  return bytes;
}

template <class Message>
Result<Message> decode_versioned(std::string_view bytes) {
  if (bytes.empty()) return Error{ErrorCode::kCorrupt, "the message is empty"};
  const auto version = static_cast<std::uint8_t>(bytes.front());
  if (version != kMessageVersion) {
    return Error{ErrorCode::kUnsupported, "the message has version " + std::to_string(version) +
                                              " of the encoding; this program reads version " +
                                              std::to_string(kMessageVersion) +
                                              ". Run the same release of rota on the host and on its workers"};
  }
  return decode<Message>(bytes.substr(1));
}

}  // namespace

std::string encode_message(const ToWorker& message) { return encode_versioned(message); }
std::string encode_message(const FromWorker& message) { return encode_versioned(message); }
Result<ToWorker> decode_to_worker(std::string_view bytes) { return decode_versioned<ToWorker>(bytes); }
Result<FromWorker> decode_from_worker(std::string_view bytes) { return decode_versioned<FromWorker>(bytes); }

}  // namespace rota::model
