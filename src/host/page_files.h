// The files of the dashboard, gzipped, as web/build.mjs made them (W-1). They are part of the program.
//
// Thread safety: constants.
#pragma once

#include <string_view>

namespace rota::host {

struct PageFile {
  std::string_view name{};  // "app.js"; "index.html" is the page itself.
  std::string_view type{};  // Of the content, for Content-Type.
  std::string_view gzip{};
};

// Null if there is none of this name.
[[nodiscard]] const PageFile* find_page_file(std::string_view name);

}  // namespace rota::host
