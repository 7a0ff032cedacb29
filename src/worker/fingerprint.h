// What a task's success depends on, as hashes: command, inputs, environment, directory, and the content of files.
//
// A pattern names files, relative to a directory or absolute: `*`, `?` and `[a-z]` match within a name, `**` any number
// of directories; none of them matches a name that begins with a dot. A directory stands for all that is in it, hidden
// or not, but for `.rota`, which is ours. A link to a file counts as the file; a link to a directory that is met inside
// a directory counts as a link, and nobody follows it. Pipes, sockets and devices are not read.
//
// Everything here blocks its thread: call it through fiber::blocking().
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
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

// The files that match `patterns` and none of `but`, with their content. TooLarge above `most` of them, IoError for one
// that cannot be read, Cancelled when stopped() is true; it is asked between pieces of work.
[[nodiscard]] Result<FileHashes> hash_files(const std::string& directory, const std::vector<std::string>& patterns,
                                            const std::vector<std::string>& but, const std::function<bool()>& stopped,
                                            std::size_t most = kMostFiles);
// Of one path that hash_files() gave. NotFound if nothing is there any more.
[[nodiscard]] Result<Hash128> hash_file(const std::string& directory, const std::string& path,
                                        const std::function<bool()>& stopped);
// Does the pattern match anything?
[[nodiscard]] Result<bool> matches_any(const std::string& directory, const std::string& pattern,
                                       const std::function<bool()>& stopped);

// What differs, for people: "the command changed", "the file data/a.csv is new", ...; the first few of them, and how
// many more. Empty if nothing does.
[[nodiscard]] std::string differences(const Parts& before, const Parts& now);

// "command, inputs, environment and 3 files": what there is.
[[nodiscard]] std::string kinds_of(const Parts& parts);

}  // namespace rota::worker
