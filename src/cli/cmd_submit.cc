// `rota submit FILE`: sends a workflow to a host.
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cli/control_client.h"
#include "cli/load.h"
#include "cli/output.h"
#include "cli/remote_host.h"
#include "cli/run_local.h"
#include "cli/subcommands.h"
#include "host/http_views.h"
#include "host/scheduler.h"
#include "rota/clock.h"

namespace rota::cli {

namespace {

constexpr std::uint32_t kWaitMs = 30'000;
constexpr std::chrono::seconds kAskAgainAfter{1};  // If the host has no room for another client that waits.
constexpr std::chrono::seconds kFollowsWithin{60};

// No expression that anybody can give: `--cron ""`, from a variable that is not set, must not submit at once.
constexpr std::string_view kNoCron("\0", 1);

struct SubmitOptions {
  std::string file;
  ParamOptions params;
  std::string host;
  std::string key;
  bool wait = false;
  // A schedule instead of a submission.
  std::string cron{kNoCron};
  std::string zone{};  // Empty: UTC.
  std::string name;
  fleet::MissedRule missed = fleet::MissedRule::kLast;
  fleet::OverlapRule overlap = fleet::OverlapRule::kSkip;
};

// The workflow was accepted. A host that follows another one may learn of it a moment after its leader has answered. A
// host that restarts is waited for: it resumes the workflow.
Result<host::ControlAnswer> wait_for_end(const std::string& target, model::WorkflowId workflow, Output& output) {
  const auto known_at = std::chrono::steady_clock::now() + kFollowsWithin;
  bool answers = true;
  for (;;) {
    const auto ask_again_at = std::chrono::steady_clock::now() + kAskAgainAfter;
    Result<host::ControlAnswer> answer = ask_host(target, host::AwaitEnd{workflow, kWaitMs});
    const bool follows = answer.code() == ErrorCode::kNotFound && std::chrono::steady_clock::now() < known_at;
    const bool silent = !answer.ok() && is_worth_trying_again(answer.code());
    if (!answer.ok() && !follows && !silent) return answer;
    if (silent && answers) {
      output.note(workflow.to_string() + " was accepted, but its end is not known: " + answer.error().message +
                  "; trying again until the host answers");
    }
    answers = !silent;
    if (answer.ok() && answer->outcome != fleet::Outcome::kRunning) return answer;
    std::this_thread::sleep_until(ask_again_at);
  }
}

Result<int> schedule(const SubmitOptions& options, model::WorkflowSpec workflow, const std::string& target,
                     Output& output) {
  const std::string zone = options.zone.empty() ? "UTC" : options.zone;
  ROTA_TRY(host::check_schedule(options.cron, zone));
  fleet::ScheduleSpec spec;
  spec.name = options.name.empty() ? workflow.name : options.name;
  spec.cron = options.cron;
  spec.zone = zone;
  spec.missed = options.missed;
  spec.overlap = options.overlap;
  spec.workflow = std::move(workflow);
  const std::string name = spec.name;
  const std::vector<std::int64_t> next =
      host::next_firings(spec.cron, spec.zone, system_clock().wall().time_since_epoch().count(), 1);
  ROTA_TRY_ASSIGN(const host::ControlAnswer answer,
                  ask_host(target, host::Execute{fleet::SetSchedule{std::move(spec)}}));
  output.controlled("schedule", name, answer.index);
  if (!next.empty()) output.note("next: " + host::to_rfc3339(next.front()).substr(0, 16) + " UTC");
  return 0;
}

Result<int> submit(const SubmitOptions& options, Output& output) {
  ROTA_TRY_ASSIGN(Loaded loaded, load_workflow(options.file, options.params));
  ROTA_TRY_ASSIGN(const std::string target, host_target(options.host));
  const char* user = std::getenv("USER");  // NOLINT(concurrency-mt-unsafe): no thread was started yet.
  loaded.spec.user = user == nullptr || *user == '\0' ? "local" : user;
  const bool scheduled = options.cron != kNoCron;
  if (scheduled && (options.wait || !options.key.empty())) {
    return Error{ErrorCode::kInvalidArgument, "--cron makes a schedule, which has neither --key nor --wait"};
  }
  const SubmitOptions defaults;
  if (!scheduled && (!options.name.empty() || !options.zone.empty() || options.missed != defaults.missed ||
                     options.overlap != defaults.overlap)) {
    return Error{ErrorCode::kInvalidArgument,
                 "--name, --tz, --missed and --overlap belong to a schedule; give --cron, too"};
  }
  if (scheduled) return schedule(options, std::move(loaded.spec), target, output);
  Result<host::ControlAnswer> answer =
      ask_host(target, host::Execute{fleet::SubmitWorkflow{options.key, std::move(loaded.spec)}});
  Submission submission;
  if (!answer.ok()) {
    // The same key means the same workflow: a client that submits it twice gets the id of the first submission.
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
  ROTA_TRY_ASSIGN(const host::ControlAnswer ended, wait_for_end(target, submission.workflow, output));
  submission.outcome = ended.outcome;
  output.submitted(submission);
  for (const host::ControlAnswer::Detail& detail : ended.details) {
    if (detail.name != host::kStoppedDetail || detail.value != to_string(fleet::StopCause::kDeadline)) continue;
    output.note("the deadline of the workflow has passed");
    return exit_status(ErrorCode::kDeadlineExceeded);
  }
  return exit_status_of(*submission.outcome);
}

}  // namespace

Subcommand submit_subcommand() {
  using fleet::MissedRule, fleet::OverlapRule;
  const std::vector<std::pair<std::string, MissedRule>> missed_rules{
      {"skip", MissedRule::kSkip}, {"last", MissedRule::kLast}, {"all", MissedRule::kAll}};
  const std::vector<std::pair<std::string, OverlapRule>> overlap_rules{{"allow", OverlapRule::kAllow},
                                                                       {"skip", OverlapRule::kSkip},
                                                                       {"queue", OverlapRule::kQueue},
                                                                       {"replace", OverlapRule::kReplace}};
  auto options = std::make_shared<SubmitOptions>();
  Subcommand send{
      .name = "submit",
      .meaning = "Send a workflow to a host",
      .positionals = {workflow_file(&options->file)},
      .options =
          with_host(&options->host,
                    {text("--key", "KEY", &options->key,
                          "a name for this submission: submitting again with the same key does nothing"),
                     flag("--wait", &options->wait, "wait until the workflow has ended"),
                     text("--cron", "CRON", &options->cron,
                          "submit it again and again: minute, hour, day of month, month, day of week, like "
                          "'0 3 * * *', or @daily"),
                     text("--tz", "ZONE", &options->zone, "the time zone of --cron, like Europe/Berlin; default: UTC"),
                     text("--name", "NAME", &options->name,
                          "the name of the schedule; default: the workflow's. One of this name is replaced"),
                     choice("--missed", missed_rules, &options->missed,
                            "times that pass while the host is down: skip them, submit the last one (default), or "
                            "all"),
                     choice("--overlap", overlap_rules, &options->overlap,
                            "if an earlier one still runs: allow, skip (default), queue, or replace it")}),
      .json = "print one JSON object",
      .footer =
          "Prints the workflow's id. With --wait, the exit status is that of `rota run`: 1 if the workflow failed, "
          "6 if its\ndeadline has passed, 7 if it was cancelled; a host that is restarted meanwhile is waited for. "
          "With "
          "--cron it\nbecomes a schedule; `rota schedules` lists, pauses and removes them.",
      .examples = {"rota submit nightly.yaml --state /var/lib/rota",
                   "rota submit nightly.yaml --key nightly-2026-11-17 --wait",
                   "ROTA_URL=https://rota.example:7070 rota submit nightly.yaml",
                   "rota submit nightly.yaml --cron '0 3 * * *' --tz Europe/Berlin --overlap queue"},
      .run = [options](Output& output) { return submit(*options, output); }};
  const std::vector<Option> params = param_options(&options->params);
  send.options.insert(send.options.begin(), params.begin(), params.end());
  return send;
}

}  // namespace rota::cli
