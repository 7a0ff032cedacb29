#include "fleet/record.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "fleet/codec.h"
#include "fleet/stored_record.h"
#include "rota/assert.h"

namespace rota::fleet {

namespace {

constexpr std::size_t kChainBytes = 16;

Hash128 chain_of(const Hash128& previous, std::string_view bytes) {
  return Hasher().add(previous).raw(std::as_bytes(std::span(bytes))).finish128();
}

// A record's bytes without their chain hash, and that hash. REQUIRES: at least kChainBytes.
std::pair<std::string_view, Hash128> split_chain(std::string_view bytes) {
  Hash128 chain;
  Decoder decoder(bytes.substr(bytes.size() - kChainBytes));
  ROTA_ASSERT(decoder.read(chain));
  return {bytes.substr(0, bytes.size() - kChainBytes), chain};
}

// Decodes the content without checking the chain.
Result<Record> decode_content(std::string_view content) {
  Decoder decoder(content);
  std::string_view version;
  Result<Record> result{Record()};
  if (!decoder.raw(1, version)) return decoder.error();
  if (const auto format = static_cast<std::uint8_t>(version.front()); format != kLogFormat) {
    return Error{ErrorCode::kCorrupt, "byte 0: format " + std::to_string(format) + "; this program reads format " +
                                          std::to_string(kLogFormat)};
  }
  if (!decoder.read(result.value()) || !decoder.finish()) return decoder.error();
  return result;
}

std::string record_name(std::uint64_t index) { return "record " + std::to_string(index); }

Error defect(std::string_view kind, std::uint64_t record, std::string sentence) {
  return Error{ErrorCode::kCorrupt, std::move(sentence)}
      .with("record", std::to_string(record))
      .with("defect", std::string(kind));
}

std::string magic_of(unsigned format) { return "rota log " + std::to_string(format) + "\n"; }

Error other_format(const std::string& what, unsigned format) {
  return Error{ErrorCode::kUnsupported, what + " has format " + std::to_string(format) +
                                            "; this program reads format " + std::to_string(kLogFormat) +
                                            ". Use the release of rota that wrote it, or start with a new state folder"}
      .with("record", "1")
      .with("defect", "format");
}

// True if these are the bytes of the first record of an undamaged log of another format.
bool begins_other_format(std::string_view content, const Hash128& stored) {
  const auto format = static_cast<std::uint8_t>(content.front());
  return format != kLogFormat && chain_of(hash128(magic_of(format)), content) == stored;
}

// What is wrong with a record whose chain hash is right. Only a faulty writer can produce such a record.
std::string inconsistency(const Record& record, const LogPosition& position) {
  if (record.index != position.index + 1) return "its index is " + std::to_string(record.index);
  if (record.term < position.term) {
    return "its term " + record.term.to_string() + " is lower than the term " + position.term.to_string() +
           " before it";
  }
  const std::int64_t logical = next_logical(position.logical, record.wall_ns);
  if (record.logical != logical) {
    return "its logical time is " + std::to_string(record.logical) + " and should be " + std::to_string(logical);
  }
  if (record.parent >= record.index) return "its parent " + record_name(record.parent) + " is not an earlier one";
  if (position.post && record.prior != *position.post) {
    return "it was decided on the state " + record.prior.to_string() + ", but the record before it left " +
           position.post->to_string();
  }
  return {};
}

}  // namespace

std::int64_t next_logical(std::int64_t previous, std::int64_t wall_ns) {
  ROTA_ASSERT(previous < std::numeric_limits<std::int64_t>::max(), "logical time is used up");
  return std::max(previous + 1, wall_ns);
}

Hash128 first_chain() {
  static const Hash128 chain = hash128(kLogMagic);
  return chain;
}

Hash128 encode_record(const Record& record, const Hash128& previous_chain, std::string& out) {
  const std::size_t start = out.size();
  out.push_back(static_cast<char>(kLogFormat));
  encode(record, out);
  const Hash128 chain = chain_of(previous_chain, std::string_view(out).substr(start));
  encode(chain, out);
  return chain;
}

Result<Record> decode_stored_record(std::string_view bytes) {
  if (bytes.size() < kChainBytes + 1) {
    return Error{ErrorCode::kCorrupt, "a record of " + std::to_string(bytes.size()) + " bytes"};
  }
  return decode_content(split_chain(bytes).first);
}

Result<Record> decode_record(std::string_view bytes, LogPosition& position) {
  const std::uint64_t index = position.index + 1;
  if (bytes.size() < kChainBytes + 1) {
    return defect("changed", index,
                  record_name(index) + " has only " + std::to_string(bytes.size()) + " bytes, which is never enough");
  }
  const auto [content, stored] = split_chain(bytes);
  const Hash128 chain = chain_of(position.chain, content);
  Result<Record> record = decode_content(content);
  if (chain != stored) {
    if (index == 1 && begins_other_format(content, stored)) {
      return other_format("the log", static_cast<std::uint8_t>(content.front()));
    }
    if (record.ok() && record->index > index) {
      return defect("missing", index,
                    record_name(index) + " is missing: " + record_name(record->index) + " stands in its place");
    }
    if (record.ok() && record->index < index) {
      return defect("repeated", index,
                    record_name(index) + " is not in its place: " + record_name(record->index) + " stands there again");
    }
    std::string sentence = record_name(index) + " was changed: its hash is " + chain.to_string() + ", and " +
                           stored.to_string() + " was written with it";
    if (!record.ok()) sentence.append(" (at its ").append(record.error().message).append(")");
    return defect("changed", index, std::move(sentence));
  }
  const std::string wrong = record.ok() ? inconsistency(*record, position) : "at its " + record.error().message;
  if (!wrong.empty()) {
    return defect("inconsistent", index, record_name(index) + " was written with wrong content: " + wrong);
  }
  position = {index, record->term, record->logical, chain, record->post};
  return record;
}

void LogWriter::append(const Record& record) {
  ROTA_ASSERT(record.index == count_ + 1, "a record is missing", record.index);
  scratch_.clear();
  chain_ = encode_record(record, chain_, scratch_);
  encode(scratch_, out_);  // A text: its length and its bytes.
  ++count_;
}

void LogWriter::finish() {
  encode(std::uint64_t{0}, out_);
  encode(count_, out_);
  encode(chain_, out_);
}

// What begins at a byte of the file: the bytes of a record, or none if some are missing. Empty bytes: an end mark.
struct LogReader::Item {
  std::size_t start = 0;
  std::optional<std::string_view> bytes{};
  std::size_t after = 0;
  std::string wrong{};  // If there are no bytes: why.
};

struct LogReader::End {
  std::uint64_t count = 0;
  Hash128 chain{};
};

LogReader::Item LogReader::item_at(std::size_t at) const {
  const std::string_view rest = file_.substr(at);
  Decoder decoder(rest);
  std::uint64_t size = 0;
  std::string_view bytes;
  if (!decoder.read(size)) return {at, std::nullopt, at, decoder.error().message};
  if (size > decoder.left()) {
    return {
        at, std::nullopt, at,
        "it should have " + std::to_string(size) + " bytes, but only " + std::to_string(decoder.left()) + " are there"};
  }
  ROTA_ASSERT(decoder.raw(static_cast<std::size_t>(size), bytes));
  return {at, bytes, at + decoder.position(), {}};
}

// The end mark's content, which begins at `at`, if that is the last thing in the file.
std::optional<LogReader::End> LogReader::end_at(std::size_t at) const {
  Decoder decoder(file_.substr(at));
  End end;
  if (!decoder.read(end.count) || !decoder.read(end.chain) || !decoder.finish()) return std::nullopt;
  return end;
}

Result<void> LogReader::read_header() {
  const std::string_view start = file_.substr(0, kLogMagic.size());
  if (start != kLogMagic) {
    for (unsigned format = 1; format < 100; ++format) {
      if (file_.starts_with(magic_of(format))) return other_format("the log file", format).with("byte", "0");
    }
    const auto [there, expected] = std::mismatch(start.begin(), start.end(), kLogMagic.begin(), kLogMagic.end());
    const std::size_t at = static_cast<std::size_t>(there - start.begin());
    std::string sentence = "byte " + std::to_string(at) + ": this is not a log file of rota";
    const std::string magic(kLogMagic.substr(0, kLogMagic.size() - 1));
    sentence.append(start.size() == at ? "; it ends here" : "; it does not begin with \"" + magic + "\"");
    return defect("format", 1, std::move(sentence)).with("byte", std::to_string(at));
  }
  at_ = kLogMagic.size();
  return {};
}

Result<const Record*> LogReader::next() {
  if (at_ == 0) ROTA_TRY(read_header());
  const std::uint64_t index = position_.index + 1;
  const Item item = item_at(at_);
  const std::string at = std::to_string(at_);
  if (!item.bytes) {
    const bool at_end = at_ == file_.size();
    return defect("truncated", index,
                  "byte " + at + ": the log is cut off " +
                      (at_end ? "before " + record_name(index) + " or its end mark"
                              : "in " + record_name(index) + ", or the length of that was changed: " + item.wrong))
        .with("byte", at);
  }
  if (item.bytes->empty()) {
    ROTA_TRY(check_end());
    return static_cast<const Record*>(nullptr);
  }
  Result<Record> record = decode_record(*item.bytes, position_);
  if (!record.ok()) return diagnose(item, std::move(record).take_error());
  record_ = std::move(record).value();
  at_ = item.after;
  return static_cast<const Record*>(&record_);
}

// Checks the end mark that begins at at_.
Result<void> LogReader::check_end() const {
  const std::optional<End> end = end_at(at_ + 1);
  if (end && end->count == position_.index && end->chain == position_.chain) return {};
  const std::uint64_t index = position_.index + 1;
  const std::string at = "byte " + std::to_string(at_) + ": ";
  // The end mark names the number of records and the chain of the last one: here it shows that records were cut out.
  if (end && end->count > position_.index && end->chain != position_.chain) {
    return defect("missing", index,
                  at + record_name(index) + " is missing: here the log ends, after " + std::to_string(position_.index) +
                      " records of " + std::to_string(end->count))
        .with("byte", std::to_string(at_));
  }
  return defect("changed", index,
                at + "here the log should continue with " + record_name(index) + " or end, and does neither")
      .with("byte", std::to_string(at_));
}

// True if what follows `item` is what follows the expected record: then `item` is that record, with a changed index.
bool LogReader::is_in_place(const Item& item) const {
  if (item.bytes->size() < kChainBytes) return false;
  const Hash128 chain = split_chain(*item.bytes).second;
  const Item following = item_at(item.after);
  if (!following.bytes) return false;
  if (following.bytes->empty()) {
    const std::optional<End> end = end_at(following.after);
    return end && end->count == position_.index + 1 && end->chain == chain;
  }
  if (following.bytes->size() < kChainBytes) return false;
  const auto [content, stored] = split_chain(*following.bytes);
  const Result<Record> record = decode_content(content);
  return chain_of(chain, content) == stored && record.ok() && record->index == position_.index + 2;
}

// Finds out from the rest of the file what happened to the expected record.
Error LogReader::diagnose(const Item& item, Error error) const {
  const std::uint64_t index = position_.index + 1;
  std::string kind = *error.detail("defect");
  std::string sentence = error.message;
  if (kind == "missing" || kind == "repeated") {
    if (is_in_place(item)) {
      kind = "changed";
      sentence = record_name(index) + " was changed: its index is another one";
    } else {
      for (Item later = item_at(item.after); later.bytes && !later.bytes->empty(); later = item_at(later.after)) {
        if (later.bytes->size() < kChainBytes) continue;
        const auto [content, stored] = split_chain(*later.bytes);
        if (chain_of(position_.chain, content) != stored) continue;
        const std::string where = "at byte " + std::to_string(later.start);
        if (kind == "repeated") {
          sentence.append("; ").append(record_name(index)).append(" is ").append(where);
        } else {
          kind = "reordered";
          sentence = record_name(index) + " is not in its place but " + where;
        }
        break;
      }
    }
  }
  return defect(kind, index,
                "bytes " + std::to_string(item.start) + " to " + std::to_string(item.after - 1) + ": " + sentence)
      .with("byte", std::to_string(item.start));
}

}  // namespace rota::fleet
