// FileStore: contents of files on their way between machines, in a folder, named by their SHA-256 (U-6).
//
//   <folder>/sha256/ab/cdef...     a content: complete, verified and synced before it gets this name
//   <folder>/partial/<SHA-256>     the beginning of a content; a writer that comes later appends to it
//
//   FileStore store({.directory = "/srv/files", .most_bytes = 100_GiB, .setting = "--files-bytes"});
//   Result<FileWriter> writer = store.write(sha256, bytes);          // NoSpace if it does not fit
//   for (...) writer->append(piece);                                 // from writer->position() on
//   writer->finish();                                                // Corrupt if the SHA-256 is another one
//   Result<FileReader> reader = store.read(sha256);                  // NotFound
//
// Invariants:
//   (1) A file under sha256/ had the content that its name says when it got this name. What became of it since, on the
//       disk, is found by those who read it: copy_file() and verify() compute the SHA-256 again.
//   (2) Memory does not grow with the size of a file: everything is done in blocks of kBlockBytes.
//   (3) Bound: contents, partial ones and those that are being written have at most `most_bytes` together. A store with
//       `evict` removes the least recently used contents; another one refuses with NoSpace and says what is full and
//       what to do. If several processes share the folder, the bound may be exceeded by what the others have written
//       since this one looked.
//       What is written leaves a part of the disk free (kMostSpareBytes, or a twentieth of a small one): the ledger may
//       be on the same disk. A content for which there is no room is refused with NoSpace, and what was written of it
//       is removed.
//   (4) A partial content has one writer: it holds a lock (flock) on the file. Another writer gets WouldBlock.
//
// Blocks of zeros become holes. A partial content that nobody has touched for a day is removed.
//
// Thread safety: a FileStore may be used from any thread, and several processes may share a folder. FileReader and
// FileWriter: none. All functions block their thread: call them through fiber::blocking().
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/sync.h"
#include "rota/result.h"

namespace rota::net {

inline constexpr std::size_t kBlockBytes = std::size_t{256} << 10;
// Of a larger content that is stored again, only the size is compared; its SHA-256 is compared when it is fetched.
inline constexpr std::uint64_t kMostVerifiedBytes = std::uint64_t{1} << 30;
inline constexpr std::uint64_t kMostSpareBytes = std::uint64_t{256} << 20;

// 64 hexadecimal digits in lower case.
[[nodiscard]] bool is_sha256(std::string_view text);

// The SHA-256 of bytes that come in pieces.
class ContentHash {
 public:
  ContentHash();
  ~ContentHash();
  ContentHash(ContentHash&&) noexcept;
  ContentHash& operator=(ContentHash&&) noexcept;
  void add(std::string_view bytes);
  // Hexadecimal. Once; nothing is added after it.
  [[nodiscard]] std::string finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

struct FileDigest {
  std::string sha256{};
  std::uint64_t bytes = 0;
};
// Of a regular file. NotFound; InvalidArgument for something else than a file; Cancelled when stopped() returns true.
[[nodiscard]] Result<FileDigest> digest_file(const std::string& path, const std::function<bool()>& stopped);

class FileReader {
 public:
  FileReader(FileReader&& other) noexcept;
  FileReader& operator=(FileReader&&) = delete;
  ~FileReader();
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  // Up to `most` bytes from `offset` on; fewer only at the end.
  [[nodiscard]] Result<std::string> read(std::uint64_t offset, std::size_t most) const;

 private:
  friend class FileStore;
  FileReader(int fd, std::uint64_t bytes, std::string path) : fd_(fd), bytes_(bytes), path_(std::move(path)) {}
  int fd_;
  std::uint64_t bytes_;
  std::string path_;
};

class FileStore;

class FileWriter {
 public:
  FileWriter(FileWriter&& other) noexcept;
  FileWriter& operator=(FileWriter&&) = delete;
  // A partial content stays, for the next writer.
  ~FileWriter();

  // How many bytes are there. All of them if the store has the content already.
  [[nodiscard]] std::uint64_t position() const { return position_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] bool is_stored() const { return stored_; }
  // TooLarge if it would become longer than announced. NoSpace if the disk is full: then what was written is removed.
  Result<void> append(std::string_view piece);
  // The content is in the store when this succeeds. FailedPrecondition if bytes are missing; Corrupt if the SHA-256 is
  // another one: then the partial content is removed.
  Result<void> finish();

 private:
  friend class FileStore;
  FileWriter(FileStore& store, std::string sha256, std::uint64_t bytes)
      : store_(&store), sha256_(std::move(sha256)), bytes_(bytes) {}
  Result<void> open();
  Result<void> hash_what_is_there();
  void drop();  // Removes what was written.

  FileStore* store_;
  std::string sha256_;
  std::uint64_t bytes_;
  std::uint64_t position_ = 0;
  int fd_ = -1;
  bool stored_ = false;
  bool counted_ = false;  // In the store's account.
  ContentHash hash_{};
};

class FileStore {
 public:
  struct Options {
    std::string directory{};
    std::uint64_t most_bytes = 0;  // 0: no bound but that of the disk.
    bool evict = false;            // When it is full: remove the least recently used contents.
    std::string setting{};         // What raises the bound, for messages.
    std::string advice{};          // How room is made, for messages.
    // How many bytes may be written to the disk; empty: what it has free, less the spare part.
    std::function<std::uint64_t()> disk_room{};
  };
  explicit FileStore(Options options) : options_(std::move(options)) {}

  [[nodiscard]] const std::string& directory() const { return options_.directory; }
  // Its size. NotFound.
  [[nodiscard]] Result<std::uint64_t> find(const std::string& sha256) const;
  // Marks it as used now. NotFound.
  [[nodiscard]] Result<FileReader> read(const std::string& sha256) const;
  // A writer for the rest of the content. A content that is complete is marked as used now, because who stores it again
  // relies on it; one that was damaged since is removed and written again. NoSpace; WouldBlock if somebody else writes
  // it now; IoError. REQUIRES: is_sha256(sha256).
  [[nodiscard]] Result<FileWriter> write(const std::string& sha256, std::uint64_t bytes);
  // Corrupt, if its bytes have another SHA-256 now, and then the content is removed; NotFound; Cancelled.
  Result<void> verify(const std::string& sha256, const std::function<bool()>& stopped);
  void remove(const std::string& sha256);
  // As verify(), but a damaged content stays: changes nothing.
  [[nodiscard]] Result<void> check(const std::string& sha256, const std::function<bool()>& stopped) const;

  // The contents and how large they are, the most recently used first; at most `most` of them.
  struct Content {
    std::string sha256{};
    std::uint64_t bytes = 0;
    std::int64_t used_ns = 0;  // Wall time.
  };
  [[nodiscard]] std::vector<Content> list(std::size_t most) const;
  // Removes contents that `keeps` does not keep and that were not used since `before_ns`. Returns how many bytes.
  std::uint64_t clean(const std::function<bool(const std::string&)>& keeps, std::int64_t before_ns);
  // Removes partial contents that nobody writes now and that have not grown since `before_ns`. Returns how many bytes.
  std::uint64_t clean_partial(std::int64_t before_ns);

 private:
  friend class FileWriter;
  [[nodiscard]] std::string path_of(const std::string& sha256) const;
  [[nodiscard]] std::string partial_of(const std::string& sha256) const;
  [[nodiscard]] std::uint64_t disk_room() const;
  [[nodiscard]] Error disk_full(std::uint64_t bytes) const;
  // Whether the content is there and undamaged; if so, marks it as used now. clean() of this process does not come in
  // between. A damaged one is removed.
  bool use(const std::string& sha256, std::uint64_t bytes);
  // Counts a content that is to be written. NoSpace.
  Result<void> reserve(const std::string& sha256, std::uint64_t bytes);
  void settle(const std::string& sha256, std::uint64_t reserved, std::uint64_t written);
  // Looks into the folder: sets settled_, and removes contents if `least` bytes are to be made free.
  void look(std::uint64_t least) ROTA_REQUIRES(mutex_);

  const Options options_;
  sync::Mutex mutex_;
  bool looked_ ROTA_GUARDED_BY(mutex_) = false;
  std::uint64_t since_look_ ROTA_GUARDED_BY(mutex_) = 0;  // Bytes that were reserved since look().
  std::uint64_t settled_ ROTA_GUARDED_BY(mutex_) = 0;     // Bytes on disk that no writer of this process has open.
  std::uint64_t writing_ ROTA_GUARDED_BY(mutex_) = 0;     // What open writers will have written.
  std::set<std::string> open_ ROTA_GUARDED_BY(mutex_);    // Their contents.
};

// Writes the content of `reader` to the file `to`, which appears only when it is complete and its SHA-256 is right.
// Corrupt; Cancelled.
Result<void> copy_file(const FileReader& reader, const std::string& sha256, const std::string& to, bool executable,
                       const std::function<bool()>& stopped);

}  // namespace rota::net
