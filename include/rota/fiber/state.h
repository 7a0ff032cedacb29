// The states of a task and of a nursery, the reasons for a cancellation, and the legal transitions.
#pragma once

#include <cstdint>
#include <string_view>

namespace rota::fiber {

enum class TaskState : std::uint8_t {
  kNew,              // Being created; not visible to others.
  kReady,            // Queued.
  kRunning,          // On a thread worker.
  kBlocked,          // Waits; its stack is parked.
  kBudgetExhausted,  // Waits for a recharge.
  kCancelling,       // Asked to end, and has not ended. Reported, never stored: see observed_state().
  kCompleting,       // The function has returned; the result is being stored.
  kCompleted,        // Terminal: it has a result.
  kCancelled,        // Terminal: ended by cancellation.
  kFailed,           // Terminal: ended by an exception or by a stack overflow.
};
inline constexpr int kTaskStateCount = 10;

constexpr bool is_terminal(TaskState state) { return state >= TaskState::kCompleted; }

// The table of F-1: may a task go from `from` to `to`? Terminal states are final.
constexpr bool legal_transition(TaskState from, TaskState to) {
  using S = TaskState;
  switch (from) {
    case S::kNew:
      return to == S::kReady;
    case S::kReady:
      return to == S::kRunning || to == S::kCancelled;  // Cancelled: a queued task ends without running.
    case S::kRunning:
      return to == S::kReady /* yield */ || to == S::kBlocked || to == S::kBudgetExhausted || to == S::kCompleting ||
             to == S::kCancelled || to == S::kFailed;
    case S::kBlocked:
    case S::kBudgetExhausted:
      return to == S::kReady;
    case S::kCancelling:
      return false;  // An observation, not a stored state.
    case S::kCompleting:
      return to == S::kCompleted || to == S::kFailed;
    case S::kCompleted:
    case S::kCancelled:
    case S::kFailed:
      return false;
  }
  return false;
}

enum class NurseryState : std::uint8_t { kOpen, kClosing, kCancelling, kClosed, kCancelled };

enum class CancelReason : std::uint8_t {
  kNone,
  kExplicit,  // cancel() was called.
  kTimeout,   // A deadline passed.
  kParent,    // A surrounding scope or task was cancelled.
  kFailure,   // A sibling failed, or the nursery's body threw.
};

// Of a task (F-18): the queues hand out tasks of high priority before all others, and those of low priority when there
// are no others. A running task is not interrupted. Low ones do not starve: each thread worker takes one at every 64th
// step. A child has its parent's priority unless its Grant says otherwise.
enum class Priority : std::uint8_t { kNormal, kHigh, kLow };

// Where a task runs. Every task of this runtime shares the processor's cores with the others.
enum class Tenancy : std::uint8_t { kCpuParallel };

std::string_view to_string(TaskState state);
std::string_view to_string(NurseryState state);
std::string_view to_string(CancelReason reason);
std::string_view to_string(Priority priority);
std::string_view to_string(Tenancy tenancy);  // "CPU_Parallel".

}  // namespace rota::fiber
