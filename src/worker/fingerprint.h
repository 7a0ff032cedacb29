// Hashes of what a task's result depends on: program, inputs, environment, directory, and the content of files. The
// right to be executed belongs to the content of a file.
//
// A pattern names files, relative to a directory or absolute: `*`, `?` and `[a-z]` match within a name, `**` matches
// any number of directories; none of them matches a name that begins with a dot. A directory stands for everything in
// it, hidden or not, except `.rota`, which belongs to Rota. A link to a file counts as the file; a link to a directory
// that is found inside a directory counts as a link and is not followed. Pipes, sockets and devices are not read.
//
// These functions block their thread: call them through fiber::blocking().
// Thread safety: functions without state; HashMemo as described there.
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
#include "model/task_spec.h"
#include "rota/result.h"

namespace rota::worker {

struct Part {
  enum class Kind : std::uint8_t {
    kProgram,
    kHandler,
    kInputs,
    kVariable,
    kDirectory,
    kFiles,
    kOutputs,
    kFile,
    kFetched
  };
  Kind kind = Kind::kProgram;
  std::string name{};  // The name of a variable or file, or the pattern.
  Hash128 hash{};
  Hash128 stamp{};  // Of a file: see FileHash.
};

// Sorted by kind and name; no two parts have the same kind and name.
using Parts = std::vector<Part>;

// All parts except the files.
[[nodiscard]] Parts parts_of(const model::TaskSpec& spec);

struct FileHash {
  Hash128 content{};
  // Which file it was, and when it was last written or replaced. A file that was changed and changed back has the same
  // content and another stamp. None for what is neither a regular file nor a link.
  Hash128 stamp{};
};

// By path: relative to the directory unless the pattern is absolute.
using FileHashes = std::map<std::string, FileHash>;

inline constexpr std::size_t kMostFiles = 100'000;

// Remembers the hashes of files that do not change, so that a thousand tasks with the same data read it once: by device
// and inode, as long as size, modification time and status change time are the same. A file that was changed less than
// kStill before it was read is not remembered, because a further change could get the same time stamp.
//
// Bounded: when it holds kMostFiles, it forgets all of them.
// Thread safety: any thread.
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
  // `read_at_ns`: wall time before the first byte was read.
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

// What the functions below need.
struct FileAccess {
  const std::string& directory;          // For relative paths and patterns.
  const std::function<bool()>& stopped;  // Called between pieces of work; true: return Cancelled.
  HashMemo* memo = nullptr;
};

// The hashes of the files that match one of `patterns` and none of `but`. TooLarge for more than `most` files, IoError
// for a file that cannot be read, Cancelled.
[[nodiscard]] Result<FileHashes> hash_files(const FileAccess& access, const std::vector<std::string>& patterns,
                                            const std::vector<std::string>& but, std::size_t most = kMostFiles);
// The hash of one path that hash_files() returned. NotFound if it does not exist any more.
[[nodiscard]] Result<FileHash> hash_file(const FileAccess& access, const std::string& path);
// The files that match the patterns, by path; empty directories are left out. NotFound if a pattern matches no file;
// TooLarge, IoError, Cancelled.
[[nodiscard]] Result<std::vector<std::string>> find_files(const FileAccess& access,
                                                          const std::vector<std::string>& patterns, std::size_t most);
// Does the pattern match anything?
[[nodiscard]] Result<bool> matches_any(const FileAccess& access, const std::string& pattern);

// The differences, for people: "the program changed", "the file data/a.csv is new", ...; the first few of them, and how
// many more there are. Empty if there are none.
[[nodiscard]] std::string differences(const Parts& before, const Parts& now);
// The same for files that have the same content and another stamp: "the file data/a.csv was written or replaced".
// REQUIRES: differences(before, now) is empty.
[[nodiscard]] std::string touched(const Parts& before, const Parts& now);

// "program, inputs, environment and 3 files".
[[nodiscard]] std::string kinds_of(const Parts& parts);

}  // namespace rota::worker
