// `rota pause | resume | cancel | retry | priority WHAT`: controls a workflow or a task of a host.
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/json_text.h"
#include "cli/control_client.h"
#include "cli/log_source.h"
#include "cli/output.h"
#include "cli/places.h"
#include "cli/remote_host.h"
#include "cli/subcommands.h"
#include "fleet/brain.h"
#include "fleet/explain.h"
#include "fleet/state.h"

namespace rota::cli {

namespace {

struct ControlOptions {
  std::string what;
  std::string host;
  std::int64_t priority = 0;
};

// The task of this id or name. Names are known only to the log of the host.
Result<model::TaskId> task_called(const std::string& target, const std::string& name) {
  if (const std::optional<model::TaskId> id = model::TaskId::parse(name)) return *id;
  ROTA_TRY_ASSIGN(const Place place, find_place(target));
  ROTA_TRY_ASSIGN(const std::unique_ptr<LogSource> log, LogSource::open(place.log));
  ROTA_TRY_ASSIGN(const fleet::Brain brain, log->read_all());
  return fleet::find_task(brain.state(), name);
}

// Executes a command that names a workflow, or one of its tasks.
template <class Command>
Result<int> execute(Command command, const std::string& action, const ControlOptions& options, Output& output) {
  ROTA_TRY_ASSIGN(const std::string target, host_target(options.host));
  if (const std::optional<model::WorkflowId> workflow = model::WorkflowId::parse(options.what)) {
    command.workflow = *workflow;
  } else {
    ROTA_TRY_ASSIGN(command.task, task_called(target, options.what));
    command.workflow = command.task.workflow();
  }
  ROTA_TRY_ASSIGN(const host::ControlAnswer answer, ask_host(target, host::Execute{command}));
  output.controlled(action, command.task.is_none() ? command.workflow.to_string() : command.task.to_string(),
                    answer.index);
  return 0;
}

Option what(std::string* to) {
  return required(positional("WHAT", to, "a workflow (wf-3), or a task by id or name (wf-3.0, train[2])"));
}

Subcommand control_subcommand(fleet::Action action, std::string meaning, std::string footer) {
  auto options = std::make_shared<ControlOptions>();
  const std::string name(to_string(action));
  return {.name = name,
          .meaning = std::move(meaning),
          .positionals = {what(&options->what)},
          .options = with_host(&options->host, {}),
          .json = "print one JSON object",
          .footer = std::move(footer),
          .examples = {"rota " + name + " wf-3 --state /var/lib/rota"},
          .run = [options, action, name](Output& output) {
            fleet::Control command;
            command.action = action;
            return execute(command, name, *options, output);
          }};
}

}  // namespace

Subcommand pause_subcommand() {
  return control_subcommand(fleet::Action::kPause, "Pause a workflow or a task of a host",
                            "Running programs are stopped where they are; they keep what they hold.");
}
Subcommand resume_subcommand() {
  return control_subcommand(fleet::Action::kResume, "Resume a paused workflow or task of a host", "");
}
Subcommand cancel_subcommand() {
  return control_subcommand(fleet::Action::kCancel, "Cancel a workflow or a task of a host",
                            "Running programs get TERM and, after a grace period, KILL.");
}
Subcommand retry_subcommand() {
  return control_subcommand(fleet::Action::kRetry, "Run the failed or cancelled tasks of a workflow again, or one task",
                            "Tasks that succeeded keep their results.");
}
Subcommand priority_subcommand() {
  auto options = std::make_shared<ControlOptions>();
  Option number_option = number("PRIORITY", &options->priority, INT32_MIN, INT32_MAX, "the larger, the sooner");
  number_option.positional = true;
  return {.name = "priority",
          .meaning = "Change the priority of a workflow or a task of a host",
          .positionals = {what(&options->what), required(std::move(number_option))},
          .options = with_host(&options->host, {}),
          .json = "print one JSON object",
          .footer = "A negative number is written after `--`: rota priority wf-3 -- -5",
          .examples = {"rota priority wf-3 10"},
          .run = [options](Output& output) {
            fleet::SetPriority command;
            command.priority = options->priority;
            return execute(command, "priority", *options, output);
          }};
}

}  // namespace rota::cli
