// Whether this code is built with a sanitizer. A test of many rounds runs fewer of them there: the build without
// sanitizers runs them all.
#pragma once

namespace rota {

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ROTA_UNDER_ASAN
#endif
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(ROTA_UNDER_ASAN)
inline constexpr bool kUnderAsan = true;
#else
inline constexpr bool kUnderAsan = false;
#endif

}  // namespace rota
