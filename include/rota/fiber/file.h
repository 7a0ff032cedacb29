// Files, read and written without blocking a thread worker: each operation is a blocking() call (blocking.h describes
// cancellation: an operation that has begun is completed). Offsets are explicit, so any number of tasks may use one
// File at the same time (F-26).
//
//   ROTA_TRY_ASSIGN(File file, File::open("data", {.write = true, .create = true}));
//   ROTA_TRY(file.write_all_at(bytes, 0));
//   ROTA_TRY(file.sync());
//   ROTA_TRY(file.close());
//
// Errors name the operation and the path, and have the detail "errno".
// Thread safety: as Descriptor: operations and close() from several tasks at once; moving and destroying from one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "rota/fiber/io.h"
#include "rota/result.h"

namespace rota::fiber {

class File {
 public:
  struct Options {
    bool read = true;
    bool write = false;
    bool create = false;        // Create it if it does not exist. Needs `write`.
    bool exclusive = false;     // It must not exist. Needs `create`.
    bool truncate = false;      // Remove existing contents. Needs `write`.
    std::uint32_t mode = 0666;  // For a new file, reduced by the umask.
  };

  File() = default;  // No file: every operation returns Closed.
  static Result<File> open(const std::string& path, const Options& options);
  static Result<File> open(const std::string& path) { return open(path, Options{}); }

  // Reads up to buffer.size() bytes from `offset` on; fewer only at the end of the file, 0 after it.
  Result<std::size_t> read_at(std::span<std::byte> buffer, std::uint64_t offset);
  // Writes all bytes; the file grows as needed.
  Result<void> write_all_at(std::span<const std::byte> bytes, std::uint64_t offset);
  Result<void> write_all_at(std::string_view text, std::uint64_t offset) {
    return write_all_at(std::as_bytes(std::span(text.data(), text.size())), offset);
  }
  // Returns when everything written so far survives a power cut. `data_only` excludes metadata such as times.
  Result<void> sync(bool data_only = false);
  Result<std::uint64_t> size();
  Result<void> truncate(std::uint64_t size);
  // Not a blocking() call, so it works in a cancelled task. Waits for an operation that a helper is executing.
  Result<void> close();
  [[nodiscard]] bool is_open() const { return descriptor_.is_open(); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  template <class F>
  Result<std::int64_t> operate(const char* what, F&& f);

  Descriptor descriptor_;
  std::string path_;
};

// Reads the whole file. TooLarge above `limit`.
Result<std::string> read_file(const std::string& path, std::size_t limit = std::size_t{1} << 30);
// Replaces the file atomically: a reader sees the old contents or the new, and so does a restart after a crash.
Result<void> write_file(const std::string& path, std::string_view content);

}  // namespace rota::fiber
