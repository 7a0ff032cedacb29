#include "workflow/stage_files.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/json_text.h"
#include "model/reference.h"

namespace rota::workflow {
namespace {

constexpr std::size_t kMostPatterns = 1'000;
constexpr std::size_t kMostFetches = 1'000;

std::string in_quotes(std::string_view text) { return "'" + printable(text, 60) + "'"; }

// The items of a list, or the value itself.
std::vector<const Node*> items_of(const Reading& reading, const Node& node) {
  if (node.kind != Node::Kind::kList) return {&node};
  std::vector<const Node*> items;
  for (std::size_t i = 0; i < Document::size(node); ++i) items.push_back(&reading.document.item(node, i));
  return items;
}

// With something in the place of each reference, whose value is checked by the worker.
std::string without_references(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t at = text.find("${");
    const std::size_t end = at == std::string_view::npos ? at : text.find('}', at);
    if (end == std::string_view::npos) return out.append(text);
    out.append(text.substr(0, at)).push_back('x');
    text.remove_prefix(end + 1);
  }
  return out;
}

void read_output(Reading& reading, const Node& node, model::FilesSpec& files, StageDraft& draft) {
  if (node.kind != Node::Kind::kScalar || reading.text(node).empty()) {
    reading.wrong(node, "an item of outputs is " + reading.found(node) +
                            "; it must be the path of a file that the task makes, or a pattern like out/*.bin");
    return;
  }
  const std::string_view path = reading.text(node);
  if (!model::is_inside(without_references(path))) {
    reading.wrong(node, "the output " + in_quotes(path) +
                            " must be inside of the directory in which the task runs: a relative path without '.' "
                            "and '..'");
    return;
  }
  collect_references(reading, node, path, draft.references);
  files.outputs.emplace_back(path);
}

void read_fetch(Reading& reading, const Node& node, model::FilesSpec& files, StageDraft& draft) {
  model::FetchSpec fetch;
  const Node* named = &node;
  if (node.kind == Node::Kind::kMap) {
    const Fields fields(reading, node, keys().fetch);
    fields.text("stage", fetch.stage);
    named = reading.document.find(node, "stage");
    if (named == nullptr) {
      reading.wrong(node, "an item of fetch has no stage; write it like {stage: prepare, to: data}");
      return;
    }
    if (fields.text("to", fetch.to, 4096) &&
        (!model::is_inside(fetch.to) || fetch.to.find("${") != std::string::npos)) {
      reading.wrong(*fields.find("to"), "the folder " + in_quotes(fetch.to) +
                                            " must be inside of the directory in which the task runs: a relative path "
                                            "without '.', '..' and references");
      return;
    }
  } else if (node.kind == Node::Kind::kScalar && !reading.document.is_null(node)) {
    fetch.stage = reading.text(node);
  }
  if (fetch.stage.empty()) {
    if (node.kind != Node::Kind::kMap) {
      reading.wrong(node, "an item of fetch is " + reading.found(node) +
                              "; it must be the name of a stage, or a mapping with stage and to");
    }
    return;
  }
  // As of a reference, it is checked that the stage exists and that this one waits for it.
  draft.references.push_back({{.text = "fetch: " + fetch.stage, .root = fetch.stage}, named->at});
  draft.fetches.push_back({fetch, named->at});
  files.fetch.push_back(std::move(fetch));
}

// The values in it are those of one task.
bool is_of_one_task(std::string_view text) {
  return text.find("${matrix.") != std::string_view::npos || text.find("${task.index}") != std::string_view::npos ||
         text.find("${task.name}") != std::string_view::npos;
}

}  // namespace

std::size_t read_files(Reading& reading, const Fields& fields, std::string_view directory, StageDraft& draft) {
  const Node* outputs = fields.find("outputs");
  const Node* fetch = fields.find("fetch");
  if (outputs == nullptr && fetch == nullptr) return 0;
  model::FilesSpec files;
  if (outputs != nullptr) {
    for (const Node* node : items_of(reading, *outputs)) read_output(reading, *node, files, draft);
    if (files.outputs.size() > kMostPatterns) {
      reading.wrong(*outputs, "a stage has at most 1000 outputs; use patterns, or pack the files into fewer");
    }
  }
  if (fetch != nullptr) {
    for (const Node* node : items_of(reading, *fetch)) read_fetch(reading, *node, files, draft);
    if (files.fetch.size() > kMostFetches) reading.wrong(*fetch, "a stage fetches at most 1000 stages");
  }
  if (files.outputs.empty() && files.fetch.empty()) return 0;
  // The files of a program are where it runs; a handler has no such directory.
  if (!draft.use.spec.program) files.directory = directory;
  std::size_t bytes = files.directory.size();
  for (const std::string& path : files.outputs) bytes += path.size();
  draft.use.spec.files = std::move(files);
  return bytes;
}

void check_outputs(Reading& reading, const Fields& fields, const StageDraft& draft) {
  if (!draft.use.spec.files) return;
  const Node* outputs = fields.find("outputs");
  const Node* either = outputs != nullptr ? outputs : fields.find("fetch");
  if (draft.use.mergeable) {
    reading.wrong(*either,
                  "a stage has merge, or outputs and fetch, not both: tasks that run as one have no files of "
                  "their own");
  }
  if (outputs == nullptr || (draft.items.size() < 2 && !draft.fan_out)) return;
  for (const Node* node : items_of(reading, *outputs)) {
    if (node->kind != Node::Kind::kScalar || is_of_one_task(reading.text(*node))) continue;
    reading.wrong(*node, "the stage has several tasks, and all of them would store " + in_quotes(reading.text(*node)) +
                             "; make the names differ, for example with ${task.index} or a value of the matrix");
  }
}

void check_fetches(Problems& problems, const model::WorkflowSpec& spec, std::uint32_t stage,
                   const std::vector<PlacedFetch>& fetches) {
  std::map<std::string, std::string> from;  // Path to the stage that it comes from.
  for (const auto& [fetch, at] : fetches) {
    const auto found = std::find_if(spec.stages.begin(), spec.stages.end(),
                                    [&](const model::Stage& other) { return other.name == fetch.stage; });
    if (found == spec.stages.end() || &*found == &spec.stages[stage]) continue;  // Reported.
    const std::optional<model::FilesSpec>& files = spec.templates[static_cast<std::size_t>(found->use)].spec.files;
    if (!files || files->outputs.empty()) {
      problems.add(at, "fetches the stage " + in_quotes(fetch.stage) +
                           ", which stores no files; give that stage outputs: [...]");
      continue;
    }
    for (const std::string& output : files->outputs) {
      if (output.find_first_of("*?[$") != std::string::npos) continue;  // Known when it runs.
      const std::string path = fetch.to.empty() ? output : fetch.to + (fetch.to.ends_with('/') ? "" : "/") + output;
      const auto [first, added] = from.try_emplace(path, fetch.stage);
      if (added || first->second == fetch.stage) continue;
      problems.add(at, "fetches " + in_quotes(path) + " from the stages " + in_quotes(first->second) + " and " +
                           in_quotes(fetch.stage) + "; put one of them into a folder: {stage: " + fetch.stage +
                           ", to: FOLDER}");
    }
  }
}

}  // namespace rota::workflow
