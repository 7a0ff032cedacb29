// One list of a struct's members, from which its encoding, its text, its JSON and its test values are derived.
//
//   struct Tick { static constexpr std::string_view kName = "Tick"; std::int64_t now_ns = 0; ROTA_FIELDS(now_ns) };
//   Tick::fields(tick, [](std::string_view name, auto& member) { ... });
//
// The order of the list is the order of the encoding. A change of a list changes the log's bytes and needs a new format
// number (fleet/record.h).
#pragma once

#include <string_view>

#define ROTA_FIELDS_PARENS ()
#define ROTA_FIELDS_EXPAND(...) ROTA_FIELDS_EXPAND2(ROTA_FIELDS_EXPAND2(ROTA_FIELDS_EXPAND2(__VA_ARGS__)))
#define ROTA_FIELDS_EXPAND2(...) ROTA_FIELDS_EXPAND1(ROTA_FIELDS_EXPAND1(ROTA_FIELDS_EXPAND1(__VA_ARGS__)))
#define ROTA_FIELDS_EXPAND1(...) ROTA_FIELDS_EXPAND0(ROTA_FIELDS_EXPAND0(ROTA_FIELDS_EXPAND0(__VA_ARGS__)))
#define ROTA_FIELDS_EXPAND0(...) __VA_ARGS__
#define ROTA_FIELDS_EACH(first, ...)                     \
  rota_visit(std::string_view(#first), rota_self.first); \
  __VA_OPT__(ROTA_FIELDS_AGAIN ROTA_FIELDS_PARENS(__VA_ARGS__))
#define ROTA_FIELDS_AGAIN() ROTA_FIELDS_EACH

// Inside a struct: `fields(self, visit)` calls visit(name, member) for each. For a struct without members: no argument.
#define ROTA_FIELDS(...)                                                                                \
  template <class Self, class Visit>                                                                    \
  static constexpr void fields([[maybe_unused]] Self& rota_self, [[maybe_unused]] Visit&& rota_visit) { \
    __VA_OPT__(ROTA_FIELDS_EXPAND(ROTA_FIELDS_EACH(__VA_ARGS__)))                                       \
  }

// The same for a struct with a base: the fields of the base come first.
#define ROTA_FIELDS_WITH_BASE(Base, ...)                                                                \
  template <class Self, class Visit>                                                                    \
  static constexpr void fields([[maybe_unused]] Self& rota_self, [[maybe_unused]] Visit&& rota_visit) { \
    Base::fields(rota_self, rota_visit);                                                                \
    __VA_OPT__(ROTA_FIELDS_EXPAND(ROTA_FIELDS_EACH(__VA_ARGS__)))                                       \
  }
