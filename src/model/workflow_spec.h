// What is submitted: a workflow.
//
// A workflow is a list of stages; a stage is one task, or one task for each of its items. What the tasks of a stage
// have in common is in a template, which stages may share: a million tasks of one kind need one template.
//
// All numbers are signed, so that a negative one can be rejected by name instead of being read as a huge one.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/enum_names.h"
#include "model/task_spec.h"
#include "rota/model/fields.h"
#include "rota/model/resources.h"
#include "rota/model/worker_spec.h"

namespace rota::model {

// What a worker must have to run a task.
struct Requirements : ResourceRequest {
  std::string zone{};                       // The worker's zone; empty: any.
  std::vector<std::string> capabilities{};  // The worker has all of these.
  std::vector<Label> labels{};              // The worker has all of these.
  ROTA_FIELDS_WITH_BASE(ResourceRequest, zone, capabilities, labels)
  friend auto operator<=>(const Requirements&, const Requirements&) = default;
};

// The type of the handler that a task needs; empty if it runs a program.
[[nodiscard]] inline std::string_view needed_handler(const TaskSpec& spec) {
  return spec.program ? std::string_view() : std::string_view(spec.type);
}

// True if the worker could run a task with these requirements and this handler (needed_handler()) if it had nothing
// else to do.
[[nodiscard]] bool meets(const WorkerSpec& worker, const Requirements& needs, std::string_view handler);
// One text for each requirement that the worker could never meet: "zone: 'eu-1' needed, 'us-2' available".
[[nodiscard]] std::vector<std::string> unmet_requirements(const WorkerSpec& worker, const Requirements& needs,
                                                          std::string_view handler);

// Which lambda weighs throughput against cost (B-9).
enum class Category : std::uint8_t { kOther, kInference, kTraining };
ROTA_ENUM_NAMES(Category, kTraining, "other", "inference", "training")

struct Retry {
  std::int64_t max_attempts = 3;
  std::int64_t backoff_ms = 0;  // Before the second attempt. Each later one: times the factor, up to the maximum.
  std::int64_t backoff_factor_permille = 2000;
  std::int64_t backoff_most_ms = 300'000;
  // After an attempt that was killed for memory, the next one asks for this many thousandths of its memory, up to that
  // of the largest worker; 0: the same amount.
  std::int64_t memory_factor_permille = 0;
  ROTA_FIELDS(max_attempts, backoff_ms, backoff_factor_permille, backoff_most_ms, memory_factor_permille)
  friend auto operator<=>(const Retry&, const Retry&) = default;
};

struct TaskTemplate {
  TaskSpec spec{};
  Category category = Category::kOther;
  Requirements needs{};
  Retry retry{};
  std::string condition{};             // The tasks are skipped if it is false (reference.h).
  std::vector<std::string> context{};  // "model:llama-3", "dataset:c4": placement prefers a worker that has these.
  bool mergeable = false;              // Tasks that differ only in their data may run as one execution (B-12).
  bool preemptible = false;            // It can stop at a checkpoint and continue from it elsewhere.
  bool gang = false;                   // The tasks of the stage start together or not at all.
  std::string pinned{};                // Runs only on the worker of this name; empty: on any.
  ROTA_FIELDS(spec, category, needs, retry, condition, context, mergeable, preemptible, gang, pinned)
  friend auto operator<=>(const TaskTemplate&, const TaskTemplate&) = default;
};

struct Stage {
  std::string name{};
  std::int64_t use = 0;                // The index of its template.
  std::vector<std::uint32_t> needs{};  // Indices of stages, in any order; later ones are allowed, cycles are not.
  // One task per item; an item is a JSON object, `${matrix.key}` in the specification. Empty: one task without data.
  std::vector<std::string> items{};
  std::int64_t priority = 0;  // Added to the workflow's.
  ROTA_FIELDS(name, use, needs, items, priority)
  friend auto operator<=>(const Stage&, const Stage&) = default;
};

struct WorkflowSpec {
  std::string name{};
  std::string user{};
  std::int64_t priority = 0;
  std::vector<TaskTemplate> templates{};
  std::vector<Stage> stages{};
  ROTA_FIELDS(name, user, priority, templates, stages)
  friend auto operator<=>(const WorkflowSpec&, const WorkflowSpec&) = default;
};

}  // namespace rota::model
