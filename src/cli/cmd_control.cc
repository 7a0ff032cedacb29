// `rota pause | resume | cancel | retry WHAT`: controls a workflow or a task of the host on this machine.
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/json_text.h"
#include "cli/control_client.h"
#include "cli/log_source.h"
#include "cli/output.h"
#include "cli/places.h"
#include "cli/subcommands.h"
#include "fleet/brain.h"
#include "fleet/explain.h"
#include "fleet/state.h"

namespace rota::cli {

namespace {

struct ControlOptions {
  std::string what;
  std::string state;
};

// The task of this name in the log of the host; names are known only to the log.
Result<model::TaskId> task_called(const std::string& state, const std::string& name) {
  ROTA_TRY_ASSIGN(const Place place, find_place(state));
  ROTA_TRY_ASSIGN(const std::unique_ptr<LogSource> log, LogSource::open(place.log));
  ROTA_TRY_ASSIGN(fleet::Brain brain, log->begin());
  for (;;) {
    ROTA_TRY_ASSIGN(const fleet::Record* record, log->next());
    if (record == nullptr) break;
    ROTA_TRY(brain.apply(*record));
  }
  return fleet::find_task(brain.state(), name);
}

Result<int> control(fleet::Action action, const ControlOptions& options, Output& output) {
  const std::string state = host_state_of(options.state);
  fleet::Control command;
  command.action = action;
  if (const std::optional<model::WorkflowId> workflow = model::WorkflowId::parse(options.what)) {
    command.workflow = *workflow;
  } else {
    ROTA_TRY_ASSIGN(command.task, task_called(state, options.what));
    command.workflow = command.task.workflow();
  }
  ROTA_TRY_ASSIGN(const host::ControlAnswer answer, ask_host(state, host::Execute{command}));
  output.controlled(std::string(to_string(action)),
                    command.task.is_none() ? command.workflow.to_string() : command.task.to_string(), answer.index);
  return 0;
}

Subcommand control_subcommand(fleet::Action action, std::string meaning, std::string footer) {
  auto options = std::make_shared<ControlOptions>();
  const std::string name(to_string(action));
  return {.name = name,
          .meaning = std::move(meaning),
          .positionals = {required(
              positional("WHAT", &options->what, "a workflow (wf-3), or a task by id or name (wf-3.0, train[2])"))},
          .options = {host_state(&options->state)},
          .json = "print one JSON object",
          .footer = std::move(footer),
          .examples = {"rota " + name + " wf-3 --state /var/lib/rota"},
          .run = [options, action](Output& output) { return control(action, *options, output); }};
}

}  // namespace

Subcommand pause_subcommand() {
  return control_subcommand(fleet::Action::kPause, "Pause a workflow or a task of the host on this machine",
                            "Running programs are stopped where they are; they keep what they hold.");
}
Subcommand resume_subcommand() {
  return control_subcommand(fleet::Action::kResume, "Resume a paused workflow or task of the host on this machine", "");
}
Subcommand cancel_subcommand() {
  return control_subcommand(fleet::Action::kCancel, "Cancel a workflow or a task of the host on this machine",
                            "Running programs get TERM and, after a grace period, KILL.");
}
Subcommand retry_subcommand() {
  return control_subcommand(fleet::Action::kRetry, "Run the failed or cancelled tasks of a workflow again, or one task",
                            "Tasks that succeeded keep their results.");
}

}  // namespace rota::cli
