// The place of a task in the ready order (B-4, B-22, B-25).
//
// Thread safety: functions without state.
#pragma once

#include "fleet/state.h"

namespace rota::fleet {

// Everything that decides the place of a task in the order. Of a ready task, also its shape.
struct Head {
  std::int64_t priority = 0;  // The effective one.
  bool started = false;
  std::int64_t share = 0;
  ReadyEntry entry{};
  ShapeRef shape = kNoShape;  // kNoShape: of no ready task.
};

[[nodiscard]] inline bool before(const Head& a, const Head& b) {
  if (a.priority != b.priority) return a.priority > b.priority;
  if (a.started != b.started) return a.started;
  if (a.share != b.share) return a.share < b.share;
  return a.entry < b.entry;
}

[[nodiscard]] inline Head place_in_order(const State& state, const ReadyEntry& entry, std::uint32_t user) {
  Head head;
  head.entry = entry;
  head.priority = effective_priority(state, state.at(entry.task));
  if (state.policy().prefer_started) head.started = state.at(entry.task.workflow()).started;
  if (state.policy().fair_share) head.share = dominant_share(state, state.users()[user]);
  return head;
}

[[nodiscard]] inline Head head_of(const State& state, ShapeRef shape, const ClassKey& key, const ReadyClass& ready) {
  Head head = place_in_order(state, *ready.head(), key.user);
  head.shape = shape;
  return head;
}

[[nodiscard]] inline Head head_of(const State& state, const OrderTree::Item& item) {
  Head head = place_in_order(state, item.key.head, item.klass->user);
  head.shape = item.shape;
  return head;
}

// The place that a task, ready or not, has or would have.
[[nodiscard]] inline Head head_of(const State& state, TaskId id) {
  const Workflow& workflow = state.at(id.workflow());
  const Task& task = workflow.tasks[id.index()];
  const std::int64_t path_ms = state.policy().order == Order::kCriticalPath ? task.path_ms : 0;
  return place_in_order(state, {-path_ms, task.since_ns, id, 0}, workflow.user);
}

}  // namespace rota::fleet
