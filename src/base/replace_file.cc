#include "base/replace_file.h"

#include <filesystem>
#include <fstream>
#include <system_error>

namespace rota {

Result<void> replace_file(const std::string& path, std::string_view content) {
  const std::string fresh = path + ".new";
  std::ofstream file(fresh, std::ios::binary | std::ios::trunc);
  file << content;
  file.close();
  std::error_code error;
  if (file) std::filesystem::rename(fresh, path, error);
  if (!file || error) return Error{ErrorCode::kIoError, "'" + path + "' could not be written"};
  return {};
}

}  // namespace rota
