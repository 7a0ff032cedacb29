// Reading a workflow file: names first, then stages, then who waits for whom. See workflow/workflow.h.
#include "workflow/workflow.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <unordered_map>
#include <utility>

#include "base/json_text.h"
#include "model/codec.h"
#include "workflow/expand.h"
#include "workflow/stage.h"
#include "workflow/stage_files.h"
#include "workflow/stage_graph.h"

namespace rota::workflow {
namespace {

constexpr std::size_t kMostNameBytes = 128;

// Equal templates become one.
class Templates {
 public:
  explicit Templates(std::vector<model::TaskTemplate>& all) : all_(all) {}
  std::int64_t number(model::TaskTemplate&& use) {
    const std::uint64_t hash = model::hash_fields(use).low;
    const auto [first, last] = known_.equal_range(hash);
    for (auto it = first; it != last; ++it) {
      if (all_[it->second] == use) return static_cast<std::int64_t>(it->second);
    }
    known_.emplace(hash, all_.size());
    all_.push_back(std::move(use));
    return static_cast<std::int64_t>(all_.size()) - 1;
  }

 private:
  std::vector<model::TaskTemplate>& all_;
  std::unordered_multimap<std::uint64_t, std::size_t> known_{};
};

class WorkflowReader {
 public:
  WorkflowReader(const Source& source, const Document& document, const Params& params, Problems& problems,
                 WorkflowFile& out)
      : source_(source), params_(params), reading_{document, problems}, out_(out) {}

  void run() {
    const Node& root = reading_.document.root();
    const Fields file(reading_, root, keys().workflow);
    if (root.kind != Node::Kind::kMap) return;
    version(file);
    name(file);
    const Node* spec = file.map("spec");
    if (spec == nullptr) {
      if (reading_.document.find(root, "spec") == nullptr)
        reading_.wrong(root, "spec is missing; it lists the stages to run");
      return;
    }
    const Fields fields(reading_, *spec, keys().spec);
    fields.integer("priority", -kMostPriority, kMostPriority, out_.spec.priority);
    fields.duration_ms("deadline", out_.spec.deadline_ms);
    fields.boolean("fail_fast", out_.spec.fail_fast);
    StageDefaults defaults;
    read_common(reading_, fields, defaults);
    if (!find_stages(fields)) return;
    for (const Entry& entry : entries_) add_name(entry);
    read_stages(defaults);
    link();
  }

 private:
  // A stage as it stands in the file.
  struct Entry {
    const Node* key = nullptr;  // Its name in a graph; null in a list.
    const Node* body = nullptr;
    bool in_order = false;
  };

  void version(const Fields& file) {
    const Node* node = reading_.document.find(file.node(), "apiVersion");
    if (node == nullptr) {
      reading_.wrong(file.node(), "apiVersion is missing; write apiVersion: rota/v1");
    } else if (node->kind != Node::Kind::kScalar || reading_.text(*node) != kApiVersion) {
      reading_.wrong(*node, "apiVersion is " + reading_.found(*node) + "; this version of Rota reads rota/v1");
    }
    const Node* kind = file.find("kind");
    if (kind != nullptr && (kind->kind != Node::Kind::kScalar || reading_.text(*kind) != "Workflow")) {
      reading_.wrong(*kind, "kind is " + reading_.found(*kind) + "; it must be Workflow, or be left out");
    }
  }

  void name(const Fields& file) {
    out_.spec.name = std::filesystem::path(source_.path).stem().string();
    if (out_.spec.name.empty()) out_.spec.name = "workflow";
    const Node* metadata = file.map("metadata");
    if (metadata == nullptr) return;
    const Fields fields(reading_, *metadata, keys().metadata);
    std::string name;
    if (!fields.text("name", name)) return;
    if (printable(name, name.size()) != name) {
      reading_.wrong(*fields.find("name"), "the name contains characters that cannot be printed");
    }
    out_.spec.name = std::move(name);
  }

  bool find_stages(const Fields& spec) {
    const Node* stages = spec.find("stages");
    const Node* graph = spec.find("graph");
    if ((stages == nullptr) == (graph == nullptr)) {
      reading_.wrong(graph != nullptr ? *graph : spec.node(),
                     graph != nullptr ? "spec has stages or graph, not both"
                                      : "spec has neither stages (a list, in order) nor graph (a mapping of names)");
      return false;
    }
    const bool in_order = stages != nullptr;
    const Node& all = in_order ? *stages : *graph;
    if (all.kind != (in_order ? Node::Kind::kList : Node::Kind::kMap) || Document::size(all) == 0) {
      reading_.wrong(all, std::string(in_order ? "stages" : "graph") + " is " + empty_or_found(all) +
                              "; it must be a " + (in_order ? "list of stages" : "mapping of names to stages"));
      return false;
    }
    add_entries(all);
    finally_from_ = static_cast<std::uint32_t>(entries_.size());
    const Node* last = reading_.document.find(spec.node(), "finally");
    if (last == nullptr) return true;
    if (last->kind == Node::Kind::kScalar || Document::size(*last) == 0) {
      reading_.wrong(*last, "finally is " + empty_or_found(*last) +
                                "; it must be a list of stages or a mapping of names to stages");
    } else {
      add_entries(*last);
    }
    return true;
  }
  [[nodiscard]] std::string empty_or_found(const Node& node) const {
    return node.kind != Node::Kind::kScalar && Document::size(node) == 0 ? "empty" : reading_.found(node);
  }
  // A list of stages, or a mapping of names to stages.
  void add_entries(const Node& all) {
    for (std::size_t i = 0; i < Document::size(all); ++i) {
      if (all.kind == Node::Kind::kList) {
        entries_.push_back({nullptr, &reading_.document.item(all, i), true});
      } else {
        entries_.push_back({&reading_.document.key(all, i), &reading_.document.value(all, i), false});
      }
    }
  }

  // Names come first: a command can be understood only if it is known which stages there are.
  void add_name(const Entry& entry) {
    const Node* node = entry.key != nullptr ? entry.key : reading_.document.find(*entry.body, "name");
    std::string name;
    if (node == nullptr) {
      if (entry.body->kind == Node::Kind::kMap) reading_.wrong(*entry.body, "the stage has no name");
    } else if (node->kind != Node::Kind::kScalar || !model::is_reference_name(reading_.text(*node)) ||
               reading_.text(*node).size() > kMostNameBytes) {
      reading_.wrong(*node, "the name of the stage is " + reading_.found(*node) +
                                "; it must be made of letters, digits, _ and -, and have at most 128 of them");
    } else if (model::is_reserved_root(reading_.text(*node)) || reading_.text(*node) == "params") {
      reading_.wrong(*node, "no stage can be called " + std::string(reading_.text(*node)) +
                                ": in references this word means something else");
    } else {
      name = std::string(reading_.text(*node));
    }
    const Position at = node != nullptr ? node->at : entry.body->at;
    out_.stages.push_back(at);
    if (name.empty()) name = "(stage " + std::to_string(out_.stages.size()) + ")";  // Nothing can refer to it.
    if (const auto first = names_.add(name)) {
      reading_.problems.add(
          at, "the name '" + name + "' is taken by the stage in line " + std::to_string(out_.stages[*first].line));
    }
  }

  void read_stages(const StageDefaults& defaults) {
    const StageSetting setting{source_.directory,
                               [this](std::string_view name) { return names_.find(name).has_value(); }, &params_};
    StageTotals totals;
    Templates templates(out_.spec.templates);
    out_.spec.stages.reserve(entries_.size());
    references_.reserve(entries_.size());
    for (std::uint32_t i = 0; i < entries_.size(); ++i) {
      StageDraft draft;
      draft.name = names_.all()[i];
      draft.at = out_.stages[i];
      draft.finally = i >= finally_from_;
      const Fields fields(reading_, *entries_[i].body, entries_[i].in_order ? keys().stage : keys().graph_stage);
      if (entries_[i].body->kind == Node::Kind::kMap) {
        read_stage(reading_, fields, defaults, setting, totals, draft);
      }
      const StagePlace place{i, entries_[i].in_order, i == 0 || i == finally_from_, finally_from_};
      model::Stage& stage = out_.spec.stages.emplace_back();
      Needs needs = read_needs(reading_, draft, place, names_);
      stage = {.name = draft.name,
               .use = templates.number(std::move(draft.use)),
               .needs = std::move(needs.stages),
               .items = std::move(draft.items),
               .priority = draft.priority,
               .when = draft.when,
               .finally = draft.finally,
               .parallel = draft.parallel,
               .fan_out = std::move(draft.fan_out)};
      for (const PlacedItemNeed& each : needs.each) stage.each.push_back(each.need);
      item_needs_.push_back(std::move(needs.each));
      if (stage.needs.empty() && draft.when != model::When::kSuccess && !draft.finally) {
        reading_.wrong(*draft.when_at,
                       "when is about the stages that a stage needs, and this one needs none; add needs, "
                       "or put the stage into finally");
      }
      references_.push_back(std::move(draft.references));
      if (!draft.fetches.empty()) fetches_.emplace_back(i, std::move(draft.fetches));
      if (totals.text_bytes > kMostStagesBytes || totals.item_bytes > kMostItemBytes) break;  // Reported.
    }
  }

  void link() {
    if (out_.spec.stages.size() < entries_.size()) return;
    std::vector<GraphNode> nodes;
    nodes.reserve(entries_.size());
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const model::Stage& stage = out_.spec.stages[i];
      nodes.push_back({stage.name, out_.stages[i], &stage.needs, &references_[i], stage.finally, &stage.each});
    }
    check_graph(reading_.problems, nodes, names_);
    for (std::uint32_t s = 0; s < item_needs_.size(); ++s) {
      if (!item_needs_[s].empty()) check_item_needs(reading_.problems, out_.spec, s, item_needs_[s]);
    }
    for (const auto& [stage, fetches] : fetches_) check_fetches(reading_.problems, out_.spec, stage, fetches);
  }

  const Source& source_;
  const Params& params_;
  Reading reading_;
  WorkflowFile& out_;
  std::uint32_t finally_from_ = 0;  // The entries from this one on are those of `finally`.
  std::vector<Entry> entries_{};
  StageNames names_{};
  std::vector<std::vector<PlacedItemNeed>> item_needs_{};                      // By stage.
  std::vector<std::pair<std::uint32_t, std::vector<PlacedFetch>>> fetches_{};  // Of the stages that have any.
  std::vector<std::vector<PlacedReference>> references_{};
};

}  // namespace

WorkflowFile read_workflow(const Source& source) {
  WorkflowFile out;
  Problems problems;
  if (const std::optional<Document> document = Document::read(source.text, problems)) {
    Params params;
    if (may_expand(source)) {
      const std::optional<Document> expanded = expand(source, *document, problems, params);
      if (expanded) WorkflowReader(source, *expanded, params, problems, out).run();
    } else {
      WorkflowReader(source, *document, params, problems, out).run();
    }
  }
  out.problems = problems.take();
  return out;
}

Result<Source> read_source(const std::string& path) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) {
    return Error{ErrorCode::kInvalidArgument, path + " is a directory; name a file"}.with("path", path);
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) return Error{ErrorCode::kNotFound, "the file " + path + " cannot be opened"}.with("path", path);
  std::string text;
  std::string block(std::size_t{1} << 16, '\0');
  while (in.good() && text.size() <= (std::size_t{16} << 20)) {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    text.append(block, 0, static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad()) return Error{ErrorCode::kIoError, "the file " + path + " cannot be read"}.with("path", path);
  if (text.size() > (std::size_t{16} << 20)) {
    return Error{ErrorCode::kTooLarge, "the file " + path + " has more than 16 MiB"}.with("path", path);
  }
  // Where the file is named, not where a link to it leads; but without links on the way, which may move.
  const std::filesystem::path directory = std::filesystem::canonical(
      std::filesystem::path(path).has_parent_path() ? std::filesystem::path(path).parent_path() : ".", code);
  return Source{.path = path,
                .text = std::move(text),
                .directory = code ? std::string{} : directory.string(),
                .reads_files = true};
}

}  // namespace rota::workflow
