// How the replicated ledger lies in the key-value store: its keys, and the encoding of their values.
//
//   <prefix>meta/leader    name of the leader, attached to its lease; create_revision is its term
//   <prefix>meta/head      Head: the last batch. Its mod_revision is the fence of appends
//   <prefix>meta/base      the index up to which records are compacted
//   <prefix>meta/snapshot  SnapshotRef: the latest snapshot
//   <prefix>meta/terms     what is added to create_revision(leader) to make the term that the host uses
//   <prefix>meta/copying   there while the log is filled with a copy of another one: it is not complete
//   <prefix>log/<first>    a batch: the records first, first + 1, ...
//   <prefix>part/<first>/<term>/<n>   pieces of a record that is too large for one request
//   <prefix>snap/<index>/<term>/<n>   pieces of a snapshot
// Numbers in keys have 16 hexadecimal digits, so that the order of keys is the order of numbers. Numbers in values are
// little-endian and of fixed size; each value ends with XXH3 of the rest.
//
//   head     = format:u8 term:u64 first:u64 last:u64 sum
//   base     = format:u8 base:u64 sum                            terms likewise
//   snapshot = format:u8 index:u64 term:u64 pieces:u64 bytes:u64 content_sum:u64 sum
//   batch    = format:u8 kind:u8 first:u64 term:u64 count:u64 ( {size:u32 bytes}*count | pieces:u64 bytes:u64
//              content_sum:u64 ) sum                           kind 0: the records; kind 1: one record in pieces
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ledger/kv_store.h"
#include "ledger/ledger.h"
#include "rota/result.h"

namespace rota::ledger::detail {

struct EtcdKeys {
  explicit EtcdKeys(const std::string& prefix);
  std::string meta, leader, head, base, snapshot, terms, copying;  // `meta` is the common prefix of the others.
  std::string log_prefix, part_prefix, snap_prefix;

  [[nodiscard]] std::string log(std::uint64_t first) const;
  // The keys of batches from `first` up to but not including the batch `end`.
  [[nodiscard]] kv::KeyRange logs(std::uint64_t first, std::uint64_t end) const;
  // All pieces of one record or snapshot.
  [[nodiscard]] static std::string piece_folder(const std::string& prefix, std::uint64_t index, std::uint64_t term);
  [[nodiscard]] static std::string piece(const std::string& folder, std::uint64_t number);
  // The index in a key that begins with `prefix`; Corrupt if there is none.
  static Result<std::uint64_t> index_of(std::string_view prefix, std::string_view key);
};

struct Head {
  std::uint64_t term = 0;
  std::uint64_t first = 0;  // Of the last batch.
  std::uint64_t last = 0;
};

// Bytes that are stored in pieces.
struct Pieces {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t sum = 0;
};

struct SnapshotRef {
  std::uint64_t index = 0;
  std::uint64_t term = 0;
  Pieces pieces{};
};

struct DecodedBatch {
  std::uint64_t first = 0;
  std::uint64_t term = 0;
  std::uint64_t count = 0;
  std::vector<std::string> records{};  // Empty if the one record is in pieces.
  bool in_pieces = false;
  Pieces pieces{};
};

[[nodiscard]] std::string encode_head(const Head& head);
[[nodiscard]] std::string encode_base(std::uint64_t base);
[[nodiscard]] std::string encode_snapshot(const SnapshotRef& snapshot);
[[nodiscard]] std::string encode_batch(std::uint64_t term, std::span<const RecordBytes> records);
[[nodiscard]] std::string encode_large(std::uint64_t term, std::uint64_t index, const Pieces& pieces);

// Corrupt with the key, and Unsupported for a newer format.
Result<Head> decode_head(const kv::KeyValue& kv);
Result<std::uint64_t> decode_base(const kv::KeyValue& kv);
Result<SnapshotRef> decode_snapshot(const kv::KeyValue& kv);
Result<DecodedBatch> decode_batch(const kv::KeyValue& kv);

}  // namespace rota::ledger::detail
