#include "cli/places.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/json_text.h"
#include "cli/remote_host.h"
#include "fleet/record.h"

namespace rota::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kLedger = "ledger.db";
constexpr std::string_view kStates = ".rota";
constexpr std::string_view kSqliteMagic = "SQLite format 3";

bool has_ledger(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / kLedger, error);
}

// SQLite writes to the file ledger.db-wal first.
fs::file_time_type changed(const Place& place) {
  fs::file_time_type latest = fs::file_time_type::min();
  for (const char* suffix : {"", "-wal"}) {
    std::error_code error;
    const fs::file_time_type time = fs::last_write_time(place.log + suffix, error);
    if (!error) latest = std::max(latest, time);
  }
  return latest;
}

Place place_of(const fs::path& folder) {
  fs::path clean = folder.lexically_normal();
  if (!clean.has_filename()) clean = clean.parent_path();  // The path ended with a slash.
  Place place{clean.string(), (clean / kLedger).string(), clean.string()};
  if (clean.parent_path().filename() == kStates) place.name = clean.filename().string();
  return place;
}

// The folders in `states` that contain a ledger.
std::vector<Place> places_in(const fs::path& states) {
  std::vector<Place> found;
  std::error_code error;
  for (fs::directory_iterator it(states, error), end; !error && it != end; it.increment(error)) {
    if (has_ledger(it->path())) found.push_back(place_of(it->path()));
  }
  std::sort(found.begin(), found.end(), [](const Place& a, const Place& b) {
    const auto at = changed(a);
    const auto bt = changed(b);
    return at != bt ? at > bt : a.folder < b.folder;
  });
  return found;
}

std::string first_bytes(const fs::path& path) {
  std::string bytes(16, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  return bytes;
}

std::string as_written(const std::string& text) { return "'" + printable(text, 300) + "'"; }

Result<std::vector<Place>> find_in_folder(const fs::path& folder, const std::string& written) {
  if (has_ledger(folder)) return std::vector{place_of(folder)};
  std::error_code error;
  const fs::path absolute = fs::absolute(folder, error).lexically_normal();
  const bool is_states = (absolute.has_filename() ? absolute : absolute.parent_path()).filename() == kStates;
  std::vector<Place> found = places_in(is_states ? folder : folder / kStates);
  if (!found.empty()) return found;
  return Error{
      ErrorCode::kNotFound,
      (written.empty() ? std::string("nothing was run in this folder") : "there is no run in " + written) +
          ": it is not a state folder (it has no ledger.db), and its .rota/ contains none. `rota run FILE` creates one "
          "next to the file; for a run with --state DIR, name DIR"};
}

}  // namespace

std::string state_folder_of(const std::string& workflow_path) {
  // Next to the file as it is named, where its programs run: a link to a file is a workflow of its own.
  std::error_code error;
  const fs::path path = workflow_path;
  fs::path parent = fs::canonical(path.has_parent_path() ? path.parent_path() : fs::path("."), error);
  if (error) parent = path.parent_path();
  return ((parent.empty() ? fs::path(".") : parent) / kStates / path.filename()).lexically_normal().string();
}

std::string log_name(model::TaskId task, model::AttemptNumber attempt) {
  return std::to_string(task.value()) + "-" + std::to_string(attempt.value()) + ".log";
}

Result<std::vector<Place>> find_places(const std::string& where) {
  if (is_url(where)) return std::vector{Place{where, where, where}};
  if (where.empty()) {
    const char* url = std::getenv("ROTA_URL");  // NOLINT(concurrency-mt-unsafe): no thread was started yet.
    if (url != nullptr && *url != '\0') return std::vector{Place{url, url, url}};
    Result<std::vector<Place>> here = find_in_folder(".", "");
    if (here.ok() || here.code() != ErrorCode::kNotFound) return here;
    ROTA_TRY_ASSIGN(const std::string context, default_url());
    if (context.empty()) return here;
    return std::vector{Place{context, context, context}};
  }
  std::error_code error;
  const fs::path path = where;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return find_in_folder(path, as_written(where));
  if (fs::exists(status)) {
    const std::string begin = first_bytes(path);
    const fs::path parent = path.parent_path();
    if (begin.starts_with(kSqliteMagic) || begin.starts_with(fleet::kLogMagic) || path.extension() == ".log") {
      return std::vector{Place{parent.empty() ? "." : parent.string(), where, where}};
    }
  }
  const std::string state = state_folder_of(where);
  if (has_ledger(state)) return std::vector{place_of(state)};
  if (!fs::exists(status)) {
    return Error{ErrorCode::kNotFound, as_written(where) +
                                           ": No such file or folder; name a workflow file, a state folder, or a "
                                           "folder that contains .rota/"};
  }
  return Error{ErrorCode::kNotFound, as_written(where) + " has not been run: there is no " + state +
                                         ". `rota run` creates it; for a run with --state DIR, name DIR"};
}

Result<Place> find_place(const std::string& where, std::string* note) {
  ROTA_TRY_ASSIGN(std::vector<Place> places, find_places(where));
  if (note != nullptr && places.size() > 1) {
    *note = "using the latest of " + std::to_string(places.size()) + " runs here, that of " + places.front().name;
  }
  return std::move(places.front());
}

bool is_place(const std::string& text) {
  if (text.empty()) return false;
  if (is_url(text)) return true;
  if (find_places(text).ok()) return true;
  // A word that looks like a path is a place even if there is no run: an error about the path is more useful than
  // "no such task". A file or folder that has the name of a task by chance is not a place.
  const std::string extension = fs::path(text).extension();
  return extension == ".yaml" || extension == ".yml" || extension == ".json" || extension == ".log" ||
         extension == ".db" || text.starts_with("./") || text.starts_with("/") || text.starts_with("../") ||
         text == "." || text == "..";
}

void separate_where(std::string& where, std::vector<std::string>& tasks) {
  if (where.empty() || is_place(where)) return;
  tasks.insert(tasks.begin(), std::exchange(where, {}));
}

}  // namespace rota::cli
