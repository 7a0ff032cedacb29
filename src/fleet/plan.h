// What follows from the text of a workflow alone: its graph, its tasks, and what its templates refer to.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "base/hash.h"
#include "fleet/placement_index.h"
#include "fleet/run_times.h"
#include "model/reference.h"
#include "model/workflow_spec.h"
#include "rota/graph/dag.h"
#include "rota/result.h"

namespace rota::fleet {

struct StageState {
  // Its tasks are `first` and [more, more + count - 1). Most stages have all of them at submission, one after the
  // other; those that a fan-out creates come after all others that exist then. Those of an earlier expansion are no
  // longer among them (has(), Workflow::is_withdrawn()).
  std::uint32_t first = 0;
  std::uint32_t more = 1;
  std::uint32_t count = 0;
  std::uint32_t unfinished = 0;  // Tasks that have not succeeded.
  std::uint32_t open = 0;        // Tasks that have not ended.
  // Stages that it needs and that have not succeeded; if it waits for their end (Stage::waits_for_end()), those that
  // have not ended. A stage of `finally` also waits for all others together, which count as one.
  std::uint32_t waits = 0;
  // Its tasks may run again after a success, because what they come after may be retried: their condition and
  // references are then looked at again.
  bool repeats = false;

  // The index of the task with this number in the stage, and the reverse.
  [[nodiscard]] std::uint32_t task(std::uint32_t number) const { return number == 0 ? first : more + number - 1; }
  [[nodiscard]] std::uint32_t number(std::uint32_t index) const { return index == first ? 0 : index - more + 1; }

  // The task with this index, which names this stage, is one of its tasks.
  [[nodiscard]] bool has(std::uint32_t index) const {
    return index == first || (index >= more && index - more + 1 < count);
  }

  // The indices of its tasks, in the order of their items: `for (const std::uint32_t t : stage.tasks())`.
  class Tasks {
   public:
    class Iterator {
     public:
      Iterator(const StageState& stage, std::uint32_t number) : stage_(stage), number_(number) {}
      std::uint32_t operator*() const { return stage_.task(number_); }
      Iterator& operator++() {
        ++number_;
        return *this;
      }
      bool operator!=(const Iterator& other) const { return number_ != other.number_; }

     private:
      const StageState& stage_;
      std::uint32_t number_;
    };
    explicit Tasks(const StageState& stage) : stage_(stage) {}
    [[nodiscard]] Iterator begin() const { return {stage_, 0}; }
    [[nodiscard]] Iterator end() const { return {stage_, stage_.count}; }

   private:
    const StageState& stage_;
  };
  [[nodiscard]] Tasks tasks() const { return Tasks(*this); }
};

// What is derived from a template once, at submission.
struct TemplateInfo {
  static constexpr std::uint32_t kNoStage = ~0U;
  Hash128 merge{};                         // Of all but its data: tasks whose templates have the same one merge.
  bool mergeable = false;                  // Its tasks may be merged: it says so, and what it runs accepts a batch.
  std::vector<ReferenceUse> references{};  // Of its specification.
  // It has a condition, or references that may lead nowhere: its tasks are examined before they become ready.
  bool examine = false;
  RunKey work = 0;                  // What run times of its type are known by.
  std::uint32_t sticky = kNoStage;  // The stage whose checkpoint or adapter it uses.
  ShapeRef shape = kNoShape;        // Of a task that has not been retried and is not sticky.
};

// Tasks of two stages that wait for each other by their values (Y-3): the tasks of `child` in a group wait for those of
// `parent` in the same group.
struct ItemLink {
  static constexpr std::uint32_t kNoGroup = ~0U;
  std::uint32_t parent = 0;
  std::uint32_t child = 0;
  bool resolved = false;                      // The items of both stages are known. If not, the rest is empty.
  bool single = false;                        // A group has at most one task of the parent.
  std::vector<std::uint32_t> parent_group{};  // By the number of the task in its stage; kNoGroup: nobody waits for it.
  std::vector<std::uint32_t> child_group{};   // kNoGroup: no task of the parent has its values.
  struct Group {
    std::vector<std::uint32_t> parents{};  // Numbers in their stage.
    std::vector<std::uint32_t> children{};
    std::uint32_t unfinished = 0;  // Of the parents: those that have not succeeded.
  };
  std::vector<Group> groups{};
};

// The tasks of a stage that may run at once are limited (Stage::parallel).
struct StageSlots {
  std::uint32_t used = 0;               // Its tasks that are ready or run.
  std::set<std::uint32_t> examining{};  // Tasks that will be examined; each has a slot. Empty between records.
  std::set<std::uint32_t> held{};       // Tasks that wait for nothing but a slot.
  bool operator==(const StageSlots&) const = default;
};

struct WorkflowPlan {
  graph::Dag dag{};  // Of stages; the number of a stage is its TaskRef - 1.
  std::vector<StageState> stages{};
  std::vector<TemplateInfo> templates{};
  std::uint32_t tasks = 0;
  std::uint32_t main_tasks = 0;          // Those that are not of `finally`.
  std::vector<std::uint32_t> finally{};  // The stages of `finally`.
  std::vector<ItemLink> links{};         // By child, then by parent.
};

// Finds the groups of the link. REQUIRES: the items of both stages are known. kInvalidArgument: a task has no
// counterpart although both matrices are in the file.
[[nodiscard]] Result<void> resolve_link(const WorkflowSpec& spec, ItemLink& link);

// The links of all stages with `each`, in the order of the stages. kInvalidArgument: tasks that have no counterpart.
[[nodiscard]] Result<std::vector<ItemLink>> link_items(const WorkflowSpec& spec);

// kInvalidArgument, kParseError, kNotFound, kTooLarge: what is wrong with it, in a sentence that names the stage.
[[nodiscard]] Result<WorkflowPlan> plan_workflow(const WorkflowSpec& spec);

}  // namespace rota::fleet
