// libFuzzer: no bytes crash the decoder, and what it accepts encodes to the same bytes.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fleet/codec.h"
#include "rota/assert.h"

namespace {
template <class T>
void check(std::string_view bytes) {
  const rota::Result<T> value = rota::fleet::decode<T>(bytes);
  if (!value.ok()) return;
  std::string again;
  rota::fleet::encode(value.value(), again);
  ROTA_ASSERT(again == bytes, "accepted bytes that are not those of the value");
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check<rota::fleet::Command>(bytes);
  check<rota::fleet::Events>(bytes);
  return 0;
}
