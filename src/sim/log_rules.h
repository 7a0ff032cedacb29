// The rules of a fleet, written a second time from the contract's wording, over the events of a log alone (S-2).
//
// It keeps the little that it needs to know of each task, worker and user from the events, and says which event breaks
// a rule: a task that starts before its predecessors have succeeded, or while it is paused or has ended; on a worker
// that is gone, disabled or full; beyond a quota or a count of the fleet; before its backoff is over; more often than
// it may; a gang that starts in part; a key that is accepted twice; a workflow that ends too early, or never; and what
// `when`, `finally`, `each`, `parallel`, `deadline`, `fail_fast`, fan-outs and the dispatch modes forbid
// (log_rules_stages.cc).
//
// Nothing here uses the brain's state or its code, except for the types of events.
// Thread safety: none; one owner.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fleet/event.h"
#include "fleet/record.h"
#include "sim/stage_plan.h"
#include "sim/witness.h"

namespace rota::sim {

// A rule that was broken. `checker` is one word, the same for every case.
struct Violation {
  std::string checker{};
  std::string what{};
};

class LogRules {
 public:
  explicit LogRules(std::vector<Violation>& violations) : violations_(violations) {}

  void see(const fleet::Record& record);
  // After the last record.
  void finish(bool must_have_ended);

  enum class Life : std::uint8_t { kWaits, kAssigned, kSucceeded, kFailed, kCancelled, kSkipped };
  struct TaskFacts {
    Life life = Life::kWaits;
    bool paused = false;
    bool queued = false;
    bool merged = false;    // Its execution has several tasks.
    bool stopping = false;  // It was told to stop.
    std::uint32_t stage = 0;
    std::uint32_t attempt = 0;
    std::uint32_t worker = 0;
    std::int64_t spent = 0;
    std::int64_t not_before_ns = 0;
    std::int64_t memory_bytes = 0;  // Asked for after it was killed for memory; 0: as its template says.
    fleet::DeviceSet devices = 0;
    fleet::TaskId lead{};  // Of its execution.
    std::string result{};  // Of its success.
  };
  struct WorkflowFacts {
    model::WorkflowSpec spec{};
    std::vector<TaskFacts> tasks{};
    StagePlan plan{};
    bool ended = false;
    fleet::StopCause stopped = fleet::StopCause::kNone;
    std::int64_t deadline_ns = 0;  // 0: none.
    std::uint64_t accepted_in = 0;
  };
  // The tasks of an accepted workflow; null if it is not known or was forgotten.
  [[nodiscard]] const WorkflowFacts* find(model::WorkflowId id) const;
  [[nodiscard]] const TaskFacts* find(model::TaskId id) const;

 private:
  struct WorkerFacts {
    model::WorkerSpec spec{};
    std::uint64_t incarnation = 0;
    std::set<std::uint64_t> earlier{};  // Incarnations before this one.
    bool reachable = false;
    bool draining = false;
    bool left = false;
    bool disabled = false;
    bool refusing = false;
    std::uint64_t changed_in = 0;  // The last record that changed one of these.
  };

  void on(const fleet::Event& event, const fleet::Record& record);
  void accept(const fleet::WorkflowAccepted& event, const fleet::Record& record);
  void change(const fleet::WorkerChanged& event);
  void register_worker(const fleet::WorkerRegistered& event, const fleet::Record& record);
  void assign(const fleet::TaskAssigned& event, const fleet::Record& record);
  void check_task(model::TaskId id, std::uint32_t attempt, const fleet::Record& record);
  void check_needs(model::TaskId id, const std::string& name);
  void check_skip(model::TaskId id);
  void check_cancel(const fleet::TaskCancelled& event, const fleet::Record& record);
  void check_stops(const fleet::Record& record);
  void stop(const fleet::WorkflowStopped& event, const fleet::Record& record);
  void expand(const fleet::StageExpanded& event);
  void collapse(const fleet::StageCollapsed& event, const fleet::Record& record);
  [[nodiscard]] static std::vector<std::string> items_now(const WorkflowFacts& workflow, std::uint32_t stage);
  void check_items(model::WorkflowId id);
  void reopen(WorkflowFacts& workflow, const fleet::Record& record);
  [[nodiscard]] static bool applies(const WorkflowFacts& workflow, std::uint32_t stage);
  void bind(const fleet::TaskAssigned& event);
  void unbind(const fleet::BindingDropped& event);
  void check_bindings();
  void check_worker(const fleet::TaskAssigned& event);
  void check_unplaceable(const fleet::TaskFailed& event);
  void check_limits(model::TaskId id);
  void start(const fleet::TaskStarted& event);
  void end(model::TaskId id, Life life, const fleet::Record& record);
  void requeue(const fleet::TaskRequeued& event, const fleet::Record& record);
  void check_room(std::uint32_t worker, const std::string& why);
  void check_gangs(const fleet::Record& record);
  void check_gang_stops(const fleet::TaskRequeued& event, const fleet::Record& record);
  void check_backpressure();
  void check_gone(const fleet::Record& record);
  TaskFacts* task(model::TaskId id);
  [[nodiscard]] const model::TaskTemplate& use_of(model::TaskId id) const;
  void broken(std::string checker, std::string what);
  [[nodiscard]] bool round_robin() const { return policy_.mode == fleet::DispatchMode::kStaticRoundRobin; }

  std::vector<Violation>& violations_;
  std::uint64_t index_ = 0;
  fleet::Policy policy_{};
  std::map<model::WorkflowId, WorkflowFacts> workflows_;
  std::map<std::uint32_t, WorkerFacts> workers_;
  std::map<std::string, fleet::FleetUse> quotas_;
  std::set<std::string> keys_;
  std::map<std::uint32_t, std::set<model::TaskId>> assigned_;  // By worker.
  std::map<model::WorkflowId, std::uint32_t> bound_;           // static_worker: the worker of each workflow.
  std::map<std::string, std::uint32_t> type_bound_;            // fixed_pipeline: the worker of each type.
  std::vector<std::uint32_t> gone_;                            // Workers that lost their tasks in this record.
};

}  // namespace rota::sim
