// The values of the references of a task (B-13).
#pragma once

#include <string>
#include <string_view>

#include "fleet/state.h"
#include "model/reference.h"

namespace rota::fleet {

class TaskScope : public ReferenceScope {
 public:
  TaskScope(const State& state, TaskId task) : state_(state), task_(task) {}
  // kWouldBlock while a stage has not succeeded.
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
