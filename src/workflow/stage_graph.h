// Who waits for whom: `needs` as numbers, no cycle, and no reference to a stage that need not have ended.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "workflow/fields.h"
#include "workflow/stage.h"

namespace rota::workflow {

// The stages by name, in the order of the file.
class StageNames {
 public:
  // The number of an earlier stage of this name, or nothing after having added it.
  std::optional<std::uint32_t> add(std::string name);
  [[nodiscard]] std::optional<std::uint32_t> find(std::string_view name) const;
  [[nodiscard]] const std::vector<std::string>& all() const { return names_; }
  // "; did you mean 'x'?", or the first few names if none is near. After much searching it says nothing any more, so
  // that a file full of mistakes costs no more than a second.
  [[nodiscard]] std::string suggest(std::string_view name) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
  };
  std::vector<std::string> names_{};
  mutable std::size_t patience_ = 200'000;  // Names that may still be compared.
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> numbers_{};
};

// Where a stage stands in the file.
struct StagePlace {
  std::uint32_t number = 0;
  bool in_order = false;           // It is in a list, and without `needs` it needs the one before it.
  bool first = false;              // There is none before it.
  std::uint32_t finally_from = 0;  // The stages from this number on are those of `finally`.
  [[nodiscard]] bool in_finally(std::uint32_t stage) const { return stage >= finally_from; }
};
// `each` of one of the needs of a stage, and where it is written.
struct PlacedItemNeed {
  model::ItemNeed need{};
  Position at{};
};
struct Needs {
  std::vector<std::uint32_t> stages{};  // Sorted.
  std::vector<PlacedItemNeed> each{};   // By stage.
};
[[nodiscard]] Needs read_needs(Reading& reading, const StageDraft& draft, const StagePlace& place,
                               const StageNames& names);

// Reports `each` with names that one of the two stages does not have, and tasks without a counterpart (Y-3).
void check_item_needs(Problems& problems, const model::WorkflowSpec& spec, std::uint32_t stage,
                      const std::vector<PlacedItemNeed>& needs);

struct GraphNode {
  std::string_view name;
  Position at{};
  const std::vector<std::uint32_t>* needs = nullptr;
  const std::vector<PlacedReference>* references = nullptr;
  bool finally = false;
  const std::vector<model::ItemNeed>* each = nullptr;  // Those of its needs that are by item; null: none.
};
// Reports cycles, and references that are not to a stage among those that a stage needs, directly or not. A stage that
// is reached by item only (Y-3) must be named in the needs: otherwise the reference would wait for all of its tasks.
void check_graph(Problems& problems, const std::vector<GraphNode>& stages, const StageNames& names);

}  // namespace rota::workflow
