// `rota replay [WHERE]`: verifies a log, and shows what another policy would have done.
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "cli/log_source.h"
#include "cli/output.h"
#include "cli/places.h"
#include "cli/replay.h"
#include "cli/subcommands.h"
#include "host/log_tail.h"

namespace rota::cli {

namespace {

Result<Replay> replay(const ReplayOptions& options, Output& output) {
  ROTA_TRY_ASSIGN(const std::vector<std::string> changes, check_policies(options.policies));
  std::string note;
  ROTA_TRY_ASSIGN(const Place place, find_place(options.where, &note));
  output.note(note);
  return replay_log(place, options, changes, output.shows_progress());
}

Result<int> print_records(const std::string& where, Output& output) {
  std::string note;
  ROTA_TRY_ASSIGN(const Place place, find_place(where, &note));
  output.note(note);
  ROTA_TRY_ASSIGN(const std::unique_ptr<LogSource> log, LogSource::open(place.log));
  ROTA_TRY(log->begin());
  for (;;) {
    ROTA_TRY_ASSIGN(const fleet::Record* record, log->next());
    if (record == nullptr) return 0;
    output.document(host::record_to_json(*record) + "\n");
  }
}

}  // namespace

Subcommand replay_subcommand() {
  auto options = std::make_shared<ReplayOptions>();
  return {
      .name = "replay",
      .meaning = "Verify a log by deciding everything again; show what another policy would have done",
      .positionals = {where(&options->where)},
      .options =
          {texts("--policy", "POLICY", &options->policies,
                 "compute what would have happened with these policy fields changed: "
                 "mode=static_worker,lambda_other=0.2; may be given several times"),
           texts("--fleet", "WORKERS", &options->fleet,
                 "compute it with these workers instead of one of the log: worker=small,count=3; with other hardware: "
                 "cpu_millis=16000, memory_bytes=N, gpus=2, cost_microdollars_per_hour=N; count=0 removes it; may "
                 "be given several times"),
           flag("--records", &options->records,
                "print the log instead: one JSON object per record, with its command and its events"),
           flag("--no-verify", &options->no_verify,
                "accept the decisions of the log as they are: for a log of another version of Rota")},
      .json = "print one JSON object",
      .footer =
          "Exit status 4: a record would be decided differently now. 10: the log is damaged.\n"
          "With --policy or --fleet, each attempt takes as long and ends in the same way as in the log, on whichever "
          "worker it\n"
          "runs; workers come and go at the same times. Busy cost is a worker's price for the time in which it ran\n"
          "tasks; provisioned cost is its price for the time in which it was present and enabled.",
      .examples = {"rota replay nightly.yaml                               # verify the log of its runs",
                   "rota replay nightly.yaml --policy mode=static_worker   # and compare with that mode",
                   "rota replay nightly.yaml --fleet worker=local,count=2  # and with two such workers"},
      .run = [options](Output& output) -> Result<int> {
        if (options->records) return print_records(options->where, output);
        const Result<Replay> result = replay(*options, output);
        if (!result.ok()) {
          output.replay_failed(result.error());
          return result.error();
        }
        output.replay(*result);
        return 0;
      }};
}

}  // namespace rota::cli
