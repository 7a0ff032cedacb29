// Messages of the bus: every one survives its encoding, and bytes that are not a message are refused.
#include "model/message.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <string>
#include <variant>

#include "model/any_value_test.h"
#include "model/codec.h"
#include "model/complete_fields_test.h"
#include "model/workflow_spec.h"

namespace rota::model {
namespace {

using testing_support::any_alternative;
using testing_support::bytes_of;
using testing_support::Choices;

Result<ToWorker> decode_as(std::string_view bytes, std::type_identity<ToWorker>) { return decode_to_worker(bytes); }
Result<FromWorker> decode_as(std::string_view bytes, std::type_identity<FromWorker>) {
  return decode_from_worker(bytes);
}

template <class Message>
void expect_round_trip() {
  for (std::size_t index = 0; index < std::variant_size_v<Message>; ++index) {
    EXPECT_TRUE(rc::check("alternative " + std::to_string(index), [index] {
      Choices choices(*rc::gen::arbitrary<std::uint64_t>(), *rc::gen::inRange<std::uint64_t>(0, 200));
      const Message message = any_alternative<Message>(index, choices);
      const std::string bytes = encode_message(message);
      const Result<Message> again = decode_as(bytes, std::type_identity<Message>());
      RC_ASSERT(again.ok());
      RC_ASSERT(again->index() == index);
      RC_ASSERT(bytes_of(*again) == bytes_of(message));
    }));
  }
}

// U-1: a worker and its host understand each other.
TEST(MessageTest, EveryMessageSurvivesItsEncoding) {
  expect_round_trip<ToWorker>();
  expect_round_trip<FromWorker>();
}

// Values that a sender sets are those that the receiver sees.
TEST(MessageTest, AnAssignmentArrivesAsItWasSent) {
  Assign sent;
  sent.id = {TaskId(WorkflowId(3), 4), AttemptNumber(2)};
  sent.term = Term(7);
  sent.identity = {"nightly", "train", "{\"lr\":1}", "train[3]"};
  sent.spec.type = "shell";
  sent.spec.program = ProgramSpec{.arguments = {"echo", "a b"}, .environment = {{"A", "1"}}};
  sent.spec.program->grace_ms = 250;
  sent.spec.cache = CacheSpec{.files = {"*.csv"}};
  sent.resources.cpu_millis = 1500;
  sent.resources.named = {{"licence", 1}};
  sent.resources.devices = 5;
  sent.merged = {{sent.id, "{}"}};
  sent.assigned_ns = 12;
  sent.files = {{"data/a.bin", std::string(64, 'a'), 12, true}};
  sent.spec.files = FilesSpec{.outputs = {"out/*"}, .fetch = {{"prepare", "in"}}};
  sent.incarnation = Incarnation(99);
  const Result<ToWorker> received = decode_to_worker(encode_message(ToWorker(sent)));
  ASSERT_TRUE(received.ok());
  const Assign& again = std::get<Assign>(*received);
  EXPECT_EQ(again.id, sent.id);
  EXPECT_EQ(again.term, sent.term);
  EXPECT_EQ(again.identity, sent.identity);
  EXPECT_EQ(again.spec, sent.spec);
  EXPECT_EQ(again.resources, sent.resources);
  EXPECT_EQ(again.merged, sent.merged);
  EXPECT_EQ(again.assigned_ns, sent.assigned_ns);
  EXPECT_EQ(again.files, sent.files);
  EXPECT_EQ(again.incarnation, sent.incarnation);
}

// Contract: U-6. The files of a task stay inside of its directory: no other path is stored, and none is placed.
TEST(TaskSpecTest, APathStaysInsideOfTheDirectory) {
  for (const char* inside : {"a", "a/b", "a/", "a/b/", "..a", "a..", ".hidden", "a b/*.bin", "**/x"}) {
    EXPECT_TRUE(is_inside(inside)) << inside;
  }
  for (const char* outside : {"", "/", "/a", "..", "../a", "a/..", "a/../b", ".", "./a", "a/./b", "a//b", "a//"}) {
    EXPECT_FALSE(is_inside(outside)) << outside;
  }
  EXPECT_FALSE(is_inside(std::string_view("a\0b", 3)));
}

// U-1: an assignment or a control is for one incarnation of a worker. Without one it is for every worker of the name.
TEST(MessageTest, IsForOneIncarnation) {
  const auto check = [](auto message) {
    EXPECT_TRUE(is_for(message, Incarnation(1)));
    EXPECT_TRUE(is_for(message, Incarnation()));
    message.incarnation = Incarnation(1);
    EXPECT_TRUE(is_for(message, Incarnation(1)));
    EXPECT_FALSE(is_for(message, Incarnation(2)));
    EXPECT_FALSE(is_for(message, Incarnation()));
  };
  check(Assign{});
  check(ControlAttempt{});
}

template <class Message>
void expect_damage_found() {
  for (std::size_t index = 0; index < std::variant_size_v<Message>; ++index) {
    Choices choices(index + 1, 60);
    const std::string bytes = encode_message(any_alternative<Message>(index, choices));
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      const auto cut = decode_as(std::string_view(bytes).substr(0, size), std::type_identity<Message>());
      ASSERT_FALSE(cut.ok()) << index << ' ' << size;
      EXPECT_EQ(cut.code(), ErrorCode::kCorrupt);
    }
    EXPECT_EQ(decode_as(bytes + '\0', std::type_identity<Message>()).code(), ErrorCode::kCorrupt);
    for (std::size_t at = 1; at < bytes.size(); ++at) {  // Byte 0 is the version.
      for (int byte = 0; byte < 256; ++byte) {
        std::string changed = bytes;
        changed[at] = static_cast<char>(byte);
        const auto decoded = decode_as(changed, std::type_identity<Message>());
        if (decoded.ok()) {
          EXPECT_EQ(encode_message(*decoded), changed) << "two encodings of one message";
        } else {
          EXPECT_EQ(decoded.code(), ErrorCode::kCorrupt);
        }
      }
    }
  }
}

TEST(MessageTest, TruncatedAndDamagedBytesAreFound) {
  expect_damage_found<ToWorker>();
  expect_damage_found<FromWorker>();
}

TEST(MessageTest, AnotherVersionIsRefusedByName) {
  std::string bytes = encode_message(FromWorker(Heartbeat{Incarnation(5)}));
  bytes.front() = static_cast<char>(kMessageVersion + 1);
  const Result<FromWorker> refused = decode_from_worker(bytes);
  EXPECT_EQ(refused.code(), ErrorCode::kUnsupported);
  EXPECT_EQ(refused.error().message, "the message has version " + std::to_string(kMessageVersion + 1) +
                                         " of the encoding; this program reads " + "version " +
                                         std::to_string(kMessageVersion) +
                                         ". Run the same release of rota on the host and on its workers");
  EXPECT_EQ(decode_to_worker(bytes).code(), ErrorCode::kUnsupported);
  EXPECT_EQ(decode_to_worker("").error().message, "the message is empty");
}

// The encoding of one message, byte by byte: another release must read it as long as the version is the same.
TEST(MessageTest, TheBytesAreFrozen) {
  const Report report{{TaskId(WorkflowId(1), 2), AttemptNumber(3)}, Term(4), Progress{500, "half"}, 5};
  EXPECT_EQ(testing_support::hex(encode_message(FromWorker(report))), "050382808008030401f4030468616c660a");
  EXPECT_EQ(testing_support::hex(encode_message(ToWorker(RegisterAgain{Term(300)}))), "0503ac02");
  EXPECT_EQ(testing_support::hex(encode_message(ToWorker(LeaveFleet{Term(300), Incarnation(6)}))), "0504ac0206");
  const ControlAttempt pause{report.id, Term(4), AttemptAction::kPause, 5, Incarnation(300), 6};
  EXPECT_EQ(testing_support::hex(encode_message(ToWorker(pause))), "0501828080080304020aac0206");
}

TEST(MessageTest, EveryMemberIsInItsList) {
  using namespace testing_support;
  expect_all_listed(std::type_identity<ToWorker>());
  expect_all_listed(std::type_identity<FromWorker>());
  expect_all_listed(std::type_identity<ReportBody>());
  expect_all_members_listed<AttemptId>();
  expect_all_members_listed<AttemptOutcome>();
  expect_all_members_listed<MergedTask>();
  expect_all_members_listed<TaskIdentity>();
  expect_all_members_listed<TaskSpec>();
  expect_all_members_listed<ProgramSpec>();
  expect_all_members_listed<ProgramLimits>();
  expect_all_members_listed<CacheSpec>();
  expect_all_members_listed<FilesSpec>();
  expect_all_members_listed<FetchSpec>();
  expect_all_members_listed<StoredFile>();
  expect_all_members_listed<Variable>();
  expect_all_members_listed<SecretVariable>();
  expect_all_members_listed<WorkerSpec>();
  expect_all_members_listed<CacheItem>();
  expect_all_members_listed<Label>();
  expect_all_members_listed<TaskTemplate>();
  expect_all_members_listed<Retry>();
  expect_all_members_listed<Stage>();
  expect_all_members_listed<WorkflowSpec>();
}

}  // namespace
}  // namespace rota::model
