// The names of enumerators, as people, logs and settings write them: Selection::kFirstFit is "first_fit".
//
//   enum class Category : std::uint8_t { kOther, kInference, kTraining };
//   ROTA_ENUM_NAMES(Category, kTraining, "other", "inference", "training")    // in the namespace of the enum
//
//   to_string(Category::kTraining) == "training"
//   parse_name<Category>("training") == Category::kTraining
//
// The numbers of the enumerators are in the log: an enumerator may be appended, never moved. The macro takes the last
// enumerator as well and refuses to compile if the number of names does not match.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace rota::model {

// Enums with a list of names: enumerators are numbered from 0, without gaps.
template <class E>
concept NamedEnum = std::is_enum_v<E> && requires(E value) { enum_names(value); };

template <NamedEnum E>
inline constexpr std::size_t enumerator_count = enum_names(E{}).size();
template <NamedEnum E>
inline constexpr E last_enumerator = static_cast<E>(enumerator_count<E> - 1);

// The enumerator of this name, or nothing.
template <NamedEnum E>
[[nodiscard]] constexpr std::optional<E> parse_name(std::string_view name) {
  constexpr auto names = enum_names(E{});
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<E>(i);
  }
  return std::nullopt;
}

// Every name of the enum, in order: "adaptive, static_worker, ...".
template <NamedEnum E>
[[nodiscard]] std::string all_names() {
  std::string text;
  for (const std::string_view name : enum_names(E{})) text.append(text.empty() ? "" : ", ").append(name);
  return text;
}

}  // namespace rota::model

// The list alone, for an enum whose namespace already has a to_string().
#define ROTA_ENUM_NAME_LIST(Type, last, ...)                                           \
  constexpr auto enum_names(Type) {                                                    \
    constexpr auto rota_names = std::to_array<std::string_view>({__VA_ARGS__});        \
    static_assert(rota_names.size() == static_cast<std::size_t>(Type::last) + 1,       \
                  "ROTA_ENUM_NAMES must have one name for each enumerator of " #Type); \
    return rota_names;                                                                 \
  }

// The list and to_string(). A value that is not an enumerator can only come from a bug; its name is "?", so that a
// message about that bug can still be written.
#define ROTA_ENUM_NAMES(Type, last, ...)                                                      \
  ROTA_ENUM_NAME_LIST(Type, last, __VA_ARGS__)                                                \
  [[nodiscard]] constexpr std::string_view to_string(Type value) {                            \
    constexpr auto rota_names = enum_names(Type{});                                           \
    const auto rota_number = static_cast<std::size_t>(value);                                 \
    return rota_number < rota_names.size() ? rota_names[rota_number] : std::string_view("?"); \
  }
