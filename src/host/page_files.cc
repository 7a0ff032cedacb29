// Includes the files of web/page/ byte by byte. The assembler does it: a C++ array of that size takes seconds to
// compile, and no other tool is needed at build time.
#include "host/page_files.h"

#include <array>

// ROTA_PAGE_DIR is the path of web/page/ (CMakeLists.txt).
#define ROTA_PAGE_FILE(symbol, file)                                                                           \
  extern "C" const char rota_page_##symbol[];                                                                  \
  extern "C" const char rota_page_##symbol##_end[];                                                            \
  asm(".section .rodata\n.global rota_page_" #symbol "\n.global rota_page_" #symbol "_end\nrota_page_" #symbol \
      ":\n.incbin \"" ROTA_PAGE_DIR "/" file ".gz\"\nrota_page_" #symbol "_end:\n.byte 0\n.previous\n")

ROTA_PAGE_FILE(index_html, "index.html");
ROTA_PAGE_FILE(app_js, "app.js");
ROTA_PAGE_FILE(app_css, "app.css");
ROTA_PAGE_FILE(layout_js, "layout.js");

namespace rota::host {

namespace {

std::string_view between(const char* begin, const char* end) { return {begin, static_cast<std::size_t>(end - begin)}; }

}  // namespace

const PageFile* find_page_file(std::string_view name) {
  static const std::array<PageFile, 4> files{{
      {"index.html", "text/html; charset=utf-8", between(rota_page_index_html, rota_page_index_html_end)},
      {"app.js", "text/javascript; charset=utf-8", between(rota_page_app_js, rota_page_app_js_end)},
      {"app.css", "text/css; charset=utf-8", between(rota_page_app_css, rota_page_app_css_end)},
      {"layout.js", "text/javascript; charset=utf-8", between(rota_page_layout_js, rota_page_layout_js_end)},
  }};
  for (const PageFile& file : files) {
    if (file.name == name) return &file;
  }
  return nullptr;
}

}  // namespace rota::host
