// `rota submit FILE`: sends a workflow to the host that runs on this machine.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "cli/control_client.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/subcommands.h"

namespace rota::cli {

namespace {

constexpr std::uint32_t kWaitMs = 30'000;

struct SubmitOptions {
  std::string file;
  std::string state;
  std::string key;
  bool wait = false;
};

Result<fleet::Outcome> wait_for_end(const std::string& state, model::WorkflowId workflow) {
  for (;;) {
    ROTA_TRY_ASSIGN(const host::ControlAnswer answer, ask_host(state, host::AwaitEnd{workflow, kWaitMs}));
    if (answer.outcome != fleet::Outcome::kRunning) return answer.outcome;
  }
}

Result<int> submit(const SubmitOptions& options, Output& output) {
  ROTA_TRY_ASSIGN(Loaded loaded, load_workflow(options.file));
  const std::string state = host_state_of(options.state);
  const char* user = std::getenv("USER");  // NOLINT(concurrency-mt-unsafe): no thread was started yet.
  loaded.spec.user = user == nullptr || *user == '\0' ? "local" : user;
  Result<host::ControlAnswer> answer =
      ask_host(state, host::Execute{fleet::SubmitWorkflow{options.key, std::move(loaded.spec)}});
  Submission submission;
  if (!answer.ok()) {
    // With the same key the same workflow is meant: whoever submits twice gets the first one.
    Error error = std::move(answer).take_error();
    const std::string* known = error.detail("workflow");
    if (error.code != ErrorCode::kAlreadyExists || known == nullptr) return error;
    submission.workflow = model::WorkflowId::parse(*known).value_or(model::WorkflowId());
    submission.repeated = true;
  } else {
    submission.workflow = answer->workflow;
    submission.index = answer->index;
    submission.throttle = answer->throttle;
    submission.warnings = answer->warnings;
  }
  if (!options.wait) {
    output.submitted(submission);
    return 0;
  }
  ROTA_TRY_ASSIGN(submission.outcome, wait_for_end(state, submission.workflow));
  output.submitted(submission);
  switch (*submission.outcome) {
    case fleet::Outcome::kSucceeded:
      return 0;
    case fleet::Outcome::kCancelled:
      return exit_status(ErrorCode::kCancelled);
    default:
      return 1;
  }
}

}  // namespace

Subcommand submit_subcommand() {
  auto options = std::make_shared<SubmitOptions>();
  return {.name = "submit",
          .meaning = "Send a workflow to the host on this machine",
          .positionals = {workflow_file(&options->file)},
          .options = {host_state(&options->state),
                      text("--key", "KEY", &options->key,
                           "a name for this submission: submitting again with the same key does nothing"),
                      flag("--wait", &options->wait, "wait until the workflow has ended")},
          .json = "print one JSON object",
          .footer =
              "Prints the workflow's id. With --wait, the exit status is that of `rota run`: 1 if the workflow failed, "
              "7 if it\nwas cancelled.",
          .examples = {"rota submit nightly.yaml --state /var/lib/rota",
                       "rota submit nightly.yaml --key nightly-2026-11-17 --wait"},
          .run = [options](Output& output) { return submit(*options, output); }};
}

}  // namespace rota::cli
