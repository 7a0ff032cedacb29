// What is submitted and what registers: workflows, and the machines that run them.
//
// A workflow is a list of stages; a stage is one task, or one for each of its items. What the tasks of a stage have in
// common is in a template, which stages may share: a million tasks of one kind need one template. Tasks are merged
// (B-12) exactly if they have equal templates, whatever their workflow.
//
// All numbers are signed, so that a negative one can be refused by name instead of being taken for a huge one.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "model/enum_names.h"
#include "rota/model/fields.h"

namespace rota::model {

// A name and a value that somebody gave a machine: {"rack", "b7"}.
struct Label {
  std::string key;
  std::string value;
  ROTA_FIELDS(key, value)
  friend auto operator<=>(const Label&, const Label&) = default;
};

// `count` devices, each of this model (any, if empty) and with at least this much memory.
struct GpuNeed {
  std::int64_t count = 0;
  std::string model{};
  std::int64_t memory_bytes = 0;
  ROTA_FIELDS(count, model, memory_bytes)
  friend auto operator<=>(const GpuNeed&, const GpuNeed&) = default;
};

struct Requirements {
  std::int64_t cpu_millis = 1000;  // Thousandths of a core. 0 is allowed: a task that only waits.
  std::int64_t memory_bytes = 0;
  GpuNeed gpu{};
  std::string zone{};                       // Only there, if not empty.
  std::vector<std::string> capabilities{};  // All of these.
  std::vector<Label> labels{};              // All of these.
  ROTA_FIELDS(cpu_millis, memory_bytes, gpu, zone, capabilities, labels)
  friend auto operator<=>(const Requirements&, const Requirements&) = default;
};

// Which lambda weighs throughput against cost (B-9).
enum class Category : std::uint8_t { kOther, kInference, kTraining };
ROTA_ENUM_NAMES(Category, kTraining, "other", "inference", "training")

struct Retry {
  std::int64_t max_attempts = 3;
  std::int64_t backoff_ms = 0;  // Before the second attempt; then times the factor, up to the bound.
  std::int64_t backoff_factor_permille = 2000;
  std::int64_t backoff_most_ms = 300'000;
  // After an attempt that was killed for memory the next one asks for this much more, up to the largest worker; 0: as
  // much.
  std::int64_t memory_factor_permille = 0;
  ROTA_FIELDS(max_attempts, backoff_ms, backoff_factor_permille, backoff_most_ms, memory_factor_permille)
  friend auto operator<=>(const Retry&, const Retry&) = default;
};

struct TaskTemplate {
  std::string type{};  // "shell", "sft", "inference", ...: what a fixed pipeline goes by, and a handler's name.
  Category category = Category::kOther;
  // A JSON object for the worker; the brain looks only at the references `${...}` in its strings.
  std::string payload = "{}";
  Requirements needs{};
  Retry retry{};
  std::int64_t timeout_ms = 0;         // Of one attempt, kept by the worker; 0 is none.
  std::string condition{};             // The tasks are skipped if it is false; see reference.h.
  std::vector<std::string> context{};  // "model:llama-3", "dataset:c4": what the worker would rather have already.
  bool mergeable = false;
  bool preemptible = false;  // It can stop at a checkpoint and go on from it elsewhere.
  bool gang = false;         // All tasks of the stage start together, or none; never merged, sticky or excluded.
  std::string pinned{};      // Only this worker, by name, if not empty.
  ROTA_FIELDS(type, category, payload, needs, retry, timeout_ms, condition, context, mergeable, preemptible, gang,
              pinned)
  friend auto operator<=>(const TaskTemplate&, const TaskTemplate&) = default;
};

struct Stage {
  std::string name;
  std::int64_t use = 0;                // Which template.
  std::vector<std::uint32_t> needs{};  // Stages, by number, in any order: there may be later ones, but no cycle.
  // One task for each, with its own data: a JSON object, `${matrix.key}` in the payload. Empty: one task without data.
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

struct Gpu {
  std::string model{};
  std::int64_t memory_bytes = 0;
  ROTA_FIELDS(model, memory_bytes)
  friend auto operator<=>(const Gpu&, const Gpu&) = default;
};

// A worker as it describes itself. At most 64 devices.
struct WorkerSpec {
  std::string name{};
  std::int64_t cpu_millis = 1000;
  std::int64_t memory_bytes = 0;
  std::vector<Gpu> gpus{};
  std::string zone{};
  std::int64_t cost_microdollars_per_hour = 1'000'000;  // "1" where a worker says nothing.
  std::vector<std::string> capabilities{};
  std::vector<Label> labels{};
  ROTA_FIELDS(name, cpu_millis, memory_bytes, gpus, zone, cost_microdollars_per_hour, capabilities, labels)
  friend auto operator<=>(const WorkerSpec&, const WorkerSpec&) = default;
};

}  // namespace rota::model
