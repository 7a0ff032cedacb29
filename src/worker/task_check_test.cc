#include <gtest/gtest.h>

#include "worker/json.h"

namespace rota::worker {
namespace {

// Contract: U-3. Everything that a specification may say arrives.
TEST(TaskSpec, Whole) {
  const TaskSpec spec =
      parse_task_spec(
          R"({"run": ["cc", "-c", "a b.c"], "env": {"A": "1", "B": ""}, "dir": "/tmp", "inputs": {"x": [1, 2]},
        "checkpoint": {"step": 3}, "timeout_ms": 1500, "grace_ms": 0,
        "limits": {"cpu_time_ms": 1, "memory_bytes": 2, "open_files": 3, "processes": 4, "output_bytes": 5}})")
          .value();
  EXPECT_EQ(spec.arguments, (std::vector<std::string>{"cc", "-c", "a b.c"}));
  EXPECT_EQ(spec.environment.at("A"), "1");
  EXPECT_EQ(spec.environment.at("B"), "");
  EXPECT_EQ(spec.directory, "/tmp");
  EXPECT_EQ(spec.inputs, R"({"x":[1,2]})");
  EXPECT_EQ(spec.checkpoint, R"({"step":3})");
  EXPECT_EQ(spec.timeout_ms, 1500U);
  EXPECT_EQ(spec.grace_ms, 0U);
  EXPECT_EQ(spec.cpu_time_ms, 1U);
  EXPECT_EQ(spec.memory_bytes, 2U);
  EXPECT_EQ(spec.open_files, 3U);
  EXPECT_EQ(spec.processes, 4U);
  EXPECT_EQ(spec.output_bytes, 5U);
  EXPECT_EQ(parse_task_spec(R"({"run": "make -j2"})").value().shell, "make -j2");
  EXPECT_EQ(parse_task_spec("{}").value().inputs, "{}");
}

// What a workflow's file becomes: references have their own variables, and values keep their type until here.
TEST(TaskSpec, FromAWorkflow) {
  const TaskSpec spec = parse_task_spec(R"({"kind": "command", "run": ["a", 1, {"b": true}, null],
      "env": {"ROTA_REF_1": [1, 2], "A": 2.50}, "cache": {"files": []}})")
                            .value();
  EXPECT_EQ(spec.arguments, (std::vector<std::string>{"a", "1", R"({"b":true})", "null"}));
  EXPECT_EQ(spec.environment.at("ROTA_REF_1"), "[1,2]");
  EXPECT_EQ(spec.environment.at("A"), "2.5");
}

// Contract: U-3. What is wrong is told with its place, and what would be right.
TEST(TaskSpec, Refused) {
  const auto refused = [](const char* text, const std::string& part) {
    const Result<TaskSpec> spec = parse_task_spec(text);
    ASSERT_FALSE(spec.ok()) << text;
    EXPECT_EQ(spec.code(), ErrorCode::kParseError);
    EXPECT_NE(spec.error().message.find(part), std::string::npos) << spec.error().message;
  };
  refused("", "not valid JSON");
  refused("{\"run\": ", "not valid JSON");
  refused("{} {}", "not valid JSON");
  refused("[]", "must be an object");
  refused(R"({"run": 3})", "run must be text");
  refused(R"({"run": []})", "run must be text");
  refused(R"({"run": ""})", "run is empty");
  refused(R"({"rnu": "x"})", "unknown member rnu; did you mean 'run'?");
  refused(R"({"limits": {"memory_byte": 1}})", "limits.memory_byte; did you mean 'memory_bytes'?");
  refused(R"({"limits": {"memory_bytes": -1}})", "limits.memory_bytes must be a whole number");
  refused(R"({"limits": {"memory_bytes": 1.5}})", "limits.memory_bytes must be a whole number");
  refused(R"({"limits": 1})", "limits must be an object");
  refused(R"({"timeout_ms": 18446744073709551615})", "timeout_ms must be a whole number");
  refused(R"({"dir": 1})", "dir must be text");
  refused(R"({"dir": "a", "dir": "b"})", "dir is there twice");
  refused(R"({"env": []})", "env must be an object");
  refused(R"({"env": {"A=B": "1"}})", "no '='");
  refused(R"({"env": {"": "1"}})", "at least one character");
  refused(R"({"env": {"ROTA_FD": "1"}})", "are the worker's");
}

TEST(Json, Check) {
  for (const char* good : {"1", "\"x\"", "null", " [1, {\"a\": []}] ", "true", "-1.5e3"})
    EXPECT_TRUE(check_json(good).ok()) << good;
  for (const char* bad : {"", " ", "x", "{", "1 2", "[1,]", "'a'", "\"\xff\"", "NaN"})
    EXPECT_FALSE(check_json(bad).ok()) << bad;
  EXPECT_FALSE(check_json(std::string(100'000, '[')).ok());
}

}  // namespace
}  // namespace rota::worker
