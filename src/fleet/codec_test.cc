// The encoding goes both ways, is the only one of each value, and is frozen.
#include "fleet/codec.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>
#include <string>
#include <vector>

#include "base/sanitizers.h"
#include "model/any_value_test.h"
#include "model/complete_fields_test.h"

namespace rota::fleet {
namespace {

using model::testing_support::any_alternative;
using model::testing_support::any_value;
using model::testing_support::bytes_of;
using model::testing_support::Choices;

// --- The lists of fields are complete. ---

template <class... T>
void expect_commands_listed(std::type_identity<std::variant<T...>>) {
  const auto check = []<class One>(std::type_identity<One>) {
    if constexpr (std::is_same_v<One, SetQuota>) {
      model::testing_support::expect_no_member_between_fields<SetQuota>();
    } else {
      model::testing_support::expect_all_members_listed<One>();
    }
  };
  (check(std::type_identity<T>()), ...);
}

TEST(FieldsTest, EveryMemberIsInItsList) {
  expect_commands_listed(std::type_identity<Command>());
  model::testing_support::expect_all_listed(std::type_identity<Event>());
  model::testing_support::expect_all_members_listed<Policy>();
  model::testing_support::expect_all_members_listed<ElasticPolicy>();
  model::testing_support::expect_all_members_listed<Reasoning>();
}

// --- Both ways. ---

template <class Variant>
void expect_round_trip() {
  for (std::size_t index = 0; index < std::variant_size_v<Variant>; ++index) {
    EXPECT_TRUE(rc::check("alternative " + std::to_string(index), [index] {
      Choices choices(*rc::gen::arbitrary<std::uint64_t>(), *rc::gen::inRange<std::uint64_t>(0, 200));
      const Variant value = any_alternative<Variant>(index, choices);
      const std::string bytes = bytes_of(value);
      const Result<Variant> again = decode<Variant>(bytes);
      RC_ASSERT(again.ok());
      RC_ASSERT(again->index() == index);
      RC_ASSERT(bytes_of(*again) == bytes);
      RC_ASSERT(hash_fields(value) == hash128(bytes));
    }));
  }
}

// B-1: the same command has the same bytes everywhere, and nothing of it is lost.
TEST(CodecTest, EveryCommandGoesBothWays) { expect_round_trip<Command>(); }
TEST(CodecTest, EveryEventGoesBothWays) { expect_round_trip<Event>(); }

// Equal bytes are not yet equal values if encode() itself forgot something: this compares the values.
TEST(CodecTest, DecodedPoliciesAreEqual) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Choices choices(seed);
    const auto policy = any_value<Policy>(choices);
    EXPECT_EQ(*decode<Policy>(bytes_of(policy)), policy);
  }
}

// --- Only one way. ---

// Bytes that are not those of `value`: refused, or those of another value.
template <class T>
void expect_refused_or_canonical(std::string_view bytes, std::string_view original) {
  const Result<T> value = decode<T>(bytes);
  if (!value.ok()) {
    EXPECT_EQ(value.code(), ErrorCode::kCorrupt);
    EXPECT_NE(value.error().detail("byte"), nullptr);
    EXPECT_LE(std::stoull(*value.error().detail("byte")), bytes.size());
    return;
  }
  EXPECT_EQ(bytes_of(*value), bytes);
  EXPECT_NE(bytes, original);
}

template <class Variant>
void expect_canonical() {
  std::size_t accepted = 0;
  for (std::size_t index = 0; index < std::variant_size_v<Variant>; ++index) {
    for (const std::uint64_t count : {0U, 12U, 60U}) {
      Choices choices(index + 1, count);
      const std::string bytes = bytes_of(any_alternative<Variant>(index, choices));
      for (std::size_t size = 0; size < bytes.size(); ++size) {
        EXPECT_FALSE(decode<Variant>(std::string_view(bytes).substr(0, size)).ok()) << index << ' ' << size;
      }
      EXPECT_FALSE(decode<Variant>(bytes + '\0').ok());
      for (std::size_t at = 0; at < bytes.size(); ++at) {
        std::string changed = bytes;
        for (int byte = 0; byte < 256; byte += kUnderAsan ? 15 : 1) {
          if (static_cast<char>(byte) == bytes[at]) continue;
          changed[at] = static_cast<char>(byte);
          expect_refused_or_canonical<Variant>(changed, bytes);
          accepted += decode<Variant>(changed).ok() ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(accepted, 1000U);  // Otherwise the other half of the property was never looked at.
}

// B-2: no byte of a command or an event may be something else and mean the same.
TEST(CodecTest, AnyByteOfACommandChangesItsMeaningOrIsRefused) { expect_canonical<Command>(); }
TEST(CodecTest, AnyByteOfAnEventChangesItsMeaningOrIsRefused) { expect_canonical<Event>(); }

TEST(CodecTest, RandomBytesDoNoHarm) {
  Choices choices(7);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes(choices.below(80), '\0');
    for (char& byte : bytes) byte = static_cast<char>(choices.below(3) == 0 ? choices.next() : choices.below(8));
    expect_refused_or_canonical<Command>(bytes, "");
    expect_refused_or_canonical<Events>(bytes, "");
  }
}

std::string message_of(const auto& result) { return result.ok() ? "(accepted)" : result.error().message; }

TEST(CodecTest, ErrorsSayWhatIsWrongAndWhere) {
  using namespace std::string_literals;
  EXPECT_EQ(message_of(decode<Command>("\x7f"s)), "byte 0: 127 is too large; it is at most 17");

  Events events = {TaskReadied{}, TaskAssigned{}};
  std::get<TaskAssigned>(events[1]).members = {AttemptId{}, AttemptId{}};
  std::string bytes = bytes_of(events);
  const std::size_t why = bytes.size() - 14;  // Fourteen fields of one byte in the reasoning.
  bytes[why] = 99;
  const auto refused = decode<Events>(bytes);
  EXPECT_EQ(message_of(refused),
            "byte " + std::to_string(why) + ", in [1].TaskAssigned.reasoning.why: 99 is too large; it is at most 11");
  EXPECT_EQ(*refused.error().detail("field"), "[1].TaskAssigned.reasoning.why");
  EXPECT_EQ(message_of(decode<Events>(std::string_view(bytes).substr(0, why - 1))),
            "byte " + std::to_string(why - 1) +
                ", in [1].TaskAssigned.members[1].attempt: the bytes end in the middle of it");
}

// --- Names. ---

template <class E>
void expect_names() {
  std::set<std::string_view> names;
  for (unsigned i = 0; i <= static_cast<unsigned>(last_enumerator<E>); ++i) {
    const std::string_view name = to_string(static_cast<E>(i));
    EXPECT_NE(name, "?") << i;
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_EQ(parse_name<E>(name), static_cast<E>(i));
  }
  EXPECT_EQ(to_string(static_cast<E>(static_cast<unsigned>(last_enumerator<E>) + 1)), "?")
      << "LastEnumerator was left behind";
  EXPECT_EQ(parse_name<E>("?"), std::nullopt);
  EXPECT_EQ(parse_name<E>(""), std::nullopt);
}

TEST(NamesTest, EveryEnumeratorHasOneAndItIsReadBack) {
  expect_names<DispatchMode>();
  expect_names<Selection>();
  expect_names<Category>();
  expect_names<Action>();
  expect_names<FailureKind>();
  expect_names<WorkerChange>();
  expect_names<Affinity>();
  expect_names<Why>();
  expect_names<RequeueReason>();
  expect_names<StopReason>();
  expect_names<Outcome>();
}

TEST(NamesTest, AreThoseOfTheContract) {
  EXPECT_EQ(all_names<DispatchMode>(), "adaptive, static_worker, fixed_pipeline, static_round_robin");
  EXPECT_EQ(all_names<Selection>(),
            "score, first_fit, min_satisfying, round_robin, least_loaded, random, affinity, custom");
  EXPECT_EQ(to_string(RequeueReason::kStickyWorkerBusy), "sticky_worker_busy");
}

}  // namespace
}  // namespace rota::fleet
