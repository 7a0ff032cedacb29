// libFuzzer: no file, environment or argument list may crash the settings or get a value past its check.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "workflow/settings_file_testing.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string wrong = rota::workflow::load_bytes(std::string_view(reinterpret_cast<const char*>(data), size));
  ROTA_ASSERT(wrong.empty(), wrong);
  return 0;
}
