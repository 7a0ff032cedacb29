#include "worker/fingerprint.h"

#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <span>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/json_text.h"
#include "model/json.h"
#include "rota/clock.h"
#include "worker/owned_fd.h"

namespace rota::worker {

namespace {

constexpr std::size_t kReadBytes = 256 * 1024;
constexpr std::size_t kMostDepth = 64;  // Levels of directories for `**`.
constexpr std::size_t kNamed = 3;       // Differences that a message lists.

Error cannot_read(const std::string& path, int number) {
  return Error{ErrorCode::kIoError,
               "'" + printable(path, 200) + "' cannot be read: " + std::generic_category().message(number)};
}

std::string joined(const std::string& directory, const std::string& path) {
  if (path.starts_with('/') || directory.empty()) return path.empty() ? "." : path;
  if (path.empty() || path == ".") return directory;
  return directory.ends_with('/') ? directory + path : directory + "/" + path;
}

// Finds the paths that match patterns. They are relative to the base, unless a pattern is absolute.
class Finder {
 public:
  Finder(const std::string& base, const std::function<bool()>& stopped, std::size_t most)
      : base_(base), stopped_(stopped), most_(most) {}

  Result<void> add(const std::string& pattern) {
    std::vector<std::string> names;
    for (std::size_t at = 0; at < pattern.size();) {
      const std::size_t end = std::min(pattern.find('/', at), pattern.size());
      if (end > at && pattern.substr(at, end - at) != ".") names.push_back(pattern.substr(at, end - at));
      at = end + 1;
    }
    return walk(pattern.starts_with('/') ? "/" : "", names, 0, 0);
  }
  std::set<std::string>& found() { return found_; }
  [[nodiscard]] Error too_many() const {
    return Error{ErrorCode::kTooLarge, "the patterns match more than " + std::to_string(most_) +
                                           " files; name fewer files, or pack them into one"};
  }

 private:
  struct Entry {
    std::string name;
    bool is_directory;  // A link to a directory is not one.
  };
  // Sorted. Empty if the path does not exist or is not a directory.
  Result<std::vector<Entry>> list(const std::string& path) {
    std::vector<Entry> entries;
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(joined(base_, path).c_str()), ::closedir);
    if (directory == nullptr) {
      if (errno == ENOENT || errno == ENOTDIR) return entries;
      return cannot_read(path, errno);
    }
    while (const dirent* entry = ::readdir(directory.get())) {
      const std::string name = entry->d_name;
      if (name == "." || name == ".." || name == ".rota") continue;
      bool is_directory = entry->d_type == DT_DIR;
      struct stat status{};
      if (entry->d_type == DT_UNKNOWN) {
        is_directory = ::fstatat(::dirfd(directory.get()), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                       S_ISDIR(status.st_mode);
      }
      entries.push_back({name, is_directory});
      if (entries.size() > most_) return too_many();
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
    return entries;
  }

  Result<void> walk(const std::string& path, const std::vector<std::string>& names, std::size_t at, std::size_t depth) {
    if (stopped_()) return ErrorCode::kCancelled;
    if (at == names.size()) return add_path(path);
    const std::string& name = names[at];
    if (name == "**") {
      ROTA_TRY(walk(path, names, at + 1, depth));
      if (depth == kMostDepth) {
        return Error{ErrorCode::kTooLarge, "'**' matches more than " + std::to_string(kMostDepth) +
                                               " levels of directories; name the directory"};
      }
      ROTA_TRY_ASSIGN(const std::vector<Entry> entries, list(path));
      for (const Entry& entry : entries) {
        if (!entry.is_directory || entry.name.starts_with('.')) continue;
        ROTA_TRY(walk(joined(path, entry.name), names, at, depth + 1));
      }
      return {};
    }
    if (name.find_first_of("*?[\\") == std::string::npos) {
      struct stat status{};
      const std::string next = joined(path, name);
      if (::lstat(joined(base_, next).c_str(), &status) != 0) {
        return errno == ENOENT || errno == ENOTDIR ? Result<void>() : Result<void>(cannot_read(next, errno));
      }
      return walk(next, names, at + 1, depth);
    }
    ROTA_TRY_ASSIGN(const std::vector<Entry> entries, list(path));
    for (const Entry& entry : entries) {
      if (::fnmatch(name.c_str(), entry.name.c_str(), FNM_PERIOD) != 0) continue;
      ROTA_TRY(walk(joined(path, entry.name), names, at + 1, depth));
    }
    return {};
  }

  // Adds a file, or everything in a directory.
  Result<void> add_path(const std::string& path) {
    struct stat status{};
    if (::stat(joined(base_, path).c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return insert(path);
    std::vector<std::string> directories{path};
    while (!directories.empty()) {
      if (stopped_()) return ErrorCode::kCancelled;
      const std::string directory = std::move(directories.back());
      directories.pop_back();
      ROTA_TRY_ASSIGN(const std::vector<Entry> entries, list(directory));
      if (entries.empty()) {
        ROTA_TRY(insert(directory.empty() ? "./" : directory.ends_with('/') ? directory : directory + "/"));
      }
      for (const Entry& entry : entries) {
        std::string inner = joined(directory, entry.name);
        if (entry.is_directory) {
          directories.push_back(std::move(inner));
        } else {
          ROTA_TRY(insert(std::move(inner)));
        }
      }
    }
    return {};
  }
  Result<void> insert(std::string path) {
    found_.insert(std::move(path));
    return found_.size() > most_ ? Result<void>(too_many()) : Result<void>();
  }

  const std::string& base_;
  const std::function<bool()>& stopped_;
  const std::size_t most_;
  std::set<std::string> found_;
};

std::string part_text(const Part& part, std::string_view what) {
  const std::string name = printable(part.name, 120);
  switch (part.kind) {
    case Part::Kind::kProgram:
      return "the program changed";
    case Part::Kind::kHandler:
      return "the handler changed";
    case Part::Kind::kInputs:
      return "the inputs changed";
    case Part::Kind::kVariable:
      // These variables hold the values of references in the text of `run`.
      if (part.name.starts_with("ROTA_REF_")) return "the value of reference " + name.substr(9) + " in run changed";
      return "the variable " + name + " " + std::string(what);
    case Part::Kind::kDirectory:
      return "the directory changed";
    case Part::Kind::kFiles:
      return "cache.files changed";
    case Part::Kind::kOutputs:
      return "cache.outputs changed";
    case Part::Kind::kFile:
      return "the file " + name + " " + std::string(what);
    case Part::Kind::kFetched:
      return "the fetched file " + name + " " + std::string(what);
  }
  return "something changed";
}

}  // namespace

Parts parts_of(const model::TaskSpec& spec) {
  Parts parts;
  if (spec.program) {
    parts.push_back({Part::Kind::kProgram, {}, hash_of(spec.program->shell, spec.program->arguments)});
  } else {
    parts.push_back({Part::Kind::kHandler, {}, hash_of(spec.type)});
  }
  // Spelling and white space of the JSON mean nothing.
  const Result<std::string> inputs = model::json_minify(spec.inputs);
  parts.push_back({Part::Kind::kInputs, {}, hash_of(inputs.ok() ? *inputs : spec.inputs)});
  if (spec.program) {
    for (const auto& [name, value] : spec.program->environment) {
      parts.push_back({Part::Kind::kVariable, name, hash_of(value)});
    }
    // Never the value: a secret that changes is another version of it (U-7).
    for (const auto& [name, secret, version] : spec.program->secrets) {
      parts.push_back({Part::Kind::kVariable, name, hash_of(std::string_view("secret"), secret, version)});
    }
    const auto by_name = [](const Part& a, const Part& b) { return a.name < b.name; };
    std::sort(parts.begin() + 2, parts.end(), by_name);  // The order of the variables means nothing.
    parts.push_back({Part::Kind::kDirectory, {}, hash_of(spec.program->directory)});
  }
  if (spec.cache) {
    // A pattern that matches nothing is a part as well.
    for (const std::string& pattern : std::set<std::string>(spec.cache->files.begin(), spec.cache->files.end())) {
      parts.push_back({Part::Kind::kFiles, pattern, {}});
    }
    for (const std::string& pattern : std::set<std::string>(spec.cache->outputs.begin(), spec.cache->outputs.end())) {
      parts.push_back({Part::Kind::kOutputs, pattern, {}});
    }
  }
  return parts;
}

std::optional<Hash128> HashMemo::find(const Identity& file) {
  const sync::MutexLock lock(mutex_);
  const auto known = known_.find({file.device, file.inode});
  if (known == known_.end() || known->second.file != file) return std::nullopt;
  ++found_;
  return known->second.hash;
}

void HashMemo::remember(const Identity& file, const Hash128& hash, std::int64_t read_at_ns) {
  if (std::max(file.modified_ns, file.changed_ns) > read_at_ns - still_.count()) return;
  const sync::MutexLock lock(mutex_);
  if (known_.size() >= kMostFiles) known_.clear();
  known_.insert_or_assign({file.device, file.inode}, Known{file, hash});
}

std::uint64_t HashMemo::found() {
  const sync::MutexLock lock(mutex_);
  return found_;
}

namespace {

HashMemo::Identity identity_of(const struct stat& status) {
  const auto ns = [](const timespec& time) { return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; };
  return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size), ns(status.st_mtim),
          ns(status.st_ctim)};
}

Hash128 stamp_of(const HashMemo::Identity& file) {
  return hash_of(file.device, file.inode, file.size, file.modified_ns, file.changed_ns);
}

// For anything but a regular file: the hash of its kind and, for a link, of its target.
Result<FileHash> hash_other(const std::string& full, const std::string& path, int open_error) {
  struct stat status{};
  if (::lstat(full.c_str(), &status) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) return cannot_read(path, errno);
    return Error{ErrorCode::kNotFound, "'" + printable(path, 200) + "' does not exist any more"};
  }
  if (S_ISREG(status.st_mode)) return cannot_read(path, open_error);
  std::string target(4096, '\0');
  const ssize_t size = S_ISLNK(status.st_mode) ? ::readlink(full.c_str(), target.data(), target.size()) : 0;
  target.resize(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  return FileHash{hash_of(std::string_view("no file"), static_cast<std::uint64_t>(status.st_mode & S_IFMT), target),
                  S_ISLNK(status.st_mode) ? stamp_of(identity_of(status)) : Hash128{}};
}

}  // namespace

Result<FileHash> hash_file(const FileAccess& access, const std::string& path) {
  const std::string full = joined(access.directory, path);
  // Without blocking, if it is a pipe.
  const OwnedFd file(::open(full.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status{};
  if (file.fd < 0 || ::fstat(file.fd, &status) != 0 || !S_ISREG(status.st_mode)) return hash_other(full, path, errno);
  const HashMemo::Identity identity = identity_of(status);
  // A link that leads to this file may be changed as well.
  struct stat own{};
  const bool is_link = ::lstat(full.c_str(), &own) == 0 && S_ISLNK(own.st_mode);
  const Hash128 stamp = is_link ? hash_of(stamp_of(identity), stamp_of(identity_of(own))) : stamp_of(identity);
  if (access.memo != nullptr) {
    if (const std::optional<Hash128> known = access.memo->find(identity)) return FileHash{*known, stamp};
  }
  const std::int64_t read_at_ns = system_clock().wall().time_since_epoch().count();
  Hasher hasher;
  hasher.add(std::string_view((status.st_mode & S_IXUSR) != 0 ? "executable file" : "file"));
  std::vector<std::byte> buffer(std::min<std::size_t>(kReadBytes, static_cast<std::size_t>(status.st_size) + 1));
  for (;;) {
    if (access.stopped()) return ErrorCode::kCancelled;
    const ssize_t size = ::read(file.fd, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return cannot_read(path, errno);
    if (size == 0) break;
    hasher.raw(std::span(buffer).first(static_cast<std::size_t>(size)));
  }
  const Hash128 hash = hasher.finish128();
  // It was not changed while it was read.
  if (access.memo != nullptr && ::fstat(file.fd, &status) == 0 && identity_of(status) == identity) {
    access.memo->remember(identity, hash, read_at_ns);
  }
  return FileHash{hash, stamp};
}

Result<FileHashes> hash_files(const FileAccess& access, const std::vector<std::string>& patterns,
                              const std::vector<std::string>& but, std::size_t most) {
  FileHashes hashes;
  if (patterns.empty()) return hashes;
  Finder wanted(access.directory, access.stopped, most);
  for (const std::string& pattern : patterns) ROTA_TRY(wanted.add(pattern));
  Finder unwanted(access.directory, access.stopped, most);
  for (const std::string& pattern : but) ROTA_TRY(unwanted.add(pattern));
  for (const std::string& path : wanted.found()) {
    if (unwanted.found().contains(path)) continue;
    Result<FileHash> hash = hash_file(access, path);
    if (!hash.ok() && hash.code() == ErrorCode::kNotFound) continue;  // Removed since it was found.
    if (!hash.ok()) return std::move(hash).take_error();
    hashes.emplace(path, *hash);
  }
  return hashes;
}

Result<std::vector<std::string>> find_files(const FileAccess& access, const std::vector<std::string>& patterns,
                                            std::size_t most) {
  std::set<std::string> all;
  for (const std::string& pattern : patterns) {
    Finder finder(access.directory, access.stopped, most);
    ROTA_TRY(finder.add(pattern));
    std::erase_if(finder.found(), [](const std::string& path) { return path.ends_with('/'); });
    if (finder.found().empty()) {
      return Error{ErrorCode::kNotFound, "the task made no file '" + printable(pattern, 200) +
                                             "', which its outputs name, in '" +
                                             printable(access.directory.empty() ? "." : access.directory, 200) + "'"};
    }
    all.merge(finder.found());
    if (all.size() > most) return finder.too_many();
  }
  return std::vector<std::string>(all.begin(), all.end());
}

Result<bool> matches_any(const FileAccess& access, const std::string& pattern) {
  Finder finder(access.directory, access.stopped, kMostFiles);
  ROTA_TRY(finder.add(pattern));
  return !finder.found().empty();
}

namespace {

// The first few differences, and how many more there are.
class DifferenceText {
 public:
  void add(const Part& part, std::string_view what) {
    std::string text = part_text(part, what);
    if (std::find(texts_.begin(), texts_.end(), text) != texts_.end()) return;
    if (texts_.size() < kNamed) {
      texts_.push_back(std::move(text));
    } else {
      ++more_;
    }
  }
  [[nodiscard]] std::string finish() const {
    std::string out;
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      const bool last = i + 1 == texts_.size() && more_ == 0;
      out += (i == 0 ? "" : last ? " and " : ", ") + texts_[i];
    }
    if (more_ > 0) out += " and " + std::to_string(more_) + " more";
    return out;
  }

 private:
  std::vector<std::string> texts_;
  std::size_t more_ = 0;
};

}  // namespace

std::string differences(const Parts& before, const Parts& now) {
  const auto key = [](const Part& part) { return std::tie(part.kind, part.name); };
  DifferenceText text;
  auto old = before.begin();
  auto fresh = now.begin();
  while (old != before.end() || fresh != now.end()) {
    if (fresh == now.end() || (old != before.end() && key(*old) < key(*fresh))) {
      text.add(*old++, "is gone");
    } else if (old == before.end() || key(*fresh) < key(*old)) {
      text.add(*fresh++, "is new");
    } else {
      if (old->hash != fresh->hash) text.add(*fresh, "changed");
      ++old;
      ++fresh;
    }
  }
  return text.finish();
}

std::string touched(const Parts& before, const Parts& now) {
  DifferenceText text;
  for (std::size_t i = 0; i < before.size() && i < now.size(); ++i) {
    if (before[i].stamp != now[i].stamp) text.add(now[i], "was written or replaced");
  }
  return text.finish();
}

std::string kinds_of(const Parts& parts) {
  std::size_t files = 0;
  bool program = false;
  for (const Part& part : parts) {
    files += part.kind == Part::Kind::kFile || part.kind == Part::Kind::kFetched ? 1U : 0U;
    program = program || part.kind == Part::Kind::kProgram;
  }
  std::string text = program ? "program, inputs" : "handler";
  const std::string last = program ? "environment" : "inputs";
  if (files == 0) return text + " and " + last;
  return text + ", " + last + " and " + std::to_string(files) + (files == 1 ? " file" : " files");
}

}  // namespace rota::worker
