// How a task of a graph is identified, its states, and the legal transitions between them.
//
// A task has a name, chosen by the user, and a TaskRef: a dense number from 1 on, assigned by its Dag, so that
// everything about tasks is kept in arrays.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <string_view>

#include "rota/id.h"

namespace rota::graph {

struct TaskRefTag {};
using TaskRef = Id<TaskRefTag, std::uint32_t>;

// A point on the caller's time line. Nothing in this room reads a clock: the time is an argument of each call.
struct Moment {
  std::int64_t ns = 0;
  friend constexpr auto operator<=>(Moment, Moment) = default;
  // The sum, or never() where it would overflow. REQUIRES: duration_ns >= 0.
  [[nodiscard]] constexpr Moment after(std::int64_t duration_ns) const {
    return ns > std::numeric_limits<std::int64_t>::max() - duration_ns ? never() : Moment{ns + duration_ns};
  }
  static constexpr Moment never() { return Moment{std::numeric_limits<std::int64_t>::max()}; }
};
inline constexpr std::int64_t kNsPerMs = 1'000'000;

enum class TaskState : std::uint8_t {
  kQueued,     // Waits for predecessors, or for the end of a retry's backoff.
  kReady,      // Waits until it is chosen and its resources are free.
  kRunning,    // Its body runs.
  kPaused,     // Set aside until it is resumed; `paused_from` is the state before.
  kSucceeded,  // Terminal.
  kFailed,     // Terminal, unless it is retried.
  kCancelled,  // Terminal, unless it was cancelled because of a predecessor and that one is retried.
};
inline constexpr int kTaskStateCount = 7;

constexpr bool is_terminal(TaskState state) { return state >= TaskState::kSucceeded; }

namespace detail {
// One row per state: the states that may follow it. Every change of state is asserted against this table.
constexpr std::uint8_t bits(std::initializer_list<TaskState> states) {
  std::uint8_t set = 0;
  for (const TaskState state : states) set = static_cast<std::uint8_t>(set | 1U << static_cast<unsigned>(state));
  return set;
}
inline constexpr std::uint8_t kLegal[kTaskStateCount] = {
    // Queued: the last predecessor succeeded; paused; cancelled, or a predecessor did not succeed.
    bits({TaskState::kReady, TaskState::kPaused, TaskState::kCancelled}),
    // Ready: chosen to run; paused; cancelled.
    bits({TaskState::kRunning, TaskState::kPaused, TaskState::kCancelled}),
    // Running: the body ended in one of three ways, or reached a checkpoint after a pause was requested; or the task is
    // queued again because its machine was lost or its attempt failed and another is allowed (only fleet/ does that).
    bits({TaskState::kQueued, TaskState::kPaused, TaskState::kSucceeded, TaskState::kFailed, TaskState::kCancelled}),
    // Paused: resumed, or cancelled. If its body had started, the task runs again to unwind before it is Cancelled.
    bits({TaskState::kQueued, TaskState::kReady, TaskState::kRunning, TaskState::kCancelled}),
    // Succeeded: final.
    bits({}),
    // Failed: retried.
    bits({TaskState::kQueued}),
    // Cancelled: the predecessor that caused it is retried.
    bits({TaskState::kQueued}),
};
}  // namespace detail

constexpr bool legal_transition(TaskState from, TaskState to) {
  return (detail::kLegal[static_cast<unsigned>(from)] >> static_cast<unsigned>(to) & 1U) != 0;
}

std::string_view to_string(TaskState state);

}  // namespace rota::graph
