#include "net/file_store.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <tuple>

#include "base/json_text.h"
#include "base/log.h"
#include "base/os_error.h"
#include "base/units.h"
#include "rota/assert.h"

namespace rota::net {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kDigits = 64;
constexpr std::uint64_t kLookEvery = std::uint64_t{1} << 30;  // Bytes; other processes may have written as well.
constexpr std::int64_t kForgottenAfter_ns = 24LL * 3600 * 1'000'000'000;

struct Fd {
  int number = -1;
  explicit Fd(int fd) : number(fd) {}
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() {
    if (number >= 0) ::close(number);
  }
};

std::string quoted(const std::string& path) { return "'" + printable(path, 200) + "'"; }

std::int64_t wall_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

std::int64_t used_ns_of(const struct stat& status) {
  return static_cast<std::int64_t>(status.st_mtim.tv_sec) * 1'000'000'000 + status.st_mtim.tv_nsec;
}

bool all_zero(std::string_view bytes) {
  return bytes.empty() || (bytes.front() == '\0' && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

// Writes at a position; zeros become a hole.
Result<void> put(int fd, std::string_view bytes, std::uint64_t at, const std::string& path) {
  if (all_zero(bytes)) {
    if (::ftruncate(fd, static_cast<off_t>(at + bytes.size())) != 0) return os_error(errno, "write " + quoted(path));
    return {};
  }
  while (!bytes.empty()) {
    const ssize_t size = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return os_error(errno, "write " + quoted(path));
    bytes.remove_prefix(static_cast<std::size_t>(size));
    at += static_cast<std::uint64_t>(size);
  }
  return {};
}

// Up to `buffer` bytes; fewer only at the end of the file.
Result<std::size_t> get(int fd, std::span<char> buffer, std::uint64_t at, const std::string& path) {
  std::size_t done = 0;
  while (done < buffer.size()) {
    const ssize_t size = ::pread(fd, buffer.data() + done, buffer.size() - done, static_cast<off_t>(at + done));
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return os_error(errno, "read " + quoted(path));
    if (size == 0) break;
    done += static_cast<std::size_t>(size);
  }
  return done;
}

void sync_folder(const fs::path& folder) {
  const Fd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.number >= 0) (void)::fsync(fd.number);
}

Result<void> make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return {};
  return os_error(error.value(), "make the folder " + quoted(folder.string()));
}

Error damaged(const std::string& path, const std::string& sha256) {
  return Error{ErrorCode::kCorrupt,
               "the content " + sha256 + " in " + quoted(path) + " is damaged: its bytes have another SHA-256"};
}

}  // namespace

bool is_sha256(std::string_view text) {
  return text.size() == kDigits &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// -------------------------------------------------------------------------------------------------------------- hashes

struct ContentHash::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  Context() { ROTA_ASSERT(evp != nullptr && EVP_DigestInit_ex(evp, EVP_sha256(), nullptr) == 1, "no SHA-256"); }
  ~Context() { EVP_MD_CTX_free(evp); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
};

ContentHash::ContentHash() : context_(std::make_unique<Context>()) {}
ContentHash::~ContentHash() = default;
ContentHash::ContentHash(ContentHash&&) noexcept = default;
ContentHash& ContentHash::operator=(ContentHash&&) noexcept = default;

void ContentHash::add(std::string_view bytes) {
  ROTA_ASSERT(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1, "SHA-256 failed");
}

std::string ContentHash::finish() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  ROTA_ASSERT(EVP_DigestFinal_ex(context_->evp, digest.data(), &size) == 1 && size == kDigits / 2, "SHA-256 failed");
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    text.push_back(kHex[digest[i] >> 4]);
    text.push_back(kHex[digest[i] & 15]);
  }
  return text;
}

Result<FileDigest> digest_file(const std::string& path, const std::function<bool()>& stopped) {
  const Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number < 0) return os_error(errno, "open " + quoted(path));
  struct stat status{};
  if (::fstat(file.number, &status) != 0) return os_error(errno, "read " + quoted(path));
  if (!S_ISREG(status.st_mode)) return Error{ErrorCode::kInvalidArgument, quoted(path) + " is not a file"};
  ContentHash hash;
  FileDigest digest;
  std::string block(kBlockBytes, '\0');
  for (;;) {
    if (stopped()) return ErrorCode::kCancelled;
    ROTA_TRY_ASSIGN(const std::size_t size, get(file.number, block, digest.bytes, path));
    hash.add({block.data(), size});
    digest.bytes += size;
    if (size < block.size()) break;
  }
  digest.sha256 = hash.finish();
  return digest;
}

// ------------------------------------------------------------------------------------------------------------- reading

FileReader::FileReader(FileReader&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), bytes_(other.bytes_), path_(std::move(other.path_)) {}
FileReader::~FileReader() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::string> FileReader::read(std::uint64_t offset, std::size_t most) const {
  if (offset >= bytes_) return std::string();
  std::string bytes(static_cast<std::size_t>(std::min<std::uint64_t>(most, bytes_ - offset)), '\0');
  ROTA_TRY_ASSIGN(const std::size_t size, get(fd_, bytes, offset, path_));
  if (size < bytes.size()) return Error{ErrorCode::kCorrupt, quoted(path_) + " became shorter while it was read"};
  return bytes;
}

Result<void> copy_file(const FileReader& reader, const std::string& sha256, const std::string& to, bool executable,
                       const std::function<bool()>& stopped) {
  static sync::Atomic<std::uint64_t> count{0};
  const fs::path target(to);
  ROTA_TRY(make_folder(target.parent_path()));
  const std::string temporary = (target.parent_path() / (".rota-" + std::to_string(::getpid()) + "-" +
                                                         std::to_string(count.fetch_add(1)) + ".partial"))
                                    .string();
  const Fd file(
      ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, executable ? 0777 : 0666));
  if (file.number < 0) return os_error(errno, "create " + quoted(to));
  const auto copied = [&]() -> Result<void> {
    ContentHash hash;
    for (std::uint64_t at = 0; at < reader.bytes();) {
      if (stopped()) return ErrorCode::kCancelled;
      ROTA_TRY_ASSIGN(const std::string block, reader.read(at, kBlockBytes));
      hash.add(block);
      ROTA_TRY(put(file.number, block, at, to));
      at += block.size();
    }
    if (hash.finish() != sha256) return damaged(reader.path(), sha256);
    if (::rename(temporary.c_str(), to.c_str()) != 0) return os_error(errno, "create " + quoted(to));
    return {};
  };
  Result<void> done = copied();
  if (!done.ok()) ::unlink(temporary.c_str());
  return done;
}

// ------------------------------------------------------------------------------------------------------------- writing

FileWriter::FileWriter(FileWriter&& other) noexcept
    : store_(other.store_),
      sha256_(std::move(other.sha256_)),
      bytes_(other.bytes_),
      position_(other.position_),
      fd_(std::exchange(other.fd_, -1)),
      stored_(other.stored_),
      counted_(std::exchange(other.counted_, false)),
      hash_(std::move(other.hash_)) {}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
  if (counted_) store_->settle(sha256_, bytes_, position_);
}

// The lock is on the file, not on its name: a writer that waited for nothing may have opened a file that another one
// has finished, or removed, in the meantime.
Result<void> FileWriter::open() {
  const std::string path = store_->partial_of(sha256_);
  for (;;) {
    if (store_->use(sha256_, bytes_)) {
      stored_ = true;
      position_ = bytes_;
      return {};
    }
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd_ < 0) return os_error(errno, "create " + quoted(path));
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) {
        return Error{ErrorCode::kWouldBlock, "somebody else is writing the content " + sha256_ + " now; try again"};
      }
      return os_error(errno, "lock " + quoted(path));
    }
    struct stat own{};
    struct stat named{};
    if (::fstat(fd_, &own) != 0) return os_error(errno, "read " + quoted(path));
    if (::stat(path.c_str(), &named) == 0 && named.st_ino == own.st_ino && named.st_dev == own.st_dev) {
      position_ = static_cast<std::uint64_t>(own.st_size);
      break;
    }
    ::close(std::exchange(fd_, -1));
  }
  if (position_ > bytes_) {  // Not the beginning of this content.
    if (::ftruncate(fd_, 0) != 0) return os_error(errno, "write " + quoted(path));
    position_ = 0;
  }
  return hash_what_is_there();
}

Result<void> FileWriter::hash_what_is_there() {
  std::string block(kBlockBytes, '\0');
  for (std::uint64_t at = 0; at < position_;) {
    const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(block.size(), position_ - at));
    ROTA_TRY_ASSIGN(const std::size_t size, get(fd_, {block.data(), most}, at, store_->partial_of(sha256_)));
    if (size == 0) return Error{ErrorCode::kIoError, "a partial content became shorter while it was read"};
    hash_.add({block.data(), size});
    at += size;
  }
  return {};
}

Result<void> FileWriter::append(std::string_view piece) {
  if (piece.size() > bytes_ - position_) {
    return Error{ErrorCode::kTooLarge, "the content " + sha256_ + " has more bytes than the " + std::to_string(bytes_) +
                                           " that were announced"};
  }
  if (stored_ || piece.empty()) return {};
  Result<void> written = !all_zero(piece) && store_->disk_room() < piece.size()
                             ? store_->disk_full(bytes_)
                             : put(fd_, piece, position_, store_->partial_of(sha256_));
  if (!written.ok()) {
    // It would keep the disk full for everybody else.
    if (written.code() == ErrorCode::kNoSpace) drop();
    return written;
  }
  hash_.add(piece);
  position_ += piece.size();
  return {};
}

void FileWriter::drop() {
  ::unlink(store_->partial_of(sha256_).c_str());
  position_ = 0;
  hash_ = ContentHash();
}

Result<void> FileWriter::finish() {
  if (stored_) return {};
  if (position_ < bytes_) {
    return Error{ErrorCode::kFailedPrecondition, "the content " + sha256_ +
                                                     " is not complete: " + std::to_string(position_) + " of " +
                                                     std::to_string(bytes_) + " bytes"};
  }
  const std::string partial = store_->partial_of(sha256_);
  const std::string path = store_->path_of(sha256_);
  if (const std::string found = hash_.finish(); found != sha256_) {
    drop();
    return Error{ErrorCode::kCorrupt, "the bytes that were sent as " + sha256_ + " have the SHA-256 " + found +
                                          "; they were not kept, send them again from the beginning"}
        .with("status", "422");
  }
  if (::fsync(fd_) != 0) return os_error(errno, "write " + quoted(partial));
  (void)::fchmod(fd_, 0444);
  const fs::path folder = fs::path(path).parent_path();
  ROTA_TRY(make_folder(folder));
  (void)::futimens(fd_, nullptr);
  if (::rename(partial.c_str(), path.c_str()) != 0) return os_error(errno, "create " + quoted(path));
  sync_folder(folder);
  stored_ = true;
  return {};
}

// --------------------------------------------------------------------------------------------------------------- store

std::string FileStore::path_of(const std::string& sha256) const {
  return options_.directory + "/sha256/" + sha256.substr(0, 2) + "/" + sha256.substr(2);
}
std::string FileStore::partial_of(const std::string& sha256) const { return options_.directory + "/partial/" + sha256; }

Result<std::uint64_t> FileStore::find(const std::string& sha256) const {
  struct stat status{};
  const std::string path = path_of(sha256);
  if (::stat(path.c_str(), &status) == 0) return static_cast<std::uint64_t>(status.st_size);
  if (errno != ENOENT && errno != ENOTDIR) return os_error(errno, "read " + quoted(path));
  return Error{ErrorCode::kNotFound, "there is no content " + sha256 + " in " + quoted(options_.directory)};
}

std::uint64_t FileStore::disk_room() const {
  if (options_.disk_room) return options_.disk_room();
  struct statvfs disk{};
  if (::statvfs(options_.directory.c_str(), &disk) != 0) return UINT64_MAX;  // The write itself will say what is wrong.
  const std::uint64_t block = disk.f_frsize;
  const std::uint64_t spare = std::min(kMostSpareBytes, disk.f_blocks * block / 20);
  const std::uint64_t free = disk.f_bavail * block;
  return free - std::min(free, spare);
}

Error FileStore::disk_full(std::uint64_t bytes) const {
  return Error{ErrorCode::kNoSpace, "the disk of the store of files in " + quoted(options_.directory) +
                                        " is full: a file of " + format_bytes({bytes}) +
                                        " does not fit; make room on that disk" +
                                        (options_.advice.empty() ? "" : ", or " + options_.advice)};
}

bool FileStore::use(const std::string& sha256, std::uint64_t bytes) {
  const Result<std::uint64_t> found = find(sha256);
  if (!found.ok()) return false;
  // The SHA-256 decides, not the size that somebody names: nobody can have a good content removed.
  const bool examine = *found != bytes || bytes <= kMostVerifiedBytes;
  if (examine && !verify(sha256, [] { return false; }).ok()) return false;
  const sync::MutexLock lock(mutex_);
  if (!find(sha256).ok()) return false;
  (void)::utimensat(AT_FDCWD, path_of(sha256).c_str(), nullptr, 0);
  return true;
}

Result<FileReader> FileStore::read(const std::string& sha256) const {
  const std::string path = path_of(sha256);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    ROTA_TRY(find(sha256));  // NotFound in words.
    return os_error(EIO, "open " + quoted(path));
  }
  struct stat status{};
  if (::fstat(fd, &status) != 0) {
    const int error = errno;
    ::close(fd);
    return os_error(error, "read " + quoted(path));
  }
  // Marks it as used. If this fails, because the folder belongs to another user, it is removed earlier.
  (void)::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  return FileReader(fd, static_cast<std::uint64_t>(status.st_size), path);
}

Result<FileWriter> FileStore::write(const std::string& sha256, std::uint64_t bytes) {
  ROTA_ASSERT(is_sha256(sha256), "a SHA-256");
  FileWriter writer(*this, sha256, bytes);
  if (use(sha256, bytes)) {
    writer.stored_ = true;
    writer.position_ = writer.bytes_;
    return writer;
  }
  ROTA_TRY(make_folder(fs::path(options_.directory) / "partial"));
  ROTA_TRY(reserve(sha256, bytes));
  writer.counted_ = true;
  ROTA_TRY(writer.open());
  return writer;
}

Result<void> FileStore::reserve(const std::string& sha256, std::uint64_t bytes) {
  const sync::MutexLock lock(mutex_);
  if (open_.contains(sha256)) {
    return Error{ErrorCode::kWouldBlock, "somebody else is writing the content " + sha256 + " now; try again"};
  }
  const std::uint64_t most = options_.most_bytes;
  const auto fits = [&](std::uint64_t used) { return most == 0 || (bytes <= most && used <= most - bytes); };
  struct stat partial{};
  const std::uint64_t there =
      ::stat(partial_of(sha256).c_str(), &partial) == 0 ? static_cast<std::uint64_t>(partial.st_size) : 0;
  const std::uint64_t missing = bytes - std::min(bytes, there);
  open_.insert(sha256);
  if (disk_room() < missing) look(options_.evict ? missing - disk_room() : 0);
  if (disk_room() < missing) {
    open_.erase(sha256);
    looked_ = false;
    return disk_full(bytes);
  }
  if (!looked_ || since_look_ > kLookEvery || !fits(settled_ + writing_)) look(0);
  if (!fits(settled_ + writing_) && options_.evict && bytes <= most) look(settled_ + writing_ + bytes - most);
  if (fits(settled_ + writing_)) {
    writing_ += bytes;
    since_look_ += bytes;
    return {};
  }
  open_.erase(sha256);
  looked_ = false;  // The partial content, if there is one, counts again.
  return Error{ErrorCode::kNoSpace, "the store of files in " + quoted(options_.directory) + " is full: it may have " +
                                        format_bytes({most}) + ", it has " + format_bytes({settled_ + writing_}) +
                                        ", and a file of " + format_bytes({bytes}) + " does not fit" +
                                        (options_.setting.empty() ? "" : "; raise the bound with " + options_.setting) +
                                        (options_.advice.empty() ? "" : ", or " + options_.advice)};
}

void FileStore::settle(const std::string& sha256, std::uint64_t reserved, std::uint64_t written) {
  const sync::MutexLock lock(mutex_);
  open_.erase(sha256);
  writing_ -= std::min(writing_, reserved);
  settled_ += written;
}

namespace {

struct Known {
  std::int64_t used_ns = 0;
  std::uint64_t bytes = 0;
  std::string sha256{};
  std::string path{};
};

// f(known) for each content in the folder; others may add and remove files meanwhile.
template <class F>
void each_file(const fs::path& folder, const std::string& prefix, F&& f) {
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string sha256 = prefix + it->path().filename().string();
    struct stat status{};
    if (!is_sha256(sha256) || ::lstat(it->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    f(Known{used_ns_of(status), static_cast<std::uint64_t>(status.st_size), sha256, it->path().string()});
  }
}
template <class F>
void each_content(const std::string& directory, F&& f) {
  std::error_code error;
  for (fs::directory_iterator it(directory + "/sha256", error), end; !error && it != end; it.increment(error)) {
    each_file(it->path(), it->path().filename().string(), f);
  }
}

}  // namespace

void FileStore::look(std::uint64_t least) {
  std::vector<Known> all;
  std::uint64_t settled = 0;
  each_content(options_.directory, [&](Known known) {
    settled += known.bytes;
    if (least > 0) all.push_back(std::move(known));
  });
  const std::int64_t forgotten_ns = wall_ns() - kForgottenAfter_ns;
  const std::set<std::string> open = open_;
  each_file(fs::path(options_.directory) / "partial", "", [&](const Known& known) {
    if (open.contains(known.sha256)) return;
    if (known.used_ns >= forgotten_ns || ::unlink(known.path.c_str()) != 0) settled += known.bytes;
  });
  settled_ = settled;
  looked_ = true;
  since_look_ = 0;
  std::sort(all.begin(), all.end(), [](const Known& a, const Known& b) {
    return std::tie(a.used_ns, a.sha256) < std::tie(b.used_ns, b.sha256);
  });
  std::uint64_t freed = 0;
  std::size_t removed = 0;
  for (const Known& known : all) {
    if (freed >= least) break;
    if (::unlink(known.path.c_str()) != 0) continue;
    freed += known.bytes;
    ++removed;
  }
  settled_ -= std::min(settled_, freed);
  if (removed > 0) {
    ROTA_LOG(kInfo, "removed files from the cache, which was full", {"directory", options_.directory},
             {"files", removed}, {"bytes", freed});
  }
}

Result<void> FileStore::verify(const std::string& sha256, const std::function<bool()>& stopped) {
  const std::string path = path_of(sha256);
  ROTA_TRY(find(sha256));
  ROTA_TRY_ASSIGN(const FileDigest digest, digest_file(path, stopped));
  if (digest.sha256 == sha256) return {};
  remove(sha256);
  ROTA_LOG(kError, "a damaged file was removed from the store", {"file", path}, {"sha256", digest.sha256});
  return damaged(path, sha256);
}

Result<void> FileStore::check(const std::string& sha256, const std::function<bool()>& stopped) const {
  const std::string path = path_of(sha256);
  ROTA_TRY(find(sha256));
  ROTA_TRY_ASSIGN(const FileDigest digest, digest_file(path, stopped));
  if (digest.sha256 == sha256) return {};
  return damaged(path, sha256);
}

void FileStore::remove(const std::string& sha256) {
  const std::string path = path_of(sha256);
  const Result<std::uint64_t> bytes = find(sha256);
  if (::unlink(path.c_str()) != 0 || !bytes.ok()) return;
  const sync::MutexLock lock(mutex_);
  settled_ -= std::min(settled_, *bytes);
}

std::vector<FileStore::Content> FileStore::list(std::size_t most) const {
  std::vector<Content> all;
  each_content(options_.directory,
               [&](Known known) { all.push_back({std::move(known.sha256), known.bytes, known.used_ns}); });
  std::sort(all.begin(), all.end(), [](const Content& a, const Content& b) {
    return std::tie(b.used_ns, a.sha256) < std::tie(a.used_ns, b.sha256);
  });
  if (all.size() > most) all.resize(most);
  return all;
}

std::uint64_t FileStore::clean(const std::function<bool(const std::string&)>& keeps, std::int64_t before_ns) {
  std::uint64_t freed = 0;
  each_content(options_.directory, [&](const Known& known) {
    if (known.used_ns >= before_ns || keeps(known.sha256)) return;
    const sync::MutexLock lock(mutex_);
    struct stat status{};
    // Unless use() came first.
    if (::lstat(known.path.c_str(), &status) != 0 || used_ns_of(status) >= before_ns) return;
    if (::unlink(known.path.c_str()) == 0) freed += known.bytes;
  });
  const sync::MutexLock lock(mutex_);
  looked_ = false;
  return freed;
}

std::uint64_t FileStore::clean_partial(std::int64_t before_ns) {
  std::uint64_t freed = 0;
  const sync::MutexLock lock(mutex_);
  const std::set<std::string> open = open_;
  each_file(fs::path(options_.directory) / "partial", "", [&](const Known& known) {
    if (open.contains(known.sha256) || known.used_ns >= before_ns) return;
    const Fd file(::open(known.path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC));
    if (file.number < 0 || ::flock(file.number, LOCK_EX | LOCK_NB) != 0) return;  // Another process writes it.
    if (::unlink(known.path.c_str()) == 0) freed += known.bytes;
  });
  looked_ = false;
  return freed;
}

}  // namespace rota::net
