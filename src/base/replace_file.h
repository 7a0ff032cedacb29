// replace_file: a file for other programs to read, which is always whole: readers see the old content or the new one.
// Nothing is synced; after a crash of the machine it may be missing or old.
//
// Thread safety: one call at a time for each path.
#pragma once

#include <string>
#include <string_view>

#include "rota/result.h"

namespace rota {

// IoError.
Result<void> replace_file(const std::string& path, std::string_view content);

}  // namespace rota
