// JSON strings and printable text. See base/json_text.h.
#include "base/json_text.h"

#include <cstdint>

namespace rota {
namespace {

constexpr char kHex[] = "0123456789abcdef";

bool is_control(char c) { return static_cast<std::uint8_t>(c) < 0x20 || c == 0x7f; }

}  // namespace

std::size_t utf8_length(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const auto follows = [&](std::size_t i, std::uint8_t low = 0x80, std::uint8_t high = 0xbf) {
    return i < text.size() && at(i) >= low && at(i) <= high;
  };
  const std::uint8_t lead = at(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return follows(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const std::uint8_t low = lead == 0xe0 ? 0xa0 : 0x80;   // No overlong forms,
    const std::uint8_t high = lead == 0xed ? 0x9f : 0xbf;  // no surrogates.
    return follows(1, low, high) && follows(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const std::uint8_t low = lead == 0xf0 ? 0x90 : 0x80;
    const std::uint8_t high = lead == 0xf4 ? 0x8f : 0xbf;  // Nothing past U+10FFFF.
    return follows(1, low, high) && follows(2) && follows(3) ? 4 : 0;
  }
  return 0;
}

void append_json_string(std::string& out, std::string_view text) {
  out.push_back('"');
  while (!text.empty()) {
    // Most text needs no escaping and is copied in runs.
    std::size_t plain = 0;
    while (plain < text.size() && text[plain] >= 0x20 && text[plain] < 0x7f && text[plain] != '"' &&
           text[plain] != '\\') {
      ++plain;
    }
    out.append(text, 0, plain);
    text.remove_prefix(plain);
    if (text.empty()) break;

    const char c = text.front();
    std::size_t used = 1;
    if (c == '"' || c == '\\') {
      out.push_back('\\');
      out.push_back(c);
    } else if (c == '\n') {
      out.append("\\n");
    } else if (c == '\t') {
      out.append("\\t");
    } else if (c == '\r') {
      out.append("\\r");
    } else if (is_control(c)) {
      const auto byte = static_cast<std::uint8_t>(c);
      out.append("\\u00").push_back(kHex[byte >> 4]);
      out.push_back(kHex[byte & 0xfU]);
    } else if (used = utf8_length(text); used != 0) {
      out.append(text, 0, used);
    } else {
      out.append("\\ufffd");
      used = 1;
    }
    text.remove_prefix(used);
  }
  out.push_back('"');
}

std::string printable(std::string_view text, std::size_t most) {
  std::string out;
  const std::size_t all = text.size();
  while (!text.empty()) {
    const std::size_t length = is_control(text.front()) ? 0 : utf8_length(text);
    const std::size_t used = length == 0 ? 1 : length;
    if (all - text.size() + used > most) return out.append("...");
    if (length == 0) {
      const auto byte = static_cast<std::uint8_t>(text.front());
      out.append("\\x").push_back(kHex[byte >> 4]);
      out.push_back(kHex[byte & 0xfU]);
    } else {
      out.append(text, 0, length);
    }
    text.remove_prefix(used);
  }
  return out;
}

}  // namespace rota
