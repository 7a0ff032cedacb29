#include "worker/json.h"

#include <simdjson.h>

#include <functional>
#include <set>
#include <utility>

#include "base/json_text.h"
#include "base/nearest.h"

namespace rota::worker {

namespace dom = simdjson::dom;

namespace {

Error parse_error(const std::string& message) { return Error{ErrorCode::kParseError, message}; }

// The parser copies the text: simdjson wants room behind it.
Result<dom::element> parse(dom::parser& parser, std::string_view text) {
  dom::element element;
  if (const simdjson::error_code error = parser.parse(text.data(), text.size()).get(element);
      error != simdjson::SUCCESS) {
    return parse_error("not valid JSON (" + std::string(simdjson::error_message(error)) + "): '" + printable(text, 60) +
                       "'");
  }
  return element;
}

// Reads an object's members; each name may come once, and has to be one of those that are known.
using Members = std::map<std::string, std::function<Result<void>(dom::element)>, std::less<>>;

Result<void> read_members(dom::element element, const std::string& path, const Members& members) {
  dom::object object;
  if (element.get(object) != simdjson::SUCCESS) {
    return parse_error((path.empty() ? std::string("a task's specification") : path) + " must be an object");
  }
  std::set<std::string_view> seen;
  for (const auto& [key, value] : object) {
    const std::string name = (path.empty() ? "" : path + ".") + printable(key);
    if (!seen.insert(key).second) return parse_error(name + " is there twice");
    const auto found = members.find(key);
    if (found == members.end()) {
      std::vector<std::string> known;
      for (const auto& [known_key, unused] : members) known.push_back(known_key);
      const std::string_view near = nearest(key, known);
      return parse_error("unknown member " + name +
                         (near.empty() ? std::string() : "; did you mean '" + std::string(near) + "'?"));
    }
    ROTA_TRY(found->second(value));
  }
  return {};
}

// Keeps JSON as text.
auto raw(std::string* out) {
  return [out](dom::element value) -> Result<void> {
    *out = simdjson::minify(value);
    return {};
  };
}

auto text(std::string* out, std::string name) {
  return [out, name = std::move(name)](dom::element value) -> Result<void> {
    std::string_view view;
    if (value.get(view) != simdjson::SUCCESS) return parse_error(name + " must be text");
    *out = view;
    return {};
  };
}

// A text as it is, anything else as its JSON: what a reference alone stood for keeps its type until here.
std::string text_or_json(dom::element value) {
  std::string_view view;
  return value.get(view) == simdjson::SUCCESS ? std::string(view) : simdjson::minify(value);
}

template <class Number>
auto number(Number* out, std::string name) {
  return [out, name = std::move(name)](dom::element value) -> Result<void> {
    std::uint64_t count = 0;
    // A year of milliseconds, a petabyte: what is above is a mistake, and sums of what is below do not overflow.
    if (value.get(count) != simdjson::SUCCESS || count > (std::uint64_t{1} << 53)) {
      return parse_error(name + " must be a whole number from 0 to 2^53");
    }
    *out = count;
    return {};
  };
}

Result<void> read_run(dom::element value, TaskSpec* spec) {
  constexpr char kWhat[] = "run must be text for a shell, or a list of a program and its arguments";
  if (std::string_view view; value.get(view) == simdjson::SUCCESS) {
    if (view.empty()) return parse_error("run is empty; write the command to run");
    spec->shell = view;
    return {};
  }
  dom::array list;
  if (value.get(list) != simdjson::SUCCESS) return parse_error(kWhat);
  for (const dom::element item : list) spec->arguments.push_back(text_or_json(item));
  if (spec->arguments.empty()) return parse_error(kWhat);
  return {};
}

Result<void> read_environment(dom::element value, std::map<std::string, std::string>* environment) {
  dom::object object;
  if (value.get(object) != simdjson::SUCCESS) return parse_error("env must be an object of names and values");
  for (const auto& [key, item] : object) {
    const std::string name = "env." + printable(key);
    if (key.empty() || key.find('=') != std::string_view::npos || key.find('\0') != std::string_view::npos) {
      return parse_error(name + ": a variable's name has at least one character, and no '='");
    }
    // ROTA_REF_1, ...: what the references in a shell's text stand for.
    if (key.starts_with("ROTA_") && !key.starts_with("ROTA_REF_"))
      return parse_error(name + ": names that begin with ROTA_ are the worker's");
    if (!environment->emplace(key, text_or_json(item)).second) return parse_error(name + " is there twice");
  }
  return {};
}

auto texts(std::vector<std::string>* out, std::string name) {
  return [out, name = std::move(name)](dom::element value) -> Result<void> {
    dom::array list;
    if (value.get(list) != simdjson::SUCCESS) return parse_error(name + " must be a list of texts");
    for (const dom::element item : list) out->push_back(text_or_json(item));
    return {};
  };
}

Result<void> read_cache(dom::element value, CacheSpec* cache) {
  return read_members(value, "cache",
                      {
                          {"files", texts(&cache->files, "cache.files")},
                          {"outputs", texts(&cache->outputs, "cache.outputs")},
                          {"dir", text(&cache->directory, "cache.dir")},
                      });
}

}  // namespace

Result<void> check_json(std::string_view text) {
  dom::parser parser;
  ROTA_TRY(parse(parser, text));
  return {};
}

Result<std::vector<std::string>> split_array(std::string_view text) {
  dom::parser parser;
  ROTA_TRY_ASSIGN(const dom::element root, parse(parser, text));
  dom::array list;
  if (root.get(list) != simdjson::SUCCESS) return parse_error("not a JSON array: '" + printable(text, 60) + "'");
  std::vector<std::string> values;
  for (const dom::element item : list) values.push_back(simdjson::minify(item));
  return values;
}

bool is_utf8(std::string_view text) { return simdjson::validate_utf8(text.data(), text.size()); }

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

Result<TaskSpec> parse_task_spec(std::string_view source) {
  dom::parser parser;
  ROTA_TRY_ASSIGN(const dom::element root, parse(parser, source));
  TaskSpec spec;
  const Members limits = {
      {"cpu_time_ms", number(&spec.cpu_time_ms, "limits.cpu_time_ms")},
      {"memory_bytes", number(&spec.memory_bytes, "limits.memory_bytes")},
      {"open_files", number(&spec.open_files, "limits.open_files")},
      {"processes", number(&spec.processes, "limits.processes")},
      {"output_bytes", number(&spec.output_bytes, "limits.output_bytes")},
  };
  ROTA_TRY(read_members(root, "",
                        {
                            {"kind", [](dom::element) -> Result<void> { return {}; }},  // In the assignment, too.
                            {"cache", [&](dom::element value) { return read_cache(value, &spec.cache.emplace()); }},
                            {"run", [&](dom::element value) { return read_run(value, &spec); }},
                            {"env", [&](dom::element value) { return read_environment(value, &spec.environment); }},
                            {"dir", text(&spec.directory, "dir")},
                            {"inputs", raw(&spec.inputs)},
                            {"checkpoint", raw(&spec.checkpoint)},
                            {"timeout_ms", number(&spec.timeout_ms, "timeout_ms")},
                            {"grace_ms", number(&spec.grace_ms, "grace_ms")},
                            {"limits", [&](dom::element value) { return read_members(value, "limits", limits); }},
                        }));
  return spec;
}

}  // namespace rota::worker
