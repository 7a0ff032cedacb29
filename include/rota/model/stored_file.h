// A file whose content is stored for the tasks that come after (U-6).
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "rota/model/fields.h"

namespace rota::model {

struct StoredFile {
  std::string path{};    // Relative to the directory of the task; see is_inside() in model/task_spec.h.
  std::string sha256{};  // Of its content: 64 hexadecimal digits in lower case.
  std::int64_t bytes = 0;
  bool executable = false;
  ROTA_FIELDS(path, sha256, bytes, executable)
  friend auto operator<=>(const StoredFile&, const StoredFile&) = default;
};

}  // namespace rota::model
