// Results of earlier successes, kept in a directory, so that unchanged tasks need not run again (C-1).
//
//   ResultCache cache(directory);
//   CacheCheck check(cache, identity, spec);
//   CacheCheck::Verdict verdict = check.begin(stopped);   // before the run: a result, or the reason to run
//   std::string why_not = check.end(result, stopped);     // after a success: empty if the result is kept
//
// The files on disk have one format: a magic line, a line with the hash of the rest, and fields, each of which is a
// name, a length and bytes.
//   <directory>/entries/<key>   a result, the hashes of the output files, the time and the name of the task
//   <directory>/tasks/<who>     the parts of the task's last success, to say what changed
// `who` is the hash of workflow, stage and the task's item; `key` is the hash of `who` and all parts. So two tasks
// share a result only if they are the same task, wherever its item is in the list; going back to an earlier version of
// a file finds the result for that version.
//
// Invariants:
//   (1) An entry is written whole under another name and then renamed, so that a reader never sees a part of it. An
//       entry that a crash of the machine has damaged does not match its hash, and is not used.
//   (2) An entry is kept only if the files were the same before and after the run, and nobody wrote or replaced one of
//       them in between.
//   (3) The store is bounded: see Bounds.
//
// An error here never fails a task: it is a reason to run the task, or not to keep its result.
// Thread safety: a ResultCache may be used from any thread, and several caches and processes may share one directory. A
// CacheCheck belongs to one task. begin() and end() block their thread: call them through fiber::blocking().
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/sync.h"
#include "model/message.h"
#include "model/task_spec.h"
#include "worker/fingerprint.h"

namespace rota::worker {

class ResultCache {
 public:
  // Above these bounds, the least recently used entries are removed. The bounds are checked at the first write and then
  // from time to time, so that the store may exceed them by what is written in between.
  struct Bounds {
    std::size_t files = 100'000;
    std::uint64_t bytes = std::uint64_t{1} << 30;
    std::size_t look_every_files = 1024;
    std::uint64_t look_every_bytes = std::uint64_t{64} << 20;
  };
  explicit ResultCache(std::string directory) : ResultCache(std::move(directory), true) {}
  // `reuse` false: no kept result is used, and new results replace the kept ones.
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
  // `fetched`: files of other tasks that were placed into its directory (U-6).
  CacheCheck(ResultCache& cache, const model::TaskIdentity& identity, const model::TaskSpec& spec,
             const std::vector<model::StoredFile>& fetched = {});

  struct Verdict {
    bool hit = false;
    std::string result{};  // JSON, if it is a hit.
    std::string note{};    // The reason, for people.
  };
  // When stopped() returns true, it ends early with a miss.
  Verdict begin(const std::function<bool()>& stopped);
  // The same, for a task that is not going to run now: changes nothing.
  Verdict look(const std::function<bool()>& stopped);
  // After a success with this result. Empty if the result is kept, otherwise why it is not.
  std::string end(const std::string& result, const std::function<bool()>& stopped);

 private:
  [[nodiscard]] Result<Parts> all_parts(const std::function<bool()>& stopped) const;
  [[nodiscard]] Hash128 key() const;
  [[nodiscard]] FileAccess access(const std::function<bool()>& stopped) const {
    return {directory_, stopped, &cache_.memo_};
  }
  // The verdict for an existing entry. Not a hit if an output file is missing or changed.
  [[nodiscard]] Verdict verdict_of(const ResultCache::Fields& entry, const std::function<bool()>& stopped) const;
  // The parts of the last success, by a run or by a hit. NotFound if there was none.
  [[nodiscard]] Result<Parts> last_parts() const;
  [[nodiscard]] std::string what_changed() const;
  Result<void> store(const std::string& result, const FileHashes& outputs);
  Result<void> store_parts();

  ResultCache& cache_;
  const std::string workflow_;
  const std::string name_;
  const Hash128 who_;
  const model::CacheSpec spec_;
  const std::string directory_;
  const Parts fixed_;    // All parts except the files,
  const Parts fetched_;  // and those that were fetched.
  Parts parts_;          // With the files, as they were before the run.
  bool usable_ = false;  // parts_ is complete.
};

}  // namespace rota::worker
