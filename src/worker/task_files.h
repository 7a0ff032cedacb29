// TaskFiles: the files of a worker's tasks, between their directories and the store (U-6).
//
//   before a task:  store ──► cache ──► directory        fetch(): each content is verified where it arrives
//   after it:       directory ──► cache, store           store(): a task has succeeded when its files are stored
//
// The store is a folder that all workers share, or the host's, in pieces of kPieceBytes (rota/worker.h, FileSources).
// The cache is a folder of this worker: what it has made or fetched is not fetched again, and placement prefers this
// worker for tasks that need it. A file in a directory is a copy, never a link, so that a task cannot change what the
// cache has; a copy is verified as well, so that a damaged cache is found and the content fetched again.
//
// While the store cannot be reached, or another task transfers the same content, both functions try again with a
// growing pause, for kPatience at most. A transfer that broke off continues where it ended.
//
// Thread safety: all functions, from tasks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "net/file_store.h"
#include "rota/model/stored_file.h"
#include "rota/model/worker_spec.h"
#include "rota/result.h"
#include "rota/worker.h"

namespace rota::worker {

class TaskFiles {
 public:
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
  static constexpr std::chrono::minutes kPatience{5};
  static constexpr std::size_t kMostReported = 256;  // Contents of the cache that a registration names.

  // REQUIRES: a directory or the host is given; with the host, a cache.
  explicit TaskFiles(FileSources sources);

  // Places the files into the directory. `stopped` is called between pieces, also on helper threads.
  // NotFound, Corrupt, NoSpace, IoError; Unavailable when the patience is over; Cancelled.
  Result<void> fetch(const std::vector<model::StoredFile>& files, const std::string& directory,
                     const std::function<bool()>& stopped);
  // Stores what the patterns match. NotFound if one of them matches no file; NoSpace; the same otherwise.
  Result<std::vector<model::StoredFile>> store(const std::vector<std::string>& patterns, const std::string& directory,
                                               const std::function<bool()>& stopped);
  // All of the contents are in the store, as far as this worker can see.
  [[nodiscard]] bool has(const std::vector<model::StoredFile>& files) const;

  // "file:<SHA-256>": how placement names a content.
  [[nodiscard]] static std::string item_of(const model::StoredFile& file) { return "file:" + file.sha256; }
  // What is in the cache, the most recently used first.
  [[nodiscard]] std::vector<model::CacheItem> cached() const;

 private:
  using Stopped = std::function<bool()>;
  Result<void> fetch_one(const model::StoredFile& file, const std::string& to, const Stopped& stopped);
  Result<void> fetch_to_cache(const model::StoredFile& file, const Stopped& stopped);
  Result<void> copy_to_cache(const model::StoredFile& file, const Stopped& stopped);
  Result<void> download(const model::StoredFile& file, const Stopped& stopped);
  Result<void> store_one(const model::StoredFile& file, const std::string& from, const Stopped& stopped);
  Result<void> upload(const model::StoredFile& file, const std::string& from, const Stopped& stopped);
  // Calls f until it succeeds or fails for good.
  Result<void> patiently(const Stopped& stopped, const std::function<Result<void>()>& f) const;

  const FileSources sources_;
  std::optional<net::FileStore> shared_;
  std::optional<net::FileStore> cache_;
};

}  // namespace rota::worker
