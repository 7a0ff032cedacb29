// Results of earlier successes, kept in a directory, for tasks that need not run again (C-1).
//
//   ResultCache cache(directory);
//   CacheCheck check(cache, assign, spec);
//   CacheCheck::Verdict verdict = check.begin(stopped);   // before it would run: a result, or why it has to run
//   std::string why_not = check.end(result, stopped);     // after it has succeeded: kept, or why not
//
// On disk, all of one form (a magic line, a line with the hash of what follows, and fields, each a name, a length and
// bytes):
//   <directory>/entries/<key>   a result, the hashes of the files that were made, when and by which task
//   <directory>/tasks/<who>     the parts of the task's last success, to say what changed
// `who` is the hash of workflow, stage and the task's item; `key` that of `who` and all parts. So two tasks share a
// result only if they are the same task, wherever its item stands in the list; going back to an earlier version of a
// file finds that version's result.
//
// Invariants:
//   (1) An entry is written whole, under another name, and then renamed: nobody ever sees a part of one. What a crash
//   of
//       the machine leaves of it is known by its hash, and is a miss.
//   (2) An entry stands for files as they were before the command ran and after it: if they differ, nothing is kept.
//   (3) The store is bounded: see Bounds.
//
// Nothing here ever fails a task: whatever goes wrong is a reason to run it, or not to keep what came of it.
// Thread safety: ResultCache from any thread, several of them and several processes in one directory; a CacheCheck is
// one task's. begin() and end() block their thread: fiber::blocking().
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/sync.h"
#include "bus/message.h"
#include "worker/fingerprint.h"
#include "worker/json.h"

namespace rota::worker {

class ResultCache {
 public:
  // Beyond these, what was not used for longest is removed. Looked at when a cache is first written to and then every
  // so often, so that it may be above them by as much as is written in between.
  struct Bounds {
    std::size_t files = 100'000;
    std::uint64_t bytes = std::uint64_t{1} << 30;
    std::size_t look_every_files = 1024;
    std::uint64_t look_every_bytes = std::uint64_t{64} << 20;
  };
  explicit ResultCache(std::string directory) : ResultCache(std::move(directory), true) {}
  // `reuse` false: nothing is found, and what comes of the runs is kept instead of what was there.
  ResultCache(std::string directory, bool reuse) : ResultCache(std::move(directory), reuse, Bounds{}) {}
  ResultCache(std::string directory, bool reuse, Bounds bounds)
      : directory_(std::move(directory)), reuse_(reuse), bounds_(bounds) {}

  [[nodiscard]] const std::string& directory() const { return directory_; }

 private:
  friend class CacheCheck;
  using Fields = std::vector<std::pair<std::string, std::string>>;
  enum class Folder : std::uint8_t { kEntries, kTasks };

  [[nodiscard]] std::string path_of(Folder folder, const Hash128& name) const;
  // NotFound; Corrupt; IoError.
  [[nodiscard]] static Result<Fields> read(const std::string& path);
  Result<void> write(Folder folder, const Hash128& name, const Fields& fields);
  void keep_bounds(std::uint64_t bytes);

  const std::string directory_;
  const bool reuse_;
  const Bounds bounds_;
  HashMemo memo_;
  sync::Mutex mutex_;
  bool looked_ ROTA_GUARDED_BY(mutex_) = false;
  std::size_t files_since_ ROTA_GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_since_ ROTA_GUARDED_BY(mutex_) = 0;
};

class CacheCheck {
 public:
  // REQUIRES: spec.cache; the cache outlives it.
  CacheCheck(ResultCache& cache, const bus::Assign& assign, const TaskSpec& spec);

  struct Verdict {
    bool hit = false;
    std::string result{};  // JSON, of a hit.
    std::string note{};    // Why, for people.
  };
  // stopped() true ends it early, as a miss.
  Verdict begin(const std::function<bool()>& stopped);
  // After a success with this result. Empty if it is kept.
  std::string end(const std::string& result, const std::function<bool()>& stopped);

 private:
  [[nodiscard]] Result<Parts> all_parts(const std::function<bool()>& stopped) const;
  [[nodiscard]] Hash128 key() const;
  [[nodiscard]] FileAccess access(const std::function<bool()>& stopped) const {
    return {directory_, stopped, &cache_.memo_};
  }
  // Of an entry that is there. Not a hit if an output is not as it was.
  [[nodiscard]] Verdict verdict_of(const ResultCache::Fields& entry, const std::function<bool()>& stopped) const;
  // Of the last success, by running or by a hit. NotFound if there was none.
  [[nodiscard]] Result<Parts> last_parts() const;
  [[nodiscard]] std::string what_changed() const;
  Result<void> store(const std::string& result, const FileHashes& outputs);
  Result<void> store_parts();

  ResultCache& cache_;
  const std::string workflow_;
  const std::string name_;
  const Hash128 who_;
  const CacheSpec spec_;
  const std::string directory_;
  const Parts fixed_;    // All but the files.
  Parts parts_;          // With the files, as they were before it ran.
  bool usable_ = false;  // parts_ is complete.
};

}  // namespace rota::worker
