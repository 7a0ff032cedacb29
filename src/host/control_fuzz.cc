// libFuzzer: no bytes crash the decoder of the control socket, and what it accepts encodes to the same bytes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "host/control_protocol.h"
#include "rota/assert.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rota::host;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const auto request = decode_control_request(bytes); request.ok()) {
    ROTA_ASSERT(encode_control(*request) == bytes, "a request has two encodings");
  }
  if (const auto answer = decode_control_answer(bytes); answer.ok()) {
    ROTA_ASSERT(encode_control(*answer) == bytes, "an answer has two encodings");
    (void)answer->status();
  }
  return 0;
}
