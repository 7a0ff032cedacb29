#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "base/json_text.h"
#include "cli/commands.h"
#include "cli/load.h"

namespace rota::cli {

namespace {

struct ValidateOptions {
  std::string file;
  bool json = false;
};

void print_json(const ValidateOptions& options, const Result<Loaded>& loaded) {
  std::string out = "{\"file\":";
  append_json_string(out, options.file);
  out += loaded.ok() ? ",\"valid\":true" : ",\"valid\":false";
  if (loaded.ok()) {
    out += ",\"name\":";
    append_json_string(out, loaded->spec.name);
    out += ",\"stages\":" + std::to_string(loaded->spec.stages.size()) +
           ",\"tasks\":" + std::to_string(count_tasks(loaded->spec));
  } else {
    out += ",\"code\":";
    append_json_string(out, to_string(loaded.error().code));
    out += ",\"problems\":[";
    bool first = true;
    for (const ErrorDetail& detail : loaded.error().details) {
      if (detail.key != "problem") continue;
      if (!first) out += ',';
      first = false;
      append_json_string(out, detail.value);
    }
    if (first) append_json_string(out, loaded.error().message);  // It could not be read at all.
    out += ']';
  }
  std::printf("%s}\n", out.c_str());
}

}  // namespace

void add_validate(CLI::App& app, Exit& exit) {
  CLI::App* verb = app.add_subcommand("validate", "Check a workflow file and run nothing");
  auto options = std::make_shared<ValidateOptions>();
  verb->add_option("FILE", options->file, "the workflow, YAML or JSON")->required();
  verb->add_flag("--json", options->json, "for programs");
  verb->footer(
      "All problems of the file are listed, each with its line and column.\n"
      "\n"
      "Examples:\n"
      "  rota validate nightly.yaml");
  verb->callback([&exit, options] {
    Result<Loaded> loaded = load_workflow(options->file);
    exit.status = loaded.ok() ? 0 : exit_status(loaded.code());
    if (options->json) {
      print_json(*options, loaded);
    } else if (!loaded.ok()) {
      report(loaded.error());
    } else {
      std::printf("%s: '%s' is fine: %zu stages, %zu tasks\n", options->file.c_str(), loaded->spec.name.c_str(),
                  loaded->spec.stages.size(), count_tasks(loaded->spec));
    }
  });
}

}  // namespace rota::cli
