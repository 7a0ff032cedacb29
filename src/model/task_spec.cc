#include "model/task_spec.h"

namespace rota::model {

bool is_inside(std::string_view path) {
  if (path.ends_with('/')) path.remove_suffix(1);
  for (;;) {
    const std::size_t slash = path.find('/');
    const std::string_view name = path.substr(0, slash);
    if (name.empty() || name == "." || name == ".." || name.find('\0') != std::string_view::npos) return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

}  // namespace rota::model
