// The life cycle as a table.
#include "rota/graph/task.h"

#include <gtest/gtest.h>

#include <string>

namespace rota::graph {
namespace {

// G-7, G-8: exactly these transitions are legal. Each row lists the successors of one state.
TEST(TaskState, TheTableOfLegalTransitions) {
  const std::string expected[kTaskStateCount] = {"Queued: Ready Paused Cancelled",
                                                 "Ready: Running Paused Cancelled",
                                                 "Running: Queued Paused Succeeded Failed Cancelled",
                                                 "Paused: Queued Ready Running Cancelled",
                                                 "Succeeded:",
                                                 "Failed: Queued",
                                                 "Cancelled: Queued"};
  for (int from = 0; from < kTaskStateCount; ++from) {
    std::string row = std::string(to_string(static_cast<TaskState>(from))) + ":";
    for (int to = 0; to < kTaskStateCount; ++to) {
      if (!legal_transition(static_cast<TaskState>(from), static_cast<TaskState>(to))) continue;
      row += " " + std::string(to_string(static_cast<TaskState>(to)));
    }
    EXPECT_EQ(row, expected[from]);
  }
}

}  // namespace
}  // namespace rota::graph
