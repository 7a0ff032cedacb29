// `rota config`: every setting with its value and where that comes from (H-4).
#include <memory>
#include <string>

#include "base/settings.h"
#include "cli/daemon.h"
#include "cli/output.h"
#include "cli/subcommands.h"
#include "host/host_settings.h"
#include "host/policy_settings.h"

namespace rota::cli {

Subcommand config_subcommand() {
  auto file = std::make_shared<std::string>();
  return {
      .name = "config",
      .meaning = "Print every setting of a host with its value and the source of that value",
      .options = {text("--config", "FILE", file.get(), "the settings file of a host; the environment comes before it")},
      .json = "print one JSON object",
      .footer =
          "`rota run` has no options for settings; it reads those of the policy from the environment. Unless they are\n"
          "set there, it queues 16 tasks per CPU, and 16 more, at a single worker, fails a task that no worker can "
          "run\n"
          "after 5 s, and neither gives up its workers nor forgets what was run.",
      .examples = {"rota config", "rota config --json"},
      .run = [file](Output& output) -> Result<int> {
        SettingsTable table;
        const host::HostSettings host(table);
        const host::PolicySettings policy(table);
        const LogSettings log(table);
        ROTA_TRY_ASSIGN(const Settings settings, load_all(table, {}, *file));
        if (const Result<fleet::Policy> in_force = policy.policy(settings); !in_force.ok()) return in_force.error();
        output.settings(settings);
        return 0;
      }};
}

}  // namespace rota::cli
