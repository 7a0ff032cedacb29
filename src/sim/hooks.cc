#include "sim/hooks.h"

#include <filesystem>
#include <fstream>
#include <sstream>

namespace rota::sim {

std::map<std::string, std::string> find_hooks(const std::string& source, const std::string& macro) {
  std::map<std::string, std::string> names;
  const std::filesystem::path root = std::filesystem::path(source) / "src";
  if (!std::filesystem::exists(root)) return names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    const std::string path = std::filesystem::relative(entry.path(), root).string();
    if (!path.ends_with(".cc") && !path.ends_with(".h")) continue;
    if (path == "base/sim_hooks.h" || path.ends_with("_test.cc")) continue;
    std::ifstream file(entry.path());
    std::stringstream content;
    content << file.rdbuf();
    const std::string text = content.str();
    const std::string use = macro + "(";
    for (std::size_t at = text.find(use); at != std::string::npos; at = text.find(use, at + 1)) {
      const std::size_t begin = text.find_first_not_of(" \n", at + use.size());
      if (begin == std::string::npos || text[begin] != '"') continue;  // Not a use: the definition, or a comment.
      names[text.substr(begin + 1, text.find('"', begin + 1) - begin - 1)] = path;
    }
  }
  return names;
}

}  // namespace rota::sim
