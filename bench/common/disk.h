// What the programs of the ledger's rows (P-11) share: the records, and a folder on the disk that goes away.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "common/bench.h"

namespace bench {

inline constexpr std::uint64_t kRecordBytes = 256;
inline constexpr std::uint64_t kGroup = 128;

class Scratch {
 public:
  Scratch() {
    std::string name = (std::filesystem::temp_directory_path() / "rota_bench_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) fail("no folder for the files: " + name);
    folder_ = name;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::filesystem::remove_all(folder_); }
  [[nodiscard]] std::string file(const char* name) const { return folder_ + "/" + name; }

 private:
  std::string folder_;
};

// The bytes of record `index`.
inline std::string record_bytes(std::uint64_t index) {
  std::string bytes(kRecordBytes, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(index * 31 + i * 7);
  return bytes;
}
// What a program that reads records 1 to `count` again adds up: their indices and their sizes.
inline std::uint64_t sum_of_records(std::uint64_t count) { return count * (count + 1) / 2 + count * kRecordBytes; }

}  // namespace bench
