// libFuzzer: no text crashes the parser; what it reads, and what the decoder reads, is written and read back the same.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "fleet/codec.h"
#include "fleet/text.h"
#include "rota/assert.h"

namespace {
void check(const rota::Result<rota::fleet::Command>& command) {
  if (!command.ok()) return;
  const std::string text = rota::fleet::to_text(command.value());
  const auto again = rota::fleet::parse_command(text);
  ROTA_ASSERT(again.ok(), text);
  std::string before;
  std::string after;
  rota::fleet::encode(command.value(), before);
  rota::fleet::encode(again.value(), after);
  ROTA_ASSERT(before == after, text);
  ROTA_ASSERT(text.find('\n') == std::string::npos, text);
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check(rota::fleet::parse_command(bytes));
  check(rota::fleet::decode<rota::fleet::Command>(bytes));
  return 0;
}
