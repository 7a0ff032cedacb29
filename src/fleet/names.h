// The names of the enumerators, as people, logs and settings write them: Selection::kFirstFit is "first_fit".
//
//   to_string(Why::kScore) == "score"     (declared beside each enum)
//   parse_name<Why>("score") == Why::kScore
//
// The numbers are in the log: an enumerator may be appended, never moved. LastEnumerator says where each enum ends; a
// switch in names.cc without a case for a new one does not compile, and a test finds a LastEnumerator left behind.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "fleet/command.h"
#include "fleet/event.h"
#include "fleet/policy.h"
#include "fleet/spec.h"
#include "rota/graph/task.h"

namespace rota::fleet {

// The enum's enumerators are numbered from 0 to `value`, without gaps.
template <class E>
struct LastEnumerator;
template <class E>
inline constexpr E last_enumerator = LastEnumerator<E>::value;

#define ROTA_LAST_ENUMERATOR(type, last)       \
  template <>                                  \
  struct LastEnumerator<type> {                \
    static constexpr type value = type ::last; \
  }
ROTA_LAST_ENUMERATOR(DispatchMode, kStaticRoundRobin);
ROTA_LAST_ENUMERATOR(Selection, kCustom);
ROTA_LAST_ENUMERATOR(Category, kTraining);
ROTA_LAST_ENUMERATOR(Action, kRetry);
ROTA_LAST_ENUMERATOR(FailureKind, kGang);
ROTA_LAST_ENUMERATOR(WorkerChange, kEnabledElastic);
ROTA_LAST_ENUMERATOR(Affinity, kSameZone);
ROTA_LAST_ENUMERATOR(Why, kCustom);
ROTA_LAST_ENUMERATOR(RequeueReason, kRetried);
ROTA_LAST_ENUMERATOR(StopReason, kGang);
ROTA_LAST_ENUMERATOR(Outcome, kCancelled);
ROTA_LAST_ENUMERATOR(graph::TaskState, kCancelled);

std::string_view to_string(Category category);

// The enumerator of this name, or nothing.
template <class E>
  requires std::is_enum_v<E>
[[nodiscard]] std::optional<E> parse_name(std::string_view name) {
  for (unsigned number = 0; number <= static_cast<unsigned>(last_enumerator<E>); ++number) {
    if (to_string(static_cast<E>(number)) == name) return static_cast<E>(number);
  }
  return std::nullopt;
}

// Every name of the enum in order: "adaptive, static_worker, ...".
template <class E>
  requires std::is_enum_v<E>
[[nodiscard]] std::string all_names() {
  std::string names;
  for (unsigned number = 0; number <= static_cast<unsigned>(last_enumerator<E>); ++number) {
    if (number > 0) names.append(", ");
    names.append(to_string(static_cast<E>(number)));
  }
  return names;
}

}  // namespace rota::fleet
