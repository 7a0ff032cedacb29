// `rota clean [WHERE]`: removes the logs and stored files of older runs, or whole state folders.
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/format.h"
#include "cli/log_source.h"
#include "cli/output.h"
#include "cli/places.h"
#include "cli/progress_line.h"
#include "cli/status.h"
#include "cli/subcommands.h"
#include "cli/timeline.h"
#include "ledger/disk_reader.h"
#include "net/file_store.h"

namespace rota::cli {

namespace {

namespace fs = std::filesystem;

struct CleanOptions {
  std::string where;
  std::int64_t keep = 1;
  bool all = false;
  bool dry_run = false;
};

struct Removed {
  std::size_t files = 0;
  std::uint64_t bytes = 0;
};

Error cannot_remove(const std::string& path, const std::error_code& error) {
  return Error{ErrorCode::kIoError, "'" + path + "' cannot be removed: " + error.message()};
}

// The run whose output a log file has: its name begins with the number of the task.
model::WorkflowId run_of(const fs::path& log) {
  const std::string name = log.filename().string();
  std::uint64_t task = 0;
  const auto parsed = std::from_chars(name.data(), name.data() + name.size(), task);
  return parsed.ec == std::errc() && *parsed.ptr == '-' ? model::TaskId(task).workflow() : model::WorkflowId();
}

// The latest runs.
Result<std::set<model::WorkflowId>> runs_to_keep(const Place& place, const CleanOptions& options) {
  ROTA_TRY_ASSIGN(const PlaceStatus status, read_status(place, false));
  std::set<model::WorkflowId> kept;
  for (const WorkflowStatus& workflow : status.workflows) {
    if (kept.size() < static_cast<std::size_t>(options.keep)) kept.insert(workflow.report.workflow);
  }
  return kept;
}

// The stored outputs to which only other runs refer.
Result<Removed> remove_files(const Place& place, const std::set<model::WorkflowId>& kept, bool dry_run) {
  Removed removed;
  const std::string folder = place.folder + "/files";
  std::error_code none;
  if (!fs::exists(folder, none)) return removed;
  ROTA_TRY_ASSIGN(const std::unique_ptr<LogSource> source, LogSource::open(place.log));
  ProgressLine line(false);
  ROTA_TRY_ASSIGN(const RunLog log, read_log(*source, line));
  std::set<std::string> used;
  for (const model::WorkflowId run : kept) {
    const fleet::Workflow* workflow = log.brain.state().find(run);
    for (std::size_t t = 0; workflow != nullptr && t < workflow->tasks.size(); ++t) {
      if (workflow->tasks[t].extra == nullptr) continue;
      for (const model::StoredFile& file : workflow->tasks[t].extra->outputs) used.insert(file.sha256);
    }
  }
  net::FileStore store({.directory = folder});
  for (const net::FileStore::Content& content : store.list(SIZE_MAX)) {
    if (used.contains(content.sha256)) continue;
    if (!dry_run) store.remove(content.sha256);
    ++removed.files;
    removed.bytes += content.bytes;
  }
  if (!dry_run) removed.bytes += store.clean_partial(INT64_MAX);  // Of runs that were killed; no run is under way.
  return removed;
}

Result<Removed> remove_logs(const Place& place, const std::set<model::WorkflowId>& kept, const CleanOptions& options) {
  Removed removed;
  std::error_code error;
  for (fs::directory_iterator it(fs::path(place.folder) / "logs", error), end; !error && it != end;
       it.increment(error)) {
    const model::WorkflowId run = run_of(it->path());
    if (run.is_none() || kept.contains(run)) continue;
    std::error_code failed;
    const std::uintmax_t size = it->file_size(failed);
    if (!options.dry_run) fs::remove(it->path(), failed);
    if (failed) return cannot_remove(it->path().string(), failed);
    ++removed.files;
    removed.bytes += size;
  }
  return removed;
}

Result<void> clean_place(const Place& place, const CleanOptions& options, Output& output) {
  ROTA_TRY_ASSIGN(const std::optional<std::string> writer, ledger::DiskReader::writer_of(place.log));
  if (writer) {
    return Error{ErrorCode::kFailedPrecondition,
                 place.name + " is being run by " + *writer + "; wait until it has ended"};
  }
  const std::string would = options.dry_run ? "would remove " : "removed ";
  if (options.all) {
    std::error_code error;
    if (!options.dry_run) fs::remove_all(place.folder, error);
    if (error) return cannot_remove(place.folder, error);
    output.document(place.name + ": " + would + "the state folder " + place.folder + "\n");
    return {};
  }
  ROTA_TRY_ASSIGN(const std::set<model::WorkflowId> kept, runs_to_keep(place, options));
  ROTA_TRY_ASSIGN(const Removed removed, remove_logs(place, kept, options));
  output.document(place.name + ": " + would + counted(removed.files, "log") + " of older runs, " +
                  std::to_string(removed.bytes) + " bytes\n");
  ROTA_TRY_ASSIGN(const Removed files, remove_files(place, kept, options.dry_run));
  if (files.files > 0 || files.bytes > 0) {
    output.document(place.name + ": " + would + counted(files.files, "stored file") + " of older runs, " +
                    std::to_string(files.bytes) + " bytes\n");
  }
  return {};
}

Result<int> clean(const CleanOptions& options, Output& output) {
  ROTA_TRY_ASSIGN(const std::vector<Place> places, find_places(options.where));
  for (const Place& place : places) {
    if (fs::path(place.log).filename() != "ledger.db") {
      return Error{ErrorCode::kInvalidArgument, place.name + " is not a state folder"};
    }
    ROTA_TRY(clean_place(place, options, output));
  }
  return 0;
}

}  // namespace

Subcommand clean_subcommand() {
  auto options = std::make_shared<CleanOptions>();
  return {
      .name = "clean",
      .meaning = "Remove the logs and stored files of older runs, or whole state folders",
      .positionals = {where(&options->where)},
      .options = {number("--keep", &options->keep, 0, 1'000'000,
                         "how many runs keep their logs and stored files; default: 1"),
                  flag("--all", &options->all,
                       "remove the state folder: the next run starts from the beginning, and nothing is cached"),
                  flag("--dry-run", &options->dry_run, "say what would be removed, and remove nothing")},
      .footer = "A run that is under way is never touched. The ledger stays, so that earlier runs can be explained.",
      .examples = {"rota clean", "rota clean nightly.yaml --keep 5", "rota clean nightly.yaml --all"},
      .run = [options](Output& output) { return clean(*options, output); }};
}

}  // namespace rota::cli
