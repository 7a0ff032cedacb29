// The version of Rota: of the headers (compile time) and of the linked library (run time).
#pragma once

#include <string_view>

#define ROTA_VERSION_MAJOR 0
#define ROTA_VERSION_MINOR 1
#define ROTA_VERSION_PATCH 0
// A comparable number: 1.2.3 is 1002003.
#define ROTA_VERSION_NUMBER (ROTA_VERSION_MAJOR * 1000000 + ROTA_VERSION_MINOR * 1000 + ROTA_VERSION_PATCH)

namespace rota {

// The version of these headers.
inline constexpr int kHeaderVersion = ROTA_VERSION_NUMBER;

// The version of the linked library. It differs from kHeaderVersion if headers and library do not match.
[[nodiscard]] int library_version() noexcept;
// The library's version as text: "0.1.0".
[[nodiscard]] std::string_view library_version_text() noexcept;

}  // namespace rota
