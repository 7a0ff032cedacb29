#include "base/secret_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "base/json_text.h"

namespace rota {

namespace {

struct Descriptor {
  explicit Descriptor(int number) : fd(number) {}
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int fd;
};

std::string quoted(const std::string& path) { return "'" + printable(path, 300) + "'"; }

Error not_read(const std::string& path, int number) {
  return Error{ErrorCode::kIoError, quoted(path) + " cannot be read: " + std::generic_category().message(number)};
}

std::string octal(unsigned mode) {
  char text[8];
  (void)std::snprintf(text, sizeof text, "%04o", mode & 07777U);
  return text;
}

// Whether only this user and root can read or write it.
Result<void> check_private(const struct stat& status, const std::string& path, const char* right_mode) {
  if ((status.st_mode & 077U) != 0) {
    return Error{ErrorCode::kFailedPrecondition, quoted(path) + " can be used by others (its mode is " +
                                                     octal(status.st_mode) + "); run: chmod " + right_mode + " " +
                                                     printable(path, 300)};
  }
  if (status.st_uid != ::geteuid() && status.st_uid != 0) {
    return Error{ErrorCode::kFailedPrecondition,
                 quoted(path) + " belongs to another user (uid " + std::to_string(status.st_uid) +
                     "); it must belong to the user of this process (uid " + std::to_string(::geteuid()) + ")"};
  }
  return {};
}

Result<void> check_directory(int fd, const std::string& directory) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return not_read(directory, errno);
  return check_private(status, directory, "700");
}

Result<std::string> read_all(int fd, const std::string& path) {
  std::string value(kSecretMostBytes + 2, '\0');  // With a line feed, and one byte that is too many.
  std::size_t size = 0;
  while (size < value.size()) {
    const ssize_t got = ::read(fd, value.data() + size, value.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return not_read(path, errno);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  value.resize(size);
  if (value.ends_with('\n')) value.pop_back();
  if (value.ends_with('\r')) value.pop_back();
  return value;
}

}  // namespace

bool is_secret_name(std::string_view name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'); };
  return !name.empty() && name.size() <= 128 && plain(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return plain(c) || c == '.' || c == '_' || c == '-'; });
}

std::string secret_file_name(std::string_view name, std::string_view version) {
  std::string file(name);
  if (!version.empty()) file.append("@").append(version);
  return file;
}

Result<void> check_secret_value(std::string_view value) {
  if (value.size() < kSecretLeastBytes || value.size() > kSecretMostBytes) {
    return Error{ErrorCode::kInvalidArgument, "its value has " + std::to_string(value.size()) + " bytes; from " +
                                                  std::to_string(kSecretLeastBytes) + " to " +
                                                  std::to_string(kSecretMostBytes) + " are allowed"};
  }
  if (value.find('\0') != std::string_view::npos) {
    return Error{ErrorCode::kInvalidArgument, "its value contains a zero byte, which a variable cannot have"};
  }
  return {};
}

Result<void> check_secret_directory(const std::string& directory) {
  const Descriptor folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.fd < 0) {
    return Error{ErrorCode::kFailedPrecondition, "the directory of secrets " + quoted(directory) +
                                                     " cannot be read: " + std::generic_category().message(errno)};
  }
  Result<void> valid = check_directory(folder.fd, directory);
  if (!valid.ok()) return std::move(valid).take_error().in("the directory of secrets");
  return {};
}

Result<std::string> read_secret_file(const std::string& directory, std::string_view name, std::string_view version) {
  if (!is_secret_name(name) || (!version.empty() && !is_secret_name(version))) {
    return Error{ErrorCode::kInvalidArgument,
                 "'" + printable(secret_file_name(name, version), 200) +
                     "' cannot be the name of a secret; use letters, digits, '.', '_' and '-', and begin with a "
                     "letter or a digit"};
  }
  const std::string file_name = secret_file_name(name, version);
  const std::string path = directory + "/" + file_name;
  const Descriptor folder(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.fd < 0) {
    if (errno == ENOENT) return Error{ErrorCode::kNotFound, "there is no directory " + quoted(directory)};
    return not_read(directory, errno);
  }
  ROTA_TRY(check_directory(folder.fd, directory));
  // Without blocking, if it is a pipe.
  const Descriptor file(::openat(folder.fd, file_name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.fd < 0) {
    if (errno == ENOENT) return Error{ErrorCode::kNotFound, "there is no file " + quoted(path)};
    return not_read(path, errno);
  }
  struct stat status{};
  if (::fstat(file.fd, &status) != 0) return not_read(path, errno);
  if (!S_ISREG(status.st_mode)) {
    return Error{ErrorCode::kFailedPrecondition, quoted(path) + " is not a regular file"};
  }
  ROTA_TRY(check_private(status, path, "600"));
  ROTA_TRY_ASSIGN(std::string value, read_all(file.fd, path));
  if (Result<void> valid = check_secret_value(value); !valid.ok())
    return std::move(valid).take_error().in(quoted(path));
  return value;
}

}  // namespace rota
