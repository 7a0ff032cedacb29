// Strong ids: numbers or names of different kinds have different types and cannot be confused.
//
//   struct TaskTag { static constexpr std::string_view kPrefix = "task"; };
//   using TaskId = Id<TaskTag>;
//   TaskId{7}.to_string() == "task-7";   TaskId::parse("task-7") == TaskId{7}
//
// The default value is none: 0, or the empty name. Ids are ordered, hashed (std::hash) and printed (operator<<,
// to_string) like the value they hold. Id is trivially copyable and has no overhead.
//
// Thread safety: distinct objects are independent.
#pragma once

#include <charconv>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace rota {

namespace detail {
template <class Tag>
concept HasIdPrefix = requires {
  { Tag::kPrefix } -> std::convertible_to<std::string_view>;
};
}  // namespace detail

template <class Tag, std::unsigned_integral Rep = std::uint64_t>
class Id {
 public:
  using rep = Rep;

  constexpr Id() noexcept = default;
  constexpr explicit Id(Rep value) noexcept : value_(value) {}

  static constexpr Id none() noexcept { return Id(); }
  [[nodiscard]] constexpr bool is_none() const noexcept { return value_ == 0; }
  [[nodiscard]] constexpr Rep value() const noexcept { return value_; }
  // The next id, for counters that assign ids.
  [[nodiscard]] constexpr Id next() const noexcept { return Id(static_cast<Rep>(value_ + 1)); }

  friend constexpr auto operator<=>(Id, Id) noexcept = default;

  // "task-7" for a tag with kPrefix, otherwise "7".
  [[nodiscard]] std::string to_string() const {
    std::string text;
    if constexpr (detail::HasIdPrefix<Tag>) text.append(Tag::kPrefix).push_back('-');
    char digits[20];
    const auto end = std::to_chars(digits, digits + sizeof digits, value_).ptr;
    return text.append(digits, end);
  }
  // Parses exactly the format of to_string() (no sign, space or leading zero); nothing for other text.
  [[nodiscard]] static std::optional<Id> parse(std::string_view text) noexcept {
    if constexpr (detail::HasIdPrefix<Tag>) {
      constexpr std::string_view prefix = Tag::kPrefix;
      if (text.size() <= prefix.size() || !text.starts_with(prefix) || text[prefix.size()] != '-') return std::nullopt;
      text.remove_prefix(prefix.size() + 1);
    }
    if (text.size() > 1 && text.front() == '0') return std::nullopt;
    Rep value{};
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return Id(value);
  }

 private:
  Rep value_ = 0;
};

// A name given by a person or another system, as its own type.
template <class Tag>
class StringId {
 public:
  StringId() noexcept = default;
  explicit StringId(std::string value) noexcept : value_(std::move(value)) {}

  [[nodiscard]] bool is_none() const noexcept { return value_.empty(); }
  [[nodiscard]] const std::string& str() const noexcept { return value_; }
  [[nodiscard]] std::string_view view() const noexcept { return value_; }
  [[nodiscard]] const std::string& to_string() const noexcept { return value_; }

  friend auto operator<=>(const StringId&, const StringId&) noexcept = default;

 private:
  std::string value_;
};

template <class Stream, class Tag, class Rep>
  requires requires(Stream& out, const std::string& s) { out << s; }
Stream& operator<<(Stream& out, const Id<Tag, Rep>& id) {
  out << id.to_string();
  return out;
}
template <class Stream, class Tag>
  requires requires(Stream& out, const std::string& s) { out << s; }
Stream& operator<<(Stream& out, const StringId<Tag>& id) {
  out << id.to_string();
  return out;
}

}  // namespace rota

// Ids are dense, and the number itself is a poor hash for tables that use the low bits: mix it (splitmix64's
// finaliser).
template <class Tag, class Rep>
struct std::hash<rota::Id<Tag, Rep>> {
  std::size_t operator()(rota::Id<Tag, Rep> id) const noexcept {
    std::uint64_t x = static_cast<std::uint64_t>(id.value()) + 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return static_cast<std::size_t>(x ^ (x >> 31));
  }
};
template <class Tag>
struct std::hash<rota::StringId<Tag>> {
  std::size_t operator()(const rota::StringId<Tag>& id) const noexcept {
    return std::hash<std::string_view>()(id.view());
  }
};
