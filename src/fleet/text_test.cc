// What people read is what was meant: text goes both ways, JSON is JSON, and errors point.
#include "fleet/text.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <nlohmann/json.hpp>
#include <string>

#include "fleet/codec.h"
#include "model/any_value_test.h"

namespace rota::fleet {
namespace {

using model::testing_support::any_alternative;
using model::testing_support::bytes_of;
using model::testing_support::Choices;

TEST(TextTest, ALineForEach) {
  TaskAssigned assigned;
  assigned.task = TaskId(WorkflowId(1), 0);
  assigned.attempt = AttemptNumber(1);
  assigned.worker = WorkerId(2);
  assigned.members = {{TaskId(WorkflowId(2), 7), AttemptNumber(3)}};
  assigned.reasoning.why = Why::kScore;
  assigned.reasoning.candidates = 3;
  assigned.reasoning.score = -5;
  EXPECT_EQ(to_text(Event(assigned)),
            "TaskAssigned task=wf-1.0 attempt=1 worker=worker-2 members=[{task=wf-2.7 attempt=3}] "
            "reasoning={why=score candidates=3 score=-5}");
  EXPECT_EQ(to_text(Command(Tick{})), "Tick");
  EXPECT_EQ(to_text(Event(WorkflowEnded{})), "WorkflowEnded outcome=succeeded");
  EXPECT_EQ(to_text(Event(TaskAssigned{})), "TaskAssigned");
  assigned.members.clear();
  assigned.reasoning = {};
  assigned.reasoning.candidates = 1;
  EXPECT_EQ(to_text(Event(assigned)),
            "TaskAssigned task=wf-1.0 attempt=1 worker=worker-2 reasoning={why=only_worker_available candidates=1}");
  EXPECT_EQ(to_text(Command(Heartbeats{{"a", "two words", "",
                                        "Gr\xc3\xbc\xc3\x9f"
                                        "e",
                                        "\xff\n\"\\"}})),
            "Heartbeats workers=[a \"two words\" \"\" \"Gr\xc3\xbc\xc3\x9f"
            "e\" \"\\xff\\n\\\"\\\\\"]");
  EXPECT_EQ(to_text(Command(ReportEnded{})), "ReportEnded");
  SetQuota quota{.user = "ann", .weight = 2};
  quota.limits.cpu_millis = 4000;
  quota.limits.tasks = 3;
  EXPECT_EQ(to_text(Command(quota)), "SetQuota user=ann weight=2 cpu_millis=4000 tasks=3");
}

// What is shown of a log can be typed in again.
TEST(TextTest, EveryCommandIsReadBack) {
  for (std::size_t index = 0; index < std::variant_size_v<Command>; ++index) {
    EXPECT_TRUE(rc::check("command " + std::to_string(index), [index] {
      Choices choices(*rc::gen::arbitrary<std::uint64_t>(), *rc::gen::inRange<std::uint64_t>(0, 200));
      const Command command = any_alternative<Command>(index, choices);
      const std::string text = to_text(command);
      RC_ASSERT(text.find('\n') == std::string::npos);
      const Result<Command> again = parse_command(text);
      RC_ASSERT(again.ok());
      RC_ASSERT(bytes_of(*again) == bytes_of(command));
    }));
  }
}

std::string wrong(std::string_view text) {
  const Result<Command> command = parse_command(text);
  if (command.ok()) return "(accepted)";
  EXPECT_EQ(command.code(), ErrorCode::kParseError);
  EXPECT_NE(command.error().detail("column"), nullptr);
  return command.error().message;
}

TEST(TextTest, ErrorsPointAndHelp) {
  EXPECT_EQ(wrong("Tickk").substr(0, 66), "column 1: unknown command 'Tickk'; commands are SetPolicy, Tick, R");
  EXPECT_TRUE(wrong("Tickk").ends_with("; did you mean 'Tick'?"));
  EXPECT_TRUE(wrong("").starts_with("column 1: expected a command: SetPolicy"));
  EXPECT_EQ(wrong("DrainWorker worke=a"),
            "column 13: 'worke' is not a field of DrainWorker, which has worker; did you mean 'worker'?");
  EXPECT_EQ(wrong("Tick now=1"), "column 6: 'now' is not a field of Tick, which has nothing");
  EXPECT_EQ(wrong("DrainWorker worker"), "column 19: here should be = and a value, not the end");
  EXPECT_EQ(wrong("DrainWorker worker=a worker=b"), "column 22: 'worker' is given twice");
  EXPECT_EQ(wrong("DrainWorker worker=\"a"), "column 20: this quote is never closed");
  EXPECT_EQ(wrong("DrainWorker worker=\"\\q\""),
            "column 22: after a backslash comes \", \\, n or x and two hexadecimal digits");
  EXPECT_EQ(wrong("DrainWorker worker="), "column 20: here should be a text, in quotes if it is empty, not the end");
  EXPECT_EQ(wrong("DrainWorker worker=a}"), "column 21: this } closes nothing");
  EXPECT_EQ(wrong("DrainWorker worker=a\\b"), "column 21: a text with '\\' in it must be in quotes");
  EXPECT_EQ(wrong("SetWorkerEnabled enabled=yes"), "column 26: here should be true or false");
  EXPECT_EQ(wrong("Control action=paus"),
            "column 16: 'paus' is none of pause, resume, cancel, retry; did you mean 'pause'?");
  EXPECT_EQ(wrong("Control workflow=7"), "column 18: '7' is not an id; write it like wf-1");
  EXPECT_EQ(wrong("Control task=wf-1"), "column 14: 'wf-1' is not an id; write it like wf-0.1");
  EXPECT_EQ(wrong("ReportUndeliverable attempt=4294967296"), "column 29: 4294967296 is not between 0 and 4294967295");
  EXPECT_EQ(wrong("ReportUndeliverable attempt=-1"), "column 29: '-1' is not a whole number");
  EXPECT_EQ(wrong("ReportUndeliverable attempt=1x"), "column 29: '1x' is not a whole number");
  EXPECT_EQ(wrong("Heartbeats workers=a"), "column 20: here should be a list in [], not 'a'");
  EXPECT_EQ(wrong("Heartbeats workers=[a"), "column 22: here should be the list's ], not the end");
  EXPECT_EQ(wrong("Heartbeats workers=[\"a\"b]"), "column 24: here should be a space or the list's ], not 'b'");
  EXPECT_EQ(wrong("SetPolicy policy={elastic={enable=true}"),
            "column 40: here should be another field or }, not the end");
  EXPECT_EQ(wrong("SetPolicy policy={elastic={enable=true}x=1}"),
            "column 40: here should be a space before the next field, not 'x'");
  EXPECT_EQ(wrong("SetPolicy policy={elastic=7}"), "column 27: here should be fields in {}, not '7'");
}

TEST(TextTest, PartsByThemselves) {
  Policy policy;
  ASSERT_TRUE(parse_fields("mode=static_worker elastic={enable=true}", policy).ok());
  EXPECT_EQ(policy.mode, DispatchMode::kStaticWorker);
  EXPECT_TRUE(policy.elastic.enable);
  ASSERT_TRUE(parse_fields("merge=false", policy).ok());
  EXPECT_EQ(fields_to_text(policy), "mode=static_worker merge=false elastic={enable=true}");
  EXPECT_EQ(parse_fields("mode=x", policy).error().message, "column 6: 'x' is none of " + all_names<DispatchMode>());
}

TEST(TextTest, JsonIsJsonAndHasEveryField) {
  for (std::size_t index = 0; index < std::variant_size_v<Event>; ++index) {
    for (std::uint64_t seed = 0; seed < 30; ++seed) {
      Choices choices(seed);
      const Event event = any_alternative<Event>(index, choices);
      const nlohmann::json json = nlohmann::json::parse(to_json(event));
      std::size_t fields = 1;
      std::visit(
          [&](const auto& value) {
            EXPECT_EQ(json.at("event").get<std::string>(), value.kName);
            std::remove_cvref_t<decltype(value)>::fields(value, [&](std::string_view name, const auto&) {
              EXPECT_TRUE(json.contains(std::string(name)));
              ++fields;
            });
          },
          event);
      EXPECT_EQ(json.size(), fields);
    }
  }
  Reasoning reasoning;
  reasoning.why = Why::kScore;
  reasoning.score = -7;
  const nlohmann::json json = nlohmann::json::parse(fields_to_json(reasoning));
  EXPECT_EQ(json.at("why"), "score");
  EXPECT_EQ(json.at("score"), -7);
  const nlohmann::json failed =
      nlohmann::json::parse(to_json(Event(TaskFailed{TaskId(WorkflowId(1), 2), FailureKind::kMemory, "say \"no\"\n"})));
  EXPECT_EQ(failed.at("task"), "wf-1.2");
  EXPECT_EQ(failed.at("kind"), "memory");
  EXPECT_EQ(failed.at("message"), "say \"no\"\n");
  const nlohmann::json root = nlohmann::json::parse(to_json(Event(TaskCancelled{TaskId(WorkflowId(1), 2), true, {}})));
  EXPECT_EQ(root.at("dependency_failure"), true);
  EXPECT_TRUE(root.at("parent_task_id").is_null());
}

TEST(TextTest, CommandsAreJsonToo) {
  for (std::size_t index = 0; index < std::variant_size_v<Command>; ++index) {
    Choices choices(index + 1);
    const nlohmann::json json = nlohmann::json::parse(to_json(any_alternative<Command>(index, choices)));
    EXPECT_TRUE(json.contains("command"));
  }
}

}  // namespace
}  // namespace rota::fleet
