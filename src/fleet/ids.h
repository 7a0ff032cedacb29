// The names of things in a fleet.
//
// Ids derive from the order of the log alone: a workflow is numbered as it is accepted, its tasks by their place in it,
// a worker as it registers for the first time. No number is ever used again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rota/id.h"

namespace rota::fleet {

struct WorkflowTag {
  static constexpr std::string_view kPrefix = "wf";
};
using WorkflowId = Id<WorkflowTag>;

// A worker by number; people use the name that it registered under.
struct WorkerTag {
  static constexpr std::string_view kPrefix = "worker";
};
using WorkerId = Id<WorkerTag, std::uint32_t>;

// A task is its workflow and its place in it: 24 bits, so that a workflow has at most 2^24 - 1 tasks.
class TaskId {
 public:
  static constexpr std::uint32_t kMostTasks = (1U << 24) - 1;
  using rep = std::uint64_t;

  constexpr TaskId() noexcept = default;
  constexpr explicit TaskId(std::uint64_t value) noexcept : value_(value) {}
  constexpr TaskId(WorkflowId workflow, std::uint32_t index) noexcept : value_(workflow.value() << 24 | index) {}

  [[nodiscard]] constexpr WorkflowId workflow() const noexcept { return WorkflowId(value_ >> 24); }
  [[nodiscard]] constexpr std::uint32_t index() const noexcept { return value_ & kMostTasks; }
  [[nodiscard]] constexpr std::uint64_t value() const noexcept { return value_; }
  [[nodiscard]] constexpr bool is_none() const noexcept { return value_ == 0; }
  friend constexpr auto operator<=>(TaskId, TaskId) noexcept = default;

  // "wf-12.3"
  [[nodiscard]] std::string to_string() const;
  [[nodiscard]] static std::optional<TaskId> parse(std::string_view text) noexcept;

 private:
  std::uint64_t value_ = 0;
};

}  // namespace rota::fleet
