// The encoding of plain values, its errors, and names of enumerators. fleet/codec_test.cc and message_test.cc test the
// encoding of commands, events and messages.
#include "model/codec.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "model/any_value_test.h"
#include "model/outcome.h"
#include "model/workflow_spec.h"

namespace rota::model {
namespace {

using testing_support::any_value;
using testing_support::bytes_of;
using testing_support::Choices;
using testing_support::hex;

// Equal bytes are not yet equal values if encode() itself forgot something: this compares the values.
TEST(CodecTest, DecodedSpecsAreEqual) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Choices choices(seed);
    const auto workflow = any_value<WorkflowSpec>(choices);
    const auto worker = any_value<WorkerSpec>(choices);
    const auto outcome = any_value<AttemptOutcome>(choices);
    EXPECT_EQ(*decode<WorkflowSpec>(bytes_of(workflow)), workflow);
    EXPECT_EQ(*decode<WorkerSpec>(bytes_of(worker)), worker);
    EXPECT_EQ(*decode<AttemptOutcome>(bytes_of(outcome)), outcome);
  }
}

TEST(CodecTest, LongValuesPassTheBuffer) {
  // Longer than the encoder's buffer in every way: one text, many small pieces, and pieces that end at its edge.
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t i = 0; i < 2000; ++i) numbers.push_back(i << (i % 50));
  EXPECT_EQ(*decode<std::vector<std::uint64_t>>(bytes_of(numbers)), numbers);
  for (std::size_t size = 480; size < 560; ++size) {
    const std::vector<std::string> texts = {std::string(size, 'a'), "b", std::string(size, 'c')};
    EXPECT_EQ(*decode<std::vector<std::string>>(bytes_of(texts)), texts);
    EXPECT_EQ(hash_fields(texts), hash128(bytes_of(texts)));
  }
}

TEST(CodecTest, OptionalAndHash) {
  EXPECT_EQ(hex(bytes_of(std::optional<std::uint32_t>())), "00");
  EXPECT_EQ(hex(bytes_of(std::optional<std::uint32_t>(300))), "01ac02");
  EXPECT_EQ(*decode<std::optional<std::uint32_t>>(bytes_of(std::optional<std::uint32_t>(300))), 300U);
  const Hash128 hash{0x0102030405060708U, 0x1112131415161718U};
  EXPECT_EQ(hex(bytes_of(hash)), "08070605040302011817161514131211");
  EXPECT_EQ(*decode<Hash128>(bytes_of(hash)), hash);
}

std::string message_of(const auto& result) { return result.ok() ? "(accepted)" : result.error().message; }

TEST(CodecTest, ErrorsSayWhatIsWrongAndWhere) {
  using namespace std::string_literals;
  EXPECT_EQ(message_of(decode<std::uint32_t>("\xff\xff\xff\xff\x1f"s)),
            "byte 0: 8589934591 is too large; it is at most 4294967295");
  EXPECT_EQ(message_of(decode<std::uint64_t>("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02"s)),
            "byte 0: a number of more than 64 bits");
  EXPECT_EQ(message_of(decode<std::uint64_t>("\x80\x00"s)), "byte 0: a number that is longer than it need be");
  EXPECT_EQ(message_of(decode<std::uint64_t>("\x80"s)), "byte 1: the bytes end in the middle of it");
  EXPECT_EQ(message_of(decode<bool>("\x02"s)), "byte 0: 2 is too large; it is at most 1");
  EXPECT_EQ(message_of(decode<std::string>("\x05"
                                           "abc"s)),
            "byte 0: a length of 5, but only 3 more bytes are there");
  EXPECT_EQ(message_of(decode<bool>("\x01\x01"s)), "byte 1: the value ends here, but 1 more bytes follow");
  const std::string bytes = bytes_of(std::vector<NamedAmount>{{"a", 1}, {"b", 2}});
  EXPECT_EQ(message_of(decode<std::vector<NamedAmount>>(std::string_view(bytes).substr(0, bytes.size() - 1))),
            "byte " + std::to_string(bytes.size() - 1) + ", in [1].count: the bytes end in the middle of it");
}

TEST(CodecTest, ALengthThatLiesTakesNoMemory) {
  // Two hundred million workflows in a list of 200 MB would be many gigabytes; here the bytes are not even there.
  using namespace std::string_literals;
  EXPECT_FALSE(decode<std::vector<WorkflowSpec>>("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s).ok());
  const std::string bytes = "\x80\x80\x40"s + std::string(1 << 20, '\xff');  // A million are announced.
  EXPECT_FALSE(decode<std::vector<WorkflowSpec>>(bytes).ok());
}

TEST(TaskIdTest, TextGoesBothWays) {
  EXPECT_EQ(TaskId(WorkflowId(12), 3).to_string(), "wf-12.3");
  EXPECT_EQ(TaskId().to_string(), "wf-0.0");
  const TaskId last(WorkflowId((1ULL << 40) - 1), TaskId::kMostTasks);
  EXPECT_EQ(last.to_string(), "wf-1099511627775.16777215");
  for (const TaskId id : {TaskId(WorkflowId(12), 3), TaskId(), last}) EXPECT_EQ(TaskId::parse(id.to_string()), id);
  for (const char* text : {"", "wf", "wf-1", "wf-1.", ".1", "wf-1.01", "wf-01.1", "wf-1.-1", "wf-1.1 ", "wf-1.1.1",
                           "worker-1.1", "wf-1.16777216", "wf-1099511627776.0", "wf-99999999999999999999.0"}) {
    EXPECT_EQ(TaskId::parse(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace rota::model
