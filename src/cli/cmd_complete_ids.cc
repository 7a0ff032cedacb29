// The hidden `rota complete-ids`: prints ids of workflows, for the completion scripts. It never asks for anything and
// prints nothing if there is no host.
#include <memory>
#include <string>
#include <utility>

#include "cli/log_source.h"
#include "cli/output.h"
#include "cli/places.h"
#include "cli/progress_line.h"
#include "cli/remote_host.h"
#include "cli/subcommands.h"
#include "cli/timeline.h"
#include "model/json.h"

namespace rota::cli {

namespace {

constexpr std::size_t kMost = 100;

Result<std::string> ids_of(const std::string& target) {
  std::string ids;
  if (is_url(target)) {
    ROTA_TRY_ASSIGN(const std::shared_ptr<RemoteHost> host, RemoteHost::open(target));
    ROTA_TRY_ASSIGN(
        const net::HttpResponse response,
        host->ask({.target = "/v1/workflows?limit=" + std::to_string(kMost), .within = std::chrono::seconds(2)}));
    ROTA_TRY(model::json_validate(response.body));
    for (const std::string_view item : model::json_elements(model::json_member(response.body, "items"))) {
      ids += model::json_unescape(model::json_member(item, "id")) + "\n";
    }
    return ids;
  }
  ROTA_TRY_ASSIGN(const Place place, find_place(target));
  ROTA_TRY_ASSIGN(const std::unique_ptr<LogSource> source, LogSource::open(place.log));
  ProgressLine progress(false);
  ROTA_TRY_ASSIGN(const RunLog log, read_log(*source, progress));
  std::uint64_t id = latest_workflow(log.brain.state()).value();
  for (std::size_t shown = 0; id > 0 && shown < kMost; --id) {
    if (log.brain.state().find(model::WorkflowId(id)) == nullptr) continue;
    ids += model::WorkflowId(id).to_string() + "\n";
    ++shown;
  }
  return ids;
}

}  // namespace

Subcommand complete_ids_subcommand() {
  auto options = std::make_shared<std::string>();
  return {.name = "complete-ids",
          .meaning = "Print the ids of workflows, for completion",
          .options = with_host(options.get(), {}),
          .hidden = true,
          .run = [options](Output& output) -> Result<int> {
            const Result<std::string> target = host_target(*options);
            if (!target.ok()) return 0;
            if (const Result<std::string> ids = ids_of(*target); ids.ok()) output.document(*ids);
            return 0;
          }};
}

}  // namespace rota::cli
