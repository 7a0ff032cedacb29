// Reading one stage. See workflow/stage.h.
#include "workflow/stage.h"

#include <algorithm>
#include <array>

#include "base/json_text.h"
#include "model/matrix.h"
#include "model/reference.h"
#include "workflow/stage_files.h"

namespace rota::workflow {
namespace {

constexpr std::size_t kMostArguments = 10'000;

class StageReader {
 public:
  StageReader(Reading& reading, const Fields& fields, const StageSetting& setting, StageTotals& totals,
              StageDraft& draft)
      : reading_(reading), fields_(fields), setting_(setting), totals_(totals), draft_(draft) {}

  void run(const StageDefaults& defaults) {
    StageDefaults own = defaults;
    read_common(reading_, fields_, own);
    draft_.use.needs = std::move(own.needs);
    draft_.use.pinned = std::move(own.pinned);
    draft_.use.retry = own.retry;
    draft_.use.spec.timeout_ms = own.timeout_ms;
    draft_.needs = reading_.document.find(fields_.node(), "needs");

    what_it_runs(own);
    category();
    when();
    condition();
    context();
    fields_.integer("priority", -kMostPriority, kMostPriority, draft_.priority);
    fields_.integer("parallel", 1, kMostTasks, draft_.parallel);
    fields_.duration_ms("expect", draft_.use.expect_ms);
    merging();
    fields_.boolean("checkpoint", draft_.use.preemptible);
    matrix();
    replicas();
    check_cache();
    check_outputs(reading_, fields_, draft_);
    check_parallel();
    check_matrix_references();
  }

 private:
  // A text of the specification, whose references the brain resolves.
  std::string text(const Node& node, std::string_view text) {
    collect_references(reading_, node, text, draft_.references);
    bytes_ += text.size();
    return std::string(text);
  }

  void what_it_runs(const StageDefaults& own) {
    const Node* run = fields_.find("run");
    const Node* handler = fields_.find("handler");
    if ((run == nullptr) == (handler == nullptr)) {
      if (run != nullptr) {
        reading_.wrong(*handler, "a stage has run or handler, not both");
      } else if (reading_.document.find(fields_.node(), "run") == nullptr &&
                 reading_.document.find(fields_.node(), "handler") == nullptr) {
        reading_.problems.add(
            draft_.at, "the stage '" + printable(draft_.name, 40) +
                           "' runs nothing; give it run (a program) or handler (the type of a registered handler)");
      }
    }
    fields_.text("type", draft_.use.spec.type, 128);
    if (handler != nullptr) {
      read_handler();
    } else if (run != nullptr) {
      read_program(*run, own);
    }
    outside_inputs_ = draft_.references;
    inputs();
    if (draft_.references.size() > model::kReferencesMost) {
      reading_.problems.add(draft_.at, "the stage '" + printable(draft_.name, 40) + "' has " +
                                           std::to_string(draft_.references.size()) + " references; at most " +
                                           std::to_string(model::kReferencesMost) + " are allowed");
    }
    if (handler == nullptr && run != nullptr) limits();
    bytes_ += read_files(reading_, fields_, literal(setting_.directory), draft_);
    cache(handler != nullptr);
    if (bytes_ > kMostStageBytes) {
      reading_.problems.add(draft_.at, "the texts of the stage '" + printable(draft_.name, 40) + "' have " +
                                           std::to_string(bytes_) + " bytes; at most 1 MiB is allowed");
    }
    totals_.text_bytes += bytes_;
    if (totals_.text_bytes > kMostStagesBytes) {
      reading_.problems.add(draft_.at, "with this stage, the texts of all stages have more than 512 MiB");
    }
  }

  void read_handler() {
    std::string name;
    if (!fields_.text("handler", name, 128)) return;
    if (!draft_.use.spec.type.empty() && draft_.use.spec.type != name) {
      reading_.wrong(*fields_.find("type"), "the type of a stage with a handler is the handler's name, '" +
                                                printable(name, 40) + "'; leave type out");
    }
    draft_.use.spec.type = std::move(name);
    for (const std::string_view key : {"env", "secrets", "dir", "limits"}) {
      if (const Node* node = reading_.document.find(fields_.node(), key)) {
        reading_.wrong(*node, std::string(key) + " is for programs; a handler runs inside its worker");
      }
    }
  }

  void read_program(const Node& run, const StageDefaults& own) {
    if (draft_.use.spec.type.empty()) draft_.use.spec.type = "shell";
    model::ProgramSpec& program = draft_.use.spec.program.emplace();
    std::vector<model::Reference> variables;
    if (run.kind == Node::Kind::kScalar) {
      shell(run, program, variables);
    } else {
      arguments(run, program);
    }
    for (const EnvEntry& entry : own.env) {
      if (!entry.secret.name.empty()) {
        program.secrets.push_back(entry.secret);
        continue;
      }
      program.environment.push_back({entry.name, text(*entry.value, reading_.text(*entry.value))});
    }
    for (std::size_t i = 0; i < variables.size(); ++i) {
      program.environment.push_back({"ROTA_REF_" + std::to_string(i + 1), variables[i].text});
    }
    directory(own.dir, program);
  }

  void shell(const Node& run, model::ProgramSpec& program, std::vector<model::Reference>& variables) {
    const std::string_view source = reading_.text(run);
    if (source.find_first_not_of(" \t\r\n") == std::string_view::npos) reading_.wrong(run, "run is empty");
    if (source.find('\0') != std::string_view::npos) reading_.wrong(run, "run contains a zero byte");
    ShellText text = read_shell_text(source, setting_.is_stage);
    for (std::string& problem : text.problems) {
      reading_.wrong(run, std::move(problem));
    }
    for (model::Reference& reference : text.variables) {
      if (reference.root == "params") {
        // Its value is known; as a variable it stays data for the shell.
        const std::string json = setting_.params->value(reading_.problems, {reference, run.at});
        if (!json.empty()) reference.text = literal(Params::text_of(json));
      } else {
        draft_.references.push_back({reference, run.at});
      }
    }
    bytes_ += text.text.size();
    program.shell = std::move(text.text);
    variables = std::move(text.variables);
  }

  void arguments(const Node& run, model::ProgramSpec& program) {
    const std::size_t size = Document::size(run);
    if (run.kind != Node::Kind::kList || size == 0 || size > kMostArguments) {
      reading_.wrong(run, "run is " + reading_.found(run) + (size == 0 ? " without items" : "") +
                              "; it must be text for a shell, or a list of a program and its arguments");
      return;
    }
    for (std::size_t i = 0; i < size; ++i) {
      const Node& item = reading_.document.item(run, i);
      if (item.kind != Node::Kind::kScalar || reading_.document.is_null(item)) {
        reading_.wrong(item, "an item of run is " + reading_.found(item) + "; it must be a text, \"\" if it is empty");
        continue;
      }
      if (reading_.text(item).find('\0') != std::string_view::npos)
        reading_.wrong(item, "an argument contains a zero byte");
      if (i == 0 && reading_.text(item).empty()) reading_.wrong(item, "the first item of run is the program to start");
      program.arguments.push_back(text(item, reading_.text(item)));
    }
  }

  // The name of the file's directory is not the user's text: a "${" in it is not a reference.
  static std::string literal(std::string_view directory) {
    std::string out;
    for (std::size_t i = 0; i < directory.size(); ++i) {
      if (directory.substr(i).starts_with("${")) out.push_back('$');
      out.push_back(directory[i]);
    }
    return out;
  }

  void directory(const Node* dir, model::ProgramSpec& program) {
    std::string_view own = dir != nullptr ? reading_.text(*dir) : std::string_view{};
    if (dir == nullptr && setting_.directory.empty()) return;
    std::string path;
    if (!own.starts_with('/') && !own.starts_with("${")) {
      path = literal(setting_.directory);
      if (!path.empty() && !own.empty() && !path.ends_with('/')) path.push_back('/');
    }
    if (dir != nullptr) collect_references(reading_, *dir, own, draft_.references);
    program.directory = path.append(own);
    bytes_ += program.directory.size();
  }

  void inputs() {
    const Node* node = fields_.map("inputs");
    if (node == nullptr) return;
    std::string& inputs = draft_.use.spec.inputs;
    inputs.clear();
    append_json(
        reading_, *node,
        [&](const Node& at, std::string_view text) { collect_references(reading_, at, text, draft_.references); },
        inputs);
    bytes_ += inputs.size();
  }

  void limits() {
    const Node* node = fields_.map("limits");
    if (node == nullptr) return;
    const Fields fields(reading_, *node, keys().limits);
    model::ProgramLimits& limits = draft_.use.spec.program->limits;
    fields.bytes("memory", limits.memory_bytes);
    fields.duration_ms("cpu_time", limits.cpu_time_ms);
    fields.integer("open_files", 1, 1 << 30, limits.open_files);
    fields.integer("processes", 1, 1 << 30, limits.processes);
  }

  // `true`, or a mapping that says which files it reads and which it makes.
  void cache(bool is_handler) {
    const Node* node = fields_.find("cache");
    if (node == nullptr) return;
    std::vector<std::string> files;
    std::vector<std::string> outputs;
    if (node->kind == Node::Kind::kMap) {
      const Fields cache(reading_, *node, keys().cache);
      cache.texts("files", files);
      cache.texts("outputs", outputs);
    } else {
      const std::string_view word = node->kind == Node::Kind::kScalar ? reading_.text(*node) : std::string_view{};
      if (word != "true" && word != "false") {
        reading_.wrong(*node, "cache is " + reading_.found(*node) +
                                  "; it must be true, false, or a mapping with files and outputs");
      }
      if (word != "true") return;
    }
    cached_ = node;
    model::CacheSpec& cache = draft_.use.spec.cache.emplace();
    cache.files = patterns(*node, files);
    cache.outputs = patterns(*node, outputs);
    // Files that are stored for other stages must be there as the task left them, too.
    if (const std::optional<model::FilesSpec>& stored = draft_.use.spec.files) {
      outputs.insert(outputs.end(), stored->outputs.begin(), stored->outputs.end());
      cache.outputs.insert(cache.outputs.end(), stored->outputs.begin(), stored->outputs.end());
    }
    // The files of a program are looked for where it runs; a handler has no such directory.
    if (is_handler && !setting_.directory.empty() && (!files.empty() || !outputs.empty())) {
      cache.directory = literal(setting_.directory);
    }
  }
  std::vector<std::string> patterns(const Node& node, const std::vector<std::string>& list) {
    std::vector<std::string> out;
    for (const std::string& pattern : list) {
      if (pattern.find('\0') != std::string::npos) reading_.wrong(node, "a pattern of cache contains a zero byte");
      out.push_back(text(node, pattern));
    }
    return out;
  }
  // A merged execution has no result that belongs to one task alone, and a gang of which some members do not run cannot
  // start together.
  void check_parallel() {
    if (draft_.parallel > 0 && draft_.use.gang && static_cast<std::size_t>(draft_.parallel) < draft_.items.size()) {
      reading_.wrong(*fields_.find("parallel"),
                     "replicas start together, so parallel cannot be less than their number");
    }
  }
  void check_cache() {
    if (cached_ == nullptr) return;
    if (draft_.use.mergeable) {
      reading_.wrong(*cached_,
                     "a stage has merge or cache, not both: tasks that run as one have no result of their own");
    }
    if (draft_.use.gang) {
      reading_.wrong(
          *cached_,
          "a stage has replicas or cache, not both: replicas start together, or none of them; use matrix for "
          "tasks that are independent of each other");
    }
  }

  // A handler that is named with `merge` accepts the inputs of several tasks; a program must say so with `batch`.
  void merging() {
    fields_.boolean("merge", draft_.use.mergeable);
    bool batch = false;
    fields_.boolean("batch", batch);
    std::optional<model::ProgramSpec>& program = draft_.use.spec.program;
    if (!program) {
      if (batch) reading_.wrong(*fields_.find("batch"), "batch is for programs; for a handler, merge is enough");
      return;
    }
    if (draft_.use.mergeable && !batch) {
      reading_.wrong(*fields_.find("merge"),
                     "a program is merged only if it accepts a batch: add batch: true if it reads a JSON array of "
                     "inputs and returns an array with one result for each");
      return;
    }
    program->batch = draft_.use.mergeable = batch;
    if (!batch) return;
    for (const PlacedReference& placed : outside_inputs_) {
      reading_.problems.add(placed.at, "'" + printable(placed.reference.text, 60) +
                                           "' would have the value of one task for the whole batch; put it into "
                                           "inputs, which the program gets as an array with one item per task");
    }
  }

  void category() {
    static const std::array<std::string_view, 4> kTraining = {"training", "sft", "ppo", "dpo"};
    const std::string& type = draft_.use.spec.type;
    if (type == "inference") draft_.use.category = model::Category::kInference;
    if (std::find(kTraining.begin(), kTraining.end(), type) != kTraining.end()) {
      draft_.use.category = model::Category::kTraining;
    }
    std::string name;
    if (!fields_.text("category", name)) return;
    static const std::vector<std::string> kNames = {"other", "inference", "training"};
    const auto found = std::find(kNames.begin(), kNames.end(), name);
    if (found == kNames.end()) {
      reading_.wrong(*fields_.find("category"), "category is '" + printable(name, 40) +
                                                    "'; it must be other, inference or training" +
                                                    did_you_mean(name, kNames));
    } else {
      draft_.use.category = static_cast<model::Category>(found - kNames.begin());
    }
  }

  // After which outcome of what is before it the stage runs (Y-4).
  void when() {
    if (draft_.finally) draft_.when = model::When::kAlways;
    std::string name;
    if (!fields_.text("when", name)) return;
    draft_.when_at = fields_.find("when");
    static const std::vector<std::string> kNames = {"success", "failure", "always"};
    const auto found = std::find(kNames.begin(), kNames.end(), name);
    if (found == kNames.end()) {
      reading_.wrong(*draft_.when_at,
                     "when is '" + printable(name, 40) + "'; it must be success, failure or always" +
                         did_you_mean(name, kNames) +
                         (name.find('$') == std::string::npos ? "" : "; for an expression, use condition"));
    } else {
      draft_.when = static_cast<model::When>(found - kNames.begin());
    }
  }

  void condition() {
    std::string text;
    if (!fields_.text("condition", text, 64 << 10)) return;
    const Node& node = *fields_.find("condition");
    auto uses = model::check_condition(text);
    if (!uses.ok()) {
      reading_.wrong(node, "in the condition, " + uses.error().message);
      return;
    }
    for (model::ReferenceUse& use : *uses) draft_.references.push_back({std::move(use.reference), node.at});
    draft_.use.condition = std::move(text);
  }

  void context() {
    const Node* node = fields_.map("context");
    if (node == nullptr) return;
    const Fields context(reading_, *node, keys().context);
    std::vector<std::string> names;
    if (context.texts("models", names)) {
      for (const std::string& name : names) draft_.use.context.push_back("model:" + name);
    }
    names.clear();
    if (context.texts("datasets", names)) {
      for (const std::string& name : names) draft_.use.context.push_back("dataset:" + name);
    }
    std::sort(draft_.use.context.begin(), draft_.use.context.end());
  }

  // Counts tasks before they are made; false if there are too many.
  bool count(const Node& node, std::int64_t tasks) {
    if (tasks <= kMostTasks - totals_.tasks) {
      totals_.tasks += tasks;
      return true;
    }
    reading_.wrong(node, "with this, the workflow has more than " + std::to_string(kMostTasks) + " tasks");
    return false;
  }

  void matrix() {
    const Node* node = fields_.map("matrix");
    if (node == nullptr) return;
    const Node* include = matrix_entries(*node, "include");
    const Node* exclude = matrix_entries(*node, "exclude");
    model::Matrix matrix;
    model::FanOut fan_out;
    bool known = true;  // No list is a result.
    bool right = true;
    for (std::size_t i = 0; i < Document::size(*node); ++i) {
      const Node& key = reading_.document.key(*node, i);
      const Node& list = reading_.document.value(*node, i);
      if (reading_.text(key) == "include" || reading_.text(key) == "exclude") continue;
      const std::string& name = matrix_names_.emplace_back(reading_.text(key));
      matrix.names.push_back(name);
      std::vector<std::string>& values = matrix.values.emplace_back();
      if (list.kind == Node::Kind::kScalar && reading_.text(list).starts_with("${")) {
        known = false;
        right = matrix_result(name, list) && right;
        fan_out.lists.push_back({name, std::string(reading_.text(list))});
      } else if (list.kind != Node::Kind::kList || Document::size(list) == 0) {
        reading_.wrong(list, "'" + printable(name, 40) + "' of the matrix is " + reading_.found(list) +
                                 (list.kind == Node::Kind::kList ? " without items" : "") +
                                 "; it must be a list of values, or a reference to one: \"${stage.result}\"");
        right = false;
      } else {
        right = matrix_list(list, values) && right;
        std::string array = "[";
        for (const std::string& value : values) array.append(array.size() > 1 ? "," : "").append(value);
        fan_out.lists.push_back({name, array + "]"});
      }
    }
    if (matrix.names.size() > kMostLists || (matrix.names.empty() && include == nullptr)) {
      reading_.wrong(*node, "a matrix must have 1 to 32 lists; this one has " + std::to_string(matrix.names.size()));
      return;
    }
    if (!right || !matrix_additions(include, matrix.include) || !matrix_additions(exclude, matrix.exclude) ||
        !check_exclude(exclude, matrix)) {
      return;
    }
    for (const model::MatrixEntry& entry : matrix.include) {
      for (const model::MatrixValue& value : entry) {
        if (std::find(matrix_names_.begin(), matrix_names_.end(), value.first) == matrix_names_.end()) {
          matrix_names_.push_back(value.first);
        }
      }
    }
    if (!known) {
      for (const model::MatrixEntry& entry : matrix.include) fan_out.include.push_back(written(entry));
      for (const model::MatrixEntry& entry : matrix.exclude) fan_out.exclude.push_back(written(entry));
      if (count(*node, 1)) draft_.fan_out = std::move(fan_out);
      return;
    }
    make_items(*node, matrix);
  }
  // A list that is the result of another stage; the brain creates the tasks when it is known (Y-2).
  bool matrix_result(const std::string& name, const Node& node) {
    const std::string text(reading_.text(node));
    Result<model::Reference> reference = model::parse_reference(text);
    if (!reference.ok()) {
      reading_.wrong(node, reference.error().message);
      return false;
    }
    if (reference->text != text || model::is_reserved_root(reference->root) || model::is_about_end(*reference)) {
      reading_.wrong(node, "'" + printable(name, 40) + "' of the matrix is " + reading_.found(node) +
                               "; it must be a list of values, or nothing but one reference to a result: "
                               "\"${stage.result}\"");
      return false;
    }
    draft_.references.push_back({std::move(*reference), node.at});
    return true;
  }
  // The value of `include` or `exclude` of a matrix, if it is a list of mappings.
  const Node* matrix_entries(const Node& matrix, std::string_view key) {
    const Node* list = reading_.document.find(matrix, key);
    if (list == nullptr) return nullptr;
    bool right = list->kind == Node::Kind::kList && Document::size(*list) > 0;
    for (std::size_t i = 0; right && i < Document::size(*list); ++i) {
      right = reading_.document.item(*list, i).kind == Node::Kind::kMap;
    }
    if (right) return list;
    reading_.wrong(*list, std::string(key) + " of the matrix is " + reading_.found(*list) +
                              "; it must be a list of mappings, each with values of the matrix");
    return nullptr;
  }
  bool matrix_additions(const Node* list, std::vector<model::MatrixEntry>& out) {
    bool right = true;
    for (std::size_t i = 0; list != nullptr && i < Document::size(*list); ++i) {
      const Node& entry = reading_.document.item(*list, i);
      model::MatrixEntry& values = out.emplace_back();
      for (std::size_t v = 0; v < Document::size(entry); ++v) {
        std::string value;
        right = append_json(reading_, reading_.document.value(entry, v), no_references(right), value) && right;
        values.emplace_back(reading_.text(reading_.document.key(entry, v)), std::move(value));
      }
    }
    return right;
  }
  bool check_exclude(const Node* exclude, const model::Matrix& matrix) {
    for (std::size_t i = 0; i < matrix.exclude.size(); ++i) {
      for (const model::MatrixValue& value : matrix.exclude[i]) {
        if (std::find(matrix.names.begin(), matrix.names.end(), value.first) != matrix.names.end()) continue;
        reading_.wrong(reading_.document.item(*exclude, i), "exclude has '" + printable(value.first, 40) +
                                                                "', which is not a list of the matrix" +
                                                                did_you_mean(value.first, matrix.names));
        return false;
      }
    }
    return true;
  }
  static std::string written(const model::MatrixEntry& entry) {
    std::string text = "{";
    for (const model::MatrixValue& value : entry) {
      text.append(text.size() > 1 ? "," : "");
      append_json_string(text, value.first);
      text.append(":").append(value.second);
    }
    return text + "}";
  }
  // Reports references, which the values of a matrix cannot contain, and sets `right` to false.
  OnText no_references(bool& right) {
    return [this, &right](const Node& node, std::string_view text) {
      if (text.find("${") == std::string_view::npos) return;
      reading_.wrong(node,
                     "the values of a matrix cannot contain references; a whole list can be one: "
                     "matrix: {item: \"${stage.result}\"}");
      right = false;
    };
  }
  bool matrix_list(const Node& list, std::vector<std::string>& out) {
    bool right = true;
    const OnText check = no_references(right);
    for (std::size_t i = 0; i < Document::size(list); ++i) {
      right = append_json(reading_, reading_.document.item(list, i), check, out.emplace_back()) && right;
    }
    return right;
  }
  void make_items(const Node& node, const model::Matrix& matrix) {
    Result<std::vector<std::string>> items =
        model::matrix_items(matrix, static_cast<std::size_t>(kMostTasks - totals_.tasks),
                            kMostItemBytes - std::min(totals_.item_bytes, kMostItemBytes));
    if (!items.ok()) {
      if (items.error().detail("bytes") == nullptr) {
        (void)count(node, kMostTasks + 1);
      } else {
        reading_.wrong(node, "with this, the data of all tasks comes to more than 256 MiB");
      }
      return;
    }
    if (items->empty()) {
      reading_.wrong(node, "exclude leaves no combination of the matrix");
      return;
    }
    if (!count(node, static_cast<std::int64_t>(items->size()))) return;
    for (const std::string& item : *items) totals_.item_bytes += item.size();
    draft_.items = std::move(*items);
  }

  void replicas() {
    std::int64_t replicas = 1;
    const Node* matrix = reading_.document.find(fields_.node(), "matrix");
    const bool given = fields_.integer("replicas", 1, 10'000, replicas);
    if (given && matrix != nullptr) {
      reading_.wrong(*fields_.find("replicas"), "a stage has matrix or replicas, not both");
      return;
    }
    if (matrix != nullptr || !count(fields_.node(), replicas) || !given) return;
    draft_.use.gang = replicas > 1;
    draft_.items.assign(static_cast<std::size_t>(replicas), "{}");
  }

  // References to the matrix can be checked here; those to stages when all stages are known.
  void check_matrix_references() {
    std::erase_if(draft_.references, [&](const PlacedReference& placed) {
      if (placed.reference.root == "workflow" && model::is_about_end(placed.reference) && !draft_.finally) {
        reading_.problems.add(placed.at, "'" + printable(placed.reference.text, 60) +
                                             "' is known only in stages of finally; ${stage.state} is how a stage "
                                             "ended that this one waits for");
      }
      if (placed.reference.root != "matrix") return model::is_reserved_root(placed.reference.root);
      const std::string& name = placed.reference.path.front().name;
      if (matrix_names_.empty()) {
        reading_.problems.add(
            placed.at, "'" + printable(placed.reference.text, 60) + "' refers to the matrix, but the stage has none");
      } else if (std::find(matrix_names_.begin(), matrix_names_.end(), name) == matrix_names_.end()) {
        std::string known;
        for (const std::string& each : matrix_names_) known.append(known.empty() ? "" : ", ").append(each);
        reading_.problems.add(placed.at, "'" + printable(placed.reference.text, 60) + "' refers to a list '" +
                                             printable(name, 40) + "' that the matrix does not have (it has " +
                                             printable(known) + ")" + did_you_mean(name, matrix_names_));
      }
      return true;
    });
  }

  Reading& reading_;
  const Fields& fields_;
  const StageSetting& setting_;
  StageTotals& totals_;
  StageDraft& draft_;
  std::vector<PlacedReference> outside_inputs_{};
  std::size_t bytes_ = 0;         // Of the texts of the stage.
  const Node* cached_ = nullptr;  // The value of `cache`, if it is wanted.
  std::vector<std::string> matrix_names_{};
};

}  // namespace

void read_stage(Reading& reading, const Fields& fields, const StageDefaults& defaults, const StageSetting& setting,
                StageTotals& totals, StageDraft& draft) {
  StageReader(reading, fields, setting, totals, draft).run(defaults);
}

}  // namespace rota::workflow
