// What is wrong with a file. See workflow/problems.h.
#include "workflow/problems.h"

#include <algorithm>
#include <utility>

#include "rota/assert.h"

namespace rota::workflow {

std::uint32_t Problems::add_file(std::string path, Position included_at) {
  files_.push_back({std::move(path), included_at});
  return static_cast<std::uint32_t>(files_.size());
}

void Problems::add(Position at, std::string message) {
  while (at.file != 0) {  // A file that is included by an included file has a smaller number than what it includes.
    const File& file = files_[at.file - 1];
    message = to_string(file.path, {at, std::move(message)});
    at = file.included_at;
  }
  if (list_.size() < kMostProblems) {
    list_.push_back({at, std::move(message)});
  } else {
    ++dropped_;
  }
}

std::vector<Problem> Problems::take() {
  std::sort(list_.begin(), list_.end());
  list_.erase(std::unique(list_.begin(), list_.end()), list_.end());
  if (dropped_ > 0) list_.push_back({list_.back().at, "and " + std::to_string(dropped_) + " more"});
  return std::move(list_);
}

std::string to_string(std::string_view path, const Problem& problem) {
  std::string out(path);
  if (problem.at.line > 0) {
    out.append(":").append(std::to_string(problem.at.line)).append(":").append(std::to_string(problem.at.column));
  }
  return out.append(": ").append(problem.message);
}

Error to_error(std::string_view path, const std::vector<Problem>& problems) {
  ROTA_ASSERT(!problems.empty(), "an error without a problem");
  Error error{ErrorCode::kParseError, ""};
  for (const Problem& problem : problems) {
    std::string line = to_string(path, problem);
    if (!error.message.empty()) error.message.push_back('\n');
    error.message.append(line);
    error.details.push_back({"problem", std::move(line)});
  }
  return error;
}

}  // namespace rota::workflow
