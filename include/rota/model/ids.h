// The ids of a fleet.
//
// Ids follow from the order of the log alone: a workflow is numbered when it is accepted, its tasks by their place in
// it, a worker when it registers for the first time. No number is used twice.
//
// Thread safety: as of any value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "rota/id.h"

namespace rota::model {

struct WorkflowTag {
  static constexpr std::string_view kPrefix = "wf";
};
using WorkflowId = Id<WorkflowTag>;

// The number of a worker in the log. People use the name that the worker registered with.
struct WorkerTag {
  static constexpr std::string_view kPrefix = "worker";
};
using WorkerId = Id<WorkerTag, std::uint32_t>;

// The number of an attempt at a task, from 1 on. It fences reports: a report about an older attempt is ignored.
struct AttemptTag {};
using AttemptNumber = Id<AttemptTag, std::uint32_t>;

// The number of a leadership. A message with an older term than the newest known one is ignored.
struct TermTag {};
using Term = Id<TermTag>;

// The number of one life of a worker process; none: the worker does not say, and each registration is a restart.
struct IncarnationTag {};
using Incarnation = Id<IncarnationTag>;

// A task is its workflow and its index in it. The index has 24 bits: a workflow has at most 2^24 - 1 tasks.
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

}  // namespace rota::model
