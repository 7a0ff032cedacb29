// Checks that a list of ROTA_FIELDS names every member of its struct: a member that is missing from the list would be
// lost in the log, on the bus and in snapshots.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "model/codec.h"

namespace rota::model::testing_support {

struct Anything {
  template <class T>
  operator T() const;  // NOLINT(*-explicit-*)
};
// How many members an aggregate has: as many as it takes initialisers.
template <class T, class... Members>
constexpr std::size_t member_count() {
  if constexpr (requires { T{Members{}..., Anything{}}; }) {
    return member_count<T, Members..., Anything>();
  } else {
    return sizeof...(Members);
  }
}
template <class T>
constexpr std::size_t field_count() {
  T value{};
  std::size_t count = 0;
  T::fields(value, [&count](std::string_view, auto&) { ++count; });
  return count;
}
template <class T>
void expect_all_members_listed() {
  EXPECT_EQ(field_count<T>(), member_count<T>());
}

// For structs with a base, or with a list that contains the members of a member: between the listed members there is
// only padding. (A member that is small enough to hide in padding is not found.)
template <class T>
void expect_no_member_between_fields() {
  T value{};
  struct Extent {
    std::size_t begin, end, align;
  };
  std::vector<Extent> extents;
  const auto* base = reinterpret_cast<const std::byte*>(&value);
  T::fields(value, [&](std::string_view, auto& member) {
    const auto begin = static_cast<std::size_t>(reinterpret_cast<const std::byte*>(&member) - base);
    extents.push_back({begin, begin + sizeof member, alignof(std::remove_reference_t<decltype(member)>)});
  });
  extents.push_back({sizeof value, sizeof value, alignof(T)});
  std::sort(extents.begin(), extents.end(), [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  std::size_t at = 0;
  for (const Extent& extent : extents) {
    EXPECT_LT(extent.begin - at, extent.align) << "a member at byte " << at << " is not in the list";
    at = extent.end;
  }
}

template <class... T>
void expect_all_listed(std::type_identity<std::variant<T...>>) {
  (expect_all_members_listed<T>(), ...);
}

}  // namespace rota::model::testing_support
