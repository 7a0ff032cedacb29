#include "ledger/wal_tail.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "fiber/io_error.h"

namespace rota::ledger::detail {

namespace {

constexpr std::size_t kHeaderBytes = 32;
constexpr std::size_t kFrameHeaderBytes = 24;
constexpr std::uint32_t kMagic = 0x377f0682;  // Its last bit: the checksums' words are big-endian.

struct Checksum {
  std::uint32_t first = 0;
  std::uint32_t second = 0;
  bool operator==(const Checksum&) const = default;
};

std::uint32_t big_endian(const unsigned char* at) {
  return std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 | at[3];
}
std::uint32_t little_endian(const unsigned char* at) {
  return std::uint32_t{at[3]} << 24 | std::uint32_t{at[2]} << 16 | std::uint32_t{at[1]} << 8 | at[0];
}

// REQUIRES: size is a multiple of 8.
Checksum go_on(Checksum sum, const unsigned char* bytes, std::size_t size, bool big) {
  for (const unsigned char* at = bytes; at < bytes + size; at += 8) {
    sum.first += (big ? big_endian(at) : little_endian(at)) + sum.second;
    sum.second += (big ? big_endian(at + 4) : little_endian(at + 4)) + sum.first;
  }
  return sum;
}

// A file that is read from its beginning to its end.
class Reader {
 public:
  Reader(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() {
    if (fd_ >= 0) ::close(fd_);
  }

  // False at the end, or if less than `size` bytes are left.
  Result<bool> fill(unsigned char* bytes, std::size_t size) {
    std::size_t got = 0;
    while (got < size) {
      const ssize_t n = ::read(fd_, bytes + got, size - got);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return fiber::detail::os_error(errno, "read " + path_);
      if (n == 0) return false;
      got += static_cast<std::size_t>(n);
    }
    return true;
  }

 private:
  int fd_;
  std::string path_;
};

// What the walk over the frames knows.
struct Walk {
  std::array<unsigned char, 8> salt;
  bool big;
  std::size_t frame_bytes;
  Checksum stored;            // Of the frame before, as written there.
  bool chained = true;        // Every frame so far is good.
  bool after_commit = false;  // Behind a bad frame: the transaction that it was in has ended.

  void take(const unsigned char* frame, std::uint64_t number, WalTail& tail) {
    const bool ours = std::memcmp(frame + 8, salt.data(), salt.size()) == 0;
    const Checksum expected =
        go_on(go_on(stored, frame, 8, big), frame + kFrameHeaderBytes, frame_bytes - kFrameHeaderBytes, big);
    stored = {big_endian(frame + 16), big_endian(frame + 20)};
    const bool good = ours && stored == expected;
    const bool commits = big_endian(frame + 4) != 0;
    const std::uint64_t end = kHeaderBytes + number * frame_bytes;
    if (chained && good) {
      if (commits) {
        tail.valid_bytes = end;
        ++tail.transactions;
      }
    } else {
      if (chained) {
        tail.bad_frame = number;
        tail.damage_at = end - frame_bytes;
      }
      chained = false;
      if (good && after_commit) tail.middle_damaged = true;
      if (ours && commits) after_commit = true;
    }
    if (ours) tail.torn_bytes = end > tail.valid_bytes ? end - tail.valid_bytes : 0;
  }
};

}  // namespace

Result<WalTail> read_wal_tail(const std::string& path) {
  WalTail tail;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return tail;
  if (fd < 0) return fiber::detail::os_error(errno, "open " + path);
  Reader reader(fd, path);
  const off_t size = ::lseek(fd, 0, SEEK_END);
  if (size < 0 || ::lseek(fd, 0, SEEK_SET) != 0) return fiber::detail::os_error(errno, "seek in " + path);
  tail.file_bytes = static_cast<std::uint64_t>(size);

  std::array<unsigned char, kHeaderBytes> header;
  ROTA_TRY_ASSIGN(const bool has_header, reader.fill(header.data(), header.size()));
  if (!has_header) {
    tail.torn_bytes = tail.file_bytes;
    return tail;
  }
  Walk walk;
  walk.big = (big_endian(header.data()) & 1) != 0;
  walk.stored = {big_endian(header.data() + 24), big_endian(header.data() + 28)};
  std::memcpy(walk.salt.data(), header.data() + 16, walk.salt.size());
  const std::uint32_t page_bytes = big_endian(header.data() + 8);
  if ((big_endian(header.data()) & ~1U) != kMagic || page_bytes < 512 || page_bytes > 65536 ||
      (page_bytes & (page_bytes - 1)) != 0 || go_on({}, header.data(), 24, walk.big) != walk.stored) {
    // SQLite syncs a header before the first frame behind it, and it is within one sector: with a frame behind it, it
    // was whole once.
    tail.header_damaged = tail.file_bytes > kHeaderBytes;
    tail.torn_bytes = tail.file_bytes;
    return tail;
  }
  tail.valid_bytes = kHeaderBytes;
  walk.frame_bytes = kFrameHeaderBytes + page_bytes;
  std::vector<unsigned char> frame(walk.frame_bytes);
  for (std::uint64_t number = 1;; ++number) {
    ROTA_TRY_ASSIGN(const bool whole, reader.fill(frame.data(), frame.size()));
    if (!whole) break;
    walk.take(frame.data(), number, tail);
  }
  // Half a frame at the end: of the transaction that was being written, as far as one can tell.
  if (const std::uint64_t rest = (tail.file_bytes - kHeaderBytes) % walk.frame_bytes; rest != 0 && walk.chained) {
    tail.torn_bytes = tail.file_bytes - tail.valid_bytes;
  }
  return tail;
}

}  // namespace rota::ledger::detail
