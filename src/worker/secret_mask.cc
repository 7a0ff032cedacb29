#include "worker/secret_mask.h"

#include <algorithm>
#include <cstdio>
#include <set>

#include "base/json_text.h"
#include "model/json.h"
#include "worker/task_check.h"

namespace rota::worker {

namespace {

constexpr std::size_t kLeastLine = 4;                       // Of a line, and of what base64 has of a value for certain.
constexpr std::size_t kLeastEncodedLine = 8;                // Of a line of base64: shorter ones occur by chance.
constexpr std::string_view kJsonMarks = "{}[],:\" \t\r\n";  // What a number, true, false or null ends at.
constexpr std::size_t kMostEncoded = 1024;  // Of a value that is also looked for in base64 and percent-encoding.

std::string as_json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out.substr(1, out.size() - 2);
}

// As json.dumps() of Python and others write it: only ASCII. `text` is JSON without its quotes.
std::string as_ascii_json(std::string_view text) {
  std::string out;
  const auto unit = [&out](std::uint32_t number) {
    char digits[16];
    (void)std::snprintf(digits, sizeof digits, "\\u%04x", number);
    out += digits;
  };
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(utf8_length(text), 1);
    if (length == 1) {
      out += text.front();
    } else {
      const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
      std::uint32_t code = byte(0) & (0xFFU >> (length + 1));
      for (std::size_t i = 1; i < length; ++i) code = code << 6U | (byte(i) & 0x3FU);
      if (code >= 0x10000) {
        unit(0xD800 + ((code - 0x10000) >> 10U));
        unit(0xDC00 + ((code - 0x10000) & 0x3FFU));
      } else {
        unit(code);
      }
    }
    text.remove_prefix(length);
  }
  return out;
}

std::string percent_encoded(std::string_view text, const char* digits) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '.' || c == '_' || c == '~';
    if (plain) {
      out += c;
    } else {
      out.append(1, '%').append(1, digits[byte >> 4U]).append(1, digits[byte & 15U]);
    }
  }
  return out;
}

// The characters of base64 that depend on `text` alone if `skip` bytes (0 to 2) of a group of three stand before it.
std::string base64_of(std::string_view text, std::size_t skip, const char* last_two) {
  std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  digits += last_two;
  const std::string padded = std::string(skip, '\0') + std::string(text);
  std::string out;
  for (std::size_t i = 0; (i + 1) * 6 <= padded.size() * 8; ++i) {
    const std::size_t bit = i * 6;
    if (bit < skip * 8) continue;  // It has bits of what stands before.
    const auto byte = [&](std::size_t at) {
      return at < padded.size() ? std::uint32_t{static_cast<unsigned char>(padded[at])} : 0U;
    };
    const std::uint32_t pair = byte(bit / 8) << 8U | byte(bit / 8 + 1);
    out += digits[pair >> (10U - bit % 8) & 63U];
  }
  return out;
}

std::vector<std::string_view> lines_of(std::string_view value) {
  std::vector<std::string_view> lines;
  while (!value.empty()) {
    const std::size_t end = std::min(value.find('\n'), value.size());
    std::string_view line = value.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.size() >= kLeastLine) lines.push_back(line);
    value.remove_prefix(std::min(end + 1, value.size()));
  }
  return lines;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// In the spellings of the usual libraries: with '/' as it is, and with '+' for a space.
void add_percent_encoded(std::string_view part, std::set<std::string>& forms) {
  for (const char* digits : {"0123456789ABCDEF", "0123456789abcdef"}) {
    const std::string all = percent_encoded(part, digits);
    const std::string slashes = replaced(all, *(digits + 10) == 'A' ? "%2F" : "%2f", "/");
    for (const std::string& form : {all, slashes}) {
      forms.insert(form);
      forms.insert(replaced(form, "%20", "+"));
    }
  }
}

// As a whole, and in the lines of 76 and 64 characters that `base64` and `openssl base64` write.
void add_base64(std::string_view part, std::set<std::string>& forms) {
  for (std::size_t skip = 0; skip < 3; ++skip) {
    for (const char* last_two : {"+/", "-_"}) {
      std::string encoded = base64_of(part, skip, last_two);
      for (const std::size_t width : {std::size_t{64}, std::size_t{76}}) {
        for (std::size_t at = 0; skip == 0 && encoded.size() > width && at < encoded.size(); at += width) {
          std::string line = encoded.substr(at, width);
          if (line.size() >= kLeastEncodedLine) forms.insert(std::move(line));
        }
      }
      if (encoded.size() >= kLeastLine) forms.insert(std::move(encoded));
    }
  }
}

std::set<std::string> forms_of(const std::string& value) {
  std::set<std::string> forms{value};
  std::vector<std::string_view> parts = lines_of(value);
  parts.push_back(value);
  for (const std::string_view part : parts) {
    forms.emplace(part);
    const std::string json = as_json(part);
    forms.insert(json);
    forms.insert(as_ascii_json(json));
    forms.insert(replaced(json, "/", "\\/"));
  }
  if (value.size() > kMostEncoded) return forms;
  for (const std::string_view part : parts) {
    add_percent_encoded(part, forms);
    add_base64(part, forms);
  }
  return forms;
}

}  // namespace

SecretMask::SecretMask(const std::vector<std::string>& values) {
  for (const std::string& value : values) {
    if (value.empty()) continue;
    if (nodes_.empty()) nodes_.emplace_back();
    for (const std::string& form : forms_of(value)) add(form);
  }
  if (!nodes_.empty()) link_suffixes();
}

void SecretMask::add(std::string_view pattern) {
  std::uint32_t at = 0;
  for (const char c : pattern) {
    const auto byte = static_cast<unsigned char>(c);
    std::uint32_t next = child(at, byte);
    if (next == 0) {
      next = static_cast<std::uint32_t>(nodes_.size());
      Node node;
      node.depth = nodes_[at].depth + 1;
      node.byte = byte;
      if (at == 0) {
        first_[byte] = next;
      } else {
        node.sibling = nodes_[at].child;
        nodes_[at].child = next;
      }
      nodes_.push_back(node);
    }
    at = next;
  }
  nodes_[at].match = nodes_[at].depth;
}

// Breadth first: the suffix of a node is shorter than the node, so it is linked before.
void SecretMask::link_suffixes() {
  std::vector<std::uint32_t> order;
  order.reserve(nodes_.size());
  for (const std::uint32_t node : first_) {
    if (node != 0) order.push_back(node);
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (std::uint32_t next = nodes_[order[i]].child; next != 0; next = nodes_[next].sibling) {
      nodes_[next].suffix = step(nodes_[order[i]].suffix, nodes_[next].byte);
      nodes_[next].match = std::max(nodes_[next].match, nodes_[nodes_[next].suffix].match);
      order.push_back(next);
    }
  }
}

std::uint32_t SecretMask::child(std::uint32_t node, unsigned char byte) const {
  if (node == 0) return first_[byte];
  std::uint32_t next = nodes_[node].child;
  while (next != 0 && nodes_[next].byte != byte) next = nodes_[next].sibling;
  return next;
}

std::uint32_t SecretMask::step(std::uint32_t node, unsigned char byte) const {
  for (;;) {
    const std::uint32_t next = child(node, byte);
    if (next != 0 || node == 0) return next;
    node = nodes_[node].suffix;
  }
}

std::string SecretMask::masked(std::string_view text) const {
  if (empty()) return std::string(text);
  std::string out;
  StreamMask stream(*this);
  const StreamMask::Sink sink = [&out](std::string_view bytes) { out += bytes; };
  stream.feed(text, sink);
  stream.finish(sink);
  return out;
}

std::string SecretMask::masked_json(std::string_view json) const {
  // First the strings with escapes, in which a value may be spelled in many ways, and the numbers and words outside of
  // strings, which become strings where they are masked.
  std::string plain;
  for (std::size_t at = 0; at < json.size();) {
    std::size_t end = at + 1;
    if (json[at] == '"') {
      bool escaped = false;
      for (; end < json.size() && json[end] != '"'; ++end) {
        if (json[end] == '\\') {
          escaped = true;
          ++end;
        }
      }
      end = std::min(end + 1, json.size());
      if (escaped) {
        const std::string text = model::json_unescape(json.substr(at, end - at));
        if (std::string shown = masked(text); shown != text) {
          plain += json_string(shown);
          at = end;
          continue;
        }
      }
    } else if (const std::string_view word = json.substr(at, json.find_first_of(kJsonMarks, at) - at); !word.empty()) {
      end = at + word.size();
      if (std::string shown = masked(word); shown != word) {
        plain += json_string(shown);
        at = end;
        continue;
      }
    }
    plain += json.substr(at, end - at);
    at = end;
  }
  std::string out = masked(plain);
  return out == json || check_json(out).ok() ? out : json_string(out);
}

void StreamMask::release(std::size_t count, std::string& out) {
  for (std::size_t i = 0; i < count; ++i) {
    if (!in_value_[i]) {
      out += held_[i];
    } else if (!masking_) {
      out += kMasked;
    }
    masking_ = in_value_[i];
  }
  held_.erase(0, count);
  in_value_.erase(in_value_.begin(), in_value_.begin() + static_cast<std::ptrdiff_t>(count));
}

void StreamMask::feed(std::string_view bytes, const Sink& sink) {
  if (mask_.empty()) {
    sink(bytes);
    return;
  }
  std::string out;
  out.reserve(bytes.size());
  for (const char c : bytes) {
    state_ = mask_.step(state_, static_cast<unsigned char>(c));
    if (state_ == 0 && held_.empty()) {  // By far the most common case.
      out += c;
      masking_ = false;
      continue;
    }
    held_ += c;
    in_value_.push_back(false);
    const SecretMask::Node& node = mask_.nodes_[state_];
    for (std::size_t i = held_.size() - node.match; i < held_.size(); ++i) in_value_[i] = true;
    if (held_.size() > node.depth) release(held_.size() - node.depth, out);
  }
  if (!out.empty()) sink(out);
}

void StreamMask::finish(const Sink& sink) {
  std::string out;
  release(held_.size(), out);
  state_ = 0;
  masking_ = false;
  if (!out.empty()) sink(out);
}

}  // namespace rota::worker
