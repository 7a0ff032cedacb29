// Which worker gets a task, and why (B-3, B-7 to B-12, B-22).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "fleet/event.h"
#include "fleet/state.h"

namespace rota::fleet {

struct Choice {
  WorkerId worker{};
  DeviceSet devices = 0;
  bool queued = false;
  Reasoning reasoning{};
};

// The worker for a ready task of an open shape.
[[nodiscard]] Choice choose_worker(const State& state, TaskId task);

// True if a task with this key will fit on the worker when those that run there have ended. Paused ones stay.
[[nodiscard]] bool could_make_room(const State& state, const Worker& worker, const ShapeKey& key);

// Workers for all ready tasks of a gang, in the order of `tasks`; empty if they do not all fit now.
[[nodiscard]] std::vector<Choice> choose_gang(const State& state, ShapeRef shape, const std::vector<TaskId>& tasks);

// The tasks that would have to stop on one worker so that `task` could run there: as few as possible, and of those the
// ones with the lowest priorities. Empty if there is no such worker, or if enough tasks stop already.
struct Victims {
  WorkerId worker{};
  std::vector<TaskId> tasks{};
};
[[nodiscard]] Victims choose_victims(const State& state, TaskId task);

// lambda * throughput - (1 - lambda) * cost, in billionths, for workers of the kind (B-9).
[[nodiscard]] std::int64_t score_of(const Policy& policy, Category category, const Kind& kind);
[[nodiscard]] std::int64_t lambda_of(const Policy& policy, Category category);
// Scales a tie-breaking number of task and worker to [0, policy.jitter).
[[nodiscard]] std::int64_t jitter_of(const Policy& policy, std::uint64_t tie);

// A stage that no registered worker could ever run (B-18).
struct Infeasible {
  std::uint32_t stage = 0;
  std::string requirement{};  // "memory: 64 GiB needed, 16 GiB available"
  WorkerId nearest{};         // The worker that comes nearest; none if there is no worker.
};
// The stages that no live worker could ever run: because of what they need, their pin, their handler or the dispatch
// mode. Of stages that share a template, the first.
[[nodiscard]] std::vector<Infeasible> infeasible_stages(const State& state, const Workflow& workflow);

// The first requirement that a worker could never meet, for messages; empty if it meets all.
[[nodiscard]] std::string unmet_requirement(const WorkerSpec& worker, const Requirements& needs,
                                            std::string_view handler);
// "licence: 3 needed, the whole fleet has 2", if tasks with this key need more than that; otherwise empty.
[[nodiscard]] std::string missing_in_fleet(const State& state, const ShapeKey& key, std::int64_t together = 1);
// The live worker that meets the most requirements, and the first one that it does not meet; none if no worker is live.
struct Nearest {
  WorkerId worker{};
  std::string lacks{};
};
// Why the dispatch mode lets no live worker run tasks with this key, though one meets the requirements; for messages.
[[nodiscard]] std::string mode_obstacle(const State& state, const ShapeKey& key);
[[nodiscard]] Nearest nearest_worker(const State& state, const Requirements& needs, std::string_view handler);

}  // namespace rota::fleet
