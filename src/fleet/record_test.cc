// A log is read back as it was written, and whatever is done to its bytes is found, at its record.
#include "fleet/record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fleet/brain.h"
#include "fleet/codec.h"
#include "model/any_value_test.h"

namespace rota::fleet {
namespace {

using model::testing_support::any_alternative;
using model::testing_support::Choices;

// A record of every command, with events of every kind: some in one record, some alone, some records without.
std::vector<Record> some_records() {
  std::vector<Record> records;
  std::int64_t logical = 0;
  Hash128 state = hash_of(std::uint64_t{0});
  for (std::uint64_t i = 1; i <= 30; ++i) {
    Choices choices(i, 25);
    Record record;
    record.index = i;
    record.term = Term(1 + i / 10);
    record.wall_ns =
        1'700'000'000'000'000'000 + static_cast<std::int64_t>(i / 3) * 1'000'000;  // Stands still at times.
    record.logical = logical = next_logical(logical, record.wall_ns);
    record.command = any_alternative<Command>(i % std::variant_size_v<Command>, choices);
    for (std::uint64_t e = 0; e < i % 3; ++e) {
      record.events.push_back(any_alternative<Event>((i + 7 * e) % std::variant_size_v<Event>, choices));
    }
    record.prior = state;
    record.post = state = hash_of(i);
    records.push_back(std::move(record));
  }
  return records;
}

struct Log {
  std::string file;
  std::vector<std::size_t> starts;  // Of each record, its length included; then of the end mark.
};

Log log_of(const std::vector<Record>& records) {
  Log log;
  LogWriter writer(log.file);
  for (const Record& record : records) {
    log.starts.push_back(log.file.size());
    writer.append(record);
  }
  log.starts.push_back(log.file.size());
  writer.finish();
  return log;
}

struct Reading {
  std::uint64_t good = 0;  // Records before the defect.
  std::optional<Error> error{};
  [[nodiscard]] std::string detail(std::string_view key) const {
    return error && error->detail(key) != nullptr ? *error->detail(key) : "";
  }
};

Reading read(std::string_view file) {
  Reading reading;
  LogReader reader(file);
  for (;;) {
    Result<const Record*> record = reader.next();
    if (!record.ok()) {
      reading.error = std::move(record).take_error();
      return reading;
    }
    if (*record == nullptr) return reading;
    ++reading.good;
  }
}

std::string same_bytes(const Record& record) {
  std::string bytes;
  encode(record, bytes);
  return bytes;
}

// B-2: the record holds all of it.
TEST(RecordTest, ALogIsReadBackAsItWasWritten) {
  const std::vector<Record> records = some_records();
  const Log log = log_of(records);
  LogReader reader(log.file);
  for (const Record& record : records) {
    const Result<const Record*> again = reader.next();
    ASSERT_TRUE(again.ok()) << again.error().message;
    ASSERT_NE(*again, nullptr);
    EXPECT_EQ(same_bytes(**again), same_bytes(record));
    EXPECT_EQ((*again)->index, record.index);
    EXPECT_EQ(reader.position().logical, record.logical);
  }
  const Result<const Record*> end = reader.next();
  ASSERT_TRUE(end.ok());
  EXPECT_EQ(*end, nullptr);
  EXPECT_EQ(read(log_of({}).file).error, std::nullopt);
}

TEST(RecordTest, LogicalTimeIsUniqueAndIncreasing) {
  EXPECT_EQ(next_logical(0, 500), 500);
  EXPECT_EQ(next_logical(500, 500), 501);
  EXPECT_EQ(next_logical(900, 500), 901);  // The wall clock was set back.
}

// B-2: a changed byte is found, with the record that it is in, and nothing before it is doubted.
TEST(RecordTest, EveryChangedByteIsFoundAtItsRecord) {
  const Log log = log_of(some_records());
  std::size_t record = 0;
  for (std::size_t at = 0; at < log.file.size(); ++at) {
    while (record < log.starts.size() && log.starts[record] <= at) ++record;  // 0 in the header, 31 in the end mark.
    for (const int change : {1, 2, 0x40, 0x80, 0xff}) {
      std::string changed = log.file;
      changed[at] = static_cast<char>(changed[at] ^ change);
      const Reading reading = read(changed);
      ASSERT_TRUE(reading.error) << "byte " << at << " ^ " << change;
      // A changed digit in the header may name another format.
      const bool other_format =
          at == kLogMagic.find(std::to_string(kLogFormat)) && changed[at] >= '1' && changed[at] <= '9';
      EXPECT_EQ(reading.error->code, other_format ? ErrorCode::kUnsupported : ErrorCode::kCorrupt);
      const std::size_t expected = std::max<std::size_t>(record, 1);
      ASSERT_EQ(reading.detail("record"), std::to_string(expected)) << at << ' ' << reading.error->message;
      EXPECT_EQ(reading.good, expected - 1);
      EXPECT_EQ(reading.detail("byte"), std::to_string(other_format ? 0 : record == 0 ? at : log.starts[record - 1]));
      const std::string defect = reading.detail("defect");
      EXPECT_TRUE(defect == "changed" || defect == (record == 0 ? "format" : "truncated"))
          << at << ' ' << reading.error->message;
    }
  }
}

TEST(RecordTest, ALogThatIsCutOffAnywhereIsFound) {
  const Log log = log_of(some_records());
  for (std::size_t size = 0; size < log.file.size(); ++size) {
    const Reading reading = read(std::string_view(log.file).substr(0, size));
    ASSERT_TRUE(reading.error) << size;
    const auto whole = std::upper_bound(log.starts.begin(), log.starts.end(), size) - log.starts.begin();
    const auto good = whole == 0 ? 0 : whole - 1;
    EXPECT_EQ(reading.good, static_cast<std::uint64_t>(good)) << size << ' ' << reading.error->message;
    EXPECT_EQ(reading.detail("record"), std::to_string(good + 1));
  }
  EXPECT_TRUE(read(log.file + "x").error);
}

// The file with its records in another order, or with some of them left out or repeated. Numbers from 0.
std::string rearranged(const Log& log, const std::vector<std::size_t>& order) {
  std::string file(kLogMagic);
  for (const std::size_t i : order) file.append(log.file, log.starts[i], log.starts[i + 1] - log.starts[i]);
  return file.append(log.file, log.starts.back());
}

std::vector<std::size_t> natural_order(std::size_t size) {
  std::vector<std::size_t> order(size);
  for (std::size_t i = 0; i < size; ++i) order[i] = i;
  return order;
}

// B-2: missing.
TEST(RecordTest, EveryMissingRecordIsNamed) {
  const Log log = log_of(some_records());
  for (std::size_t gone = 0; gone < 30; ++gone) {
    std::vector<std::size_t> order = natural_order(30);
    order.erase(order.begin() + static_cast<std::ptrdiff_t>(gone));
    const Reading reading = read(rearranged(log, order));
    EXPECT_EQ(reading.detail("defect"), "missing") << gone;
    EXPECT_EQ(reading.detail("record"), std::to_string(gone + 1));
    EXPECT_EQ(reading.detail("byte"), std::to_string(log.starts[gone]));
    EXPECT_EQ(reading.good, gone);
  }
}

// B-2: reordered.
TEST(RecordTest, EveryTwoSwappedRecordsAreFound) {
  const Log log = log_of(some_records());
  for (std::size_t a = 0; a < 30; ++a) {
    for (std::size_t b = a + 1; b < 30; ++b) {
      std::vector<std::size_t> order = natural_order(30);
      std::swap(order[a], order[b]);
      const Reading reading = read(rearranged(log, order));
      EXPECT_EQ(reading.detail("defect"), "reordered") << a << ' ' << b;
      EXPECT_EQ(reading.detail("record"), std::to_string(a + 1));
      EXPECT_EQ(reading.detail("byte"), std::to_string(log.starts[a]));
    }
  }
}

TEST(RecordTest, EveryRepeatedRecordIsFound) {
  const Log log = log_of(some_records());
  for (std::size_t again = 0; again < 30; ++again) {
    for (std::size_t place = again + 1; place <= 30; ++place) {
      std::vector<std::size_t> order = natural_order(30);
      order.insert(order.begin() + static_cast<std::ptrdiff_t>(place), again);
      const Reading reading = read(rearranged(log, order));
      ASSERT_TRUE(reading.error);
      EXPECT_EQ(reading.detail("record"), std::to_string(place + 1));
      EXPECT_EQ(reading.good, place);
      EXPECT_EQ(reading.detail("defect"), "repeated") << again << ' ' << place;
    }
  }
}

// Records whose chain is right and whose content is not: a program that writes them is wrong, and this says so.
TEST(RecordTest, WrongRecordsAreRefusedThoughTheChainIsRight) {
  const auto refused = [](void (*spoil)(Record&)) {
    std::vector<Record> records = some_records();
    spoil(records[4]);
    std::string bytes;
    LogPosition position;
    for (std::size_t i = 0; i < 4; ++i) {
      bytes.clear();
      encode_record(records[i], position.chain, bytes);
      EXPECT_TRUE(decode_record(bytes, position).ok());
    }
    bytes.clear();
    encode_record(records[4], position.chain, bytes);
    const Hash128 before = position.chain;
    const Result<Record> record = decode_record(bytes, position);
    if (record.ok()) return std::string("(accepted)");
    EXPECT_EQ(position.chain, before);
    EXPECT_EQ(*record.error().detail("defect"), "inconsistent");
    EXPECT_EQ(*record.error().detail("record"), "5");
    return record.error().message.substr(0, 60);
  };
  EXPECT_EQ(refused([](Record&) {}), "(accepted)");
  EXPECT_EQ(refused([](Record& r) { r.index = 6; }), "record 5 was written with wrong content: its index is 6");
  EXPECT_EQ(refused([](Record& r) { r.term = Term(); }),
            "record 5 was written with wrong content: its term 0 is lower");
  EXPECT_EQ(refused([](Record& r) { ++r.logical; }), "record 5 was written with wrong content: its logical time is");
  EXPECT_EQ(refused([](Record& r) { ++r.prior.low; }), "record 5 was written with wrong content: it was decided on t");
}

TEST(RecordTest, SentencesForPeople) {
  const Log log = log_of(some_records());
  std::string changed = log.file;
  changed[log.starts[2] + 30] ^= 1;
  const std::string message = read(changed).error->message;
  EXPECT_TRUE(message.starts_with("bytes " + std::to_string(log.starts[2]) + " to " +
                                  std::to_string(log.starts[3] - 1) + ": record 3 was changed: its hash is "))
      << message;
  std::vector<std::size_t> order = natural_order(30);
  order.erase(order.begin() + 2);
  EXPECT_TRUE(
      read(rearranged(log, order)).error->message.ends_with(": record 3 is missing: record 4 stands in its place"));
  EXPECT_EQ(read("rota lob 3\n").error->message,
            "byte 7: this is not a log file of rota; it does not begin with \"rota log 5\"");
  EXPECT_EQ(read("").error->message, "byte 0: this is not a log file of rota; it ends here");
  EXPECT_EQ(read(kLogMagic).error->message, "byte 11: the log is cut off before record 1 or its end mark");
}

// The first record of an undamaged log of format 2, as the release before wrote it: the record of "TheBytesAreFrozen"
// in that format.
const std::string kFormat2 = std::string(
    "\x02\x01\x02\xd0\x0f\xd0\x0f\x01\x01\x18\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x04"
    "\0\0\0\0\0\0\0\xcc\xf9\xb1\xe7\x14\xd0\xef\x1a\xb3\xfd\x19\x1f\xc9\x5c\x0c\x38",
    58);

// A log of an older format is refused with both formats and what to do; a damaged one is not taken for an older one.
TEST(RecordTest, AnotherFormatIsRefusedByName) {
  const std::string sentence = " has format 2; this program reads format " + std::to_string(kLogFormat) +
                               ". Use the release of rota that wrote it, or start with a new state folder";
  const Reading file = read("rota log 2\n" + kFormat2);
  EXPECT_EQ(file.error->message, "the log file" + sentence);
  EXPECT_EQ(file.error->code, ErrorCode::kUnsupported);
  LogPosition position;
  const Result<Record> record = decode_record(kFormat2, position);
  ASSERT_FALSE(record.ok());
  EXPECT_EQ(record.error().message, "the log" + sentence);
  EXPECT_EQ(record.code(), ErrorCode::kUnsupported);
  EXPECT_EQ(position.index, 0U);
  std::string damaged = kFormat2;
  damaged[20] = static_cast<char>(damaged[20] ^ 1);
  EXPECT_EQ(decode_record(damaged, position).code(), ErrorCode::kCorrupt);
  EXPECT_EQ(Brain::restore("rota state 2\nxyz").error().message, "the snapshot" + sentence);
  EXPECT_EQ(Brain::restore("something").code(), ErrorCode::kCorrupt);
}

TEST(RecordTest, TheBytesAreFrozen) {
  Record record;
  record.index = 1;
  record.term = Term(2);
  record.wall_ns = 1000;
  record.logical = 1000;
  record.command = Tick{};
  record.events = {ElasticPolled{}};
  record.prior = {1, 2};
  record.post = {3, 4};
  std::string bytes;
  encode_record(record, first_chain(), bytes);
  EXPECT_EQ(model::testing_support::hex(bytes),
            "050102d00fd00f010118010000000000000002000000000000000300000000000000040000000000000000000000f74d8626"
            "856366862f64529471ae3fe4");
}

}  // namespace
}  // namespace rota::fleet
