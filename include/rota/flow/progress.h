// A line that shows how far a workflow has come: for terminals; elsewhere one line every tenth.
#pragma once

#include <cstdio>
#include <memory>

#include "rota/flow/engine.h"

namespace rota::flow {

// Thread safety: the observer may be called from any thread, one at a time, as WorkflowEngine does.
class ProgressDisplay {
 public:
  // `out` outlives this.
  explicit ProgressDisplay(std::FILE* out);
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  // For the engine. It may outlive the display, and then shows nothing.
  [[nodiscard]] WorkflowEngine::OnProgress observer();
  // Ends the line.
  void finish();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace rota::flow
