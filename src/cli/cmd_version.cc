#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/commands.h"
#include "rota/version.h"

namespace rota::cli {

void add_version(CLI::App& app, Exit& exit) {
  CLI::App* verb = app.add_subcommand("version", "Which Rota this is");
  verb->callback([&exit] {
    std::printf("rota %s\n", std::string(library_version_text()).c_str());
    exit.status = 0;
  });
}

}  // namespace rota::cli
