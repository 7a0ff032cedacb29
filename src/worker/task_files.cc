#include "worker/task_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/json_text.h"
#include "base/log.h"
#include "base/os_error.h"
#include "model/task_spec.h"
#include "rota/assert.h"
#include "rota/fiber/blocking.h"
#include "rota/fiber/time.h"
#include "worker/fingerprint.h"
#include "worker/owned_fd.h"

namespace rota::worker {

using model::StoredFile;

namespace {

constexpr std::chrono::milliseconds kFirstPause{100};
constexpr std::chrono::milliseconds kLongestPause{5'000};

std::string in_quotes(const std::string& path) { return "'" + printable(path, 200) + "'"; }

std::string joined(const std::string& directory, const std::string& path) {
  if (directory.empty()) return path;
  return directory.ends_with('/') ? directory + path : directory + "/" + path;
}

// The operation may succeed later without anybody's help.
bool may_pass(ErrorCode code) {
  switch (code) {
    case ErrorCode::kUnavailable:
    case ErrorCode::kTimeout:
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kClosed:
    case ErrorCode::kWouldBlock:
    case ErrorCode::kOverloaded:
    case ErrorCode::kConflict:
      return true;
    default:
      return false;
  }
}

Result<StoredFile> describe(const std::string& path, const std::string& full, const std::function<bool()>& stopped) {
  struct stat status{};
  if (::stat(full.c_str(), &status) != 0) return os_error(errno, "read " + in_quotes(full));
  if (!S_ISREG(status.st_mode)) {
    return Error{ErrorCode::kInvalidArgument, "the output " + in_quotes(path) + " is not a file"};
  }
  ROTA_TRY_ASSIGN(net::FileDigest digest, net::digest_file(full, stopped));
  return StoredFile{path, std::move(digest.sha256), static_cast<std::int64_t>(digest.bytes),
                    (status.st_mode & S_IXUSR) != 0};
}

// The file is there already: another task has placed it, or made it.
bool is_there(const StoredFile& file, const std::string& to, const std::function<bool()>& stopped) {
  struct stat status{};
  if (::lstat(to.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size != file.bytes) return false;
  if (((status.st_mode & S_IXUSR) != 0) != file.executable) return false;
  const Result<net::FileDigest> digest = net::digest_file(to, stopped);
  return digest.ok() && digest->sha256 == file.sha256;
}

// Into a store on this machine, or on one that is mounted here.
Result<void> write_to(net::FileStore& store, const StoredFile& file,
                      const std::function<Result<std::string>(std::uint64_t offset)>& read,
                      const std::function<bool()>& stopped) {
  ROTA_TRY_ASSIGN(net::FileWriter writer, store.write(file.sha256, static_cast<std::uint64_t>(file.bytes)));
  while (writer.position() < writer.bytes()) {
    if (stopped()) return ErrorCode::kCancelled;
    ROTA_TRY_ASSIGN(const std::string piece, read(writer.position()));
    if (piece.empty()) return Error{ErrorCode::kCorrupt, in_quotes(file.path) + " became shorter while it was read"};
    ROTA_TRY(writer.append(piece));
  }
  return writer.finish();
}

Result<std::string> read_piece(const std::string& path, std::uint64_t offset, std::size_t most) {
  const OwnedFd from(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (from.fd < 0) return os_error(errno, "open " + in_quotes(path));
  std::string piece(most, '\0');
  std::size_t size = 0;
  while (size < most) {
    const ssize_t more = ::pread(from.fd, piece.data() + size, most - size, static_cast<off_t>(offset + size));
    if (more < 0 && errno == EINTR) continue;
    if (more < 0) return os_error(errno, "read " + in_quotes(path));
    if (more == 0) break;
    size += static_cast<std::size_t>(more);
  }
  piece.resize(size);
  return piece;
}

}  // namespace

TaskFiles::TaskFiles(FileSources sources) : sources_(std::move(sources)) {
  if (!sources_.directory.empty()) {
    shared_.emplace(net::FileStore::Options{.directory = sources_.directory,
                                            .most_bytes = sources_.directory_bytes,
                                            .setting = sources_.setting,
                                            .advice = "remove files that nobody needs"});
  }
  if (!sources_.cache_directory.empty()) {
    cache_.emplace(net::FileStore::Options{.directory = sources_.cache_directory,
                                           .most_bytes = sources_.cache_bytes,
                                           .evict = true,
                                           .setting = "--files-cache-bytes"});
  }
  ROTA_ASSERT(shared_ || (sources_.put && sources_.get && cache_), "a store, and a cache for what comes from the host");
}

Result<void> TaskFiles::patiently(const Stopped& stopped, const std::function<Result<void>()>& f) const {
  const std::chrono::nanoseconds until = fiber::now() + kPatience;
  std::chrono::milliseconds pause = kFirstPause;
  for (;;) {
    Result<void> done = f();
    if (done.ok() || !may_pass(done.code())) return done;
    if (stopped()) return ErrorCode::kCancelled;
    if (fiber::now() >= until) {
      Error error = std::move(done).take_error();
      error.code = ErrorCode::kUnavailable;
      return error;
    }
    ROTA_TRY(fiber::sleep_for(pause));
    pause = std::min(2 * pause, kLongestPause);
  }
}

// ------------------------------------------------------------------------------------------------------------ fetching

Result<void> TaskFiles::fetch(const std::vector<StoredFile>& files, const std::string& directory,
                              const Stopped& stopped) {
  for (const StoredFile& file : files) {
    if (!model::is_inside(file.path) || file.path.ends_with('/') || !net::is_sha256(file.sha256) || file.bytes < 0) {
      return Error{ErrorCode::kInvalidArgument,
                   "the path " + in_quotes(file.path) + " is not inside of the task's directory"};
    }
    Result<void> done = fetch_one(file, joined(directory, file.path), stopped);
    if (!done.ok() && done.code() == ErrorCode::kCancelled) return done;
    if (!done.ok()) return std::move(done).take_error().in("the file " + in_quotes(file.path) + " was not fetched");
  }
  return {};
}

// A copy that turns out to be damaged is removed, and the content is fetched once more from where it came.
Result<void> TaskFiles::fetch_one(const StoredFile& file, const std::string& to, const Stopped& stopped) {
  ROTA_TRY_ASSIGN(const bool there, fiber::blocking([&] { return is_there(file, to, stopped); }));
  if (there) return {};
  std::optional<Error> damaged;
  for (int again = 0;; ++again) {
    if (cache_) ROTA_TRY(fetch_to_cache(file, stopped));
    Result<void> copied = fiber::blocking([&]() -> Result<void> {
      net::FileStore& from = cache_ ? *cache_ : *shared_;
      ROTA_TRY_ASSIGN(const net::FileReader reader, from.read(file.sha256));
      Result<void> done = net::copy_file(reader, file.sha256, to, file.executable, stopped);
      if (done.code() == ErrorCode::kCorrupt) (void)from.verify(file.sha256, stopped);  // Removes it if it is damaged.
      return done;
    });
    if (copied.code() == ErrorCode::kNotFound && damaged) {
      damaged->message += "; it was removed, so that the stage that makes it can store it again";
      return *damaged;
    }
    if (copied.code() == ErrorCode::kCorrupt) damaged = copied.error();
    // NotFound: the cache has made room for something else.
    const bool lost = damaged || (cache_ && copied.code() == ErrorCode::kNotFound);
    if (copied.ok() || !lost || again > 0) return copied;
    ROTA_LOG(kWarn, "a file is fetched again", {"file", file.path}, {"why", copied.error().message});
  }
}

Result<void> TaskFiles::fetch_to_cache(const StoredFile& file, const Stopped& stopped) {
  for (int again = 0;; ++again) {
    Result<void> done =
        patiently(stopped, [&] { return shared_ ? copy_to_cache(file, stopped) : download(file, stopped); });
    if (done.ok() || done.code() != ErrorCode::kCorrupt) return done;
    // The bytes that arrived were others. The store looks at its own, and removes them if they are damaged, so that
    // the content can be stored anew.
    if (shared_) {
      const Result<void> good = fiber::blocking([&] { return shared_->verify(file.sha256, stopped); });
      if (!good.ok()) return good.error();
    } else if (sources_.check) {
      ROTA_TRY(patiently(stopped, [&] { return sources_.check(file.sha256); }));
    }
    if (again > 0) return done;
    ROTA_LOG(kWarn, "a file is fetched again", {"file", file.path}, {"why", done.error().message});
  }
}

Result<void> TaskFiles::copy_to_cache(const StoredFile& file, const Stopped& stopped) {
  return fiber::blocking([&]() -> Result<void> {
    if (cache_->find(file.sha256).ok()) return {};
    ROTA_TRY_ASSIGN(const net::FileReader reader, shared_->read(file.sha256));
    return write_to(
        *cache_, file, [&](std::uint64_t offset) { return reader.read(offset, net::kBlockBytes); }, stopped);
  });
}

Result<void> TaskFiles::download(const StoredFile& file, const Stopped& stopped) {
  std::optional<net::FileWriter> writer;
  ROTA_TRY(fiber::blocking([&]() -> Result<void> {
    ROTA_TRY_ASSIGN(net::FileWriter opened, cache_->write(file.sha256, static_cast<std::uint64_t>(file.bytes)));
    writer.emplace(std::move(opened));
    return {};
  }));
  while (writer->position() < writer->bytes()) {
    if (stopped()) return ErrorCode::kCancelled;
    const auto most =
        static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, writer->bytes() - writer->position()));
    ROTA_TRY_ASSIGN(const std::string piece, sources_.get(file.sha256, writer->position(), most));
    if (piece.empty() || piece.size() > most) {
      return Error{ErrorCode::kCorrupt, "the host sent " + std::to_string(piece.size()) + " bytes of the content " +
                                            file.sha256 + " instead of " + std::to_string(most)};
    }
    ROTA_TRY(fiber::blocking([&] { return writer->append(piece); }));
  }
  return fiber::blocking([&] { return writer->finish(); });
}

// ------------------------------------------------------------------------------------------------------------- storing

Result<std::vector<StoredFile>> TaskFiles::store(const std::vector<std::string>& patterns, const std::string& directory,
                                                 const Stopped& stopped) {
  for (const std::string& pattern : patterns) {
    if (!model::is_inside(pattern)) {
      return Error{ErrorCode::kInvalidArgument,
                   "the output " + in_quotes(pattern) + " is not inside of the task's directory"};
    }
  }
  ROTA_TRY_ASSIGN(const std::vector<std::string> paths,
                  fiber::blocking([&] { return find_files({directory, stopped}, patterns, model::kMostOutputFiles); }));
  std::vector<StoredFile> files;
  for (const std::string& path : paths) {
    const std::string full = joined(directory, path);
    for (int again = 0;; ++again) {
      ROTA_TRY_ASSIGN(StoredFile file, fiber::blocking([&] { return describe(path, full, stopped); }));
      Result<void> done = store_one(file, full, stopped);
      if (done.ok()) {
        files.push_back(std::move(file));
        break;
      }
      if (done.code() == ErrorCode::kCancelled) return done.error();
      // The file has another content than a moment ago: something still writes to it.
      if (done.code() == ErrorCode::kCorrupt && again == 0) continue;
      return std::move(done).take_error().in("the output " + in_quotes(path) + " was not stored");
    }
  }
  return files;
}

Result<void> TaskFiles::store_one(const StoredFile& file, const std::string& from, const Stopped& stopped) {
  if (cache_) {
    // What the cache cannot take is fetched when it is needed here.
    const Result<void> cached = fiber::blocking([&]() -> Result<void> {
      return write_to(
          *cache_, file, [&](std::uint64_t offset) { return read_piece(from, offset, net::kBlockBytes); }, stopped);
    });
    if (!cached.ok() && cached.code() == ErrorCode::kCancelled) return cached;
    if (!cached.ok()) ROTA_LOG(kDebug, "a file is not cached", {"file", from}, {"why", cached.error().message});
  }
  return patiently(stopped, [&]() -> Result<void> {
    if (!shared_) return upload(file, from, stopped);
    return fiber::blocking([&]() -> Result<void> {
      return write_to(
          *shared_, file, [&](std::uint64_t offset) { return read_piece(from, offset, net::kBlockBytes); }, stopped);
    });
  });
}

// The host says how much of the content it has, before the first piece and after each. Several workers may send the
// same content: each goes on from there.
Result<void> TaskFiles::upload(const StoredFile& file, const std::string& from, const Stopped& stopped) {
  const auto bytes = static_cast<std::uint64_t>(file.bytes);
  ROTA_TRY_ASSIGN(std::uint64_t offset, sources_.put(file.sha256, bytes, 0, {}));
  while (offset < bytes) {
    if (stopped()) return ErrorCode::kCancelled;
    const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, bytes - offset));
    ROTA_TRY_ASSIGN(const std::string piece, fiber::blocking([&] { return read_piece(from, offset, most); }));
    if (piece.empty()) return Error{ErrorCode::kCorrupt, in_quotes(file.path) + " became shorter while it was read"};
    ROTA_TRY_ASSIGN(offset, sources_.put(file.sha256, bytes, offset, piece));
  }
  return {};
}

bool TaskFiles::has(const std::vector<StoredFile>& files) const {
  return std::all_of(files.begin(), files.end(),
                     [&](const StoredFile& file) { return shared_ && shared_->find(file.sha256).ok(); });
}

std::vector<model::CacheItem> TaskFiles::cached() const {
  std::vector<model::CacheItem> items;
  if (!cache_) return items;
  for (const net::FileStore::Content& content : cache_->list(kMostReported)) {
    items.push_back({"file:" + content.sha256, content.used_ns});
  }
  return items;
}

}  // namespace rota::worker
