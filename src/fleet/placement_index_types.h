// Small types that the placement index and its parts share.
#pragma once

#include <compare>
#include <cstdint>

#include "base/hash.h"
#include "rota/model/ids.h"

namespace rota::fleet {

using ShapeRef = std::uint32_t;
inline constexpr ShapeRef kNoShape = ~0U;

struct ReadyEntry {
  std::int64_t less_path_ms;  // Order::kCriticalPath: minus the length of its path; otherwise 0.
  std::int64_t since_ns;
  model::TaskId task;
  std::uint32_t stamp;
  friend auto operator<=>(const ReadyEntry&, const ReadyEntry&) = default;
};

struct ClassKey {
  Hash128 merge{};  // TemplateInfo::merge, if its tasks may be merged: those of one key are side by side.
  std::int32_t priority = 0;
  std::uint32_t user = 0;
  model::WorkflowId workflow{};  // Policy::prefer_started.
  std::int64_t since_ns = 0;     // Order::kCriticalPath: all of its tasks have the same effective priority.
  friend auto operator<=>(const ClassKey&, const ClassKey&) = default;
};

}  // namespace rota::fleet
