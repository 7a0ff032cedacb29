// libFuzzer: no bytes crash the decoder of messages, and a message that it accepts encodes to the same bytes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "model/message.h"
#include "rota/assert.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rota::model;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto message = decode_to_worker(bytes); message.ok()) {
    ROTA_ASSERT(encode_message(*message) == bytes, "a message has two encodings");
  }
  if (const auto message = decode_from_worker(bytes); message.ok()) {
    ROTA_ASSERT(encode_message(*message) == bytes, "a message has two encodings");
  }
  return 0;
}
