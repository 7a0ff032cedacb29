#include "model/text_parser.h"

#include "base/nearest.h"

namespace rota::model {

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

namespace detail {

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::string_view near = nearest(word, known);
  return near.empty() ? "" : "; did you mean '" + std::string(near) + "'?";
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text.append(text.empty() ? "" : ", ").append(name);
  return text.empty() ? "nothing" : text;
}

}  // namespace detail

bool TextParser::text_value(std::string& value) {
  if (!at_end() && text_[at_] == '"') return quoted(value);
  const std::size_t start = at_;
  const std::string_view found = word();
  if (found.empty()) return expect('"', "a text, in quotes if it is empty");
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] < ' ' || found[i] == 0x7f || found[i] == '\\') {
      return fail(start + i, "a text with '" + printable(found.substr(i, 1)) + "' in it must be in quotes");
    }
  }
  value = found;
  return true;
}

bool TextParser::quoted(std::string& value) {
  const std::size_t start = at_++;
  value.clear();
  while (!at_end()) {
    const char c = text_[at_++];
    if (c == '"') return true;
    if (c != '\\') {
      value.push_back(c);
      continue;
    }
    const char escape = at_end() ? '\0' : text_[at_++];
    if (escape == '"' || escape == '\\') {
      value.push_back(escape);
    } else if (escape == 'n') {
      value.push_back('\n');
    } else if (escape == 'x' && text_.size() - at_ >= 2 && hex_digit(text_[at_]) >= 0 &&
               hex_digit(text_[at_ + 1]) >= 0) {
      value.push_back(static_cast<char>(hex_digit(text_[at_]) << 4 | hex_digit(text_[at_ + 1])));
      at_ += 2;
    } else {
      return fail(at_ - 1, "after a backslash comes \", \\, n or x and two hexadecimal digits");
    }
  }
  return fail(start, "this quote is never closed");
}

}  // namespace rota::model
