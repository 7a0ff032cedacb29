// The subcommands of `rota`; each is described in its own cmd_*.cc.
#pragma once

#include <vector>

#include "cli/subcommand.h"

namespace rota::cli {

[[nodiscard]] Subcommand run_subcommand();
[[nodiscard]] Subcommand each_subcommand();
[[nodiscard]] Subcommand host_subcommand();
[[nodiscard]] Subcommand worker_subcommand();
[[nodiscard]] Subcommand submit_subcommand();
[[nodiscard]] Subcommand pause_subcommand();
[[nodiscard]] Subcommand resume_subcommand();
[[nodiscard]] Subcommand cancel_subcommand();
[[nodiscard]] Subcommand retry_subcommand();
[[nodiscard]] Subcommand priority_subcommand();
[[nodiscard]] Subcommand watch_subcommand();
[[nodiscard]] Subcommand workers_subcommand();
[[nodiscard]] Subcommand schedules_subcommand();
[[nodiscard]] Subcommand validate_subcommand();
[[nodiscard]] Subcommand graph_subcommand();
[[nodiscard]] Subcommand status_subcommand();
[[nodiscard]] Subcommand logs_subcommand();
[[nodiscard]] Subcommand explain_subcommand();
[[nodiscard]] Subcommand clean_subcommand();
[[nodiscard]] Subcommand view_subcommand();
[[nodiscard]] Subcommand trace_subcommand();
[[nodiscard]] Subcommand replay_subcommand();
[[nodiscard]] Subcommand ledger_subcommand();
[[nodiscard]] Subcommand simulate_subcommand();
[[nodiscard]] Subcommand density_subcommand();
[[nodiscard]] Subcommand token_subcommand();
[[nodiscard]] Subcommand bench_subcommand();
[[nodiscard]] Subcommand config_subcommand();
[[nodiscard]] Subcommand completion_subcommand();
[[nodiscard]] Subcommand version_subcommand();
[[nodiscard]] Subcommand help_page_subcommand();
[[nodiscard]] Subcommand complete_ids_subcommand();

// All of them, hidden ones included, in the order of the help.
[[nodiscard]] std::vector<Subcommand> subcommands();
// Those that the help, the pages and the completions list.
[[nodiscard]] std::vector<Subcommand> listed_subcommands();

}  // namespace rota::cli
