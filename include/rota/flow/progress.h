// Shows the progress of a workflow: one updated line on a terminal; elsewhere one line per 10 %.
#pragma once

#include <cstdio>
#include <memory>

#include "rota/flow/engine.h"

namespace rota::flow {

// Thread safety: the observer may be called from any thread, one call at a time, as WorkflowEngine does.
class ProgressDisplay {
 public:
  // `out` must outlive the display.
  explicit ProgressDisplay(std::FILE* out);
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  // The observer for the engine. It may outlive the display, and then shows nothing.
  [[nodiscard]] WorkflowEngine::OnProgress observer();
  // Ends the line.
  void finish();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace rota::flow
