#include "fleet/explain_words.h"

#include <algorithm>

#include "base/units.h"

namespace rota::fleet {

std::string decimal(std::int64_t value, std::int64_t one) {
  std::string text = value < 0 ? "-" : "";
  // The least int64_t has no positive counterpart.
  const std::uint64_t size = value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value);
  const auto parts = static_cast<std::uint64_t>(one);
  text += std::to_string(size / parts);
  if (size % parts == 0) return text;
  std::string rest = std::to_string(parts + size % parts).substr(1);
  while (rest.back() == '0') rest.pop_back();
  return text + "." + rest;
}

std::string counted(std::int64_t count, std::string_view what) {
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

std::string ordinal(std::uint64_t number) {
  const std::uint64_t tens = number % 100;
  std::string_view end = "th";
  if (tens < 11 || tens > 13) {
    if (number % 10 == 1) end = "st";
    if (number % 10 == 2) end = "nd";
    if (number % 10 == 3) end = "rd";
  }
  return std::to_string(number) + std::string(end);
}

std::string span_of(std::int64_t ns) {
  // At least two digits remain.
  constexpr std::int64_t kMicrosecond = 1'000;
  constexpr std::int64_t kMillisecond = 1'000'000;
  if (ns >= 10 * kMillisecond) {
    ns -= ns % kMillisecond;
  } else if (ns >= 10 * kMicrosecond) {
    ns -= ns % kMicrosecond;
  }
  return format_duration(Duration(ns));
}

std::string lower(graph::TaskState state) {
  std::string text(graph::to_string(state));
  if (text.front() >= 'A' && text.front() <= 'Z') text.front() = static_cast<char>(text.front() - 'A' + 'a');
  return text;
}

void append_listed(std::string& out, std::string_view item, bool first, bool last) {
  if (!first) out.append(last ? " and " : ", ");
  out.append(item);
}

}  // namespace rota::fleet
