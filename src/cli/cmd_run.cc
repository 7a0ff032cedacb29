#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/settings.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/load.h"
#include "cli/places.h"
#include "cli/run_session.h"
#include "host/policy_settings.h"
#include "rota/worker.h"
#include "workflow/fleet_file.h"

namespace rota::cli {

namespace {

struct RunOptions {
  std::string file;
  std::string state;
  std::string workers;
  std::int64_t jobs = 0;
  bool dry_run = false;
  bool json = false;
  bool fresh = false;
  bool no_cache = false;
  bool output = false;
  ledger::Durability durability = ledger::Durability::kFull;
};

constexpr std::size_t kTailLines = 10;
constexpr std::size_t kTailBytes = 4096;
constexpr std::size_t kTailTasks = 5;

Result<std::vector<model::WorkerSpec>> workers_of(const RunOptions& options) {
  if (options.workers.empty()) {
    const Hardware hardware = Hardware::detect();
    model::WorkerSpec local;
    local.name = "local";
    local.cpu_millis = options.jobs > 0 ? options.jobs * 1000 : static_cast<std::int64_t>(hardware.cpu_millis);
    local.memory_bytes = static_cast<std::int64_t>(hardware.memory_bytes);
    local.gpus.resize(hardware.gpus);
    return std::vector<model::WorkerSpec>{local};
  }
  ROTA_TRY_ASSIGN(const workflow::Source source, workflow::read_source(options.workers));
  workflow::FleetFile fleet = workflow::read_fleet(source);
  if (!fleet.ok()) return workflow::to_error(source.path, fleet.problems);
  return std::move(fleet.workers);
}

// What suits workers that live and die with the process, where nobody has said otherwise.
Result<fleet::Policy> policy_of(const std::vector<model::WorkerSpec>& workers) {
  SettingsTable table;
  const host::PolicySettings rows(table);
  const SettingsLoad load = load_settings(table, {.environment = current_environment()});
  ROTA_TRY(load.status());
  fleet::Policy policy = rows.policy(load.settings);
  const auto chosen = [&](Setting<std::int64_t> setting) {
    return host::PolicySettings::is_set(load.settings, setting);
  };
  // Some wait at the only worker there is, so that it need not wait for the disk: it could do so many short ones while
  // a group syncs.
  if (!chosen(rows.max_queue_per_worker()) && workers.size() == 1) {
    policy.max_queue_per_worker = 16 * (workers.front().cpu_millis / 1000 + 1);
  }
  // They cannot be lost; a process that was asleep for an hour has lost nothing.
  if (!chosen(rows.heartbeat_ttl())) policy.heartbeat_ttl_ms = 365LL * 24 * 3600 * 1000;
  // No other worker will come.
  if (!chosen(rows.no_worker_grace())) policy.no_worker_grace_ms = 5000;
  return policy;
}

void print_plan(const model::WorkflowSpec& spec, const std::vector<model::WorkerSpec>& workers) {
  std::printf("%s: %zu stages, %zu tasks\n", spec.name.c_str(), spec.stages.size(), count_tasks(spec));
  for (const model::Stage& stage : spec.stages) {
    const model::TaskTemplate& use = spec.templates[static_cast<std::size_t>(stage.use)];
    std::string text = "  " + stage.name;
    if (!stage.items.empty()) text += " x" + std::to_string(stage.items.size());
    text += ": cpu " + std::to_string(use.needs.cpu_millis) + "m";
    if (use.needs.memory_bytes > 0) {
      text += ", memory " + format_bytes({static_cast<std::uint64_t>(use.needs.memory_bytes)});
    }
    if (use.needs.gpu.count > 0) text += ", gpus " + std::to_string(use.needs.gpu.count);
    for (std::size_t i = 0; i < stage.needs.size(); ++i) {
      text += (i == 0 ? ", after " : ", ") + spec.stages[stage.needs[i]].name;
    }
    std::printf("%s\n", text.c_str());
  }
  for (const model::WorkerSpec& worker : workers) {
    std::printf("worker %s: cpu %lldm, memory %s, gpus %zu\n", worker.name.c_str(),
                static_cast<long long>(worker.cpu_millis),
                format_bytes({static_cast<std::uint64_t>(worker.memory_bytes)}).c_str(), worker.gpus.size());
  }
  std::printf("nothing was run (--dry-run)\n");
}

// The last lines of what a task wrote.
std::string tail_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const auto size = static_cast<std::size_t>(std::max<std::streamoff>(file.tellg(), 0));
  const std::size_t take = std::min(size, kTailBytes);
  file.seekg(static_cast<std::streamoff>(size - take));
  std::string text(take, '\0');
  file.read(text.data(), static_cast<std::streamsize>(take));
  text.resize(static_cast<std::size_t>(file.gcount()));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  std::size_t begin = text.size();
  for (std::size_t lines = 0; lines < kTailLines && begin != std::string::npos && begin > 0; ++lines) {
    begin = text.rfind('\n', begin - 1);
  }
  if (begin != std::string::npos && begin > 0) text.erase(0, begin + 1);
  return text;
}

std::string log_of(const RunEnd& end, const TaskRow& task) {
  return end.logs + "/" + log_name(task.id.value(), task.attempts);
}

void print_indented(std::string_view text) {
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  while (!text.empty()) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, length);
    std::printf("  | %s\n", (terminal ? for_a_terminal(line) : std::string(line)).c_str());
    text.remove_prefix(std::min(length + 1, text.size()));
  }
}

// What the last stage of all said, if it is one task: most often what somebody waited for.
void print_last_words(const RunEnd& end) {
  std::vector<bool> needed(end.report.needs.size());
  for (const auto& needs : end.report.needs) {
    for (const std::uint32_t need : needs) needed[need] = true;
  }
  const TaskRow* last = nullptr;
  for (const TaskRow& task : end.report.tasks) {
    if (needed[task.stage] || task.skipped) continue;
    if (last != nullptr) return;  // There are several.
    last = &task;
  }
  if (last == nullptr || last->state != graph::TaskState::kSucceeded) return;
  const std::string tail = tail_of(log_of(end, *last));
  if (tail.empty()) return;
  std::printf("\n%s said:\n", last->name.c_str());
  print_indented(tail);
}

void print_failures(const RunEnd& end) {
  std::size_t shown = 0;
  for (const TaskRow& task : end.report.tasks) {
    if (task.state != graph::TaskState::kFailed) continue;
    if (++shown > kTailTasks) continue;
    const std::string log = log_of(end, task);
    std::printf("\n%s failed: %s\n", task.name.c_str(), task.message.c_str());
    const std::string tail = tail_of(log);
    if (tail.empty()) continue;
    print_indented(tail);
    std::printf("  all of it: %s\n", log.c_str());
  }
  if (shown > kTailTasks)
    std::printf("\n%zu more failed; their output is in %s\n", shown - kTailTasks, end.logs.c_str());
}

Result<int> run(const RunOptions& options) {
  RunSetup setup;
  ROTA_TRY_ASSIGN(setup.workflow, load_workflow(options.file));
  ROTA_TRY_ASSIGN(setup.workers, workers_of(options));
  ROTA_TRY_ASSIGN(setup.policy, policy_of(setup.workers));
  if (options.dry_run) {
    print_plan(setup.workflow.spec, setup.workers);
    return 0;
  }
  const char* user = std::getenv("USER");  // NOLINT(concurrency-mt-unsafe): before any thread.
  setup.workflow.spec.user = user == nullptr || *user == '\0' ? "local" : user;
  setup.workers_have_a_price = !options.workers.empty();
  setup.fresh = options.fresh;
  setup.cache = !options.no_cache;
  setup.output = options.output;
  setup.durability = options.durability;
  setup.state = !options.state.empty() ? std::filesystem::absolute(options.state).lexically_normal().string()
                                       : state_folder_of(setup.workflow.path);
  setup.style = options.json                   ? RunView::Style::kJson
                : ::isatty(STDOUT_FILENO) == 1 ? RunView::Style::kLive
                                               : RunView::Style::kPlain;
  // `rota run FILE | head`: the work does not depend on who watches it.
  std::signal(SIGPIPE, SIG_IGN);
  ROTA_TRY_ASSIGN(const RunEnd end, run_session(std::move(setup)));
  if (options.json) {
    std::printf("%s\n", to_json(end.report).c_str());
  } else {
    std::printf("\n%s", to_table(end.report).c_str());
    print_failures(end);
    print_last_words(end);
    if (end.report.outcome != fleet::Outcome::kSucceeded) {
      std::printf("\nRun it again to go on with what did not succeed.\n");
    }
  }
  std::fflush(stdout);
  confirm(end);
  switch (end.report.outcome) {
    case fleet::Outcome::kSucceeded:
      return 0;
    case fleet::Outcome::kCancelled:
      return exit_status(ErrorCode::kCancelled);
    default:
      return 1;
  }
}

}  // namespace

void add_run(CLI::App& app, Exit& exit) {
  CLI::App* verb = app.add_subcommand("run", "Run a workflow here, to its end; run again, go on where it stopped");
  auto options = std::make_shared<RunOptions>();
  verb->add_option("FILE", options->file, "the workflow, YAML or JSON")->required();
  verb->add_option("--state", options->state, "where the run is kept; otherwise .rota/<file's name>/ beside the file")
      ->option_text("DIR");
  verb->add_option("--workers", options->workers, "a fleet's file: workers of these sizes, with real commands")
      ->option_text("FILE");
  verb->add_option("--jobs", options->jobs, "processors to use; otherwise all of this machine's")
      ->option_text("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{100'000}))
      ->excludes("--workers");
  verb->add_flag("--dry-run", options->dry_run, "show what would be run");
  verb->add_flag("--json", options->json, "one event a line, for programs");
  verb->add_flag("--fresh", options->fresh, "start anew, whatever was before");
  verb->add_flag("--no-cache", options->no_cache,
                 "run also what is unchanged since an earlier run (`cache` in the file)");
  verb->add_flag("--output", options->output, "show what tasks write, line by line");
  verb->add_option("--durability", options->durability, "full: survives a power cut; relaxed: a crash of this process")
      ->transform(CLI::CheckedTransformer(std::map<std::string, ledger::Durability>{
          {"full", ledger::Durability::kFull}, {"relaxed", ledger::Durability::kRelaxed}}))
      ->option_text("full|relaxed");
  verb->footer(
      "Ctrl-C cancels what runs; a second one ends at once. Exit status 1: the workflow failed; 7: it was cancelled.\n"
      "\n"
      "Examples:\n"
      "  rota run nightly.yaml\n"
      "  rota run nightly.yaml --jobs 4 --state /var/tmp/nightly\n"
      "  rota run nightly.yaml --json | jq -r .event");
  verb->callback([&exit, options] {
    Result<int> status = run(*options);
    exit.status = status.ok() ? *status : report(status.error());
  });
}

}  // namespace rota::cli
