// FileUploads: the host's store of files (U-6), as workers write it over HTTP: in pieces, one request each.
//
// A writer (net/file_store.h) stays open between the pieces of a content, so that its SHA-256 is computed once; after a
// restart of the host, or when too many are open, the next piece opens it again and what is there is read once more. A
// content has one writer, whoever sends the pieces: two workers that send the same one help each other.
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

  explicit FileUploads(net::FileStore::Options options) : store_(std::move(options)) {}

  [[nodiscard]] net::FileStore& store() { return store_; }
  // Stores a piece that begins at `offset`, and returns how many bytes of the content there are now; if these are all,
  // it is verified and stored. An empty piece changes nothing unless the content is empty.
  // Conflict, with the detail "offset", if the piece does not begin where the content ends; WouldBlock while another
  // request writes this content; NoSpace; TooLarge; Corrupt.
  Result<std::uint64_t> put(const std::string& sha256, std::uint64_t bytes, std::uint64_t offset,
                            std::string_view piece);
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
