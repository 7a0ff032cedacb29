// Which Rota this is: at compile time (what the headers say) and at run time (what the library says).
#pragma once

#include <string_view>

#define ROTA_VERSION_MAJOR 0
#define ROTA_VERSION_MINOR 1
#define ROTA_VERSION_PATCH 0
// Comparable: 1.2.3 is 1002003.
#define ROTA_VERSION_NUMBER (ROTA_VERSION_MAJOR * 1000000 + ROTA_VERSION_MINOR * 1000 + ROTA_VERSION_PATCH)

namespace rota {

// Of the headers this is compiled with.
inline constexpr int kHeaderVersion = ROTA_VERSION_NUMBER;

// Of the library that is linked; differs from kHeaderVersion when headers and library do not belong together.
[[nodiscard]] int library_version() noexcept;
// "0.1.0", of the library.
[[nodiscard]] std::string_view library_version_text() noexcept;

}  // namespace rota
