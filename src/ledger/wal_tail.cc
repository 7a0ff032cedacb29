#include "ledger/wal_tail.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

#include "base/os_error.h"

namespace rota::ledger::detail {

namespace {

constexpr std::size_t kFrameHeaderBytes = 24;
constexpr std::uint32_t kMagic = 0x377f0682;  // The last bit says that the checksums' words are big-endian.

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

using Header = std::array<unsigned char, kWalHeaderBytes>;

bool is_header(const Header& header) {
  const std::uint32_t page_bytes = big_endian(header.data() + 8);
  const bool big = (big_endian(header.data()) & 1) != 0;
  return (big_endian(header.data()) & ~1U) == kMagic && page_bytes >= 512 && page_bytes <= 65536 &&
         (page_bytes & (page_bytes - 1)) == 0 &&
         go_on({}, header.data(), 24, big) == Checksum{big_endian(header.data() + 24), big_endian(header.data() + 28)};
}

// A file opened for reading, or none if it does not exist.
class Reader {
 public:
  explicit Reader(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)), path_(path) {
    if (fd_ < 0) error_ = errno;
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() {
    if (fd_ >= 0) ::close(fd_);
  }

  // 0 if there is no such file.
  Result<std::uint64_t> size() const {
    if (error_ == ENOENT) return std::uint64_t{0};
    if (error_ != 0) return os_error(error_, "open " + path_);
    const off_t end = ::lseek(fd_, 0, SEEK_END);
    if (end < 0) return os_error(errno, "seek in " + path_);
    return static_cast<std::uint64_t>(end);
  }
  // False if the file has less than `size` bytes there.
  Result<bool> fill(std::uint64_t at, unsigned char* bytes, std::size_t size) const {
    for (std::size_t got = 0; got < size;) {
      const ssize_t n = ::pread(fd_, bytes + got, size - got, static_cast<off_t>(at + got));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return os_error(errno, "read " + path_);
      if (n == 0) return false;
      got += static_cast<std::size_t>(n);
    }
    return true;
  }

 private:
  const int fd_;
  int error_ = 0;
  const std::string path_;
};

// Whether the main file has every page as the last transaction in the log after a bad header left it. Frames are not
// checked: a changed one differs from the main file, which is what this looks for.
Result<bool> is_in_main(const Reader& log, const Reader& main) {
  std::array<unsigned char, 18> start;
  ROTA_TRY_ASSIGN(const bool has_start, main.fill(0, start.data(), start.size()));
  if (!has_start) return false;
  const std::size_t page_bytes = start[16] == 0 && start[17] == 1 ? 65536U : std::size_t{start[16]} << 8 | start[17];
  if (page_bytes < 512 || (page_bytes & (page_bytes - 1)) != 0) return false;
  std::map<std::uint32_t, std::uint64_t> open, committed;  // Page to the offset of its newest content in the log.
  std::array<unsigned char, kFrameHeaderBytes> header, first;
  std::uint64_t pages = 0;
  for (std::uint64_t at = kWalHeaderBytes;; at += kFrameHeaderBytes + page_bytes) {
    ROTA_TRY_ASSIGN(const bool there, log.fill(at, header.data(), header.size()));
    if (at == kWalHeaderBytes) first = header;
    if (!there || std::memcmp(header.data() + 8, first.data() + 8, 8) != 0) break;
    open[big_endian(header.data())] = at + kFrameHeaderBytes;
    if (big_endian(header.data() + 4) == 0) continue;
    pages = big_endian(header.data() + 4);
    for (const auto& [page, where] : open) committed[page] = where;
    open.clear();
  }
  std::vector<unsigned char> in_log(page_bytes), in_main(page_bytes);
  for (const auto& [page, where] : committed) {
    if (page == 0) return false;
    if (page > pages) continue;  // Removed by the last transaction.
    ROTA_TRY_ASSIGN(const bool logged, log.fill(where, in_log.data(), page_bytes));
    ROTA_TRY_ASSIGN(const bool kept, main.fill((page - std::uint64_t{1}) * page_bytes, in_main.data(), page_bytes));
    if (!logged || !kept || in_log != in_main) return false;
  }
  return true;
}

// The state of the walk over the frames.
struct Walk {
  std::array<unsigned char, 8> salt;
  bool big;
  std::size_t frame_bytes;
  Checksum stored;            // Of the previous frame, as stored there.
  bool chained = true;        // Every frame so far is good.
  bool after_commit = false;  // After a bad frame: its transaction has ended.

  void take(const unsigned char* frame, std::uint64_t number, WalTail& tail) {
    const bool ours = std::memcmp(frame + 8, salt.data(), salt.size()) == 0;
    const Checksum expected =
        go_on(go_on(stored, frame, 8, big), frame + kFrameHeaderBytes, frame_bytes - kFrameHeaderBytes, big);
    stored = {big_endian(frame + 16), big_endian(frame + 20)};
    const bool good = ours && stored == expected;
    const bool commits = big_endian(frame + 4) != 0;
    const std::uint64_t end = kWalHeaderBytes + number * frame_bytes;
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

Result<bool> has_wal_header(const std::string& path) {
  const Reader log(path);
  ROTA_TRY_ASSIGN(const std::uint64_t bytes, log.size());
  Header header;
  if (bytes < header.size()) return false;
  ROTA_TRY_ASSIGN(const bool whole, log.fill(0, header.data(), header.size()));
  return whole && is_header(header);
}

Result<WalTail> read_wal_tail(const std::string& path, const std::string& main_path) {
  WalTail tail;
  const Reader log(path);
  ROTA_TRY_ASSIGN(tail.file_bytes, log.size());
  if (tail.file_bytes == 0) return tail;
  Header header;
  ROTA_TRY_ASSIGN(const bool has_header, log.fill(0, header.data(), header.size()));
  tail.torn_bytes = tail.file_bytes;
  if (!has_header) return tail;
  Walk walk;
  walk.big = (big_endian(header.data()) & 1) != 0;
  walk.stored = {big_endian(header.data() + 24), big_endian(header.data() + 28)};
  std::memcpy(walk.salt.data(), header.data() + 16, walk.salt.size());
  const std::uint32_t page_bytes = big_endian(header.data() + 8);
  if (!is_header(header)) {
    if (tail.file_bytes == kWalHeaderBytes) return tail;
    ROTA_TRY_ASSIGN(const bool harmless, is_in_main(log, Reader(main_path)));
    tail.header_damaged = !harmless;
    return tail;
  }
  tail.valid_bytes = kWalHeaderBytes;
  tail.torn_bytes = 0;
  walk.frame_bytes = kFrameHeaderBytes + page_bytes;
  std::vector<unsigned char> frame(walk.frame_bytes);
  std::uint64_t at = kWalHeaderBytes;
  for (std::uint64_t number = 1; at + walk.frame_bytes <= tail.file_bytes; ++number, at += walk.frame_bytes) {
    ROTA_TRY_ASSIGN(const bool whole, log.fill(at, frame.data(), frame.size()));
    if (!whole) break;
    walk.take(frame.data(), number, tail);
  }
  // Half a frame at the end: presumably of the transaction that was being written.
  if (at != tail.file_bytes && walk.chained) tail.torn_bytes = tail.file_bytes - tail.valid_bytes;
  return tail;
}

}  // namespace rota::ledger::detail
