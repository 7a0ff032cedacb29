// Finds the run that a user names, for the subcommands with WHERE:
//
//   w.yaml           a workflow file: its state folder is .rota/w.yaml/ next to it
//   a state folder   the DIR of `rota run --state DIR`, or a folder in .rota/: it contains a ledger.db
//   a folder         all state folders in its .rota/
//   a ledger.db, or a log file
//   a URL            a host that is reached over HTTP (remote_host.h)
//
// The default is the host at ROTA_URL; else the current folder; else the host of the context file. Nothing is created
// or changed.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rota/model/ids.h"
#include "rota/result.h"

namespace rota::cli {

struct Place {
  std::string folder{};  // The state folder, the folder of the log file, or the URL.
  std::string log{};     // The ledger.db, the log file, or the URL.
  std::string name{};    // "w.yaml" for .rota/w.yaml, otherwise the folder as the user wrote it.
};

// The default state folder of a workflow file.
[[nodiscard]] std::string state_folder_of(const std::string& workflow_path);

// The file in the state folder's logs/ that has the output of an attempt. The worker uses the same name.
[[nodiscard]] std::string log_name(model::TaskId task, model::AttemptNumber attempt);

// At least one place, the most recently changed first. NotFound, with what the user can do.
[[nodiscard]] Result<std::vector<Place>> find_places(const std::string& where);
// The most recently changed place. If there are others, `note` says so.
[[nodiscard]] Result<Place> find_place(const std::string& where, std::string* note = nullptr);

// Whether this word names a place rather than a task.
[[nodiscard]] bool is_place(const std::string& text);

// For `[WHERE] [TASK...]`: moves the first word to the tasks unless it names a place.
void separate_where(std::string& where, std::vector<std::string>& tasks);

}  // namespace rota::cli
