// What a task of a graph is called, which states it has, and which changes of state are legal.
//
// A task has a name, given by a person, and a TaskRef: a dense number given by its Dag, from 1 on, so that everything
// about tasks is kept in arrays.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <string_view>

#include "rota/id.h"

namespace rota::graph {

struct TaskRefTag {};
using TaskRef = Id<TaskRefTag, std::uint32_t>;

// A point on whatever time line the caller has. Nothing in this room reads a clock: time comes with each call.
struct Moment {
  std::int64_t ns = 0;
  friend constexpr auto operator<=>(Moment, Moment) = default;
  // The far future, where adding would overflow. REQUIRES: duration_ns >= 0.
  [[nodiscard]] constexpr Moment after(std::int64_t duration_ns) const {
    return ns > std::numeric_limits<std::int64_t>::max() - duration_ns ? never() : Moment{ns + duration_ns};
  }
  static constexpr Moment never() { return Moment{std::numeric_limits<std::int64_t>::max()}; }
};
inline constexpr std::int64_t kNsPerMs = 1'000'000;

enum class TaskState : std::uint8_t {
  kQueued,     // Waits for predecessors, or for the end of a retry's backoff.
  kReady,      // Waits for its turn and its slots.
  kRunning,    // Its body runs.
  kPaused,     // Put aside until somebody resumes it; `paused_from` says where it was.
  kSucceeded,  // Terminal.
  kFailed,     // Terminal, unless it is retried.
  kCancelled,  // Terminal, unless it was cancelled because of a predecessor and that one is retried.
};
inline constexpr int kTaskStateCount = 7;

constexpr bool is_terminal(TaskState state) { return state >= TaskState::kSucceeded; }

namespace detail {
// One row a state: the states that it may go to. This is the only table of it; everything that changes a state asserts
// against it.
constexpr std::uint8_t bits(std::initializer_list<TaskState> states) {
  std::uint8_t set = 0;
  for (const TaskState state : states) set = static_cast<std::uint8_t>(set | 1U << static_cast<unsigned>(state));
  return set;
}
inline constexpr std::uint8_t kLegal[kTaskStateCount] = {
    // Queued: the last predecessor ended; put aside; cancelled, or a predecessor did not succeed.
    bits({TaskState::kReady, TaskState::kPaused, TaskState::kCancelled}),
    // Ready: its turn came.
    bits({TaskState::kRunning, TaskState::kPaused, TaskState::kCancelled}),
    // Running: its body ended in one of three ways, or came to a checkpoint after a pause was asked for; or it was
    // taken
    // back, to be run again: its machine is gone, its attempt failed and another is allowed (only fleet/ does that).
    bits({TaskState::kQueued, TaskState::kPaused, TaskState::kSucceeded, TaskState::kFailed, TaskState::kCancelled}),
    // Paused: resumed; or cancelled. One whose body had started goes on running, to unwind, before it is cancelled.
    bits({TaskState::kQueued, TaskState::kReady, TaskState::kRunning, TaskState::kCancelled}),
    // Succeeded: nothing leaves it.
    bits({}),
    // Failed: retried.
    bits({TaskState::kQueued}),
    // Cancelled: the predecessor that was the cause is retried.
    bits({TaskState::kQueued}),
};
}  // namespace detail

constexpr bool legal_transition(TaskState from, TaskState to) {
  return (detail::kLegal[static_cast<unsigned>(from)] >> static_cast<unsigned>(to) & 1U) != 0;
}

std::string_view to_string(TaskState state);

}  // namespace rota::graph
