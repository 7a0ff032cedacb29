#include "worker/result_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <tuple>

#include "base/json_text.h"
#include "base/log.h"
#include "rota/clock.h"
#include "worker/owned_fd.h"
#include "worker/task_check.h"

namespace rota::worker {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kMagic = "rota cache 1\n";
constexpr std::size_t kHashText = 32;
constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;  // The largest file of the store.
constexpr std::chrono::hours kForgottenAfter{1};               // Age at which an unfinished file is removed.

Error io_error(const std::string& what, int number) {
  return Error{ErrorCode::kIoError, what + ": " + std::generic_category().message(number)};
}

std::string utc_minute(std::int64_t ns) {
  const std::time_t seconds = ns / 1'000'000'000;
  std::tm parts{};
  char text[64];
  if (::gmtime_r(&seconds, &parts) == nullptr) return "an unknown time";
  std::snprintf(text, sizeof text, "%04d-%02d-%02d %02d:%02d UTC", parts.tm_year + 1900, parts.tm_mon + 1,
                parts.tm_mday, parts.tm_hour, parts.tm_min);
  return text;
}

const std::string* find(const std::vector<std::pair<std::string, std::string>>& fields, std::string_view name) {
  for (const auto& [key, value] : fields) {
    if (key == name) return &value;
  }
  return nullptr;
}

// "<hash> <text>".
std::optional<std::pair<Hash128, std::string>> parse_hashed(std::string_view text) {
  if (text.size() <= kHashText || text[kHashText] != ' ') return std::nullopt;
  const std::optional<Hash128> hash = Hash128::parse(text.substr(0, kHashText));
  if (!hash) return std::nullopt;
  return std::pair(*hash, std::string(text.substr(kHashText + 1)));
}

Result<void> write_all(const std::string& path, std::string_view bytes) {
  OwnedFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (file.fd < 0) return io_error("'" + printable(path, 200) + "' cannot be created", errno);
  while (!bytes.empty()) {
    const ssize_t size = ::write(file.fd, bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return io_error("'" + printable(path, 200) + "' cannot be written", errno);
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
  return {};
}

}  // namespace

// -------------------------------------------------------------------------------------------------------------- store

std::string ResultCache::path_of(Folder folder, const Hash128& name) const {
  return directory_ + (folder == Folder::kEntries ? "/entries/" : "/tasks/") + name.to_string();
}

Result<ResultCache::Fields> ResultCache::read(const std::string& path) {
  const OwnedFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd < 0) return errno == ENOENT ? Error{ErrorCode::kNotFound, "none"} : io_error(path, errno);
  struct stat status{};
  if (::fstat(file.fd, &status) != 0) return io_error(path, errno);
  const Error damaged{ErrorCode::kCorrupt, "'" + printable(path, 200) + "' is damaged"};
  if (!S_ISREG(status.st_mode) || static_cast<std::uint64_t>(status.st_size) > kMostBytes) return damaged;
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t size = ::read(file.fd, bytes.data() + at, bytes.size() - at);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return io_error(path, errno);
    if (size == 0) return damaged;
    at += static_cast<std::size_t>(size);
  }
  std::string_view left = bytes;
  if (!left.starts_with(kMagic)) return damaged;
  left.remove_prefix(kMagic.size());
  if (left.size() <= kHashText || left[kHashText] != '\n') return damaged;
  const std::optional<Hash128> hash = Hash128::parse(left.substr(0, kHashText));
  left.remove_prefix(kHashText + 1);
  if (!hash || *hash != hash128(left)) return damaged;
  // The content is as it was written; reading it can only fail for a file of another version.
  Fields fields;
  while (!left.empty()) {
    const std::size_t blank = left.find(' ');
    const std::size_t end = left.find('\n');
    if (blank == std::string_view::npos || end == std::string_view::npos || blank > end) return damaged;
    std::size_t size = 0;
    const auto [after, status_of] = std::from_chars(left.data() + blank + 1, left.data() + end, size);
    if (status_of != std::errc() || after != left.data() + end || size >= left.size() - end) return damaged;
    fields.emplace_back(std::string(left.substr(0, blank)), std::string(left.substr(end + 1, size)));
    left.remove_prefix(end + 1 + size);
    if (!left.starts_with('\n')) return damaged;
    left.remove_prefix(1);
  }
  return fields;
}

Result<void> ResultCache::write(Folder folder, const Hash128& name, const Fields& fields) {
  static sync::Atomic<std::uint64_t> count{0};
  std::string body;
  for (const auto& [key, value] : fields) {
    body += key + ' ' + std::to_string(value.size()) + '\n';
    body += value + '\n';
  }
  std::string bytes(kMagic);
  bytes += hash128(body).to_string() + '\n' + body;
  if (bytes.size() > kMostBytes) {
    return Error{ErrorCode::kTooLarge, "it would take " + std::to_string(bytes.size()) + " bytes"};
  }
  const std::string path = path_of(folder, name);
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  if (error)
    return Error{ErrorCode::kIoError,
                 "cannot make the directory '" + printable(directory_, 200) + "': " + error.message()};
  const std::string temporary = path + ".new-" + std::to_string(::getpid()) + "-" + std::to_string(count.fetch_add(1));
  Result<void> written = write_all(temporary, bytes);
  if (written.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    written = io_error("'" + printable(path, 200) + "' cannot be created", errno);
  }
  if (!written.ok()) {
    ::unlink(temporary.c_str());
    return written;
  }
  keep_bounds(bytes.size());
  return {};
}

// If two processes do this at once, both remove the same files, which does no harm.
void ResultCache::keep_bounds(std::uint64_t bytes) {
  {
    const sync::MutexLock lock(mutex_);
    ++files_since_;
    bytes_since_ += bytes;
    if (std::exchange(looked_, true) && files_since_ < bounds_.look_every_files &&
        bytes_since_ < bounds_.look_every_bytes) {
      return;
    }
    files_since_ = 0;
    bytes_since_ = 0;
  }
  struct Known {
    fs::file_time_type used;
    std::uint64_t bytes;
    std::string path;
  };
  std::vector<Known> all;
  std::uint64_t total = 0;
  const fs::file_time_type now = fs::file_time_type::clock::now();
  for (const char* folder : {"/entries", "/tasks"}) {
    std::error_code error;
    for (fs::directory_iterator it(directory_ + folder, error), end; !error && it != end; it.increment(error)) {
      std::error_code gone;
      const std::uint64_t size = it->file_size(gone);
      const fs::file_time_type used = gone ? now : it->last_write_time(gone);
      if (gone) continue;
      if (it->path().filename().string().find(".new-") != std::string::npos) {
        if (used < now - kForgottenAfter) fs::remove(it->path(), gone);
        continue;
      }
      all.push_back({used, size, it->path().string()});
      total += size;
    }
  }
  std::sort(all.begin(), all.end(),
            [](const Known& a, const Known& b) { return std::tie(a.used, a.path) < std::tie(b.used, b.path); });
  std::size_t files = all.size();
  std::size_t removed = 0;
  for (const Known& known : all) {
    if (files <= bounds_.files && total <= bounds_.bytes) break;
    ::unlink(known.path.c_str());
    --files;
    ++removed;
    total -= known.bytes;
  }
  if (removed > 0)
    ROTA_LOG(kInfo, "removed old results: the cache was full", {"directory", directory_}, {"files", removed});
}

// --------------------------------------------------------------------------------------------------------------- check

namespace {

Parts parts_of_fetched(const std::vector<model::StoredFile>& files) {
  Parts parts;
  for (const model::StoredFile& file : files) {
    parts.push_back({Part::Kind::kFetched, file.path, hash_of(file.sha256, file.executable)});
  }
  return parts;
}

}  // namespace

CacheCheck::CacheCheck(ResultCache& cache, const model::TaskIdentity& identity, const model::TaskSpec& spec,
                       const std::vector<model::StoredFile>& fetched)
    : cache_(cache),
      workflow_(identity.workflow),
      name_(identity.name),
      who_(hash_of(identity.workflow, identity.stage, identity.item)),
      spec_(*spec.cache),
      directory_(spec_.directory.empty() && spec.program ? spec.program->directory : spec_.directory),
      fixed_(parts_of(spec)),
      fetched_(parts_of_fetched(fetched)) {}

Result<Parts> CacheCheck::all_parts(const std::function<bool()>& stopped) const {
  Parts parts = fixed_;
  // Outputs are not inputs, even if a pattern covers both.
  ROTA_TRY_ASSIGN(const FileHashes files, hash_files(access(stopped), spec_.files, spec_.outputs));
  for (const auto& [path, hash] : files) parts.push_back({Part::Kind::kFile, path, hash.content, hash.stamp});
  parts.insert(parts.end(), fetched_.begin(), fetched_.end());
  return parts;
}

Hash128 CacheCheck::key() const {
  Hasher hasher;
  hasher.add(who_);
  for (const Part& part : parts_) hasher.add(part.kind).add(part.name).add(part.hash);
  return hasher.finish128();
}

CacheCheck::Verdict CacheCheck::begin(const std::function<bool()>& stopped) {
  Verdict verdict = look(stopped);
  if (!verdict.hit) return verdict;
  // Marks it as used now. If this fails, because the store belongs to another user, it is removed earlier.
  (void)::utimensat(AT_FDCWD, cache_.path_of(ResultCache::Folder::kEntries, key()).c_str(), nullptr, 0);
  const Result<Parts> last = last_parts();
  if (!last.ok() || !differences(*last, parts_).empty())
    (void)store_parts();  // The task is back at an earlier version.
  return verdict;
}

CacheCheck::Verdict CacheCheck::look(const std::function<bool()>& stopped) {
  Result<Parts> parts = all_parts(stopped);
  if (!parts.ok()) return {.note = "runs: the files that it depends on cannot be read: " + parts.error().message};
  parts_ = std::move(*parts);
  usable_ = true;
  if (!cache_.reuse_) return {.note = "runs: the worker was told not to use kept results"};
  const std::string path = cache_.path_of(ResultCache::Folder::kEntries, key());
  const Result<ResultCache::Fields> entry = ResultCache::read(path);
  if (entry.ok()) return verdict_of(*entry, stopped);
  if (entry.code() == ErrorCode::kNotFound) return {.note = "runs: " + what_changed()};
  return {.note = "runs: the kept result of an earlier success cannot be used: " + entry.error().message};
}

CacheCheck::Verdict CacheCheck::verdict_of(const ResultCache::Fields& entry,
                                           const std::function<bool()>& stopped) const {
  Verdict verdict;
  std::size_t outputs = 0;
  for (const auto& [name, value] : entry) {
    if (name != "output") continue;
    ++outputs;
    const auto kept = parse_hashed(value);
    if (!kept) return {.note = "runs: the kept result of an earlier success cannot be used: it has another format"};
    const std::string path = printable(kept->second, 120);
    const Result<FileHash> now = hash_file(access(stopped), kept->second);
    if (now.ok() && now->content == kept->first) continue;
    if (now.ok()) return {.note = "runs: output " + path + " changed"};
    if (now.code() == ErrorCode::kNotFound) return {.note = "runs: output " + path + " is missing"};
    return {.note = "runs: output " + path + " cannot be read"};
  }
  const std::string* result = find(entry, "result");
  const std::string* made = find(entry, "made_ns");
  const std::string* task = find(entry, "task");
  if (result == nullptr || made == nullptr || task == nullptr || !check_json(*result).ok()) {
    return {.note = "runs: the kept result of an earlier success cannot be used: it has another format"};
  }
  std::int64_t made_ns = 0;
  std::from_chars(made->data(), made->data() + made->size(), made_ns);
  verdict.hit = true;
  verdict.result = *result;
  verdict.note = kinds_of(parts_) + " are unchanged since " + utc_minute(made_ns) + " (workflow " +
                 printable(workflow_, 60) + ", task " + printable(*task, 60) + ")";
  if (outputs > 0) verdict.note += "; its " + std::string(outputs == 1 ? "output is" : "outputs are") + " unchanged";
  return verdict;
}

Result<Parts> CacheCheck::last_parts() const {
  ROTA_TRY_ASSIGN(const ResultCache::Fields fields,
                  ResultCache::read(cache_.path_of(ResultCache::Folder::kTasks, who_)));
  Parts parts;
  for (const auto& [name, value] : fields) {
    const auto hashed = parse_hashed(value);
    if (name.size() != 1 || !hashed) continue;
    parts.push_back({static_cast<Part::Kind>(name.front() - 'a'), hashed->second, hashed->first});
  }
  return parts;
}

std::string CacheCheck::what_changed() const {
  const Result<Parts> last = last_parts();
  if (!last.ok() && last.code() == ErrorCode::kNotFound) return "no earlier success";
  if (!last.ok()) return "the record of its last success cannot be read: " + last.error().message;
  const std::string text = differences(*last, parts_);
  return text.empty() ? "the result of its last success is no longer kept" : text;
}

std::string CacheCheck::end(const std::string& result, const std::function<bool()>& stopped) {
  if (!usable_) return {};  // The note of begin() says why.
  const Result<Parts> after = all_parts(stopped);
  if (!after.ok()) return "not kept: " + after.error().message;
  if (const std::string changed = differences(parts_, *after); !changed.empty()) {
    return "not kept: while it ran, " + changed + "; list the files that it writes in cache.outputs";
  }
  // Between two changes it may have read what was there in the meantime.
  if (const std::string changed = touched(parts_, *after); !changed.empty()) {
    return "not kept: while it ran, " + changed + ", so it is unknown which content it read";
  }
  for (const std::string& pattern : spec_.outputs) {
    const Result<bool> any = matches_any(access(stopped), pattern);
    if (!any.ok()) return "not kept: " + any.error().message;
    if (!*any) return "not kept: no file matches '" + printable(pattern, 120) + "' of cache.outputs";
  }
  const Result<FileHashes> outputs = hash_files(access(stopped), spec_.outputs, {});
  if (!outputs.ok()) return "not kept: " + outputs.error().message;
  const Result<void> stored = store(result, *outputs);
  return stored.ok() ? std::string() : "not kept: " + stored.error().message;
}

Result<void> CacheCheck::store(const std::string& result, const FileHashes& outputs) {
  ResultCache::Fields entry{{"workflow", workflow_},
                            {"task", name_},
                            {"made_ns", std::to_string(system_clock().wall().time_since_epoch().count())},
                            {"result", result}};
  for (const auto& [path, hash] : outputs) entry.emplace_back("output", hash.content.to_string() + " " + path);
  ROTA_TRY(cache_.write(ResultCache::Folder::kEntries, key(), entry));
  return store_parts();
}

Result<void> CacheCheck::store_parts() {
  ResultCache::Fields parts;
  for (const Part& part : parts_) {
    parts.emplace_back(std::string(1, static_cast<char>('a' + static_cast<int>(part.kind))),
                       part.hash.to_string() + " " + part.name);
  }
  return cache_.write(ResultCache::Folder::kTasks, who_, parts);
}

}  // namespace rota::worker
