#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "rota/version.h"

namespace rota::cli {

void add_version(CLI::App& app, Exit& exit) {
  CLI::App* verb = app.add_subcommand("version", "Which Rota this is");
  auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "for programs");
  verb->footer(
      "Examples:\n"
      "  rota version");
  verb->callback([&exit, json] {
    const std::string version(library_version_text());
    std::printf(*json ? "{\"version\":\"%s\"}\n" : "rota %s\n", version.c_str());
    exit.status = 0;
  });
}

}  // namespace rota::cli
