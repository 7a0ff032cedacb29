// Who waits for whom. See workflow/stage_graph.h.
#include "workflow/stage_graph.h"

#include <algorithm>
#include <set>

#include "base/json_text.h"

namespace rota::workflow {
namespace {

constexpr std::size_t kMostShown = 8;
constexpr std::uint32_t kNone = ~std::uint32_t{0};
constexpr std::uint64_t kMostSteps = 50'000'000;  // Of all searches together; a second or so.

std::string quoted(std::string_view name) { return "'" + printable(name, 40) + "'"; }

class GraphCheck {
 public:
  GraphCheck(Problems& problems, const std::vector<GraphNode>& stages, const StageNames& names)
      : problems_(problems), stages_(stages), names_(names) {}

  void run() {
    sort();
    if (order_.size() < stages_.size()) {
      report_cycles();
      return;  // Behind a cycle nothing can be said about what comes before what.
    }
    make_chains();
    seen_.resize(chain_head_.size(), 0);
    for (std::uint32_t stage = 0; stage < stages_.size(); ++stage) {
      for (const PlacedReference& placed : *stages_[stage].references) check(stage, placed);
    }
  }

 private:
  [[nodiscard]] const std::vector<std::uint32_t>& needs(std::uint32_t stage) const { return *stages_[stage].needs; }

  // Stages in an order in which each comes after what it needs, as far as there is one.
  void sort() {
    std::vector<std::uint32_t> missing(stages_.size());
    std::vector<std::uint32_t> first(stages_.size() + 1);  // The successors of s are next[first[s]..first[s + 1]].
    for (std::uint32_t s = 0; s < stages_.size(); ++s) {
      missing[s] = static_cast<std::uint32_t>(needs(s).size());
      for (const std::uint32_t need : needs(s)) ++first[need + 1];
    }
    for (std::size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
    std::vector<std::uint32_t> next(first.back());
    std::vector<std::uint32_t> fill(first.begin(), first.end() - 1);
    for (std::uint32_t s = 0; s < stages_.size(); ++s) {
      for (const std::uint32_t need : needs(s)) next[fill[need]++] = s;
    }
    order_.reserve(stages_.size());
    for (std::uint32_t s = 0; s < stages_.size(); ++s) {
      if (missing[s] == 0) order_.push_back(s);
    }
    for (std::size_t i = 0; i < order_.size(); ++i) {
      for (std::uint32_t n = first[order_[i]]; n < first[order_[i] + 1]; ++n) {
        if (--missing[next[n]] == 0) order_.push_back(next[n]);
      }
    }
    sorted_.assign(stages_.size(), false);
    for (const std::uint32_t s : order_) sorted_[s] = true;
  }

  // One cycle of each group of stages that all wait for each other.
  void report_cycles() {
    find_groups();
    std::vector<bool> reported(stages_.size());
    std::size_t cycles = 0;
    for (std::uint32_t s = 0; s < stages_.size() && cycles < Problems::kMostProblems; ++s) {
      if (sorted_[s] || reported[group_[s]] || need_in_group(s) == kNone) continue;
      reported[group_[s]] = true;
      ++cycles;
      report_cycle(s);
    }
  }

  // Strongly connected components after Tarjan, with a stack of its own: a workflow may be as deep as it is long.
  // low_[s] is the earliest stage still open that s is known to reach.
  void find_groups() {
    struct Visit {
      std::uint32_t stage;
      std::size_t next = 0;  // Of its needs.
    };
    group_.assign(stages_.size(), kNone);
    std::vector<std::uint32_t> number(stages_.size(), kNone), low(stages_.size()), open;
    std::vector<Visit> path;
    std::uint32_t count = 0;
    for (std::uint32_t start = 0; start < stages_.size(); ++start) {
      if (sorted_[start] || number[start] != kNone) continue;
      path.push_back({start});
      while (!path.empty()) {
        const std::uint32_t s = path.back().stage;
        if (path.back().next == 0) {
          number[s] = low[s] = count++;
          open.push_back(s);
        }
        bool deeper = false;
        while (path.back().next < needs(s).size() && !deeper) {
          const std::uint32_t need = needs(s)[path.back().next++];
          if (number[need] == kNone && !sorted_[need]) {
            path.push_back({need});
            deeper = true;
          } else if (!sorted_[need] && group_[need] == kNone) {
            low[s] = std::min(low[s], number[need]);
          }
        }
        if (deeper) continue;
        if (low[s] == number[s]) {
          std::uint32_t last = kNone;
          while (last != s) {
            last = open.back();
            open.pop_back();
            group_[last] = s;
          }
        }
        path.pop_back();
        if (!path.empty()) low[path.back().stage] = std::min(low[path.back().stage], low[s]);
      }
    }
  }
  // Following these from any stage of a group with a cycle leads round one.
  [[nodiscard]] std::uint32_t need_in_group(std::uint32_t stage) const {
    const auto found = std::find_if(needs(stage).begin(), needs(stage).end(),
                                    [&](std::uint32_t need) { return group_[need] == group_[stage]; });
    return found == needs(stage).end() ? kNone : *found;
  }
  void report_cycle(std::uint32_t start) {
    std::vector<bool> seen(stages_.size());
    while (!seen[start]) {  // The way there may lead past stages that are not on it.
      seen[start] = true;
      start = need_in_group(start);
    }
    std::string text = quoted(stages_[start].name);
    std::size_t size = 1;
    std::uint32_t first = start;  // In the file.
    for (std::uint32_t at = need_in_group(start); at != start; at = need_in_group(at)) {
      first = std::min(first, at);
      if (++size <= kMostShown) text.append(", which needs ").append(quoted(stages_[at].name));
    }
    if (size > kMostShown) text.append(", and so on over ").append(std::to_string(size)).append(" stages");
    text.append(", which needs ").append(quoted(stages_[start].name)).append(" again");
    problems_.add(stages_[first].at, "the stages wait for each other: " + text);
  }

  // A chain is a run of stages each of which needs the one before it and nothing else. To reach one is to reach all
  // before it in its chain, so that searches go from chain to chain: the usual workflow is one chain.
  void make_chains() {
    chain_.resize(stages_.size());
    place_.resize(stages_.size());
    std::vector<bool> continued(stages_.size());
    for (const std::uint32_t s : order_) {
      const bool goes_on = needs(s).size() == 1 && !continued[needs(s).front()];
      if (goes_on) {
        const std::uint32_t before = needs(s).front();
        continued[before] = true;
        chain_[s] = chain_[before];
        place_[s] = place_[before] + 1;
      } else {
        chain_[s] = static_cast<std::uint32_t>(chain_head_.size());
        chain_head_.push_back(s);
      }
    }
  }

  // Is `target` among what `stage` needs, directly or not?
  bool reaches(std::uint32_t stage, std::uint32_t target) {
    ++search_;
    stack_.clear();
    const auto visit = [&](std::uint32_t s) {
      if (chain_[s] == chain_[target] && place_[s] >= place_[target]) return true;
      // Whatever its place, it comes to the head of its chain: once is enough.
      if (seen_[chain_[s]] != search_) {
        seen_[chain_[s]] = search_;
        stack_.push_back(chain_head_[chain_[s]]);
      }
      return false;
    };
    for (const std::uint32_t need : needs(stage)) {
      if (visit(need)) return true;
    }
    while (!stack_.empty()) {
      const std::uint32_t head = stack_.back();
      stack_.pop_back();
      steps_ += 1 + needs(head).size();
      if (steps_ > kMostSteps) return false;
      for (const std::uint32_t need : needs(head)) {
        if (visit(need)) return true;
      }
    }
    return false;
  }

  // Does `stage` need `target` directly, or wait for all tasks of a stage that needs it? If it is reached only by item,
  // from stage to stage, it does not. REQUIRES: reaches(stage, target).
  bool waits_for_all(std::uint32_t stage, std::uint32_t target) {
    if (stages_[stage].each == nullptr || stages_[stage].each->empty()) return true;
    if (std::find(needs(stage).begin(), needs(stage).end(), target) != needs(stage).end()) return true;
    std::vector<std::uint32_t> open{stage};
    std::set<std::uint32_t> seen{stage};
    while (!open.empty()) {
      const std::uint32_t s = open.back();
      open.pop_back();
      const std::vector<model::ItemNeed>* each = stages_[s].each;
      for (const std::uint32_t need : needs(s)) {
        const bool by_item =
            each != nullptr &&
            std::any_of(each->begin(), each->end(), [&](const model::ItemNeed& item) { return item.stage == need; });
        if (!by_item && (need == target || reaches(need, target))) return true;
        if (by_item && seen.insert(need).second) open.push_back(need);
      }
    }
    return false;
  }

  void check(std::uint32_t stage, const PlacedReference& placed) {
    const std::string_view root = placed.reference.root;
    const std::string text = "'" + printable(placed.reference.text, 60) + "' ";
    const std::optional<std::uint32_t> target = names_.find(root);
    if (!target) {
      problems_.add(placed.at,
                    text + "refers to a stage " + quoted(root) + " that does not exist" + names_.suggest(root));
    } else if (*target == stage) {
      problems_.add(placed.at, text + "refers to its own stage; ${task.checkpoint} is what an earlier attempt left");
    } else if (stages_[stage].finally && !stages_[*target].finally) {
      return;  // When it starts, all stages outside of finally have ended.
    } else if (stages_[*target].finally && !stages_[stage].finally) {
      problems_.add(placed.at, text + "refers to the stage " + quoted(root) + " of finally, which runs after " +
                                   quoted(stages_[stage].name));
    } else if (reaches(stage, *target)) {
      if (!waits_for_all(stage, *target)) {
        const std::string name = printable(stages_[*target].name, 40);
        problems_.add(placed.at, text + "refers to the stage " + quoted(root) + ", of which " +
                                     quoted(stages_[stage].name) +
                                     " waits by item only; add to its needs {stage: " + name +
                                     ", each: [...]} for the task with the same values, or " + name + " for all tasks");
      }
      return;
    } else if (steps_ > kMostSteps) {
      problems_.add(placed.at, text + "refers to the stage " + quoted(root) +
                                   " by so many ways that it was not found; add " + std::string(root) +
                                   " to the needs of " + quoted(stages_[stage].name));
    } else if (reaches(*target, stage)) {
      problems_.add(placed.at, text + "refers to the stage " + quoted(root) + ", which itself waits for " +
                                   quoted(stages_[stage].name));
    } else {
      problems_.add(placed.at, text + "refers to the stage " + quoted(root) + ", which " + quoted(stages_[stage].name) +
                                   " does not wait for; add " + std::string(root) + " to its needs");
    }
  }

  Problems& problems_;
  const std::vector<GraphNode>& stages_;
  const StageNames& names_;
  std::vector<std::uint32_t> order_{};
  std::vector<bool> sorted_{};
  std::vector<std::uint32_t> group_{};       // Stages that all wait for each other have the same.
  std::vector<std::uint32_t> chain_{};       // Of each stage,
  std::vector<std::uint32_t> place_{};       // and where in it.
  std::vector<std::uint32_t> chain_head_{};  // The first stage of each chain.
  std::vector<std::uint32_t> seen_{};        // By which search a chain was seen.
  std::vector<std::uint32_t> stack_{};
  std::uint32_t search_ = 0;
  std::uint64_t steps_ = 0;
};

}  // namespace

std::optional<std::uint32_t> StageNames::add(std::string name) {
  const auto number = static_cast<std::uint32_t>(names_.size());
  const auto [found, added] = numbers_.try_emplace(name, number);
  names_.push_back(std::move(name));
  if (!added) return found->second;
  return std::nullopt;
}

std::optional<std::uint32_t> StageNames::find(std::string_view name) const {
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) return std::nullopt;
  return found->second;
}

std::string StageNames::suggest(std::string_view name) const {
  if (names_.size() > patience_) return "";
  patience_ -= names_.size();
  if (std::string near = did_you_mean(name, names_); !near.empty()) return near;
  std::string out = "; the stages are: ";
  std::size_t shown = 0;
  for (const std::string& each : names_) {
    if (!model::is_reference_name(each)) continue;  // A stage without a valid name.
    out.append(shown == 0 ? "" : ", ").append(each);
    if (++shown == kMostShown) break;
  }
  if (names_.size() > kMostShown) out.append(", ...");
  return out;
}

void check_graph(Problems& problems, const std::vector<GraphNode>& stages, const StageNames& names) {
  GraphCheck(problems, stages, names).run();
}

}  // namespace rota::workflow
