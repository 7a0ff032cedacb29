// Files on helper threads. A use of the descriptor's slot is held over the whole call, so a concurrent close() does not
// release the number while a helper reads or writes.
#include "rota/fiber/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "fiber/io_error.h"
#include "fiber/io_slot.h"
#include "rota/fiber/blocking.h"

namespace rota::fiber {

using namespace detail;

namespace {

constexpr std::size_t kLargestTransfer = std::size_t{1} << 30;  // Linux transfers at most 2 GiB per call.

// Calls f() until it is not interrupted; returns a count, or -errno.
template <class F>
std::int64_t uninterrupted(F&& f) {
  for (;;) {
    const auto count = f();
    if (count >= 0) return static_cast<std::int64_t>(count);
    if (errno != EINTR) return -errno;
  }
}

// Reads until the buffer is full or the file ends.
std::int64_t read_fully(int fd, std::span<std::byte> buffer, std::uint64_t offset) {
  std::size_t done = 0;
  while (done < buffer.size()) {
    const std::int64_t count = uninterrupted([&] {
      return ::pread(fd, buffer.data() + done, std::min(buffer.size() - done, kLargestTransfer),
                     static_cast<off_t>(offset + done));
    });
    if (count < 0) return count;
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  return static_cast<std::int64_t>(done);
}

std::int64_t write_fully(int fd, std::span<const std::byte> bytes, std::uint64_t offset) {
  for (std::size_t done = 0; done < bytes.size();) {
    const std::int64_t count = uninterrupted([&] {
      return ::pwrite(fd, bytes.data() + done, std::min(bytes.size() - done, kLargestTransfer),
                      static_cast<off_t>(offset + done));
    });
    if (count < 0) return count;
    if (count == 0) return -EIO;  // Never happens for a file; prevents an endless loop.
    done += static_cast<std::size_t>(count);
  }
  return 0;
}

// Closes at the end of a scope, on every path.
class Closing {
 public:
  explicit Closing(int fd) : fd_(fd) {}
  ~Closing() {
    if (fd_ >= 0) ::close(fd_);
  }
  Closing(const Closing&) = delete;
  Closing& operator=(const Closing&) = delete;
  [[nodiscard]] int fd() const { return fd_; }
  // Closes now and returns the error.
  int close() {
    const int fd = fd_;
    fd_ = -1;
    return ::close(fd) == 0 || errno == EINTR ? 0 : errno;
  }

 private:
  int fd_;
};

// Reads the contents by name, on a helper.
Result<std::string> read_now(const std::string& path, std::size_t limit) {
  const Closing file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.fd() < 0) return os_error(errno, "open " + path);
  std::string content;
  // Independent of the size: files of /proc have none, and a file may grow meanwhile.
  for (std::size_t step = 64 * 1024;; step = std::min(step * 2, kLargestTransfer)) {
    const std::size_t before = content.size();
    content.resize(before + std::min(step, limit + 1 - before));
    const std::int64_t count =
        read_fully(file.fd(), std::as_writable_bytes(std::span(content).subspan(before)), before);
    if (count < 0) return os_error(static_cast<int>(-count), "read " + path);
    const bool ended = before + static_cast<std::size_t>(count) < content.size();
    content.resize(before + static_cast<std::size_t>(count));
    if (content.size() > limit) {
      return Error{ErrorCode::kTooLarge, path + " has more than " + std::to_string(limit) + " bytes"};
    }
    if (ended) return content;
  }
}

// Writes a new file beside the old one, syncs it, renames it over the old one, and syncs the folder.
Result<void> write_now(const std::string& path, std::string_view content) {
  std::string temporary = path + ".XXXXXX";
  Closing file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.fd() < 0) return os_error(errno, "create a file beside " + path);
  const auto fail = [&](int error, const std::string& what) {
    ::unlink(temporary.c_str());
    return os_error(error, what);
  };
  // The old file's mode, if there is one; mkostemp() sets 0600.
  struct stat old{};
  mode_t mode = 0644;
  if (::stat(path.c_str(), &old) == 0) mode = old.st_mode & 07777;
  if (::fchmod(file.fd(), mode) != 0) return fail(errno, "set the mode of " + temporary);
  const std::int64_t written = write_fully(file.fd(), std::as_bytes(std::span(content.data(), content.size())), 0);
  if (written < 0) return fail(static_cast<int>(-written), "write " + temporary);
  if (::fsync(file.fd()) != 0) return fail(errno, "sync " + temporary);
  if (const int error = file.close(); error != 0) return fail(error, "close " + temporary);
  if (::rename(temporary.c_str(), path.c_str()) != 0) return fail(errno, "rename " + temporary + " to " + path);
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const Closing directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.fd() < 0 || ::fsync(directory.fd()) != 0) return os_error(errno, "sync the folder " + folder);
  return {};
}

}  // namespace

// Runs f(fd) on a helper; its count or -errno becomes the result. The buffers belong to the caller, which waits.
template <class F>
Result<std::int64_t> File::operate(const char* what, F&& f) {
  IoSlot* slot = descriptor_.slot_;
  if (slot == nullptr || !begin_use(slot, descriptor_.generation_))
    return closed_error(std::string(what) + " " + path_);
  const int fd = slot->fd;
  Result<std::int64_t> count = blocking([&] { return f(fd); });
  end_use(slot);
  if (!count.ok()) return count;
  if (*count < 0) return os_error(static_cast<int>(-*count), std::string(what) + " " + path_);
  return count;
}

Result<File> File::open(const std::string& path, const Options& options) {
  if (!options.read && !options.write) {
    return Error{ErrorCode::kInvalidArgument, "open " + path + ": neither to read nor to write"};
  }
  if ((options.create && !options.write) || (options.exclusive && !options.create) ||
      (options.truncate && !options.write)) {
    return Error{ErrorCode::kInvalidArgument,
                 "open " + path + ": `create` and `truncate` need `write`, `exclusive` needs `create`"};
  }
  int flags = O_CLOEXEC | (!options.write ? O_RDONLY : options.read ? O_RDWR : O_WRONLY);
  if (options.create) flags |= O_CREAT;
  if (options.exclusive) flags |= O_EXCL;
  if (options.truncate) flags |= O_TRUNC;
  ROTA_TRY_ASSIGN(
      const std::int64_t fd, blocking([&] {
        return uninterrupted([&] { return ::open(path.c_str(), flags, static_cast<mode_t>(options.mode)); });
      }));
  if (fd < 0) return os_error(static_cast<int>(-fd), "open " + path);
  ROTA_TRY_ASSIGN(Descriptor descriptor, Descriptor::wrap(static_cast<int>(fd), false));
  File file;
  file.descriptor_ = std::move(descriptor);
  file.path_ = path;
  return file;
}

Result<std::size_t> File::read_at(std::span<std::byte> buffer, std::uint64_t offset) {
  ROTA_TRY_ASSIGN(const std::int64_t count, operate("read", [&](int fd) { return read_fully(fd, buffer, offset); }));
  return static_cast<std::size_t>(count);
}

Result<void> File::write_all_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  ROTA_TRY(operate("write", [&](int fd) { return write_fully(fd, bytes, offset); }));
  return {};
}

Result<void> File::sync(bool data_only) {
  ROTA_TRY(operate("sync",
                   [&](int fd) { return uninterrupted([&] { return data_only ? ::fdatasync(fd) : ::fsync(fd); }); }));
  return {};
}

Result<std::uint64_t> File::size() {
  ROTA_TRY_ASSIGN(const std::int64_t bytes, operate("get the size of", [](int fd) -> std::int64_t {
                    struct stat status{};
                    return ::fstat(fd, &status) == 0 ? static_cast<std::int64_t>(status.st_size) : -errno;
                  }));
  return static_cast<std::uint64_t>(bytes);
}

Result<void> File::truncate(std::uint64_t size) {
  ROTA_TRY(operate("truncate",
                   [&](int fd) { return uninterrupted([&] { return ::ftruncate(fd, static_cast<off_t>(size)); }); }));
  return {};
}

Result<void> File::close() {
  Result<void> closed = descriptor_.close();
  if (!closed.ok()) return std::move(closed).take_error().in(path_);
  return {};
}

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  return blocking([&] { return read_now(path, limit); });
}

Result<void> write_file(const std::string& path, std::string_view content) {
  return blocking([&] { return write_now(path, content); });
}

}  // namespace rota::fiber
