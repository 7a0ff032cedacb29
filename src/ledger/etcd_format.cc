#include "ledger/etcd_format.h"

#include <algorithm>
#include <charconv>

#include "base/hash.h"

namespace rota::ledger::detail {

namespace {

constexpr std::uint8_t kFormat = 1;

std::string hex(std::uint64_t number) {
  std::string digits(16, '0');
  for (auto at = digits.rbegin(); number != 0; ++at, number >>= 4) *at = "0123456789abcdef"[number & 15U];
  return digits;
}

class Writer {
 public:
  Writer() { bytes_.push_back(static_cast<char>(kFormat)); }
  template <class Number>
  Writer& number(Number value) {
    for (std::size_t i = 0; i < sizeof value; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
    return *this;
  }
  Writer& text(std::string_view value) {
    bytes_.append(value);
    return *this;
  }
  [[nodiscard]] std::string finish() {
    const std::uint64_t sum = hash64(bytes_);
    number(sum);
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
};

class Reader {
 public:
  // Checks the sum and the format.
  static Result<Reader> open(const kv::KeyValue& kv) {
    const std::string_view all = kv.value;
    if (all.size() < 9) return damaged(kv.key);
    Reader sum(all.substr(all.size() - 8));
    const std::string_view body = all.substr(0, all.size() - 8);
    if (sum.number<std::uint64_t>() != hash64(body)) return damaged(kv.key);
    if (static_cast<std::uint8_t>(body[0]) != kFormat) {
      return Error{ErrorCode::kUnsupported, "the value of " + kv.key + " in etcd has format " +
                                                std::to_string(static_cast<std::uint8_t>(body[0])) +
                                                "; this version of rota reads format " + std::to_string(kFormat)};
    }
    return Reader(body.substr(1));
  }
  static Error damaged(const std::string& key) {
    return Error{ErrorCode::kCorrupt, "the value of " + key + " in etcd is damaged"}.with("key", key);
  }

  template <class Number>
  Number number() {
    Number value = 0;
    if (rest_.size() < sizeof value) {
      failed_ = true;
      return 0;
    }
    for (std::size_t i = 0; i < sizeof value; ++i) {
      value |= static_cast<Number>(static_cast<Number>(static_cast<unsigned char>(rest_[i])) << (8 * i));
    }
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::string_view text(std::size_t size) {
    if (rest_.size() < size) {
      failed_ = true;
      return {};
    }
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return taken;
  }
  [[nodiscard]] bool failed() const { return failed_; }
  [[nodiscard]] bool complete() const { return !failed_ && rest_.empty(); }

 private:
  explicit Reader(std::string_view rest) : rest_(rest) {}
  std::string_view rest_;
  bool failed_ = false;
};

Pieces read_pieces(Reader& in) {
  Pieces pieces;
  pieces.count = in.number<std::uint64_t>();
  pieces.bytes = in.number<std::uint64_t>();
  pieces.sum = in.number<std::uint64_t>();
  return pieces;
}

}  // namespace

EtcdKeys::EtcdKeys(const std::string& prefix)
    : meta(prefix + "meta/"),
      leader(meta + "leader"),
      head(meta + "head"),
      base(meta + "base"),
      snapshot(meta + "snapshot"),
      terms(meta + "terms"),
      copying(meta + "copying"),
      log_prefix(prefix + "log/"),
      part_prefix(prefix + "part/"),
      snap_prefix(prefix + "snap/") {}

std::string EtcdKeys::log(std::uint64_t first) const { return log_prefix + hex(first); }

kv::KeyRange EtcdKeys::logs(std::uint64_t first, std::uint64_t end) const { return {log(first), log(end)}; }

std::string EtcdKeys::piece_folder(const std::string& prefix, std::uint64_t index, std::uint64_t term) {
  return prefix + hex(index) + "/" + hex(term) + "/";
}

std::string EtcdKeys::piece(const std::string& folder, std::uint64_t number) { return folder + hex(number); }

Result<std::uint64_t> EtcdKeys::index_of(std::string_view prefix, std::string_view key) {
  std::uint64_t index = 0;
  const std::string_view digits = key.substr(std::min(prefix.size(), key.size()), 16);
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), index, 16);
  if (digits.size() != 16 || failed != std::errc() || end != digits.data() + digits.size()) {
    return Error{ErrorCode::kCorrupt, "the key " + std::string(key) + " in etcd is not one of a ledger"};
  }
  return index;
}

std::string encode_head(const Head& head) {
  return Writer().number(head.term).number(head.first).number(head.last).finish();
}

std::string encode_base(std::uint64_t base) { return Writer().number(base).finish(); }

std::string encode_snapshot(const SnapshotRef& snapshot) {
  return Writer()
      .number(snapshot.index)
      .number(snapshot.term)
      .number(snapshot.pieces.count)
      .number(snapshot.pieces.bytes)
      .number(snapshot.pieces.sum)
      .finish();
}

std::string encode_batch(std::uint64_t term, std::span<const RecordBytes> records) {
  Writer out;
  out.number(std::uint8_t{0}).number(records.front().index).number(term).number(std::uint64_t{records.size()});
  for (const RecordBytes& record : records) {
    out.number(static_cast<std::uint32_t>(record.bytes.size())).text(record.bytes);
  }
  return out.finish();
}

std::string encode_large(std::uint64_t term, std::uint64_t index, const Pieces& pieces) {
  return Writer()
      .number(std::uint8_t{1})
      .number(index)
      .number(term)
      .number(std::uint64_t{1})
      .number(pieces.count)
      .number(pieces.bytes)
      .number(pieces.sum)
      .finish();
}

Result<Head> decode_head(const kv::KeyValue& kv) {
  ROTA_TRY_ASSIGN(Reader in, Reader::open(kv));
  Head head;
  head.term = in.number<std::uint64_t>();
  head.first = in.number<std::uint64_t>();
  head.last = in.number<std::uint64_t>();
  if (!in.complete() || head.first == 0 || head.last < head.first) return Reader::damaged(kv.key);
  return head;
}

Result<std::uint64_t> decode_base(const kv::KeyValue& kv) {
  ROTA_TRY_ASSIGN(Reader in, Reader::open(kv));
  const auto base = in.number<std::uint64_t>();
  if (!in.complete()) return Reader::damaged(kv.key);
  return base;
}

Result<SnapshotRef> decode_snapshot(const kv::KeyValue& kv) {
  ROTA_TRY_ASSIGN(Reader in, Reader::open(kv));
  SnapshotRef snapshot;
  snapshot.index = in.number<std::uint64_t>();
  snapshot.term = in.number<std::uint64_t>();
  snapshot.pieces = read_pieces(in);
  if (!in.complete() || snapshot.index == 0) return Reader::damaged(kv.key);
  return snapshot;
}

Result<DecodedBatch> decode_batch(const kv::KeyValue& kv) {
  ROTA_TRY_ASSIGN(Reader in, Reader::open(kv));
  DecodedBatch batch;
  batch.in_pieces = in.number<std::uint8_t>() == 1;
  batch.first = in.number<std::uint64_t>();
  batch.term = in.number<std::uint64_t>();
  batch.count = in.number<std::uint64_t>();
  if (batch.in_pieces) {
    batch.pieces = read_pieces(in);
  } else {
    for (std::uint64_t i = 0; i < batch.count && !in.failed(); ++i) {
      batch.records.emplace_back(in.text(in.number<std::uint32_t>()));
    }
  }
  if (!in.complete() || batch.count == 0 || (batch.in_pieces && batch.count != 1)) return Reader::damaged(kv.key);
  return batch;
}

}  // namespace rota::ledger::detail
