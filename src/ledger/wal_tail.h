// Reads an SQLite write-ahead log without changing it, to distinguish a torn tail from damage in the middle.
//
// SQLite replays a log up to the first frame whose checksum is wrong and silently ignores the rest. That is right for a
// tail that was being written at a power cut, and wrong for a damaged frame in the middle, because the transactions
// after it were acknowledged. With synchronous=FULL every transaction is synced before the next one begins, so at most
// the last one can be torn. Hence the rule: a bad frame that is followed by a frame of a *later* transaction is damage;
// any other is a torn tail.
//
// The checksum of each frame continues the one stored in the frame before. Therefore a frame after a bad one can still
// be checked, from its predecessor's stored checksum.
//
// The format (https://sqlite.org/fileformat2.html#walformat), all numbers big-endian:
//
//   log    = header frame*
//   header = magic:4 version:4 page_bytes:4 checkpoint:4 salt:8 checksum:8
//   frame  = page:4 commit:4 salt:8 checksum:8 page_bytes bytes        commit > 0 ends a transaction
//
// A frame whose salt differs from the header's is left over from an earlier use of the log and is ignored.
//
// A log is restarted, with a new header over the old one, only when all of it is in the main file. So a bad header is
// harmless if the main file has the contents of the frames after it, and damage otherwise.
#pragma once

#include <cstdint>
#include <string>

#include "rota/result.h"

namespace rota::ledger::detail {

struct WalTail {
  std::uint64_t file_bytes = 0;
  std::uint64_t transactions = 0;  // Transactions that SQLite will replay.
  std::uint64_t valid_bytes = 0;   // Header and frames up to the last one that ends a transaction.
  // Bytes after that, written for a transaction that SQLite will not replay.
  std::uint64_t torn_bytes = 0;
  bool header_damaged = false;  // A frame after the damaged header has contents that the main file lacks.
  bool middle_damaged = false;  // The frame at valid_bytes, or one after it, is bad, and later transactions follow.
  std::uint64_t damage_at = 0;  // Offset of the first bad frame.
  std::uint64_t bad_frame = 0;  // Its number, from 1.
};

inline constexpr std::size_t kWalHeaderBytes = 32;
// Whether the log `path` begins with a whole header. SQLite ignores a log that does not. IoError.
Result<bool> has_wal_header(const std::string& path);
// Examines the log `path` of the database `main_path`; all zeros if there is none. IoError if it cannot be read.
Result<WalTail> read_wal_tail(const std::string& path, const std::string& main_path);

}  // namespace rota::ledger::detail
