// Where runs are kept, as people name it: for every verb that looks at one.
//
//   w.yaml           a workflow's file: .rota/w.yaml/ beside it, where `rota run` keeps its run
//   a state folder   what was given to `rota run --state`, or one of .rota/: there is a ledger.db in it
//   a folder         all that is in its .rota/
//   a ledger.db, or a log file
//
// Nothing at all means the current folder. Nothing is made or changed.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rota/result.h"

namespace rota::cli {

struct Place {
  std::string folder{};  // The state folder; of a log file, where it lies.
  std::string log{};     // Its ledger.db, or the log file.
  std::string name{};    // "w.yaml" for .rota/w.yaml, otherwise the folder as it was given.
};

// Where `rota run` keeps the run of this workflow's file, if nobody says otherwise.
[[nodiscard]] std::string state_folder_of(const std::string& workflow_path);

// What the attempt of a task wrote is in this file of the state folder's logs/; the worker names it so.
[[nodiscard]] std::string log_name(std::uint64_t task, std::uint32_t attempt);

// Those with the latest changes first; at least one. NotFound with what to do otherwise.
[[nodiscard]] Result<std::vector<Place>> find_places(const std::string& where);
// The one with the latest changes. If there are others, `note` says so.
[[nodiscard]] Result<Place> find_place(const std::string& where, std::string* note = nullptr);

// Does somebody who writes this mean a place, rather than a task?
[[nodiscard]] bool is_place(const std::string& text);

// `[WHERE] [TASK...]`: what stands first is a task, too, unless it is a place.
void sort_out(std::string& where, std::vector<std::string>& tasks);

}  // namespace rota::cli
