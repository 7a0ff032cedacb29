// What a task's success depends on, as hashes: command, inputs, environment, directory, and the content of files.
//
// A pattern names files, relative to a directory or absolute: `*`, `?` and `[a-z]` match within a name, `**` any number
// of directories; none of them matches a name that begins with a dot. A directory stands for all that is in it, hidden
// or not, but for `.rota`, which is ours. A link to a file counts as the file; a link to a directory that is met inside
// a directory counts as a link, and nobody follows it. Pipes, sockets and devices are not read.
//
// Everything here blocks its thread: call it through fiber::blocking().
// Thread safety: functions without state; HashMemo as it says.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/sync.h"
#include "rota/result.h"
#include "worker/json.h"

namespace rota::worker {

struct Part {
  enum class Kind : std::uint8_t { kCommand, kHandler, kInputs, kVariable, kDirectory, kFiles, kOutputs, kFile };
  Kind kind = Kind::kCommand;
  std::string name{};  // Of a variable or a file; the pattern.
  Hash128 hash{};
};

// In the order of kinds and names; no two have both in common.
using Parts = std::vector<Part>;

// Of all but the files. `handler` is its type, empty for a command.
[[nodiscard]] Parts parts_of(const TaskSpec& spec, std::string_view handler);

// By path, as the pattern leads to it: relative to the directory unless the pattern is absolute.
using FileHashes = std::map<std::string, Hash128>;

inline constexpr std::size_t kMostFiles = 100'000;

// Remembers the hashes of files that lie still, so that a thousand tasks with the same data read it once: by device and
// inode, as long as size, time of change and time of status are the same. A file that was changed less than kStill
// before it was read is not remembered: it may be changed again within what its file system takes for the same time.
//
// Bounded: with kMostFiles in it, it forgets all of them.
// Thread safety: all of it from any thread.
class HashMemo {
 public:
  static constexpr std::chrono::seconds kStill{2};
  explicit HashMemo(std::chrono::nanoseconds still = kStill) : still_(still) {}

  struct Identity {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    std::uint64_t size = 0;
    std::int64_t modified_ns = 0;
    std::int64_t changed_ns = 0;
    bool operator==(const Identity&) const = default;
  };
  [[nodiscard]] std::optional<Hash128> find(const Identity& file) ROTA_EXCLUDES(mutex_);
  // `read_at_ns`: wall time before its first byte was read.
  void remember(const Identity& file, const Hash128& hash, std::int64_t read_at_ns) ROTA_EXCLUDES(mutex_);
  [[nodiscard]] std::uint64_t found() ROTA_EXCLUDES(mutex_);

 private:
  struct Known {
    Identity file;
    Hash128 hash;
  };
  const std::chrono::nanoseconds still_;
  sync::Mutex mutex_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, Known> known_ ROTA_GUARDED_BY(mutex_);
  std::uint64_t found_ ROTA_GUARDED_BY(mutex_) = 0;
};

// What the functions below need of their surroundings.
struct FileAccess {
  const std::string& directory;          // That relative paths and patterns are relative to.
  const std::function<bool()>& stopped;  // Asked between pieces of work; true: Cancelled.
  HashMemo* memo = nullptr;
};

// The files that match `patterns` and none of `but`, with their content. TooLarge above `most` of them, IoError for one
// that cannot be read, Cancelled.
[[nodiscard]] Result<FileHashes> hash_files(const FileAccess& access, const std::vector<std::string>& patterns,
                                            const std::vector<std::string>& but, std::size_t most = kMostFiles);
// Of one path that hash_files() gave. NotFound if nothing is there any more.
[[nodiscard]] Result<Hash128> hash_file(const FileAccess& access, const std::string& path);
// Does the pattern match anything?
[[nodiscard]] Result<bool> matches_any(const FileAccess& access, const std::string& pattern);

// What differs, for people: "the command changed", "the file data/a.csv is new", ...; the first few of them, and how
// many more. Empty if nothing does.
[[nodiscard]] std::string differences(const Parts& before, const Parts& now);

// "command, inputs, environment and 3 files": what there is.
[[nodiscard]] std::string kinds_of(const Parts& parts);

}  // namespace rota::worker
