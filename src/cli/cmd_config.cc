// `rota config`: every setting with its value and where that comes from (H-4).
#include "base/settings.h"
#include "cli/output.h"
#include "cli/subcommands.h"
#include "host/policy_settings.h"

namespace rota::cli {

Subcommand config_subcommand() {
  return {.name = "config",
          .meaning = "Print every setting with its value and the source of that value",
          .json = "print one JSON object",
          .examples = {"rota config", "rota config --json"},
          .run = [](Output& output) -> Result<int> {
            SettingsTable table;
            const host::PolicySettings rows(table);
            const SettingsLoad load = load_settings(table, {.environment = current_environment()});
            ROTA_TRY(load.status());
            if (const Result<fleet::Policy> policy = rows.policy(load.settings); !policy.ok()) return policy.error();
            output.settings(load.settings);
            return 0;
          }};
}

}  // namespace rota::cli
