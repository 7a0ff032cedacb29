// Files, read and written without blocking a worker: each operation is a blocking() call (see there for cancellation:
// what has begun ends). Offsets are explicit, so that any number of tasks may use one File at once (F-26).
//
//   ROTA_TRY_ASSIGN(File file, File::open("data", {.write = true, .create = true}));
//   ROTA_TRY(file.write_all_at(bytes, 0));
//   ROTA_TRY(file.sync());
//   ROTA_TRY(file.close());
//
// Errors carry what was tried, the path and the detail "errno".
// Thread safety: as of Descriptor: operations and close() from several tasks at once; moving and destroying from one.
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
    bool create = false;        // If it does not exist. Needs `write`.
    bool exclusive = false;     // It must not exist. Needs `create`.
    bool truncate = false;      // To nothing. Needs `write`.
    std::uint32_t mode = 0666;  // Of a new file, less the umask.
  };

  File() = default;  // None: every operation is Closed.
  static Result<File> open(const std::string& path, const Options& options);
  static Result<File> open(const std::string& path) { return open(path, Options{}); }

  // Up to buffer.size() bytes from `offset` on; fewer only at the end of the file, 0 behind it.
  Result<std::size_t> read_at(std::span<std::byte> buffer, std::uint64_t offset);
  // All of it; the file grows as needed.
  Result<void> write_all_at(std::span<const std::byte> bytes, std::uint64_t offset);
  Result<void> write_all_at(std::string_view text, std::uint64_t offset) {
    return write_all_at(std::as_bytes(std::span(text.data(), text.size())), offset);
  }
  // Returns when everything written so far would survive a loss of power. `data_only`: not the times and the like.
  Result<void> sync(bool data_only = false);
  Result<std::uint64_t> size();
  Result<void> truncate(std::uint64_t size);
  // Not a blocking() call, so that it works in a cancelled task. An operation under way on a helper ends first.
  Result<void> close();
  [[nodiscard]] bool is_open() const { return descriptor_.is_open(); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  template <class F>
  Result<std::int64_t> operate(const char* what, F&& f);

  Descriptor descriptor_;
  std::string path_;
};

// The whole file. TooLarge above `limit`.
Result<std::string> read_file(const std::string& path, std::size_t limit = std::size_t{1} << 30);
// Replaces the file as one step: a reader sees the old content or the new, and after a crash it is one of the two.
Result<void> write_file(const std::string& path, std::string_view content);

}  // namespace rota::fiber
