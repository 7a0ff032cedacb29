// How a ledger on disk is opened, and what was found there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

namespace rota::ledger {

enum class Durability : std::uint8_t {
  // A record that was acknowledged survives a crash of the process, of the system, and a power cut. One sync a group.
  kFull,
  // It survives a crash of the process. A crash of the system or a power cut may take the last records, always from the
  // end, and never what was there when a checkpoint was made. No sync but at checkpoints.
  kRelaxed,
};

// Who writes.
enum class Writer : std::uint8_t {
  // A thread of the ledger's own: the next group forms while the last one syncs. For the host.
  kThread,
  // Whoever waits, in its own thread: for deterministic mode, where nothing else may run, and for tools.
  kInPlace,
};

struct DiskOptions {
  std::string path{};  // Of the main file; beside it are path-wal, path-shm (SQLite's) and path-lock.
  Durability durability = Durability::kFull;
  Writer writer = Writer::kThread;
  std::size_t pending_bytes_max = std::size_t{64} << 20;  // Submitted and not yet being written. > 0.
  std::uint32_t checkpoint_pages = 1000;                  // The WAL is brought into the main file beyond this. > 0.
  std::size_t piece_bytes = std::size_t{1} << 20;         // A snapshot is written in pieces of this. > 0.
  std::uint32_t compact_records = 2000;                   // Records that one transaction of compact() removes. > 0.
  // For tests: SQLite's door to the system (null is its own), and how backup() puts a file in its place.
  const char* vfs = nullptr;
  int (*rename)(const char* from, const char* to) = &std::rename;
};

// What open() found.
struct Recovery {
  bool created = false;
  std::uint64_t first_index = 1;
  std::uint64_t last_index = 0;
  std::uint64_t snapshot_index = 0;  // 0: none.
  // Bytes at the end of the write-ahead log that belonged to a transaction that was never acknowledged (or, if the last
  // one to write was relaxed, was not synced). They were cut off.
  std::uint64_t torn_bytes = 0;
};

}  // namespace rota::ledger
