// Parameters of a workflow. See workflow/params.h.
#include "workflow/params.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/json_text.h"
#include "model/json.h"

namespace rota::workflow {
namespace {

constexpr std::size_t kMostParams = 1'000;
constexpr std::array<std::string_view, 7> kTypes = {"text", "integer", "number", "boolean", "list", "map", "any"};

std::string json_text(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

bool is_integer(std::string_view json) { return json.find_first_of(".eE") == std::string_view::npos; }

std::string comma_list(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + printable(word, 40);
  return out;
}

const OnText kNoCheck = [](const Node&, std::string_view) {};

// A scope in which the parameters are found under the root `matrix`, the one whose members have any name.
class ParamScope final : public model::ReferenceScope {
 public:
  explicit ParamScope(std::string json) : json_(std::move(json)) {}
  Result<std::string_view> value(std::string_view /*root*/, std::string_view /*member*/) override {
    return std::string_view(json_);
  }

 private:
  std::string json_;
};

}  // namespace

std::string value_as_json(const std::string& text, std::string* message) {
  if (text.find_first_not_of(" \t\r\n") == std::string::npos) return json_text(text);
  Problems problems;
  std::string json;
  if (const std::optional<Document> document = Document::read(text, problems)) {
    Reading reading{*document, problems};
    append_json(reading, document->root(), kNoCheck, json);
  }
  const std::vector<Problem> found = problems.take();
  if (found.empty()) return json;
  *message = found.front().message;
  return {};
}

Result<std::vector<GivenParam>> read_params(const std::string& path, const std::string& text) {
  Problems problems;
  std::vector<GivenParam> given;
  if (const std::optional<Document> document = Document::read(text, problems)) {
    Reading reading{*document, problems};
    const Node& root = document->root();
    if (root.kind != Node::Kind::kMap) {
      reading.wrong(root, "a parameter file must be a mapping of names to values; found " + reading.found(root));
    }
    for (std::size_t i = 0; root.kind == Node::Kind::kMap && i < Document::size(root); ++i) {
      const Node& key = document->key(root, i);
      GivenParam param{std::string(reading.text(key)), {}, {}};
      append_json(reading, document->value(root, i), kNoCheck, param.text);
      param.from = path + ":" + std::to_string(key.at.line) + ":" + std::to_string(key.at.column);
      given.push_back(std::move(param));
    }
  }
  const std::vector<Problem> found = problems.take();
  if (!found.empty()) return to_error(path, found);
  return given;
}

std::vector<std::string> Params::names() const {
  std::vector<std::string> names;
  for (const Param& param : all_) names.push_back(param.name);
  return names;
}

const Params::Param* Params::find(std::string_view name) const {
  const auto found = std::find_if(all_.begin(), all_.end(), [&](const Param& each) { return each.name == name; });
  return found == all_.end() ? nullptr : &*found;
}

Params::Param* Params::find(std::string_view name) { return const_cast<Param*>(std::as_const(*this).find(name)); }

void Params::declare(Reading& reading, const Node& declarations) {
  if (declarations.kind != Node::Kind::kMap) {
    reading.wrong(declarations, "params is " + reading.found(declarations) + "; it must be a mapping of names");
    return;
  }
  if (Document::size(declarations) + all_.size() > kMostParams) {
    reading.wrong(declarations, "there are more than " + std::to_string(kMostParams) + " parameters");
    return;
  }
  for (std::size_t i = 0; i < Document::size(declarations); ++i) {
    declare_one(reading, reading.document.key(declarations, i), reading.document.value(declarations, i));
  }
}

void Params::declare_one(Reading& reading, const Node& key, const Node& value) {
  Param param;
  param.name = std::string(reading.text(key));
  param.at = key.at;
  if (!model::is_reference_name(param.name)) {
    reading.wrong(
        key, "'" + printable(param.name, 40) + "' cannot be the name of a parameter; use letters, digits, _ and -");
    return;
  }
  if (find(param.name) != nullptr) {
    reading.wrong(key, "the parameter '" + param.name + "' is declared twice");
    return;
  }
  const Node* given = &value;  // The default.
  if (value.kind == Node::Kind::kMap) {
    const Fields fields(reading, value, keys().param);
    std::string type;
    if (fields.text("type", type)) {
      const auto found = std::find(kTypes.begin(), kTypes.end(), type);
      if (found == kTypes.end()) {
        const std::vector<std::string> names(kTypes.begin(), kTypes.end());
        reading.wrong(*fields.find("type"), "the type of the parameter '" + param.name + "' is '" +
                                                printable(type, 40) + "'; it must be one of " + comma_list(names) +
                                                did_you_mean(type, names));
      } else {
        param.type = static_cast<Type>(found - kTypes.begin());
      }
    }
    if (const Node* choices = reading.document.find(value, "choices")) {
      if (choices->kind != Node::Kind::kList || Document::size(*choices) == 0) {
        reading.wrong(*choices, "choices is " + reading.found(*choices) + "; it must be a list of values");
      }
      for (std::size_t i = 0; i < Document::size(*choices) && choices->kind == Node::Kind::kList; ++i) {
        append_json(reading, reading.document.item(*choices, i), kNoCheck, param.choices.emplace_back());
      }
    }
    given = reading.document.find(value, "default");
  }
  if (given != nullptr) {
    std::string json;
    if (append_json(reading, *given, kNoCheck, json)) {
      if (value.kind != Node::Kind::kMap) {  // The type is that of the default.
        switch (model::json_kind(json)) {
          case model::JsonKind::kString:
            param.type = Type::kText;
            break;
          case model::JsonKind::kNumber:
            param.type = Type::kNumber;
            break;
          case model::JsonKind::kBool:
            param.type = Type::kBoolean;
            break;
          case model::JsonKind::kArray:
            param.type = Type::kList;
            break;
          default:
            break;
        }
      }
      std::string message;
      param.value = fit(param, json, &message);
      if (param.value.empty()) reading.wrong(*given, "the default of the parameter '" + param.name + "' " + message);
    }
  }
  all_.push_back(std::move(param));
}

std::string Params::fit(const Param& param, const std::string& json, std::string* message) {
  using model::JsonKind;
  const JsonKind kind = model::json_kind(json);
  const bool scalar = kind != JsonKind::kArray && kind != JsonKind::kObject;
  std::string value = json;
  bool right = true;
  switch (param.type) {
    case Type::kText:  // 1.10 is the text "1.10".
      right = scalar && kind != JsonKind::kNull;
      if (right && kind != JsonKind::kString) value = json_text(json);
      break;
    case Type::kInteger:
      right = kind == JsonKind::kNumber && is_integer(json);
      break;
    case Type::kNumber:
      right = kind == JsonKind::kNumber;
      break;
    case Type::kBoolean:
      right = kind == JsonKind::kBool;
      break;
    case Type::kList:
      right = kind == JsonKind::kArray;
      break;
    case Type::kMap:
      right = kind == JsonKind::kObject;
      break;
    case Type::kAny:
      break;
  }
  if (!right) {
    *message = "is " + printable(json, 60) + "; it must be of the type " +
               std::string(kTypes[static_cast<std::size_t>(param.type)]);
    return {};
  }
  if (!param.choices.empty()) {
    const auto same = [&](const std::string& choice) {
      return choice == value || (param.type == Type::kText && json_text(choice) == value);
    };
    if (std::none_of(param.choices.begin(), param.choices.end(), same)) {
      std::vector<std::string> texts;
      for (const std::string& choice : param.choices) texts.push_back(text_of(choice));
      *message = "is " + printable(text_of(value), 60) + "; it must be one of " + comma_list(texts) +
                 did_you_mean(text_of(value), texts);
      return {};
    }
  }
  return value;
}

void Params::give(Problems& problems, const std::vector<GivenParam>& given) {
  for (const GivenParam& each : given) {
    Param* param = find(each.name);
    if (param == nullptr) {
      problems.add({}, each.from + ": the workflow has no parameter '" + printable(each.name, 40) + "'" +
                           did_you_mean(each.name, names()) +
                           (all_.empty() ? "; it declares none" : " (it has " + comma_list(names()) + ")"));
      continue;
    }
    std::string message;
    std::string json = value_as_json(each.text, &message);
    // Text is taken as it is, even if it would mean something in YAML.
    if (param->type == Type::kText && (json.empty() || model::json_kind(json) != model::JsonKind::kString)) {
      json = json_text(each.text);
    }
    std::string value = json.empty() ? std::string() : fit(*param, json, &message);
    if (value.empty()) {
      problems.add(param->at, "the parameter '" + param->name + "' " +
                                  (json.empty() ? "cannot be read: " + message : message) + " (" + each.from + ")");
    }
    if (!value.empty()) param->value = std::move(value);
    if (param->value.empty()) param->value = stand_in(param->type);
  }
  for (Param& param : all_) {
    if (!param.value.empty()) continue;
    problems.add(param.at, "the parameter '" + param.name + "' has no default and no value; give it one: --set " +
                               param.name + "=VALUE");
    param.value = stand_in(param.type);
  }
}

std::string Params::stand_in(Type type) {
  switch (type) {
    case Type::kInteger:
    case Type::kNumber:
      return "1";
    case Type::kBoolean:
      return "false";
    case Type::kList:
      return "[1]";
    case Type::kMap:
      return "{}";
    default:
      return R"("x")";
  }
}

std::string Params::text_of(const std::string& json) {
  return model::json_kind(json) == model::JsonKind::kString ? model::json_unescape(json) : json;
}

std::string Params::value(Problems& problems, const PlacedReference& placed) const {
  const model::Reference& reference = placed.reference;
  const std::string name = reference.path.front().is_index ? std::string() : reference.path.front().name;
  const Param* param = find(name);
  if (param == nullptr) {
    problems.add(placed.at, "'" + printable(reference.text, 60) + "' refers to a parameter '" + printable(name, 40) +
                                "' that params does not declare" +
                                (all_.empty() ? "" : " (it has " + comma_list(names()) + ")") +
                                did_you_mean(name, names()));
    return {};
  }
  if (reference.path.size() == 1) return param->value;
  model::Reference inner = reference;
  inner.root = "matrix";
  ParamScope scope("{" + json_text(name) + ":" + param->value + "}");
  Result<std::string> value = model::resolve_reference(inner, scope);
  if (value.ok()) return std::move(*value);
  problems.add(placed.at, "'" + printable(reference.text, 60) + "': " + value.error().message);
  return {};
}

}  // namespace rota::workflow
