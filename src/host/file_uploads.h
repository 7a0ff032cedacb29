// FileUploads: the host's store of files (U-6), as workers write it over HTTP: in pieces, one request each.
//
// A writer (net/file_store.h) stays open between the pieces of a content, so that its SHA-256 is computed once; after a
// restart of the host, or when too many are open, the next piece opens it again and what is there is read once more. A
// content has one writer for the pieces of all workers: two workers that send the same content share the work.
//
// An open writer reserves the whole size of its content in the store. One that was only asked about has nothing
// reserved, and one that gets no piece for kGivenUp loses its reservation when the store is full (close_idle()): its
// worker may be dead. What was written of it stays, and the upload can be resumed if there is room.
//
// Bounds: kMostOpen writers; a writer that gets no piece for kIdle is closed by a later request.
//
// Thread safety: all functions, from tasks.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/sync.h"
#include "net/file_store.h"
#include "rota/result.h"

namespace rota::host {

class FileUploads {
 public:
  static constexpr std::size_t kMostOpen = 64;
  static constexpr std::chrono::seconds kIdle{60};
  static constexpr std::chrono::seconds kGivenUp{5};

  explicit FileUploads(net::FileStore::Options options) : store_(std::move(options)) {}

  [[nodiscard]] net::FileStore& store() { return store_; }
  // Stores a piece that begins at `offset`, and returns how many bytes of the content there are now; if these are all,
  // it is verified and stored. An empty piece changes nothing unless the content is empty.
  // Conflict, with the detail "offset", if the piece does not begin where the content ends; WouldBlock while another
  // request writes this content; NoSpace; TooLarge; Corrupt.
  Result<std::uint64_t> put(const std::string& sha256, std::uint64_t bytes, std::uint64_t offset,
                            std::string_view piece);
  // Closes the writers that no request uses and that got no piece for `idle`.
  void close_idle(std::chrono::nanoseconds idle) ROTA_EXCLUDES(mutex_);
  // How many writers are open.
  [[nodiscard]] std::size_t open() ROTA_EXCLUDES(mutex_);

 private:
  struct Open {
    std::unique_ptr<net::FileWriter> writer{};  // Null while a request uses it.
    std::chrono::nanoseconds used{};
  };
  // The writer of the content, which nobody else gets until put_back().
  Result<std::unique_ptr<net::FileWriter>> take(const std::string& sha256, std::uint64_t bytes) ROTA_EXCLUDES(mutex_);
  void put_back(const std::string& sha256, std::unique_ptr<net::FileWriter> writer) ROTA_EXCLUDES(mutex_);
  static Result<std::uint64_t> write(net::FileWriter& writer, std::uint64_t offset, std::string_view piece);

  net::FileStore store_;
  sync::Mutex mutex_;
  std::map<std::string, Open> open_ ROTA_GUARDED_BY(mutex_);
};

}  // namespace rota::host
