// The files that a task gets from the tasks before it (U-6).
//
// Thread safety: functions without state.
#pragma once

#include <string>
#include <vector>

#include "fleet/state.h"
#include "rota/model/stored_file.h"
#include "rota/result.h"

namespace rota::fleet {

// The files of the tasks that `fetch` names, with the paths that they get in the task's directory, sorted by path. Of a
// stage that is needed by item, the files of the tasks with the same values. A task that was skipped or did not succeed
// has none. AlreadyExists if two files with different contents would get the same path; TooLarge.
[[nodiscard]] Result<std::vector<model::StoredFile>> input_files(const State& state, TaskId task);

// What placement looks for in the caches of workers (B-10): "file:<SHA-256>" of the largest of the files that the task
// fetches. Empty if it fetches none.
[[nodiscard]] std::vector<std::string> wanted_files(const State& state, TaskId task);
// The same of files that a worker has now.
[[nodiscard]] std::vector<std::string> file_items(const std::vector<model::StoredFile>& files);

}  // namespace rota::fleet
