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

// The `needs` of one stage, sorted. Without any it needs the one before it if `in_order`.
[[nodiscard]] std::vector<std::uint32_t> read_needs(Reading& reading, const StageDraft& draft, std::uint32_t number,
                                                    bool in_order, const StageNames& names);

struct GraphNode {
  std::string_view name;
  Position at{};
  const std::vector<std::uint32_t>* needs = nullptr;
  const std::vector<PlacedReference>* references = nullptr;
};
// Reports cycles, and references that are not to a stage among those that a stage needs, directly or not.
void check_graph(Problems& problems, const std::vector<GraphNode>& stages, const StageNames& names);

}  // namespace rota::workflow
