#include "cli/output_lines.h"

#include <algorithm>

namespace rota::cli {

namespace {

std::string without_return(std::string line) {
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

}  // namespace

std::vector<std::string> OutputLines::add(std::uint32_t task, bool from_stderr, std::string_view bytes) {
  std::vector<std::string> lines;
  std::string& begun = unfinished_[{task, from_stderr}];
  while (!bytes.empty()) {
    const std::size_t take = std::min({bytes.find('\n'), bytes.size(), kLongestLine - begun.size()});
    begun.append(bytes.substr(0, take));
    bytes.remove_prefix(take);
    if (bytes.empty()) break;
    // The line ends here, or has reached its longest.
    if (bytes.front() == '\n') bytes.remove_prefix(1);
    lines.push_back(without_return(std::exchange(begun, {})));
  }
  return lines;
}

std::vector<std::string> OutputLines::finish(std::uint32_t task, bool from_stderr) {
  const auto found = unfinished_.find({task, from_stderr});
  if (found == unfinished_.end()) return {};
  std::vector<std::string> lines;
  if (!found->second.empty()) lines.push_back(without_return(std::move(found->second)));
  unfinished_.erase(found);
  return lines;
}

}  // namespace rota::cli
