// Building a flow: the arena, the layout, the pictures.
#include "rota/flow/flow.h"

#include <algorithm>

#include "flow/drawing.h"
#include "flow/slices.h"

namespace rota::flow {

namespace {
constexpr std::size_t kBlockBytes = std::size_t{64} << 10;
}

Flow::Flow() = default;

Flow::~Flow() {
  if (!to_destroy_) return;
  for (detail::FlowNode* node : nodes_) node->act(node, detail::NodeAction::kDestroy);
}

void* Flow::allocate_slow(std::size_t bytes, std::size_t alignment) {
  const std::size_t size = std::max(kBlockBytes, bytes + alignment);
  blocks_.emplace_back(new std::byte[size]);  // Not make_unique, which would clear it.
  free_ = reinterpret_cast<std::uintptr_t>(blocks_.back().get());
  end_ = free_ + size;
  return allocate(bytes, alignment);
}

Flow::Attributes& Flow::attributes(std::uint32_t index) {
  if (attributes_.size() < nodes_.size()) attributes_.resize(nodes_.size());
  prepared_ = false;
  return attributes_[index];
}

void Flow::limits(const ResourceBudget& budget, const AgingPolicy& aging) {
  budget_ = budget;
  aging_ = aging;
  prepared_ = false;
}

std::string Flow::label(std::uint32_t index) const {
  const auto at = names_.find(index);
  return at == names_.end() ? "task " + std::to_string(index) : at->second;
}

Result<void> Flow::prepare() {
  if (prepared_) return {};
  const std::size_t count = nodes_.size();
  starts_.assign(count + 1, 0);
  waits_.assign(count, 0);
  targets_.resize(edges_.size());
  bool forward = true;  // If every edge leads to a task that was added later, there is no cycle.
  for (const Edge& edge : edges_) {
    starts_[edge.from] += 1;
    waits_[edge.to] += 1;
    forward &= edge.from < edge.to;
  }
  // starts_[i] first holds the end of i's successors; filling from the back moves it to their beginning.
  std::uint32_t sum = 0;
  for (std::uint32_t& start : starts_) sum = start += sum;
  for (std::size_t e = edges_.size(); e-- > 0;) targets_[--starts_[edges_[e].from]] = edges_[e].to;
  if (!forward) ROTA_TRY(check_acyclic());
  if (!attributes_.empty()) {
    attributes_.resize(count);
    ROTA_TRY(graph::check(aging_));
    if (budget_.cpu_slots_hard != 0) ROTA_TRY(graph::check(budget_));
  }
  prepared_ = true;
  return {};
}

Result<void> Flow::check_acyclic() const {
  std::vector<std::uint32_t> waits = waits_;
  std::vector<std::uint32_t> placed;
  placed.reserve(nodes_.size());
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    if (waits[i] == 0) placed.push_back(i);
  }
  for (std::size_t k = 0; k < placed.size(); ++k) {
    for (std::uint32_t e = starts_[placed[k]]; e < starts_[placed[k] + 1]; ++e) {
      if (--waits[targets_[e]] == 0) placed.push_back(targets_[e]);
    }
  }
  if (placed.size() == nodes_.size()) return {};
  return cycle_error(waits);
}

// The tasks that are left are on a cycle or behind one. Each of them has a predecessor that is left, too, so a walk
// backwards must return.
Error Flow::cycle_error(std::span<const std::uint32_t> waits) const {
  std::vector<std::uint32_t> before(nodes_.size(), 0);
  for (const Edge& edge : edges_) {
    if (waits[edge.from] > 0 && waits[edge.to] > 0) before[edge.to] = edge.from;
  }
  std::uint32_t at = 0;
  while (waits[at] == 0) ++at;
  for (std::size_t i = 0; i < nodes_.size(); ++i) at = before[at];  // `at` is on the cycle itself now.
  std::vector<std::uint32_t> cycle{at};
  for (std::uint32_t i = before[at]; i != at; i = before[i]) cycle.push_back(i);
  std::string text = "a dependency cycle, in which no task could ever start: ";
  constexpr std::size_t kShown = 16;
  for (std::size_t i = std::min(cycle.size(), kShown); i-- > 0;) text += "'" + label(cycle[i]) + "' -> ";
  if (cycle.size() > kShown) text += "... (" + std::to_string(cycle.size() - kShown) + " more) -> ";
  text += "'" + label(cycle[std::min(cycle.size(), kShown) - 1]) + "'";
  return Error{ErrorCode::kInvalidArgument, std::move(text)}.with("reason", "cycle");
}

detail::Drawing Flow::drawing() const {
  detail::Drawing drawing;
  drawing.tasks.reserve(nodes_.size());
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    detail::Drawing::Task& task = drawing.tasks.emplace_back(detail::Drawing::Task{.name = label(i)});
    const Recorded* run = recorded(i);
    if (run == nullptr) continue;
    if (run->begin_ns < 0) {
      task.state = TaskState::kCancelled;
      continue;
    }
    task.state = run->succeeded ? TaskState::kSucceeded : TaskState::kFailed;
    task.run_ns = run->end_ns - run->begin_ns;
  }
  drawing.edges.reserve(edges_.size());
  for (const Edge& edge : edges_) drawing.edges.push_back({edge.from, edge.to});
  return drawing;
}

std::string Flow::graphviz() const { return detail::graphviz(drawing()); }
std::string Flow::mermaid() const { return detail::mermaid(drawing()); }

std::vector<std::string> Flow::critical_path() const {
  std::vector<std::string> names;
  for (const std::uint32_t i : detail::critical_path(drawing())) names.push_back(label(i));
  return names;
}

Result<void> Flow::write_trace(std::ostream& out) const {
  if (recorded_.empty()) {
    return Error{ErrorCode::kFailedPrecondition, "no run of this flow was recorded; call record() before run()"};
  }
  std::vector<detail::Slice> slices;
  for (std::uint32_t i = 0; i < recorded_.size(); ++i) {
    const Recorded& run = recorded_[i];
    if (run.begin_ns < 0) continue;
    slices.push_back({.task = i,
                      .worker = run.worker,
                      .state = run.succeeded ? TaskState::kSucceeded : TaskState::kFailed,
                      .begin_ns = run.begin_ns,
                      .end_ns = run.end_ns});
  }
  const auto name = [this](std::uint32_t task) { return label(task); };
  return detail::write_slices(slices, 0, recorded_workers_, name, out);
}

}  // namespace rota::flow
