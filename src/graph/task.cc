#include "rota/graph/task.h"

namespace rota::graph {

std::string_view to_string(TaskState state) {
  switch (state) {
    case TaskState::kQueued:
      return "Queued";
    case TaskState::kReady:
      return "Ready";
    case TaskState::kRunning:
      return "Running";
    case TaskState::kPaused:
      return "Paused";
    case TaskState::kSucceeded:
      return "Succeeded";
    case TaskState::kFailed:
      return "Failed";
    case TaskState::kCancelled:
      return "Cancelled";
  }
  return "?";
}

}  // namespace rota::graph
