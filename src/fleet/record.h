// The log: commands and the events decided for them, record by record, in a hash chain that reveals every defect.
//
//   log file = "rota log 5\n" { length record } end       end = 0 (a length), count, chain
//   record   = format, index, term, logical, wall_ns, command, events, prior, post, parent (see codec.h), chain
//   chain    = hash128 of the chain before it, and the record's bytes up to here; before the first it is that of
//              "rota log 5\n"
//
// Invariants of a log, checked as it is read:
//   (1) each chain hash is right: no byte changed, nothing missing, nothing moved
//   (2) indices count up by one; terms never fall
//   (3) logical = max(previous logical + 1, wall_ns): unique and increasing, and wall time wherever that increases
//   (4) prior is the previous record's post; parent is an earlier record
//   (5) a log file ends with its end mark, so that a log that is cut off between two records is found as well
//
// It reveals damage, not forgery: a program that can write the log can compute a new chain (docs/decisions/0051).
//
// Thread safety: functions any thread; objects none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "fleet/command.h"
#include "fleet/event.h"
#include "rota/model/fields.h"
#include "rota/result.h"

namespace rota::fleet {

// Who asked for a command. All empty: the host itself, or the worker that the command names.
struct Origin {
  std::string user{};     // Of the token; "local" for the host's control socket.
  std::string token{};    // The token's id, never its secret.
  std::string request{};  // The request's id: X-Request-Id of the client, or one of the host's.
  ROTA_FIELDS(user, token, request)
};

struct Record {
  std::uint64_t index = 0;  // The first record is 1.
  Term term{};              // Of the leader that wrote it.
  std::int64_t logical = 0;
  std::int64_t wall_ns = 0;
  Command command{};
  Events events{};
  Hash128 prior{};  // Of the state before the events.
  Hash128 post{};   // Of the state after them.
  // The index of the record that caused this one: of a worker's report, the record that assigned the attempt; of a
  // message about a worker, its registration; of a user's command about a workflow, its acceptance. 0: none.
  std::uint64_t parent = 0;
  Origin origin{};  // Part of the log (H-5), not of the decision.
  ROTA_FIELDS(index, term, logical, wall_ns, command, events, prior, post, parent, origin)
};

// The format of the log: a change of any command's or event's fields needs a new number, in both places.
inline constexpr std::uint8_t kLogFormat = 5;
inline constexpr std::string_view kLogMagic = "rota log 5\n";

// The logical time of a record that is written at `wall_ns` after one with `previous`.
[[nodiscard]] std::int64_t next_logical(std::int64_t previous, std::int64_t wall_ns);

// The chain before the first record.
[[nodiscard]] Hash128 first_chain();

// Appends the record's bytes, its chain hash at the end, and returns that.
Hash128 encode_record(const Record& record, const Hash128& previous_chain, std::string& out);

// A position in a log: what the next record must follow.
struct LogPosition {
  std::uint64_t index = 0;  // Of the last record.
  Term term{};
  std::int64_t logical = 0;
  Hash128 chain = first_chain();
  std::optional<Hash128> post{};  // None: not known, and the next record's prior is not checked.
};

// Decodes the record after `position`, and advances that. kCorrupt with details "record"
// (the index that belongs here) and "defect": "changed", "missing" (a later record stands here), "repeated" (an earlier
// one) or "inconsistent" (the chain is right, the content is not). kUnsupported with the defect "format" for the first
// record of a log of another format. `position` is then as before.
[[nodiscard]] Result<Record> decode_record(std::string_view bytes, LogPosition& position);

// Writes a log file.
class LogWriter {
 public:
  explicit LogWriter(std::string& out) : out_(out) { out_.append(kLogMagic); }
  // REQUIRES: the record's index is the next one.
  void append(const Record& record);
  // The end mark. Nothing is appended after it.
  void finish();

 private:
  std::string& out_;
  std::string scratch_;
  std::uint64_t count_ = 0;
  Hash128 chain_ = first_chain();
};

// Reads a log file that is in memory as a whole.
class LogReader {
 public:
  // REQUIRES: `file` outlives the reader.
  explicit LogReader(std::string_view file) : file_(file) {}

  // The next record, or null at the end of a log without a defect. On the first defect a sentence that says which
  // record at which bytes has which; details "byte" (where the record, or what stands in its place, begins), "record",
  // and "defect" as in decode_record(), also "reordered" or "truncated". kUnsupported for a log of another format.
  // REQUIRES: no error before.
  [[nodiscard]] Result<const Record*> next();

  // How far it has read.
  [[nodiscard]] std::size_t byte() const { return at_; }
  [[nodiscard]] const LogPosition& position() const { return position_; }

 private:
  struct Item;
  struct End;
  [[nodiscard]] Item item_at(std::size_t at) const;
  [[nodiscard]] std::optional<End> end_at(std::size_t at) const;
  [[nodiscard]] Result<void> read_header();
  [[nodiscard]] Result<void> check_end() const;
  [[nodiscard]] Error diagnose(const Item& item, Error error) const;
  [[nodiscard]] bool is_in_place(const Item& item) const;

  std::string_view file_;
  std::size_t at_ = 0;
  LogPosition position_{};
  Record record_{};
};

}  // namespace rota::fleet
