// `rota host`: runs a host as a daemon.
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/settings.h"
#include "cli/daemon.h"
#include "cli/host_session.h"
#include "cli/output.h"
#include "cli/subcommands.h"
#include "host/host_settings.h"
#include "host/policy_settings.h"

namespace rota::cli {

namespace {

// All settings of a host, one table for its flags, the environment and the file.
struct HostTable {
  SettingsTable table{};
  host::HostSettings host{table};
  host::PolicySettings policy{table};
  LogSettings log{table};

  [[nodiscard]] Result<HostSetup> load(const std::vector<std::string>& arguments, const std::string& file) const {
    ROTA_TRY_ASSIGN(const Settings settings, load_all(table, arguments, file));
    ROTA_TRY_ASSIGN(fleet::Policy in_force, policy.policy(settings));
    HostSetup setup{host.config(settings), std::move(in_force), log.options(settings)};
    setup.config.state = std::filesystem::absolute(setup.config.state).lexically_normal().string();
    return setup;
  }
};

struct HostOptions {
  HostTable table{};
  std::string file{};
  std::vector<std::string> arguments{};
};

Result<int> run(const HostOptions& options) {
  const auto load = [&] { return options.table.load(options.arguments, options.file); };
  ROTA_TRY_ASSIGN(const HostSetup setup, load());
  std::signal(SIGPIPE, SIG_IGN);
  ROTA_TRY(run_host(setup, load));
  return 0;
}

}  // namespace

Subcommand host_subcommand() {
  auto options = std::make_shared<HostOptions>();
  std::vector<Option> all{
      text("--config", "FILE", &options->file, "a YAML file with settings; flags and environment come before it")};
  for (Option& option : setting_options(options->table.table, &options->arguments)) all.push_back(std::move(option));
  return {
      .name = "host",
      .meaning = "Run a host: it accepts workflows, decides which worker runs what, and keeps the log",
      .options = std::move(all),
      .footer =
          "The host runs until SIGTERM or SIGINT: it then accepts no more work, lets the tasks of its local workers "
          "end\n"
          "(--drain) and exits with status 0; a second signal exits at once. SIGHUP reads the settings again. Without\n"
          "--redis it uses this machine alone; with it, `rota worker --redis URL` adds machines. `rota submit` sends "
          "it\n"
          "work; `rota status`, `logs`, `explain`, `trace` and `replay` read its state folder. docs/fleet.md has more.",
      .examples = {"rota host --state /var/lib/rota",
                   "rota host --state /var/lib/rota --redis redis://10.0.0.7 "
                   "--local-workers 0",
                   "ORCHESTRATOR_DISPATCH_MODE=static_worker rota host --config /etc/rota/host.yaml"},
      .run = [options](Output&) { return run(*options); }};
}

}  // namespace rota::cli
