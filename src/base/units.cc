// Parsing and formatting durations and sizes. See base/units.h.
#include "base/units.h"

#include <array>
#include <optional>

namespace rota {
namespace {

__extension__ using Wide = unsigned __int128;

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

// In descending order, on which parse_duration relies.
constexpr std::array<Unit, 7> kDurationUnits = {{{"d", 86'400'000'000'000U},
                                                 {"h", 3'600'000'000'000U},
                                                 {"m", 60'000'000'000U},
                                                 {"s", 1'000'000'000U},
                                                 {"ms", 1'000'000U},
                                                 {"us", 1'000U},
                                                 {"ns", 1U}}};

constexpr std::uint64_t kKibi = 1024;
constexpr std::array<Unit, 11> kByteUnits = {{{"B", 1},
                                              {"KiB", kKibi},
                                              {"MiB", kKibi* kKibi},
                                              {"GiB", kKibi* kKibi* kKibi},
                                              {"TiB", kKibi* kKibi* kKibi* kKibi},
                                              {"PiB", kKibi* kKibi* kKibi* kKibi* kKibi},
                                              {"kB", 1000},
                                              {"MB", 1'000'000},
                                              {"GB", 1'000'000'000},
                                              {"TB", 1'000'000'000'000},
                                              {"PB", 1'000'000'000'000'000}}};

constexpr std::uint64_t kMaxNanos = Duration::max().count();

bool is_digit(char c) { return c >= '0' && c <= '9'; }
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool equal_any_case(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

// A decimal number: mantissa / 10^decimals.
struct Decimal {
  std::uint64_t mantissa = 0;
  int decimals = 0;
};

enum class Fault { kNone, kSyntax, kRange, kPrecision };

// Removes a number from the front of `text`.
Fault take_decimal(std::string_view& text, Decimal& out) {
  out = {};
  bool digits = false;
  bool fraction = false;
  while (!text.empty()) {
    const char c = text.front();
    if (is_digit(c)) {
      const auto digit = static_cast<std::uint64_t>(c - '0');
      if (out.mantissa > (~std::uint64_t{0} - digit) / 10) return fraction ? Fault::kPrecision : Fault::kRange;
      out.mantissa = out.mantissa * 10 + digit;
      out.decimals += fraction ? 1 : 0;
      digits = true;
    } else if (c == '.' && digits && !fraction && text.size() > 1 && is_digit(text[1])) {
      fraction = true;
    } else {
      break;
    }
    text.remove_prefix(1);
  }
  if (!digits) return Fault::kSyntax;
  while (out.decimals > 0 && out.mantissa % 10 == 0) {
    out.mantissa /= 10;
    --out.decimals;
  }
  return Fault::kNone;
}

// decimal * factor, if that is a whole number of at most 64 bits.
Fault scale(const Decimal& decimal, std::uint64_t factor, Wide& out) {
  Wide product = static_cast<Wide>(decimal.mantissa) * factor;
  for (int i = 0; i < decimal.decimals; ++i) {
    if (product % 10 != 0) return Fault::kPrecision;
    product /= 10;
  }
  if (product > static_cast<Wide>(~std::uint64_t{0})) return Fault::kRange;
  out = product;
  return Fault::kNone;
}

Error duration_error(Fault fault) {
  switch (fault) {
    case Fault::kRange:
      return Error{ErrorCode::kInvalidArgument, "is too long; the most is " + format_duration(Duration::max())};
    case Fault::kPrecision:
      return Error{ErrorCode::kInvalidArgument, "is finer than a nanosecond"};
    default:
      return Error{ErrorCode::kInvalidArgument, "is not a duration; write it like 10ms, 2s or 1m30s"};
  }
}

Error bytes_error(Fault fault) {
  switch (fault) {
    case Fault::kRange:
      return Error{ErrorCode::kInvalidArgument, "is too large; the most is 18446744073709551615B"};
    case Fault::kPrecision:
      return Error{ErrorCode::kInvalidArgument, "is not a whole number of bytes"};
    default:
      return Error{ErrorCode::kInvalidArgument, "is not a size; write it like 512, 8KiB or 64MB"};
  }
}

}  // namespace

Result<Duration> parse_duration(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text == "0") return Duration::zero();
  if (text.empty()) return duration_error(Fault::kSyntax);

  Wide total = 0;
  std::size_t next_unit = 0;
  while (!text.empty()) {
    Decimal decimal;
    if (const Fault fault = take_decimal(text, decimal); fault != Fault::kNone) return duration_error(fault);
    std::size_t letters = 0;
    while (letters < text.size() && !is_digit(text[letters])) ++letters;
    const std::string_view name = text.substr(0, letters);
    while (next_unit < kDurationUnits.size() && kDurationUnits[next_unit].name != name) ++next_unit;
    if (next_unit == kDurationUnits.size()) return duration_error(Fault::kSyntax);
    Wide part = 0;
    if (const Fault fault = scale(decimal, kDurationUnits[next_unit].factor, part); fault != Fault::kNone) {
      return duration_error(fault);
    }
    total += part;
    if (total > kMaxNanos + (negative ? 1U : 0U)) return duration_error(Fault::kRange);
    ++next_unit;
    text.remove_prefix(letters);
  }
  const auto nanos = static_cast<std::uint64_t>(total);
  return Duration(static_cast<std::int64_t>(negative ? 0 - nanos : nanos));
}

std::string format_duration(Duration duration) {
  if (duration == Duration::zero()) return "0s";
  std::string text;
  // Unsigned, so that the most negative value has a magnitude, too.
  auto rest = static_cast<std::uint64_t>(duration.count());
  if (duration < Duration::zero()) {
    text.push_back('-');
    rest = 0 - rest;
  }
  for (const Unit& unit : kDurationUnits) {
    if (unit.name == "d") continue;  // 48h is as readable, and a day does not always have 24 hours.
    if (const std::uint64_t count = rest / unit.factor; count != 0) {
      text.append(std::to_string(count)).append(unit.name);
      rest %= unit.factor;
    }
  }
  return text;
}

Result<ByteSize> parse_bytes(std::string_view text) {
  Decimal decimal;
  if (const Fault fault = take_decimal(text, decimal); fault != Fault::kNone) return bytes_error(fault);
  if (text.size() > 1 && text.front() == ' ') text.remove_prefix(1);
  std::uint64_t factor = text.empty() ? 1 : 0;
  for (const Unit& unit : kByteUnits) {
    if (equal_any_case(text, unit.name)) factor = unit.factor;
  }
  if (factor == 0) return bytes_error(Fault::kSyntax);
  Wide count = 0;
  if (const Fault fault = scale(decimal, factor, count); fault != Fault::kNone) return bytes_error(fault);
  return ByteSize{static_cast<std::uint64_t>(count)};
}

std::string format_bytes(ByteSize size) {
  const Unit* best = &kByteUnits.front();
  if (size.count != 0) {
    for (const Unit& unit : kByteUnits) {
      if (size.count % unit.factor == 0 && unit.factor > best->factor) best = &unit;
    }
  }
  return std::to_string(size.count / best->factor).append(best->name);
}

}  // namespace rota
