#include "cli/subcommands.h"

namespace rota::cli {

std::vector<Subcommand> subcommands() {
  std::vector<Subcommand> all;
  all.push_back(run_subcommand());
  all.push_back(each_subcommand());
  all.push_back(host_subcommand());
  all.push_back(worker_subcommand());
  all.push_back(submit_subcommand());
  all.push_back(validate_subcommand());
  all.push_back(graph_subcommand());
  all.push_back(status_subcommand());
  all.push_back(watch_subcommand());
  all.push_back(workers_subcommand());
  all.push_back(schedules_subcommand());
  all.push_back(logs_subcommand());
  all.push_back(explain_subcommand());
  all.push_back(pause_subcommand());
  all.push_back(resume_subcommand());
  all.push_back(cancel_subcommand());
  all.push_back(retry_subcommand());
  all.push_back(priority_subcommand());
  all.push_back(clean_subcommand());
  all.push_back(view_subcommand());
  all.push_back(trace_subcommand());
  all.push_back(simulate_subcommand());
  all.push_back(replay_subcommand());
  all.push_back(ledger_subcommand());
  all.push_back(density_subcommand());
  all.push_back(token_subcommand());
  all.push_back(bench_subcommand());
  all.push_back(config_subcommand());
  all.push_back(completion_subcommand());
  all.push_back(version_subcommand());
  all.push_back(help_page_subcommand());
  all.push_back(complete_ids_subcommand());
  return all;
}

std::vector<Subcommand> listed_subcommands() {
  std::vector<Subcommand> all = subcommands();
  std::erase_if(all, [](const Subcommand& each) { return each.hidden; });
  return all;
}

}  // namespace rota::cli
