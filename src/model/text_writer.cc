#include "model/text_writer.h"

#include <algorithm>
#include <limits>

namespace rota::model::detail {

namespace {

bool is_word(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    if (c <= ' ' || c >= 0x7f || std::string_view("\"={}[]\\").find(c) != std::string_view::npos) return false;
  }
  return true;
}

}  // namespace

void append_text(std::string& out, std::string_view text) {
  if (is_word(text)) {
    out.append(text);
    return;
  }
  out.push_back('"');
  while (!text.empty()) {
    const std::size_t plain = std::min(text.find_first_of("\"\\\n"), text.size());
    // printable() writes control characters and bytes that are not UTF-8 as \xNN.
    out.append(printable(text.substr(0, plain), std::numeric_limits<std::size_t>::max()));
    text.remove_prefix(plain);
    if (text.empty()) break;
    out.push_back('\\');
    out.push_back(text.front() == '\n' ? 'n' : text.front());
    text.remove_prefix(1);
  }
  out.push_back('"');
}

}  // namespace rota::model::detail
