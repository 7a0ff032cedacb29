#include "fleet/input_files.h"

#include <algorithm>
#include <utility>

#include "base/json_text.h"

namespace rota::fleet {

namespace {

// Of the files of a task, so many of the largest count for placement: it compares how many of them a worker has.
constexpr std::size_t kMostItems = 16;
constexpr std::size_t kMostLookedAt = 1'000;  // A decision must not cost more with every further file.

// f(file, to) for each file that the task fetches, until it returns false.
template <class F>
void each_input(const State& state, TaskId id, F&& f) {
  const Workflow& workflow = state.at(id.workflow());
  const Task& task = workflow.tasks[id.index()];
  const TaskSpec& spec = workflow.template_of(task).spec;
  if (!spec.files) return;
  for (const model::FetchSpec& fetch : spec.files->fetch) {
    const graph::TaskRef ref = workflow.dag.find(fetch.stage);
    if (ref.is_none()) continue;  // Refused when the workflow was submitted.
    const std::uint32_t source = ref.value() - 1;
    const StageState& from = workflow.stages[source];
    const auto each_of = [&](std::uint32_t t) {
      const TaskExtra* extra = workflow.tasks[t].extra.get();
      if (extra == nullptr || workflow.tasks[t].state != TaskState::kSucceeded) return true;
      return std::all_of(extra->outputs.begin(), extra->outputs.end(),
                         [&](const model::StoredFile& file) { return f(file, fetch.to); });
    };
    const std::uint32_t number = workflow.stages[task.stage].number(id.index());
    if (const ItemLink* link = workflow.link_of(task.stage, source); link != nullptr) {
      if (!link->resolved || link->child_group[number] == ItemLink::kNoGroup) continue;
      for (const std::uint32_t i : link->groups[link->child_group[number]].parents) {
        if (!each_of(from.task(i))) return;
      }
    } else {
      for (std::uint32_t i = 0; i < from.count; ++i) {
        if (!each_of(from.task(i))) return;
      }
    }
  }
}

std::vector<std::string> largest(std::vector<const model::StoredFile*> files) {
  const auto before = [](const model::StoredFile* a, const model::StoredFile* b) {
    return a->bytes != b->bytes ? a->bytes > b->bytes : a->sha256 < b->sha256;
  };
  std::sort(files.begin(), files.end(), before);
  std::vector<std::string> items;
  for (const model::StoredFile* file : files) {
    std::string item = "file:" + file->sha256;
    if (!items.empty() && items.back() == item) continue;
    items.push_back(std::move(item));
    if (items.size() == kMostItems) break;
  }
  std::sort(items.begin(), items.end());
  return items;
}

}  // namespace

Result<std::vector<model::StoredFile>> input_files(const State& state, TaskId id) {
  std::vector<model::StoredFile> files;
  each_input(state, id, [&](const model::StoredFile& file, const std::string& to) {
    files.push_back(file);
    if (!to.empty()) files.back().path.insert(0, to.ends_with('/') ? to : to + "/");
    return files.size() <= model::kMostFetchedFiles;
  });
  if (files.size() > model::kMostFetchedFiles) {
    return Error{ErrorCode::kTooLarge, "fetch: more than " + std::to_string(model::kMostFetchedFiles) +
                                           " files; pack them into fewer files in the stages that make them"};
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  const auto same = [](const model::StoredFile& a, const model::StoredFile& b) { return a.path == b.path; };
  if (const auto twice = std::adjacent_find(files.begin(), files.end(), same); twice != files.end()) {
    return Error{ErrorCode::kAlreadyExists,
                 "fetch: two different files would get the path '" + printable(twice->path, 200) +
                     "'; give them different names in outputs, for example with ${task.index}, or different folders "
                     "with fetch: [{stage: ..., to: ...}]"};
  }
  return files;
}

std::vector<std::string> file_items(const std::vector<model::StoredFile>& files) {
  std::vector<const model::StoredFile*> all;
  all.reserve(files.size());
  for (const model::StoredFile& file : files) all.push_back(&file);
  return largest(std::move(all));
}

std::vector<std::string> wanted_files(const State& state, TaskId id) {
  std::vector<const model::StoredFile*> found;
  each_input(state, id, [&](const model::StoredFile& file, const std::string&) {
    found.push_back(&file);
    return found.size() < kMostLookedAt;
  });
  return largest(std::move(found));
}

}  // namespace rota::fleet
