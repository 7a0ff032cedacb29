#include "host/log_follower.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

namespace rota::host {

namespace {

constexpr std::size_t kPiece = std::size_t{1} << 20;
constexpr std::size_t kCompared = 256;
constexpr std::string_view kNotice = " bytes of output were dropped here;";

}  // namespace

LogFollower::LogFollower(std::string path)
    : path_(std::move(path)),
      read_([path = path_](std::uint64_t from, std::size_t most) { return read_file_part(path, from, most); }) {}

Result<std::string> read_file_part(const std::string& path, std::uint64_t from, std::size_t most) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT) return std::string();
    const std::error_code error(errno, std::generic_category());
    return Error{errno == EACCES ? ErrorCode::kPermissionDenied : ErrorCode::kIoError,
                 "'" + path + "': " + error.message()};
  }
  std::string bytes(most, '\0');
  std::size_t size = 0;
  while (size < most) {
    const ssize_t got = ::pread(fd, bytes.data() + size, most - size, static_cast<off_t>(from + size));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const std::error_code error(errno, std::generic_category());
      ::close(fd);
      return Error{ErrorCode::kIoError, "'" + path + "': " + error.message()};
    }
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  ::close(fd);
  bytes.resize(size);
  return bytes;
}

Result<std::string> LogFollower::more() {
  ROTA_TRY_ASSIGN(std::string bytes, read_(offset_, kPiece));
  offset_ += bytes.size();
  last_ +=
      bytes.size() > kCompared ? std::string_view(bytes).substr(bytes.size() - kCompared) : std::string_view(bytes);
  if (last_.size() > kCompared) last_.erase(0, last_.size() - kCompared);
  return bytes;
}

Result<std::string> LogFollower::rest() {
  if (!std::exchange(checked_, true) && offset_ > 0) {
    ROTA_TRY_ASSIGN(const std::string there, read_(offset_ - last_.size(), last_.size()));
    if (there != last_) {
      // The file is not longer than its limit, which fits into memory (worker/output.h).
      ROTA_TRY_ASSIGN(const std::string all, read_(0, static_cast<std::size_t>(offset_) + kPiece));
      const std::size_t notice = all.find(kNotice);
      const std::size_t begin = notice == std::string::npos ? std::string::npos : all.rfind('\n', notice);
      offset_ = begin == std::string::npos ? offset_ : begin;
    }
  }
  return more();
}

std::string_view last_lines(std::string_view text, std::size_t lines) {
  if (lines == 0) return {};
  std::size_t begin = text.size();
  if (text.ends_with('\n')) --begin;  // It ends the last line and does not start another one.
  for (; lines > 0; --lines) {
    if (begin == 0) return text;
    begin = text.rfind('\n', begin - 1);
    if (begin == std::string_view::npos) return text;
  }
  return text.substr(begin + 1);
}

}  // namespace rota::host
