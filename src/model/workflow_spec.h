// What is submitted: a workflow.
//
// A workflow is a list of stages; a stage is one task, or one task for each of its items. What the tasks of a stage
// have in common is in a template, which stages may share: a million tasks of one kind need one template.
//
// All numbers are signed, so that a negative one can be rejected by name instead of being read as a huge one.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
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
  std::int64_t expect_ms = 0;          // `expect`: how long a task is expected to run; 0: not given (B-25).
  ROTA_FIELDS(spec, category, needs, retry, condition, context, mergeable, preemptible, gang, pinned, expect_ms)
  friend auto operator<=>(const TaskTemplate&, const TaskTemplate&) = default;
};

// By which outcome of the stages before it a stage runs (Y-4). A stage that does not run is skipped.
enum class When : std::uint8_t {
  kSuccess,  // All that it needs has succeeded; otherwise it is cancelled.
  kFailure,  // All that it needs has ended, and a part of it has not succeeded.
  kAlways,   // All that it needs has ended.
};
ROTA_ENUM_NAMES(When, kAlways, "success", "failure", "always")

// Of a stage that it needs, a task waits only for the tasks that have the same values of these matrix names (Y-3).
struct ItemNeed {
  std::uint32_t stage = 0;  // One of Stage::needs.
  std::vector<std::string> names{};
  ROTA_FIELDS(stage, names)
  friend auto operator<=>(const ItemNeed&, const ItemNeed&) = default;
};

// A list of a matrix whose items are not known when the workflow is submitted.
struct MatrixList {
  std::string name{};
  std::string values{};  // A JSON array; or one reference to such a value: `${list.result.items}`.
  ROTA_FIELDS(name, values)
  friend auto operator<=>(const MatrixList&, const MatrixList&) = default;

  [[nodiscard]] bool is_reference() const { return values.starts_with("${"); }
};

// A matrix whose items are created when the results that it names are known (Y-2).
struct FanOut {
  std::vector<MatrixList> lists{};
  std::vector<std::string> include{};  // JSON objects; see model/matrix.h.
  std::vector<std::string> exclude{};
  ROTA_FIELDS(lists, include, exclude)
  friend auto operator<=>(const FanOut&, const FanOut&) = default;

  // The names that its items have.
  [[nodiscard]] std::vector<std::string> names() const;
};

struct Stage {
  std::string name{};
  std::int64_t use = 0;                // The index of its template.
  std::vector<std::uint32_t> needs{};  // Indices of stages, in any order; later ones are allowed, cycles are not.
  // One task per item; an item is a JSON object, `${matrix.key}` in the specification. Empty: one task without data.
  std::vector<std::string> items{};
  std::int64_t priority = 0;  // Added to the workflow's.
  When when = When::kSuccess;
  // `finally`: it starts when all stages without this mark have ended, also if the workflow was cancelled. Its `when`
  // is about these; stages that it needs are marked, too, and it only waits for their end.
  bool finally = false;
  std::int64_t parallel = 0;     // At most so many of its tasks are ready or run at once; 0: any number (Y-5).
  std::vector<ItemNeed> each{};  // Those of its needs of which a task does not wait for all tasks.
  // The stage is one task until its items are known. `items` are empty until then: they are not submitted.
  std::optional<FanOut> fan_out{};
  std::vector<std::uint32_t> left_out{};  // Numbers of tasks that are skipped (Y-6). Sorted; not with `fan_out`.
  ROTA_FIELDS(name, use, needs, items, priority, when, finally, parallel, each, fan_out, left_out)
  friend auto operator<=>(const Stage&, const Stage&) = default;

  // It waits until the stages that it needs have ended, however they end.
  [[nodiscard]] bool waits_for_end() const { return finally || when != When::kSuccess; }
  // Its tasks have items: its result is the array of their results.
  [[nodiscard]] bool has_items() const { return fan_out.has_value() || !items.empty(); }
  // The names that its items have.
  [[nodiscard]] std::vector<std::string> item_names() const;
  [[nodiscard]] bool leaves_out(std::uint32_t number) const {
    return std::binary_search(left_out.begin(), left_out.end(), number);
  }
};

struct WorkflowSpec {
  std::string name{};
  std::string user{};
  std::int64_t priority = 0;
  std::vector<TaskTemplate> templates{};
  std::vector<Stage> stages{};
  std::int64_t deadline_ms = 0;  // From its submission or its latest retry; 0: none (Y-5).
  bool fail_fast = false;        // The first task that fails for good cancels the others.
  ROTA_FIELDS(name, user, priority, templates, stages, deadline_ms, fail_fast)
  friend auto operator<=>(const WorkflowSpec&, const WorkflowSpec&) = default;
};

// What each stage comes after, for people: its needs; for a stage of `finally` without any, the stages outside of
// `finally` that nothing else needs.
[[nodiscard]] std::vector<std::vector<std::uint32_t>> drawn_needs(const WorkflowSpec& spec);

}  // namespace rota::model
