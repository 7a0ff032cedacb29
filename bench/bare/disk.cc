// The limit of the ledger's rows (P-11): the bytes of a group written to a file that is long enough, and one fdatasync.
// So it is that of a chain of decisions each of which waits for the one before, and of one alone (P-13).
#include "common/disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <string>

namespace {

using bench::Figures;

Figures run_groups(std::uint64_t count, std::uint64_t group, bool sync) {
  const bench::Scratch scratch;
  const int fd = ::open(scratch.file("log").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  const std::string zeros(count * bench::kRecordBytes, '\0');
  const auto put = [&](const std::string& bytes, std::uint64_t at) {
    if (::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at)) != static_cast<ssize_t>(bytes.size())) {
      bench::fail("the disk takes no more");
    }
  };
  put(zeros, 0);
  if (::fsync(fd) != 0) bench::fail("the file cannot be synced");
  std::uint64_t written = 0;
  const double ns = bench::measure_ns_each(count, [&] {
    written = 0;
    for (std::string bytes; written < count;) {
      bytes.clear();
      const std::uint64_t first = written;
      while (written < count && written - first < group) bytes += bench::record_bytes(++written);
      put(bytes, first * bench::kRecordBytes);
      if (sync && ::fdatasync(fd) != 0) bench::fail("the file cannot be synced");
    }
  });
  ::close(fd);
  bench::expect(written, count);
  return {ns / 1000};
}

Figures run_1(unsigned, std::uint64_t count) { return run_groups(count, 1, true); }
Figures run_128(unsigned, std::uint64_t count) { return run_groups(count, bench::kGroup, true); }
Figures run_relaxed(unsigned, std::uint64_t count) { return run_groups(count, 1, false); }

// The durable figure only.
Figures run_hops(unsigned, std::uint64_t count) { return {run_groups(count, 1, true).front(), -1}; }

constexpr bench::Work kWorks[] = {
    {"host_chain", 1'000, run_hops}, {"host_start", 500, run_hops},           {"ledger_1", 2'000, run_1},
    {"ledger_128", 51'200, run_128}, {"ledger_relaxed", 20'000, run_relaxed},
};

}  // namespace

int main(int argc, char** argv) { return bench::main_of(argc, argv, kWorks); }
