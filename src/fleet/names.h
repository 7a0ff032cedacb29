// The names of enumerators that other rooms define and the brain's log contains.
#pragma once

#include "model/enum_names.h"
#include "rota/graph/task.h"

namespace rota::graph {
ROTA_ENUM_NAME_LIST(TaskState, kCancelled, "Queued", "Ready", "Running", "Paused", "Succeeded", "Failed", "Cancelled")
}  // namespace rota::graph
