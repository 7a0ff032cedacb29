// `rota host`: runs a host as a daemon.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "base/settings.h"
#include "cli/daemon.h"
#include "cli/host_session.h"
#include "cli/output.h"
#include "cli/subcommands.h"
#include "host/host_init.h"
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
  std::string action{};  // "init", or nothing.
  std::vector<std::string> names{};
  bool renew = false;
  std::string file{};
  std::vector<std::string> arguments{};
};

// `rota host init`: prints what clients need, once.
Result<int> init(const HostOptions& options, const HostSetup& setup, Output& output) {
  const std::string& state = setup.config.state;
  const std::int64_t now_s =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  if (options.renew) {
    ROTA_TRY(host::renew_certificate(state, now_s, true));
    output.document("made a new certificate for the host: " + host::HostFiles(state).certificate() +
                    "\nA running host uses it after SIGHUP.\n");
    return 0;
  }
  std::vector<std::string> names = options.names;
  if (names.empty()) {
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0') names.emplace_back(name.data());
  }
  const std::string first = names.empty() ? "localhost" : names.front();
  for (const char* local : {"localhost", "127.0.0.1", "::1"}) {
    if (std::find(names.begin(), names.end(), local) == names.end()) names.emplace_back(local);
  }
  const char* user = std::getenv("USER");  // NOLINT(concurrency-mt-unsafe): no thread was started yet.
  ROTA_TRY_ASSIGN(const host::HostIdentity made,
                  host::init_host(state, names, user == nullptr || *user == '\0' ? "admin" : user, now_s));
  std::string text = "CA certificate: " + made.ca_file + "\nsha256: " + made.ca_sha256 + "\n";
  if (made.admin_token.empty()) {
    text += "The tokens of this state folder stay as they are.\n";
  } else {
    text += "Admin token, shown this once: " + made.admin_token + "\n";
  }
  text += "\nStart the host:   rota host --state " + state +
          " --http 0.0.0.0:7070\nA context file for clients, ~/.config/rota/context, mode 0600:\n\nurl = https://" +
          first + ":7070\ntoken = " + (made.admin_token.empty() ? "TOKEN" : made.admin_token) +
          "\nca = sha256:" + made.ca_sha256 + "\n";
  output.document(text);
  return 0;
}

Result<int> run(const HostOptions& options, Output& output) {
  const auto load = [&] { return options.table.load(options.arguments, options.file); };
  ROTA_TRY_ASSIGN(const HostSetup setup, load());
  if (options.action == "init") return init(options, setup, output);
  if (!options.action.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 "'" + printable(options.action) +
                     "' is not something that `rota host` does; write `rota host` or `rota host init`"};
  }
  std::signal(SIGPIPE, SIG_IGN);
  ROTA_TRY(run_host(setup, load));
  return 0;
}

}  // namespace

Subcommand host_subcommand() {
  auto options = std::make_shared<HostOptions>();
  std::vector<Option> all{
      texts("--name", "NAME", &options->names,
            "with init: a name or address under which clients reach the host; default: the name of this machine"),
      flag("--renew", &options->renew, "with init: only make a new certificate for the host, signed by the same CA"),
      text("--config", "FILE", &options->file, "a YAML file with settings; flags and environment come before it")};
  for (Option& option : setting_options(options->table.table, &options->arguments)) all.push_back(std::move(option));
  return {
      .name = "host",
      .meaning = "Run a host: it accepts workflows, decides which worker runs what, and keeps the log",
      .positionals = {positional("ACTION", &options->action,
                                 "init: make a CA, a certificate and an admin token in the state folder, and exit")},
      .options = std::move(all),
      .footer =
          "The host runs until SIGTERM or SIGINT: it then accepts no more work, lets the tasks of its local workers "
          "end\n"
          "(--drain) and exits with status 0; a second signal exits at once. SIGHUP reads the settings again. Without\n"
          "--redis it uses this machine alone; with it, `rota worker --redis URL` adds machines. `rota submit` sends "
          "it\n"
          "work; `rota status`, `logs`, `explain`, `trace` and `replay` read its state folder. docs/fleet.md has more.",
      .examples = {"rota host --state /var/lib/rota",
                   "rota host init --state /var/lib/rota --name rota.example --name 10.0.0.7",
                   "rota host --state /var/lib/rota --redis redis://10.0.0.7 "
                   "--local-workers 0",
                   "ORCHESTRATOR_DISPATCH_MODE=static_worker rota host --config /etc/rota/host.yaml"},
      .run = [options](Output& output) { return run(*options, output); }};
}

}  // namespace rota::cli
