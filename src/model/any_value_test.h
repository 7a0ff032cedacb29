// Any value of any type with ROTA_FIELDS, made from a list of choices; for tests and fuzzers.
//
// The list is a seed and a length: past its end every choice is 0, which makes the simplest thing. A property that
// fails for a seed thus shrinks by its length.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "model/codec.h"

namespace rota::model::testing_support {

class Choices {
 public:
  explicit Choices(std::uint64_t seed, std::uint64_t count = std::numeric_limits<std::uint64_t>::max())
      : state_(seed), left_(count) {}

  std::uint64_t next() {
    if (left_ == 0) return 0;
    --left_;
    state_ += 0x9e3779b97f4a7c15U;  // splitmix64
    std::uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
  }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

 private:
  std::uint64_t state_;
  std::uint64_t left_;
};

inline std::string any_text(Choices& choices) {
  static const std::string kTexts[] = {"", "a", "worker-2", "two words", "say \"no\"", "{\"a\": [1, 2]}", "\\", "null"};
  switch (choices.below(4)) {
    case 0:
    case 1:
      return kTexts[choices.below(8)];
    case 2:
      return std::string(choices.below(300), 'x');  // Its length has two bytes.
    default: {
      std::string bytes(choices.below(12), '\0');
      for (char& byte : bytes) byte = static_cast<char>(choices.next());
      return bytes;
    }
  }
}

template <class Variant>
Variant any_alternative(std::size_t index, Choices& choices);

template <class T>
T any_value(Choices& choices) {
  if constexpr (std::is_same_v<T, bool>) {
    return choices.below(2) == 1;
  } else if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(choices.below(static_cast<std::uint64_t>(last_enumerator<T>) + 1));
  } else if constexpr (std::is_integral_v<T>) {
    switch (choices.below(4)) {
      case 0:
        return static_cast<T>(choices.below(4));
      case 1:
        return static_cast<T>(choices.below(1000));
      case 2:
        return choices.below(2) == 0 ? std::numeric_limits<T>::max() : std::numeric_limits<T>::min();
      default:
        return static_cast<T>(choices.next() >> choices.below(64));
    }
  } else if constexpr (detail::is_id<T>) {
    return T(any_value<typename T::rep>(choices));
  } else if constexpr (std::is_same_v<T, Hash128>) {
    return Hash128{choices.next(), choices.next()};
  } else if constexpr (std::is_same_v<T, std::string>) {
    return any_text(choices);
  } else if constexpr (detail::is_vector<T>) {
    T list;
    for (std::uint64_t size = choices.below(4); size > 0; --size) {
      list.push_back(any_value<typename T::value_type>(choices));
    }
    return list;
  } else if constexpr (detail::is_optional<T>) {
    if (choices.below(2) == 0) return std::nullopt;
    return any_value<typename T::value_type>(choices);
  } else if constexpr (detail::is_variant<T>) {
    return any_alternative<T>(choices.below(std::variant_size_v<T>), choices);
  } else {
    T value{};
    T::fields(value, [&](std::string_view, auto& member) {
      member = any_value<std::remove_reference_t<decltype(member)>>(choices);
    });
    return value;
  }
}

template <class Variant, std::size_t... I>
Variant any_alternative(std::size_t index, Choices& choices, std::index_sequence<I...>) {
  Variant value;
  static_cast<void>(
      ((I == index ? (value.template emplace<I>(any_value<std::variant_alternative_t<I, Variant>>(choices)), true)
                   : false) ||
       ...));
  return value;
}
// Any value of the variant's alternative `index`.
template <class Variant>
Variant any_alternative(std::size_t index, Choices& choices) {
  return any_alternative<Variant>(index, choices, std::make_index_sequence<std::variant_size_v<Variant>>());
}

template <class T>
std::string bytes_of(const T& value) {
  std::string bytes;
  encode(value, bytes);
  return bytes;
}

inline std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    text.push_back("0123456789abcdef"[static_cast<unsigned char>(byte) >> 4]);
    text.push_back("0123456789abcdef"[static_cast<unsigned char>(byte) & 15]);
  }
  return text;
}

}  // namespace rota::model::testing_support
