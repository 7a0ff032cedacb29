// `rota status [WHERE]`: which workflows were run, how far they are, and what runs now.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/output.h"
#include "cli/places.h"
#include "cli/status.h"
#include "cli/subcommands.h"

namespace rota::cli {

namespace {

struct StatusOptions {
  std::string where;
  bool all = false;
};

// Of several places, one that cannot be read is listed with its error, and decides the exit status.
Result<int> status(const StatusOptions& options, Output& output) {
  ROTA_TRY_ASSIGN(const std::vector<Place> places, find_places(options.where));
  std::vector<PlaceStatus> all;
  int exit = 0;
  for (const Place& place : places) {
    Result<PlaceStatus> read = read_status(place, output.shows_progress());
    if (read.ok()) {
      all.push_back(std::move(*read));
      continue;
    }
    if (places.size() == 1) return std::move(read).take_error();
    if (exit == 0) exit = exit_status(read.code());
    PlaceStatus unreadable;
    unreadable.place = place;
    unreadable.error = read.error();
    all.push_back(std::move(unreadable));
  }
  output.status(all, options.all);
  return exit;
}

}  // namespace

Subcommand status_subcommand() {
  auto options = std::make_shared<StatusOptions>();
  return {.name = "status",
          .meaning = "Show which workflows were run, how far they are, and which tasks run now",
          .positionals = {where(&options->where)},
          .options = {flag("--all", &options->all, "show older runs as well")},
          .json = "print one JSON object",
          .footer =
              "A run can be inspected from another terminal while it runs. A run that has not ended, but that no\n"
              "process runs, is interrupted; `rota run` resumes it. Times are UTC.\n"
              "With --json: {\"runs\": [{\"where\", \"name\", \"in_use\", \"writer\", \"workflows\": [{\"workflow\", "
              "\"name\", \"outcome\",\n"
              "\"submitted_ns\", \"elapsed_ns\", \"counts\", \"tasks\"}]}]}; \"tasks\" is there if WHERE is a single "
              "run, for its latest workflow.",
          .examples = {"rota status                # all runs in this folder",
                       "rota status nightly.yaml   # the tasks of its latest run",
                       "rota status --json | jq '.runs[].workflows[0].outcome'"},
          .run = [options](Output& output) { return status(*options, output); }};
}

}  // namespace rota::cli
