#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "base/json_text.h"
#include "cli/commands.h"
#include "cli/load.h"

namespace rota::cli {

namespace {

enum class Format { kText, kMermaid, kDot, kJson };

// "train x3": how many tasks, if it has several.
std::string label_of(const model::Stage& stage) {
  return stage.items.empty() ? stage.name : stage.name + " x" + std::to_string(stage.items.size());
}

std::string draw(const model::WorkflowSpec& spec, Format format) {
  std::string out = format == Format::kMermaid ? "flowchart TD\n"
                    : format == Format::kDot   ? "digraph workflow {\n"
                                               : "";
  for (std::size_t i = 0; i < spec.stages.size(); ++i) {
    const model::Stage& stage = spec.stages[i];
    const std::string id = "s" + std::to_string(i);
    if (format == Format::kMermaid) out += "  " + id + "[\"" + label_of(stage) + "\"]\n";
    if (format == Format::kDot) out += "  " + id + " [label=\"" + label_of(stage) + "\"];\n";
    if (format == Format::kText) out += label_of(stage);
    bool first = true;
    for (const std::uint32_t need : stage.needs) {
      const std::string from = "s" + std::to_string(need);
      if (format == Format::kMermaid) out += "  " + from + " --> " + id + "\n";
      if (format == Format::kDot) out += "  " + from + " -> " + id + ";\n";
      if (format == Format::kText) out += (first ? " <- " : ", ") + spec.stages[need].name;
      first = false;
    }
    if (format == Format::kText) out += "\n";
  }
  return out + (format == Format::kDot ? "}\n" : "");
}

std::string to_json(const model::WorkflowSpec& spec) {
  std::string out = "{\"name\":";
  append_json_string(out, spec.name);
  out += ",\"stages\":[";
  for (const model::Stage& stage : spec.stages) {
    if (out.back() != '[') out += ',';
    out += "{\"name\":";
    append_json_string(out, stage.name);
    out += ",\"tasks\":" + std::to_string(std::max<std::size_t>(stage.items.size(), 1)) + ",\"needs\":[";
    for (const std::uint32_t need : stage.needs) {
      if (out.back() != '[') out += ',';
      append_json_string(out, spec.stages[need].name);
    }
    out += "]}";
  }
  return out + "]}\n";
}

}  // namespace

void add_graph(CLI::App& app, Exit& exit) {
  struct Options {
    std::string file;
    Format format = Format::kText;
  };
  CLI::App* verb = app.add_subcommand("graph", "Print who waits for whom");
  auto options = std::make_shared<Options>();
  verb->add_option("FILE", options->file, "the workflow, YAML or JSON")->required();
  verb->add_option("--format", options->format, "how it is drawn")
      ->transform(CLI::CheckedTransformer(std::map<std::string, Format>{
          {"text", Format::kText}, {"mermaid", Format::kMermaid}, {"dot", Format::kDot}, {"json", Format::kJson}}))
      ->option_text("text|mermaid|dot|json");
  verb->add_flag_callback("--json", [options] { options->format = Format::kJson; }, "the same as --format json");
  verb->footer(
      "Examples:\n"
      "  rota graph nightly.yaml\n"
      "  rota graph nightly.yaml --format dot | dot -Tsvg > nightly.svg");
  verb->callback([&exit, options] {
    Result<Loaded> loaded = load_workflow(options->file);
    if (!loaded.ok()) {
      exit.status = report(loaded.error());
      return;
    }
    const std::string text =
        options->format == Format::kJson ? to_json(loaded->spec) : draw(loaded->spec, options->format);
    std::fputs(text.c_str(), stdout);
    exit.status = 0;
  });
}

}  // namespace rota::cli
