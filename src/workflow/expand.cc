// Expanding a workflow file. See workflow/expand.h.
#include "workflow/expand.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "base/json_text.h"
#include "model/json.h"
#include "workflow/document_builder.h"

namespace rota::workflow {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kParamStart = "${params";
constexpr std::size_t kMostEnvFileBytes = std::size_t{1} << 20;
constexpr std::size_t kMostLayers = 32;  // Templates that one stage uses, directly or not.
constexpr std::array<std::string_view, 9> kMerged = {"env",    "inputs", "resources", "hardware", "named",
                                                     "labels", "limits", "retry",     "secrets"};

// A "${" in a value is not a reference.
std::string literal(std::string_view value) {
  std::string out;
  for (std::size_t i = 0; i < value.size(); ++i) {
    if (value.substr(i).starts_with("${")) out.push_back('$');
    out.push_back(value[i]);
  }
  return out;
}

struct Place {
  const Document* document = nullptr;
  const Node* node = nullptr;
};

class Expander {
 public:
  Expander(const Source& source, const Document& document, Problems& problems, Params& params)
      : source_(source), main_(document), problems_(problems), params_(params), builder_(source.text, problems) {}

  std::optional<Document> run() {
    if (const Node* spec = main_.find(main_.root(), "spec")) {
      std::error_code error;
      base_ = fs::canonical(source_.directory.empty() ? "." : source_.directory, error);
      seen_.insert(fs::weakly_canonical(source_.path, error).string());
      include(main_, *spec, base_);
      take(main_, *spec);
      check_templates();
    }
    params_.give(problems_, source_.params);
    if (!emit_file()) return std::nullopt;
    return builder_.finish();
  }

 private:
  enum class Mode : std::uint8_t { kText, kShell, kCondition };

  Reading reading(const Document& document) { return Reading{document, problems_}; }

  // ------------------------------------------------------------------------------------------------- other files

  Result<std::string> read_below(const std::string& path, const fs::path& from, fs::path* canonical, std::size_t most) {
    if (!source_.reads_files) {
      return Error{ErrorCode::kInvalidArgument,
                   "files cannot be read here; a workflow that needs other files is submitted with the rota command"};
    }
    std::error_code error;
    *canonical = fs::canonical(from / path, error);
    if (error) return Error{ErrorCode::kNotFound, "it cannot be opened: " + error.message()};
    const auto [end, rest] = std::mismatch(base_.begin(), base_.end(), canonical->begin(), canonical->end());
    if (end != base_.end()) {
      return Error{ErrorCode::kInvalidArgument, "it is outside the workflow's folder; only files below it can be read"};
    }
    Result<Source> read = read_source(canonical->string());
    if (!read.ok()) return std::move(read).take_error();
    if (read->text.size() > most) {
      return Error{ErrorCode::kTooLarge, "it has more than " + std::to_string(most) + " bytes"};
    }
    return std::move(read->text);
  }

  void include(const Document& document, const Node& spec, const fs::path& from) {
    const Node* list = document.find(spec, "include");
    if (list == nullptr) return;
    const std::size_t size = list->kind == Node::Kind::kList ? Document::size(*list) : 1;
    for (std::size_t i = 0; i < size; ++i) {
      const Node& item = list->kind == Node::Kind::kList ? document.item(*list, i) : *list;
      if (item.kind != Node::Kind::kScalar || document.is_null(item)) {
        reading(document).wrong(item, "include is " + reading(document).found(item) + "; it must name files");
        continue;
      }
      include_one(document, item, from);
    }
  }

  void include_one(const Document& document, const Node& item, const fs::path& from) {
    const std::string written(document.text(item));
    const std::string shown = "the included file '" + printable(written, 200) + "'";
    fs::path path;
    Result<std::string> text = read_below(written, from, &path, kMostBytes - std::min(included_bytes_, kMostBytes));
    if (!text.ok()) return problems_.add(item.at, shown + ": " + text.error().message);
    if (std::find(open_.begin(), open_.end(), path) != open_.end() || path == fs::path(source_path())) {
      return problems_.add(item.at, shown + " includes itself, directly or through another file");
    }
    if (!seen_.insert(path.string()).second) return;  // Included before: once is enough.
    if (seen_.size() > kMostIncludes) {
      return problems_.add(item.at, "more than " + std::to_string(kMostIncludes) + " files are included");
    }
    included_bytes_ += text->size();
    const std::uint32_t number = problems_.add_file(written, item.at);
    std::optional<Document> read = Document::read(*text, problems_, number);
    if (!read) return;
    const Document& own = *documents_.emplace_back(std::make_unique<Document>(std::move(*read)));
    Reading inside = reading(own);
    if (own.root().kind != Node::Kind::kMap) {
      return inside.wrong(own.root(), "an included file must be a mapping with the key spec");
    }
    const Fields file(inside, own.root(), keys().workflow);
    const Node* spec = file.map("spec");
    if (spec == nullptr) return inside.wrong(own.root(), "spec is missing; it has the templates, params or stages");
    static const KeySet kIncluded{
        "the spec of an included file", "", {"stages", "graph", "params", "templates", "include"}};
    const Fields fields(inside, *spec, kIncluded);
    open_.push_back(path);
    include(own, *spec, path.parent_path());
    open_.pop_back();
    take(own, *spec);
  }
  [[nodiscard]] std::string source_path() const {
    std::error_code error;
    return fs::weakly_canonical(source_.path, error).string();
  }

  // What a file declares.
  void take(const Document& document, const Node& spec) {
    Reading inside = reading(document);
    if (const Node* params = document.find(spec, "params")) params_.declare(inside, *params);
    if (const Node* templates = document.find(spec, "templates")) {
      if (templates->kind != Node::Kind::kMap) {
        inside.wrong(*templates,
                     "templates is " + inside.found(*templates) + "; it must be a mapping of names to stages");
      }
      for (std::size_t i = 0; i < Document::size(*templates) && templates->kind == Node::Kind::kMap; ++i) {
        const Node& key = document.key(*templates, i);
        const Node& body = document.value(*templates, i);
        const Fields check(inside, body, keys().graph_stage);  // Reports unknown keys, also of a template without use.
        if (body.kind != Node::Kind::kMap) continue;
        if (!templates_.emplace(std::string(document.text(key)), Place{&document, &body}).second) {
          inside.wrong(key, "there is another template '" + printable(document.text(key), 40) + "'");
        }
      }
    }
    for (const std::string_view kind : {"stages", "graph"}) {
      const Node* stages = document.find(spec, kind);
      if (stages == nullptr) continue;
      if (&document != &main_ && stages->kind != (kind == "stages" ? Node::Kind::kList : Node::Kind::kMap)) {
        inside.wrong(*stages, std::string(kind) + " is " + inside.found(*stages) + "; it must be a " +
                                  (kind == "stages" ? "list of stages" : "mapping of names to stages"));
      } else if (!kind_.empty() && kind_ != kind) {
        inside.wrong(*stages, "this file has " + std::string(kind) + ", but another one has " + kind_ +
                                  "; all files of a workflow must have the same of the two");
      } else {
        kind_ = kind;
        stages_.push_back({&document, stages});
      }
    }
  }

  // Reports templates that use themselves, and those that use an unknown one, whether or not a stage uses them. Without
  // recursion: a file may have a long chain of templates.
  void check_templates() {
    struct Open {
      const std::string* name = nullptr;
      Place place{};
      std::vector<std::pair<const Node*, std::string>> uses{};  // Still to be followed.
    };
    std::map<std::string_view, bool> done;  // False: it is one of `path`.
    std::vector<Open> path;
    const auto open = [&](const std::string& name, const Place& place) {
      done.emplace(name, false);
      Open& entry = path.emplace_back(Open{&name, place, {}});
      each_use(place, [&](const Node& item, std::string used) { entry.uses.emplace_back(&item, std::move(used)); });
    };
    for (const auto& [name, place] : templates_) {
      if (done.contains(name)) continue;
      for (open(name, place); !path.empty();) {
        if (path.back().uses.empty()) {
          done[*path.back().name] = true;
          path.pop_back();
          continue;
        }
        const auto [item, used] = std::move(path.back().uses.back());
        path.back().uses.pop_back();
        const auto found = templates_.find(used);
        if (found == templates_.end()) {
          no_such_template(path.back().place, *item, used);
          continue;
        }
        const auto known = done.find(used);
        if (known == done.end()) {
          open(found->first, found->second);
        } else if (!known->second) {
          problems_.add(item->at, "the template '" + printable(used, 40) + "' uses itself, directly or not");
        }
      }
    }
  }

  // Calls `visit(node, name)` for each template that a stage or a template uses, the last one first: it comes before
  // the others.
  template <class Visit>
  static void each_use(const Place& place, Visit&& visit) {
    const Document& document = *place.document;
    const Node* use = document.find(*place.node, "use");
    if (use == nullptr) return;
    const std::size_t size = use->kind == Node::Kind::kList ? Document::size(*use) : 1;
    for (std::size_t i = size; i-- > 0;) {
      const Node& item = use->kind == Node::Kind::kList ? document.item(*use, i) : *use;
      visit(item, std::string(item.kind == Node::Kind::kScalar ? document.text(item) : std::string_view()));
    }
  }

  void no_such_template(const Place& place, const Node& item, const std::string& name) {
    std::vector<std::string> names;
    for (const auto& each : templates_) names.push_back(each.first);
    std::string known;
    for (const std::string& each : names) known += (known.empty() ? "" : ", ") + printable(each, 40);
    problems_.add(item.at, "use is " + reading(*place.document).found(item) + ", but there is no such template" +
                               (names.empty() ? "; spec has no templates" : " (there are " + known + ")") +
                               did_you_mean(name, names));
  }

  // ---------------------------------------------------------------------------------------------------- emitting

  bool emit_file() {
    const Node& root = main_.root();
    if (root.kind != Node::Kind::kMap) return emit(main_, root, Mode::kText);
    if (!builder_.open(Node::Kind::kMap, root.at)) return false;
    for (std::size_t i = 0; i < Document::size(root); ++i) {
      const Node& key = main_.key(root, i);
      const Node& value = main_.value(root, i);
      const bool spec = main_.text(key) == "spec" && value.kind == Node::Kind::kMap;
      if (!emit_raw(main_, key)) return false;
      if (!(spec ? emit_spec(value) : emit(main_, value, Mode::kText))) return false;
    }
    return builder_.close();
  }

  bool emit_spec(const Node& spec) {
    if (!builder_.open(Node::Kind::kMap, spec.at)) return false;
    bool stages = false;
    for (std::size_t i = 0; i < Document::size(spec); ++i) {
      const Node& key = main_.key(spec, i);
      const std::string_view name = main_.text(key);
      if (name == "params" || name == "templates" || name == "include" || name == "env_file" || name == "env") continue;
      if (!emit_raw(main_, key)) return false;
      if (name == kind_ && !stages) {
        stages = true;
        if (!emit_stages(main_.value(spec, i))) return false;
      } else if (name == "finally" && main_.value(spec, i).kind != Node::Kind::kScalar) {
        if (!emit_finally(main_.value(spec, i))) return false;
      } else if (!emit(main_, main_.value(spec, i), Mode::kText)) {
        return false;
      }
    }
    if (!emit_env({{&main_, &spec}})) return false;
    if (!stages && !stages_.empty()) {  // All stages are in included files.
      if (!builder_.scalar(kind_, true, spec.at) || !emit_stages(*stages_.front().node)) return false;
    }
    return builder_.close();
  }

  bool emit_stages(const Node& own) {
    const bool list = kind_ == "stages";
    if (own.kind != (list ? Node::Kind::kList : Node::Kind::kMap)) return emit(main_, own, Mode::kText);
    if (!builder_.open(own.kind, own.at)) return false;
    for (const Place& place : stages_) {
      for (std::size_t i = 0; i < Document::size(*place.node); ++i) {
        if (!list && !emit_raw(*place.document, place.document->key(*place.node, i))) return false;
        const Node& stage = list ? place.document->item(*place.node, i) : place.document->value(*place.node, i);
        if (!emit_stage({place.document, &stage})) return false;
      }
    }
    return builder_.close();
  }

  // A list of stages, or a mapping of names to stages. Included files have none.
  bool emit_finally(const Node& own) {
    const bool list = own.kind == Node::Kind::kList;
    if (!builder_.open(own.kind, own.at)) return false;
    for (std::size_t i = 0; i < Document::size(own); ++i) {
      if (!list && !emit_raw(main_, main_.key(own, i))) return false;
      if (!emit_stage({&main_, list ? &main_.item(own, i) : &main_.value(own, i)})) return false;
    }
    return builder_.close();
  }

  bool emit_stage(const Place& stage) {
    if (stage.node->kind != Node::Kind::kMap) return emit(*stage.document, *stage.node, Mode::kText);
    std::vector<Place> layers;
    std::vector<std::string> using_now;
    add_layers(stage, layers, using_now);
    return builder_.open(Node::Kind::kMap, stage.node->at) && emit_merged(layers, true) && emit_env(layers) &&
           builder_.close();
  }

  // The stage itself and the templates that it uses; the first layer that has a key decides. What is wrong with the
  // `use` of a template was reported by check_templates().
  void add_layers(const Place& place, std::vector<Place>& layers, std::vector<std::string>& using_now) {
    layers.push_back(place);
    each_use(place, [&](const Node& item, const std::string& name) {
      const auto found = templates_.find(name);
      if (found == templates_.end()) {
        if (using_now.empty()) no_such_template(place, item, name);
      } else if (std::find(using_now.begin(), using_now.end(), name) == using_now.end()) {
        if (layers.size() > kMostLayers) return;  // Reported once.
        if (layers.size() == kMostLayers) {
          problems_.add(item.at, "a stage uses more than " + std::to_string(kMostLayers) + " templates");
          layers.push_back(place);
          return;
        }
        using_now.push_back(name);
        add_layers(found->second, layers, using_now);
        using_now.pop_back();
      }
    });
  }

  // The entries of the first layer that has each key; some mappings are merged key by key.
  bool emit_merged(const std::vector<Place>& layers, bool stage) {
    std::set<std::string_view> done;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      const auto& [document, node] = layers[layer];
      for (std::size_t i = 0; i < Document::size(*node); ++i) {
        const Node& key = document->key(*node, i);
        const Node& value = document->value(*node, i);
        const std::string_view name = document->text(key);
        if (stage && (name == "use" || name == "env" || name == "env_file")) continue;
        if (!done.insert(name).second) continue;
        if (!emit_raw(*document, key)) return false;
        std::vector<Place> inner = merged(layers, layer, name);
        if (inner.size() > 1) {
          if (!builder_.open(Node::Kind::kMap, value.at) || !emit_merged(inner, false) || !builder_.close())
            return false;
          continue;
        }
        const Mode mode = stage && name == "run" && value.kind == Node::Kind::kScalar ? Mode::kShell
                          : stage && name == "condition"                              ? Mode::kCondition
                                                                                      : Mode::kText;
        if (!emit(*document, value, mode)) return false;
      }
    }
    return true;
  }

  // The mappings with this name in the layers from `from` on, if they are merged.
  static std::vector<Place> merged(const std::vector<Place>& layers, std::size_t from, std::string_view name) {
    std::vector<Place> found;
    if (std::find(kMerged.begin(), kMerged.end(), name) == kMerged.end()) return found;
    for (std::size_t i = from; i < layers.size(); ++i) {
      const Node* node = layers[i].document->find(*layers[i].node, name);
      if (node != nullptr && node->kind == Node::Kind::kMap) found.push_back({layers[i].document, node});
    }
    return found;
  }

  // `env` and what the files of `env_file` add to it, of all layers.
  bool emit_env(const std::vector<Place>& layers) {
    const Node* first = nullptr;  // Its position is that of the whole.
    for (const auto& [document, node] : layers) {
      for (const std::string_view key : {"env", "env_file"}) {
        if (first == nullptr) first = document->find(*node, key);
      }
    }
    if (first == nullptr) return true;
    const Position at = first->at;
    std::set<std::string, std::less<>> done;
    if (!builder_.scalar("env", true, at)) return false;
    for (const auto& [document, node] : layers) {  // Wrong as it is: the reader says so.
      const Node* env = document->find(*node, "env");
      if (env != nullptr && env->kind != Node::Kind::kMap) return emit(*document, *env, Mode::kText);
    }
    if (!builder_.open(Node::Kind::kMap, at)) return false;
    for (const auto& [document, node] : layers) {
      const Node* env = document->find(*node, "env");
      for (std::size_t i = 0; env != nullptr && i < Document::size(*env); ++i) {
        const Node& key = document->key(*env, i);
        if (!done.emplace(document->text(key)).second) continue;
        if (!emit_raw(*document, key) || !emit(*document, document->value(*env, i), Mode::kText)) return false;
      }
      if (!emit_env_files(*document, document->find(*node, "env_file"), done)) return false;
    }
    return builder_.close();
  }

  bool emit_env_files(const Document& document, const Node* list, std::set<std::string, std::less<>>& done) {
    if (list == nullptr) return true;
    const std::size_t size = list->kind == Node::Kind::kList ? Document::size(*list) : 1;
    for (std::size_t i = size; i-- > 0;) {  // The last file comes before the others.
      const Node& item = list->kind == Node::Kind::kList ? document.item(*list, i) : *list;
      if (item.kind != Node::Kind::kScalar || document.is_null(item)) {
        reading(document).wrong(item, "env_file is " + reading(document).found(item) + "; it must name a file");
        continue;
      }
      fs::path path;
      const std::string name(document.text(item));
      const Result<std::string> text = read_below(name, base_, &path, kMostEnvFileBytes);
      if (!text.ok()) {
        problems_.add(item.at, "the env_file '" + printable(name, 200) + "': " + text.error().message);
        continue;
      }
      if (!emit_env_lines(name, *text, item.at, done)) return false;
    }
    return true;
  }

  // NAME=value in each line; comments and empty lines are ignored, and quotes around the whole value are removed.
  bool emit_env_lines(const std::string& file, std::string_view text, Position at,
                      std::set<std::string, std::less<>>& done) {
    std::vector<std::pair<std::string, std::string>> entries;  // The last line with a name counts.
    for (std::size_t number = 1; !text.empty(); ++number) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      const auto trim = [](std::string_view piece) {
        const std::size_t first = piece.find_first_not_of(" \t\r");
        if (first == std::string_view::npos) return std::string_view();
        return piece.substr(first, piece.find_last_not_of(" \t\r") - first + 1);
      };
      line = trim(line);
      if (line.empty() || line.front() == '#') continue;
      if (line.starts_with("export ")) line = trim(line.substr(7));
      const std::size_t equals = line.find('=');
      if (equals == std::string_view::npos || equals == 0) {
        // The line is not shown: it may be part of a key or a password.
        problems_.add(at, printable(file, 200) + ":" + std::to_string(number) + ":1: the line is not NAME=value");
        continue;
      }
      std::string_view value = trim(line.substr(equals + 1));
      if (value.size() >= 2 && (value.front() == '"' || value.front() == '\'') && value.back() == value.front()) {
        value = value.substr(1, value.size() - 2);
      }
      entries.emplace_back(trim(line.substr(0, equals)), value);
    }
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
      if (!done.insert(entry->first).second) continue;
      if (!builder_.scalar(entry->first, true, at) || !builder_.scalar(literal(entry->second), false, at)) return false;
    }
    return true;
  }

  bool emit_raw(const Document& document, const Node& scalar) {
    return builder_.scalar(scalar.kind == Node::Kind::kScalar ? document.text(scalar) : std::string_view(),
                           scalar.plain, scalar.at);
  }

  // As deep as the document.
  bool emit(const Document& document, const Node& node, Mode mode) {
    if (node.kind == Node::Kind::kScalar) return emit_scalar(document, node, mode);
    if (!builder_.open(node.kind, node.at)) return false;
    const bool map = node.kind == Node::Kind::kMap;
    for (std::size_t i = 0; i < Document::size(node); ++i) {
      if (map && !emit_raw(document, document.key(node, i))) return false;
      if (!emit(document, map ? document.value(node, i) : document.item(node, i), mode)) return false;
    }
    return builder_.close();
  }

  bool emit_scalar(const Document& document, const Node& node, Mode mode) {
    const std::string_view text = document.text(node);
    if (mode == Mode::kShell || text.find(kParamStart) == std::string_view::npos) return emit_raw(document, node);
    std::string out;
    std::string_view rest = text;
    while (true) {
      const std::size_t at = rest.find(kParamStart);
      if (at == std::string_view::npos) break;
      out.append(rest, 0, at);
      const bool escaped = at > 0 && rest[at - 1] == '$';
      rest.remove_prefix(at);
      Result<model::Reference> parsed = model::parse_reference(rest);
      if (escaped || !parsed.ok() || parsed->root != "params") {
        if (!escaped && !parsed.ok()) problems_.add(node.at, parsed.error().message);
        out.append(rest, 0, 2);
        rest.remove_prefix(2);
        continue;
      }
      rest.remove_prefix(parsed->text.size());
      const std::string json = params_.value(problems_, {*parsed, node.at});
      if (json.empty()) continue;
      if (mode == Mode::kCondition) {
        out.append(json);
      } else if (parsed->text.size() == text.size()) {
        return emit_json(json, node.at);
      } else {
        out.append(literal(Params::text_of(json)));
      }
    }
    return builder_.scalar(out.append(rest), node.plain, node.at);
  }

  // A value of a parameter, with its type. Its depth is bounded by the document that it came from.
  bool emit_json(std::string_view json, Position at) {
    switch (model::json_kind(json)) {
      case model::JsonKind::kString:
        return builder_.scalar(literal(model::json_unescape(json)), false, at);
      case model::JsonKind::kArray:
        if (!builder_.open(Node::Kind::kList, at)) return false;
        for (const std::string_view element : model::json_elements(json)) {
          if (!emit_json(element, at)) return false;
        }
        return builder_.close();
      case model::JsonKind::kObject:
        if (!builder_.open(Node::Kind::kMap, at)) return false;
        for (const auto& [name, value] : model::json_members(json)) {
          if (!builder_.scalar(name, false, at) || !emit_json(value, at)) return false;
        }
        return builder_.close();
      default:
        return builder_.scalar(json, true, at);
    }
  }

  const Source& source_;
  const Document& main_;
  Problems& problems_;
  Params& params_;
  DocumentBuilder builder_;
  fs::path base_{};                                     // The workflow's folder.
  std::vector<std::unique_ptr<Document>> documents_{};  // Of included files.
  std::vector<fs::path> open_{};                        // Files that are being included, the innermost last.
  std::set<std::string> seen_{};
  std::size_t included_bytes_ = 0;
  std::map<std::string, Place, std::less<>> templates_{};
  std::string kind_{};           // "stages" or "graph", once it is known.
  std::vector<Place> stages_{};  // The lists or mappings of stages, the file's own last.
};

}  // namespace

bool may_expand(const Source& source) {
  if (!source.params.empty()) return true;
  for (const std::string_view word : {"params", "templates", "include", "env_file", "use"}) {
    if (::memmem(source.text.data(), source.text.size(), word.data(), word.size()) != nullptr) return true;
  }
  return false;
}

std::optional<Document> expand(const Source& source, const Document& document, Problems& problems, Params& params) {
  return Expander(source, document, problems, params).run();
}

}  // namespace rota::workflow
