// Reads a write-ahead log of SQLite's without changing it, to tell a torn tail from a damaged middle.
//
// SQLite replays a log up to the first frame whose checksum is wrong and forgets the rest, in silence. That is right
// for a tail that was being written when the power went, and wrong for a frame in the middle that has rotted: what
// comes after it was acknowledged. With synchronous=FULL every transaction is synced before the next one begins, so
// that at most the last one can be torn. Hence the rule: a bad frame with a frame behind it that belongs to a *later*
// transaction is damage; any other is a torn tail.
//
// Each frame's checksum goes on from the one stored in the frame before. So a frame behind a bad one can be checked
// still: from its predecessor's stored checksum.
//
// The format (https://sqlite.org/fileformat2.html#walformat), all numbers big-endian:
//
//   log    = header frame*
//   header = magic:4 version:4 page_bytes:4 checkpoint:4 salt:8 checksum:8
//   frame  = page:4 commit:4 salt:8 checksum:8 page_bytes bytes        commit > 0 ends a transaction
//
// A frame whose salt is not the header's is left over from before and stands for nothing.
//
// A log is begun anew, with another header over the old one, only when all of it is in the main file. So a bad header
// is harmless if the main file has what the frames behind it hold, and damage otherwise.
#pragma once

#include <cstdint>
#include <string>

#include "rota/result.h"

namespace rota::ledger::detail {

struct WalTail {
  std::uint64_t file_bytes = 0;
  std::uint64_t transactions = 0;  // That SQLite will replay.
  std::uint64_t valid_bytes = 0;   // Header and frames up to the last one that ends a transaction.
  // Bytes behind that which were written for a transaction that SQLite will not replay.
  std::uint64_t torn_bytes = 0;
  bool header_damaged = false;  // And a frame behind it holds what the main file does not.
  bool middle_damaged = false;  // The frame at valid_bytes or behind it is bad, and later transactions follow.
  std::uint64_t damage_at = 0;  // Where the first bad frame begins.
  std::uint64_t bad_frame = 0;  // Its number, from 1.
};

// Of the log `path` of the database `main_path`; all zeros if there is none. IoError if it cannot be read.
Result<WalTail> read_wal_tail(const std::string& path, const std::string& main_path);

}  // namespace rota::ledger::detail
