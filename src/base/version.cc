// The library's own version. See include/rota/version.h.
#include "rota/version.h"

#define ROTA_DETAIL_TEXT2(x) #x
#define ROTA_DETAIL_TEXT(x) ROTA_DETAIL_TEXT2(x)

namespace rota {

int library_version() noexcept { return ROTA_VERSION_NUMBER; }

std::string_view library_version_text() noexcept {
  return ROTA_DETAIL_TEXT(ROTA_VERSION_MAJOR) "." ROTA_DETAIL_TEXT(ROTA_VERSION_MINOR) "." ROTA_DETAIL_TEXT(
      ROTA_VERSION_PATCH);
}

}  // namespace rota
