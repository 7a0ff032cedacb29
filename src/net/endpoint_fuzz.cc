// libFuzzer: no text crashes the parser of endpoints, and an endpoint that it accepts is read back from its own text.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "net/stream.h"
#include "rota/assert.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rota::net;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto endpoint = Endpoint::parse(text);
  if (!endpoint.ok()) {
    ROTA_ASSERT(endpoint.code() == rota::ErrorCode::kInvalidArgument, "an unexpected error");
    return 0;
  }
  ROTA_ASSERT(endpoint->host.empty() != endpoint->unix_path.empty(), "an endpoint of no kind, or of two");
  const auto again = Endpoint::parse(endpoint->to_string());
  ROTA_ASSERT(again.ok() && *again == *endpoint, "the text of an endpoint is another endpoint");
  return 0;
}
