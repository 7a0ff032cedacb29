#include "worker/lines.h"

#include <algorithm>

#include "base/json_text.h"
#include "worker/task_check.h"

namespace rota::worker {
namespace {

Error bad(std::string_view line, const std::string& what) {
  return Error{ErrorCode::kParseError, "on $ROTA_FD: '" + printable(line, 60) + "': " + what};
}

// "42.5" becomes 425; -1 if the text is not a percentage.
int permille_of(std::string_view text) {
  const std::size_t point = std::min(text.find('.'), text.size());
  const std::string_view whole = text.substr(0, point);
  const std::string_view part = text.substr(std::min(point + 1, text.size()));
  const auto digits = [](std::string_view t) { return t.find_first_not_of("0123456789") == std::string_view::npos; };
  if (whole.empty() || whole.size() > 3 || !digits(whole) || !digits(part) || part.size() > 1) return -1;
  if (point != text.size() && part.empty()) return -1;
  int value = 0;
  for (const char c : whole) value = value * 10 + (c - '0');
  value = value * 10 + (part.empty() ? 0 : part[0] - '0');
  return value <= 1000 ? value : -1;
}

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; }) &&
         is_utf8(text);
}

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  });
}

}  // namespace

Result<Line> parse_line(std::string_view text) {
  if (text.size() > kLineMost) return bad(text, "longer than " + std::to_string(kLineMost) + " bytes");
  if (!is_plain(text)) return bad(text, "not plain UTF-8 text; write a line without control characters");
  const std::size_t blank = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, blank);
  const std::string_view rest = text.substr(std::min(blank + 1, text.size()));
  Line line;
  if (word == "progress") {
    line.kind = Line::Kind::kProgress;
    const std::size_t end = std::min(rest.find(' '), rest.size());
    const int permille = permille_of(rest.substr(0, end));
    if (permille < 0)
      return bad(text,
                 "write 'progress 42.5 some text', with a number from 0 to 100 and at most one digit after the point");
    line.permille = static_cast<std::uint32_t>(permille);
    line.text = rest.substr(std::min(end + 1, rest.size()));
    return line;
  }
  if (word == "checkpoint") {
    line.kind = rest.starts_with('/') ? Line::Kind::kCheckpointFile : Line::Kind::kCheckpoint;
    line.text = rest;
    if (line.kind == Line::Kind::kCheckpoint) {
      if (Result<void> valid = check_json(rest); !valid.ok()) {
        return bad(text, "a checkpoint is JSON or a path that begins with '/': " + valid.error().message);
      }
    }
    return line;
  }
  if (word == "log") {
    line.text = rest;
    return line;
  }
  if (word == "cache") {
    line.kind = Line::Kind::kCache;
    const std::size_t end = std::min(rest.find(' '), rest.size());
    line.text = rest.substr(0, end);
    line.name = rest.substr(std::min(end + 1, rest.size()));
    if (!is_word(line.text) || line.name.empty() || line.name.find(' ') != std::string::npos) {
      return bad(text, "write 'cache model llama-7b': a kind and a name, neither with a space");
    }
    return line;
  }
  return bad(text, "unknown line; a line begins with progress, checkpoint, log or cache");
}

void LineReader::complete(const std::function<void(Result<Line>)>& take) {
  if (too_long_) {
    take(bad(current_, "longer than " + std::to_string(kLineMost) + " bytes"));
  } else if (!current_.empty()) {
    take(parse_line(current_));
  }
  current_.clear();
  too_long_ = false;
}

void LineReader::feed(std::string_view bytes, const std::function<void(Result<Line>)>& take) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view piece = bytes.substr(0, end);
    const std::size_t room = kLineMost - current_.size();
    if (piece.size() > room) too_long_ = true;
    current_ += piece.substr(0, room);
    if (end == std::string_view::npos) return;
    complete(take);
    bytes.remove_prefix(end + 1);
  }
}

void LineReader::finish(const std::function<void(Result<Line>)>& take) { complete(take); }

}  // namespace rota::worker
