#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "base/settings.h"
#include "cli/commands.h"
#include "host/policy_settings.h"

namespace rota::cli {

// H-4: every setting with its value and where that came from.
void add_config(CLI::App& app, Exit& exit) {
  CLI::App* verb = app.add_subcommand("config", "Print every setting, its value and where that comes from");
  auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "for programs");
  verb->footer(
      "Examples:\n"
      "  rota config\n"
      "  rota config --json");
  verb->callback([&exit, json] {
    SettingsTable table;
    const host::PolicySettings rows(table);
    const SettingsLoad load = load_settings(table, {.environment = current_environment()});
    if (Result<void> status = load.status(); !status.ok()) {
      exit.status = report(status.error());
      return;
    }
    std::fputs((*json ? load.settings.to_json() + "\n" : load.settings.to_text()).c_str(), stdout);
    exit.status = 0;
  });
}

}  // namespace rota::cli
