#include "worker/task_check.h"

#include <gtest/gtest.h>

#include <functional>

namespace rota::worker {
namespace {

model::TaskSpec shell_spec() {
  model::TaskSpec spec;
  spec.program.emplace().shell = "make -j2";
  return spec;
}

// Contract: U-3. A specification with everything that it may contain is accepted.
TEST(TaskCheck, Accepted) {
  EXPECT_TRUE(validate(shell_spec()).ok());
  EXPECT_TRUE(validate(model::TaskSpec{}).ok()) << "a handler needs no program";
  model::TaskSpec whole = shell_spec();
  whole.program->shell.clear();
  whole.program->arguments = {"cc", "-c", "a b.c"};
  // ROTA_REF_n holds the value of a reference in the text for a shell.
  whole.program->environment = {{"A", "1"}, {"B", ""}, {"ROTA_REF_1", "[1,2]"}};
  whole.program->directory = "/tmp";
  whole.program->limits = {.cpu_time_ms = 1, .memory_bytes = 2, .open_files = 3, .processes = 4, .output_bytes = 5};
  whole.program->grace_ms = 0;
  whole.inputs = R"({"x": [1, 2]})";
  whole.checkpoint = R"({"step": 3})";
  whole.timeout_ms = std::int64_t{1} << 53;
  EXPECT_TRUE(validate(whole).ok()) << validate(whole).error().message;
}

// Contract: U-3. A wrong part is named, with what would be right.
TEST(TaskCheck, Refused) {
  const auto refused = [](const std::function<void(model::TaskSpec&)>& change, const std::string& part) {
    model::TaskSpec spec = shell_spec();
    change(spec);
    const Result<void> valid = validate(spec);
    ASSERT_FALSE(valid.ok()) << part;
    EXPECT_EQ(valid.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(valid.error().message.find(part), std::string::npos) << valid.error().message;
  };
  const auto with_variable = [](std::string name) {
    return [name](model::TaskSpec& spec) { spec.program->environment = {{name, "1"}}; };
  };
  refused([](model::TaskSpec& spec) { spec.program->shell.clear(); },
          "run is empty; write text for a shell, or a list");
  refused([](model::TaskSpec& spec) { spec.program->arguments = {"x"}; }, "run is both text for a shell and a list");
  refused([](model::TaskSpec& spec) { spec.program->limits.memory_bytes = -1; },
          "limits.memory_bytes must be a whole number from 0 to 2^53; it is -1");
  refused([](model::TaskSpec& spec) { spec.program->limits.cpu_time_ms = -1; }, "limits.cpu_time_ms must be");
  refused([](model::TaskSpec& spec) { spec.program->limits.open_files = -1; }, "limits.open_files must be");
  refused([](model::TaskSpec& spec) { spec.program->limits.processes = -1; }, "limits.processes must be");
  refused([](model::TaskSpec& spec) { spec.program->limits.output_bytes = -1; }, "limits.output_bytes must be");
  refused([](model::TaskSpec& spec) { spec.program->grace_ms = -1; }, "grace_ms must be a whole number");
  refused([](model::TaskSpec& spec) { spec.timeout_ms = INT64_MAX; }, "timeout_ms must be a whole number");
  refused(with_variable("A=B"), "env.A=B: the name of a variable has at least one character, and no '='");
  refused(with_variable(""), "at least one character");
  refused(with_variable(std::string("A\0B", 3)), "zero byte");
  refused(with_variable("ROTA_FD"), "env.ROTA_FD: names that begin with ROTA_ are reserved for the worker");
  refused([](model::TaskSpec& spec) { spec.program->environment = {{"A", "1"}, {"A", "2"}}; }, "env.A is given twice");
  refused([](model::TaskSpec& spec) { spec.inputs.clear(); }, "inputs: not valid JSON: byte 0");
  refused([](model::TaskSpec& spec) { spec.inputs = "{} {}"; }, "inputs: not valid JSON: byte 3");
  refused([](model::TaskSpec& spec) { spec.checkpoint = "{"; }, "checkpoint: not valid JSON");
}

TEST(Json, Check) {
  for (const char* good : {"1", "\"x\"", "null", " [1, {\"a\": []}] ", "true", "-1.5e3"})
    EXPECT_TRUE(check_json(good).ok()) << good;
  for (const char* bad : {"", " ", "x", "{", "1 2", "[1,]", "'a'", "\"\xff\"", "NaN"})
    EXPECT_FALSE(check_json(bad).ok()) << bad;
  EXPECT_FALSE(check_json(std::string(100'000, '[')).ok());
}

TEST(Json, Utf8) {
  for (const char* good : {"", "plain",
                           "Gr\xc3\xbc\xc3\x9f"
                           "e",
                           "\xf0\x9f\x98\x80"})
    EXPECT_TRUE(is_utf8(good)) << good;
  for (const char* bad : {"\xff", "a\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80"})
    EXPECT_FALSE(is_utf8(bad)) << bad;
}

}  // namespace
}  // namespace rota::worker
