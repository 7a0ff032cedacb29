// The values of the references of a task (B-13).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/state.h"
#include "model/reference.h"

namespace rota::fleet {

// How the tasks have ended: "succeeded", "skipped" (all of them were), "failed" or "cancelled" (one of them);
// "running" if one has not.
[[nodiscard]] std::string_view end_of(const Workflow& workflow, const std::vector<std::uint32_t>& tasks);
// The message of the first of the tasks that failed, otherwise why one was cancelled; empty if there is none.
[[nodiscard]] std::string error_of(const Workflow& workflow, const std::vector<std::uint32_t>& tasks);

class TaskScope : public ReferenceScope {
 public:
  TaskScope(const State& state, TaskId task) : state_(state), task_(task) {}
  // kWouldBlock while a stage has not ended. The result of a task that has not succeeded is null.
  Result<std::string_view> value(std::string_view root, std::string_view member) override;

 private:
  const State& state_;
  TaskId task_;
  std::string text_;
};

// The task's specification as its worker gets it: with every reference replaced, and with the checkpoint of an earlier
// attempt. A pure function of the state.
[[nodiscard]] Result<TaskSpec> resolved_spec(const State& state, TaskId task);

}  // namespace rota::fleet
