// Reads one stage: its part of the file becomes a template, its items and its references.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/workflow_spec.h"
#include "workflow/fields.h"
#include "workflow/params.h"
#include "workflow/values.h"

namespace rota::workflow {

inline constexpr std::int64_t kMostTasks = 1'000'000;        // In one workflow.
inline constexpr std::size_t kMostItemBytes = 256U << 20;    // Of all items of a workflow.
inline constexpr std::size_t kMostStageBytes = 1U << 20;     // Of the texts of one stage,
inline constexpr std::size_t kMostStagesBytes = 512U << 20;  // and of all stages together.
inline constexpr std::size_t kMostVariables = 1'000;         // In an environment.
inline constexpr std::size_t kMostLists = 32;                // In a matrix.
inline constexpr std::int64_t kMostPriority = 1'000'000'000;

struct EnvEntry {
  std::string name{};
  const Node* value = nullptr;
  model::SecretVariable secret{};  // Without a name: it is none, and `value` is a text.
};

// What `spec` says for all stages. A stage may override it key by key.
struct StageDefaults {
  model::Requirements needs{};
  std::string pinned{};
  model::Retry retry{};
  std::int64_t timeout_ms = 0;
  std::vector<EnvEntry> env{};
  const Node* dir = nullptr;
};

// Totals over all stages.
struct StageTotals {
  std::int64_t tasks = 0;
  std::size_t item_bytes = 0;
  std::size_t text_bytes = 0;  // Of all stages, counted as if no two shared a template.
};

struct StageSetting {
  std::string_view directory;  // The file's; what `dir` is relative to. May be empty.
  std::function<bool(std::string_view)> is_stage;
  const Params* params = nullptr;  // The values of the workflow's parameters.
};

// An item of `fetch`, and where it is written.
struct PlacedFetch {
  model::FetchSpec fetch{};
  Position at{};
};

struct StageDraft {
  std::string name{};
  Position at{};
  model::TaskTemplate use{};
  std::vector<std::string> items{};
  std::optional<model::FanOut> fan_out{};  // If a list of its matrix is a result.
  std::int64_t priority = 0;
  bool finally = false;  // It stands in `finally`.
  model::When when = model::When::kSuccess;
  const Node* when_at = nullptr;  // The value of `when`, if it is given.
  std::int64_t parallel = 0;      // How many of its tasks run at once; 0: any number.
  const Node* needs = nullptr;    // As written; null: the stage has no `needs`.
  std::vector<PlacedFetch> fetches{};
  std::vector<PlacedReference> references{};  // To stages. References to the matrix are already checked.
};

// The keys that `spec` and a stage have in common.
void read_common(Reading& reading, const Fields& fields, StageDefaults& io);
// The amounts of each kind: `cpu`, `memory`, ... (model::kAmountKinds).
void read_amounts(const Fields& fields, model::Amounts& io);
// `named: {licence: 2}`.
void read_named(Reading& reading, const Node& node, std::vector<model::NamedAmount>& io);
// `gpu: {count, type, memory}`.
void read_gpu(Reading& reading, const Node& node, model::DeviceRequest& io);

// REQUIRES: `draft` has its name, and `finally` is right.
void read_stage(Reading& reading, const Fields& fields, const StageDefaults& defaults, const StageSetting& setting,
                StageTotals& totals, StageDraft& draft);

}  // namespace rota::workflow
