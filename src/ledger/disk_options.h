// The options of a ledger on disk, and the result of its recovery.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

namespace rota::ledger {

enum class Durability : std::uint8_t {
  // An acknowledged record survives a crash of the process or the system, and a power cut. One sync per group.
  kFull,
  // It survives a crash of the process. A crash of the system or a power cut may remove the last records, always from
  // the end, and never records that a checkpoint has stored. Syncs only at checkpoints.
  kRelaxed,
};

// Which thread writes.
enum class Writer : std::uint8_t {
  // A thread of the ledger: the next group forms while the previous one syncs. For the host.
  kThread,
  // The thread that waits: for deterministic mode, where no other thread may run, and for tools.
  kInPlace,
};

struct DiskOptions {
  std::string path{};  // The main file. Beside it: path-wal, path-shm (SQLite's) and path-lock.
  Durability durability = Durability::kFull;
  Writer writer = Writer::kThread;
  std::size_t pending_bytes_max = std::size_t{64} << 20;  // Bound for records that wait to be written. > 0.
  std::uint32_t checkpoint_pages = 1000;                  // Length of the WAL that causes a checkpoint. > 0.
  std::size_t piece_bytes = std::size_t{1} << 20;         // Size of the pieces in which a snapshot is written. > 0.
  std::uint32_t compact_records = 2000;                   // Records that one transaction of compact() removes. > 0.
  // For tests: the SQLite VFS (null: the default one), and the function that backup() uses to rename a file.
  const char* vfs = nullptr;
  int (*rename)(const char* from, const char* to) = &std::rename;
};

// The result of the recovery in open().
struct Recovery {
  bool created = false;
  std::uint64_t first_index = 1;
  std::uint64_t last_index = 0;
  std::uint64_t snapshot_index = 0;  // 0: none.
  // Bytes at the end of the write-ahead log that were removed: they belonged to a transaction that was never
  // acknowledged (or, if the last writer was relaxed, was not synced).
  std::uint64_t torn_bytes = 0;
};

}  // namespace rota::ledger
