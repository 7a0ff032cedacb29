// Conditions: read and evaluated in one pass. See fleet/reference.h.
#include <algorithm>
#include <utility>

#include "base/json_text.h"
#include "model/json.h"
#include "model/reference.h"

namespace rota::model {
namespace {

constexpr std::size_t kMostDepth = 64;
constexpr std::size_t kMostBytes = 64 << 10;
constexpr std::size_t kMostExponentDigits = 15;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_'; }

// 0.d1 d2 d3... x 10^point, d1 and the last digit not 0. Zero has no digits.
struct Decimal {
  bool negative = false;
  std::string digits{};
  std::int64_t point = 0;
};

// REQUIRES: a JSON number.
Result<Decimal> read_decimal(std::string_view text) {
  Decimal out;
  std::size_t at = text.starts_with('-') ? 1 : 0;
  out.negative = at == 1;
  bool fraction = false;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.') {
      fraction = true;
      continue;
    }
    if (out.digits.empty() && text[at] == '0') {
      if (fraction) --out.point;
      continue;
    }
    out.digits.push_back(text[at]);
    if (!fraction) ++out.point;
  }
  if (at < text.size()) {
    const bool down = text[at + 1] == '-';
    std::string_view exponent = text.substr(at + 1);
    if (!is_digit(exponent.front())) exponent.remove_prefix(1);
    exponent.remove_prefix(std::min(exponent.find_first_not_of('0'), exponent.size()));
    if (exponent.size() > kMostExponentDigits) {
      return Error{ErrorCode::kInvalidArgument, "the exponent of " + printable(text, 40) + " is too large to compare"};
    }
    std::int64_t value = 0;
    for (const char c : exponent) value = value * 10 + (c - '0');
    out.point += down ? -value : value;
  }
  while (out.digits.ends_with('0')) out.digits.pop_back();
  if (out.digits.empty()) return Decimal{};  // Zero, whatever its sign and exponent.
  return out;
}

// Less than, equal to or greater than 0, as `a` is to `b`.
Result<int> compare_numbers(std::string_view left, std::string_view right) {
  ROTA_TRY_ASSIGN(const Decimal a, read_decimal(left));
  ROTA_TRY_ASSIGN(const Decimal b, read_decimal(right));
  const auto sign = [](const Decimal& d) { return d.digits.empty() ? 0 : d.negative ? -1 : 1; };
  if (sign(a) != sign(b)) return sign(a) < sign(b) ? -1 : 1;
  int size = 0;  // Which is further from 0. Digits without a trailing 0 compare like text.
  if (a.point != b.point) {
    size = a.point < b.point ? -1 : 1;
  } else {
    size = a.digits.compare(b.digits);
  }
  size = size < 0 ? -1 : size > 0 ? 1 : 0;
  return a.negative ? -size : size;
}

using Members = std::vector<std::pair<std::string, std::string_view>>;

// Sorted by name, and of equal names only the last.
Members sorted_members(std::string_view object) {
  Members members = json_members(object);
  // Values are views of one text, so that those of equal names are in the order of the text.
  std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second.data() < b.second.data();
  });
  Members out;
  for (auto& member : members) {
    if (!out.empty() && out.back().first == member.first) {
      out.back() = std::move(member);
    } else {
      out.push_back(std::move(member));
    }
  }
  return out;
}

// As deep as the values are nested, so at most kJsonMostDepth.
Result<bool> equal(std::string_view a, std::string_view b) {
  const JsonKind kind = json_kind(a);
  if (kind != json_kind(b)) return false;
  switch (kind) {
    case JsonKind::kNumber: {
      ROTA_TRY_ASSIGN(const int order, compare_numbers(a, b));
      return order == 0;
    }
    case JsonKind::kArray: {
      const auto left = json_elements(a), right = json_elements(b);
      if (left.size() != right.size()) return false;
      for (std::size_t i = 0; i < left.size(); ++i) {
        ROTA_TRY_ASSIGN(const bool same, equal(left[i], right[i]));
        if (!same) return false;
      }
      return true;
    }
    case JsonKind::kObject: {
      const Members left = sorted_members(a), right = sorted_members(b);
      if (left.size() != right.size()) return false;
      for (std::size_t i = 0; i < left.size(); ++i) {
        if (left[i].first != right[i].first) return false;
        ROTA_TRY_ASSIGN(const bool same, equal(left[i].second, right[i].second));
        if (!same) return false;
      }
      return true;
    }
    default:  // Canonical text: the same value has the same spelling.
      return a == b;
  }
}

Result<bool> is_true(std::string_view value) {
  switch (json_kind(value)) {
    case JsonKind::kNumber: {
      ROTA_TRY_ASSIGN(const int order, compare_numbers(value, "0"));
      return order != 0;
    }
    case JsonKind::kString:
      return value != "\"\"";
    case JsonKind::kArray:
      return value != "[]";
    case JsonKind::kObject:
      return value != "{}";
    default:
      return value == "true";
  }
}

Result<bool> compare(std::string_view op, std::string_view a, std::string_view b) {
  if (op == "==" || op == "!=") {
    ROTA_TRY_ASSIGN(const bool same, equal(a, b));
    return same == (op == "==");
  }
  const JsonKind kind = json_kind(a);
  if (kind != json_kind(b) || (kind != JsonKind::kNumber && kind != JsonKind::kString)) {
    return Error{ErrorCode::kInvalidArgument, "'" + std::string(op) + "' compares two numbers or two strings, not " +
                                                  printable(a, 40) + " and " + printable(b, 40)};
  }
  int order = 0;
  if (kind == JsonKind::kNumber) {
    ROTA_TRY_ASSIGN(order, compare_numbers(a, b));
  } else {
    order = json_unescape(a).compare(json_unescape(b));
  }
  if (op == "<") return order < 0;
  if (op == "<=") return order <= 0;
  if (op == ">") return order > 0;
  return order >= 0;
}

// One pass: with a scope it evaluates, without one it only reads. `live` is false on a side that is already decided:
// its text is read, its values are not asked for. Every value is canonical JSON.
class Condition {
 public:
  Condition(std::string_view text, ReferenceScope* scope) : text_(text), scope_(scope) {}

  Result<bool> run() {
    if (text_.size() > kMostBytes) return Error{ErrorCode::kTooLarge, "a condition has at most 65536 bytes"};
    ROTA_TRY_ASSIGN(const std::string value, either(0, scope_ != nullptr));
    space();
    if (at_ == text_.size()) return scope_ != nullptr ? is_true(value) : true;
    if (peek() == ')') return wrong("this ')' closes nothing");
    if (peek() == '=') return wrong("write == to compare");
    if (!take_comparison().empty()) return wrong("comparisons cannot be chained; write a < b and b < c");
    return wrong("expected 'and', 'or' or the end, found " + found());
  }
  std::vector<ReferenceUse> uses{};

 private:
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void space() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++at_;
  }
  [[nodiscard]] Error wrong(std::string_view what) const { return wrong_at(at_, what); }
  [[nodiscard]] static Error wrong_at(std::size_t at, std::string_view what) {
    return Error{ErrorCode::kParseError, "column " + std::to_string(at + 1) + ": " + std::string(what)};
  }
  [[nodiscard]] std::string found() const {
    if (at_ == text_.size()) return "the end";
    std::size_t end = at_;
    while (end < text_.size() && is_word(text_[end])) ++end;
    if (end == at_) end += std::max<std::size_t>(utf8_length(text_.substr(at_)), 1);
    return "'" + printable(text_.substr(at_, end - at_), 40) + "'";
  }
  // Takes a word, if it stands here as a whole.
  bool take_word(std::string_view word) {
    space();
    if (!text_.substr(at_).starts_with(word)) return false;
    if (at_ + word.size() < text_.size() && is_word(text_[at_ + word.size()])) return false;
    at_ += word.size();
    return true;
  }
  bool take(std::string_view sign) {
    space();
    if (!text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }
  std::string_view take_comparison() {
    for (const std::string_view op : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (take(op)) return op;
    }
    return {};
  }
  static std::string text_of(bool value) { return value ? "true" : "false"; }

  // `decides` is the truth at which a side makes the other irrelevant: true for `or`, false for `and`.
  Result<std::string> either(std::size_t depth, bool live) {
    ROTA_TRY_ASSIGN(std::string left, both(depth, live));
    while (take_word("or") || take("||")) {
      ROTA_TRY_ASSIGN(left, joined(depth, live, std::move(left), true));
    }
    return left;
  }
  Result<std::string> both(std::size_t depth, bool live) {
    ROTA_TRY_ASSIGN(std::string left, negation(depth, live));
    while (take_word("and") || take("&&")) {
      ROTA_TRY_ASSIGN(left, joined(depth, live, std::move(left), false));
    }
    return left;
  }
  Result<std::string> joined(std::size_t depth, bool live, std::string left, bool decides) {
    bool decided = false;
    if (live) {
      ROTA_TRY_ASSIGN(const bool truth, is_true(left));
      decided = truth == decides;
    }
    const bool right_live = live && !decided;
    ROTA_TRY_ASSIGN(const std::string right, decides ? both(depth, right_live) : negation(depth, right_live));
    if (!live) return left;
    if (decided) return text_of(decides);
    ROTA_TRY_ASSIGN(const bool truth, is_true(right));
    return text_of(truth);
  }

  Result<std::string> negation(std::size_t depth, bool live) {
    bool flip = false;
    bool any = false;
    while (true) {  // A loop, so that "not not not ..." costs no stack.
      space();
      if (!take_word("not") && (text_.substr(at_).starts_with("!=") || !take("!"))) break;
      flip = !flip;
      any = true;
    }
    ROTA_TRY_ASSIGN(std::string value, comparison(depth, live));
    if (!any || !live) return value;
    ROTA_TRY_ASSIGN(const bool truth, is_true(value));
    return text_of(truth != flip);
  }

  Result<std::string> comparison(std::size_t depth, bool live) {
    ROTA_TRY_ASSIGN(std::string left, operand(depth, live));
    const std::string_view op = take_comparison();
    if (op.empty()) return left;
    ROTA_TRY_ASSIGN(const std::string right, operand(depth, live));
    if (!live) return left;
    ROTA_TRY_ASSIGN(const bool truth, compare(op, left, right));
    return text_of(truth);
  }

  Result<std::string> operand(std::size_t depth, bool live) {
    space();
    if (peek() == '(') {
      if (depth == kMostDepth) return wrong("parentheses are nested deeper than 64 levels");
      const std::size_t open = at_++;
      ROTA_TRY_ASSIGN(std::string value, either(depth + 1, live));
      if (take(")")) return value;
      if (at_ == text_.size()) return wrong_at(open, "this '(' is not closed");
      return wrong("expected 'and', 'or' or ')', found " + found());
    }
    if (text_.substr(at_).starts_with("${")) return reference(live);
    if (peek() == '"' || peek() == '\'') return quoted();
    if (peek() == '-' || is_digit(peek())) return number();
    for (const std::string_view word : {"true", "false", "null"}) {
      if (take_word(word)) return std::string(word);
    }
    return wrong("expected a value, found " + found() +
                 "; write a reference like ${stage.result}, a number, true, false, null or a string in quotes");
  }

  Result<std::string> reference(bool live) {
    Result<Reference> parsed = parse_reference(text_.substr(at_));
    if (!parsed.ok()) return wrong(parsed.error().message);
    if (uses.size() == kReferencesMost) return wrong("a condition has at most 1000 references");
    uses.push_back({.reference = *parsed, .under = "condition", .at = at_});
    at_ += parsed->text.size();
    if (!live) return std::string("null");
    return resolve_reference(*parsed, *scope_);
  }

  Result<std::string> quoted() {
    const std::size_t start = at_;
    const char quote = text_[at_++];
    while (at_ < text_.size() && text_[at_] != quote) at_ += quote == '"' && text_[at_] == '\\' ? 2 : 1;
    if (at_ >= text_.size()) return wrong_at(start, "this string is not closed");
    ++at_;
    const std::string_view all = text_.substr(start, at_ - start);
    std::string text;
    if (quote == '"') {
      if (const Result<void> valid = json_validate(all); !valid.ok()) {
        return wrong_at(start, "in this string, " + valid.error().message);
      }
      text = json_unescape(all);
    } else {
      text = std::string(all.substr(1, all.size() - 2));
    }
    if (text.find("${") != std::string::npos) {
      return wrong_at(start, "a reference in a condition stands without quotes");
    }
    std::string out;
    append_json_string(out, text);
    return out;
  }

  Result<std::string> number() {
    const std::size_t start = at_;
    while (is_word(peek()) || peek() == '.' || ((peek() == '-' || peek() == '+') && sign_fits(start))) ++at_;
    const std::string_view text = text_.substr(start, at_ - start);
    if (!json_validate(text).ok()) {
      return wrong_at(start, "'" + printable(text, 40) + "' is no number; write it like 12, -0.5 or 1e6");
    }
    return std::string(text);
  }
  [[nodiscard]] bool sign_fits(std::size_t start) const {
    return at_ == start || text_[at_ - 1] == 'e' || text_[at_ - 1] == 'E';
  }

  std::string_view text_;
  ReferenceScope* scope_;
  std::size_t at_ = 0;
};

}  // namespace

Result<std::vector<ReferenceUse>> check_condition(std::string_view text) {
  Condition condition(text, nullptr);
  ROTA_TRY(condition.run());
  return std::move(condition.uses);
}

Result<bool> evaluate_condition(std::string_view text, ReferenceScope& scope) { return Condition(text, &scope).run(); }

}  // namespace rota::model
