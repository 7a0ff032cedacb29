#include "fleet/names.h"

// No `default`: the compiler then says which enumerator has no name. What is not an enumerator is "?": it can only come
// from a bug, and a message about that bug should still appear.

namespace rota::fleet {

std::string_view to_string(DispatchMode mode) {
  switch (mode) {
    case DispatchMode::kAdaptive:
      return "adaptive";
    case DispatchMode::kStaticWorker:
      return "static_worker";
    case DispatchMode::kFixedPipeline:
      return "fixed_pipeline";
    case DispatchMode::kStaticRoundRobin:
      return "static_round_robin";
  }
  return "?";
}

std::string_view to_string(Selection selection) {
  switch (selection) {
    case Selection::kScore:
      return "score";
    case Selection::kFirstFit:
      return "first_fit";
    case Selection::kMinSatisfying:
      return "min_satisfying";
    case Selection::kRoundRobin:
      return "round_robin";
    case Selection::kLeastLoaded:
      return "least_loaded";
    case Selection::kRandom:
      return "random";
    case Selection::kAffinity:
      return "affinity";
    case Selection::kCustom:
      return "custom";
  }
  return "?";
}

std::string_view to_string(Category category) {
  switch (category) {
    case Category::kOther:
      return "other";
    case Category::kInference:
      return "inference";
    case Category::kTraining:
      return "training";
  }
  return "?";
}

std::string_view to_string(Action action) {
  switch (action) {
    case Action::kPause:
      return "pause";
    case Action::kResume:
      return "resume";
    case Action::kCancel:
      return "cancel";
    case Action::kRetry:
      return "retry";
  }
  return "?";
}

std::string_view to_string(FailureKind kind) {
  switch (kind) {
    case FailureKind::kError:
      return "error";
    case FailureKind::kMemory:
      return "memory";
    case FailureKind::kTimeout:
      return "timeout";
    case FailureKind::kWorkerLost:
      return "worker_lost";
    case FailureKind::kReference:
      return "reference";
    case FailureKind::kUnplaceable:
      return "unplaceable";
    case FailureKind::kDependency:
      return "dependency";
    case FailureKind::kGang:
      return "gang";
  }
  return "?";
}

std::string_view to_string(WorkerChange change) {
  switch (change) {
    case WorkerChange::kDraining:
      return "draining";
    case WorkerChange::kLeft:
      return "left";
    case WorkerChange::kUnreachable:
      return "unreachable";
    case WorkerChange::kBack:
      return "back";
    case WorkerChange::kDisabledByHand:
      return "disabled_by_hand";
    case WorkerChange::kEnabledByHand:
      return "enabled_by_hand";
    case WorkerChange::kDisabledElastic:
      return "disabled_elastic";
    case WorkerChange::kEnabledElastic:
      return "enabled_elastic";
  }
  return "?";
}

std::string_view to_string(Affinity affinity) {
  switch (affinity) {
    case Affinity::kNone:
      return "none";
    case Affinity::kDataLocality:
      return "data_locality";
    case Affinity::kPreviouslyExecuted:
      return "previously_executed";
    case Affinity::kSameZone:
      return "same_zone";
  }
  return "?";
}

std::string_view to_string(Why why) {
  switch (why) {
    case Why::kOnlyWorkerAvailable:
      return "only_worker_available";
    case Why::kLeastLoaded:
      return "least_loaded";
    case Why::kResourceFit:
      return "resource_fit";
    case Why::kAffinity:
      return "affinity";
    case Why::kScore:
      return "score";
    case Why::kSticky:
      return "sticky";
    case Why::kPinned:
      return "pinned";
    case Why::kFirstFit:
      return "first_fit";
    case Why::kRoundRobin:
      return "round_robin";
    case Why::kRandom:
      return "random";
    case Why::kCustom:
      return "custom";
  }
  return "?";
}

std::string_view to_string(RequeueReason reason) {
  switch (reason) {
    case RequeueReason::kFailed:
      return "failed";
    case RequeueReason::kWorkerLost:
      return "worker_lost";
    case RequeueReason::kKilledForMemory:
      return "killed_for_memory";
    case RequeueReason::kTimedOut:
      return "timed_out";
    case RequeueReason::kPreempted:
      return "preempted";
    case RequeueReason::kUndeliverable:
      return "undeliverable";
    case RequeueReason::kStickyWorkerBusy:
      return "sticky_worker_busy";
    case RequeueReason::kGang:
      return "gang";
    case RequeueReason::kRetried:
      return "retried";
  }
  return "?";
}

std::string_view to_string(StopReason reason) {
  switch (reason) {
    case StopReason::kCancel:
      return "cancel";
    case StopReason::kPreempt:
      return "preempt";
    case StopReason::kGang:
      return "gang";
  }
  return "?";
}

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::kRunning:
      return "running";
    case Outcome::kSucceeded:
      return "succeeded";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kCancelled:
      return "cancelled";
  }
  return "?";
}

}  // namespace rota::fleet
