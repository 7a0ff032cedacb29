// What params, templates and use stand for, and the messages for wrong ones. Files are tested in tests/cli.
#include "workflow/expand.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workflow/workflow.h"

namespace rota::workflow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view kHead = "apiVersion: rota/v1\nspec:\n";

WorkflowFile read(std::string_view spec, std::vector<GivenParam> params = {}) {
  return read_workflow({.path = "w.yaml", .text = std::string(kHead) + std::string(spec), .params = std::move(params)});
}
std::string problems(const WorkflowFile& file) {
  std::string all;
  for (const Problem& problem : file.problems) all += to_string("w.yaml", problem) + "\n";
  return all;
}
const model::TaskTemplate& only(const WorkflowFile& file) { return file.spec.templates.at(0); }

// Y-1: a parameter has its type wherever it stands alone, and is text within text.
TEST(Params, ValuesHaveTheirTypes) {
  const WorkflowFile file = read(
      "  params: {n: 3, list: [1.50, x], name: 'a b', odd: '${x}'}\n"
      "  stages:\n"
      "    - name: a\n"
      "      run: [p, '${params.n}', 'x${params.name}y', '${params.odd}']\n"
      "      max_attempts: ${params.n}\n"
      "      matrix: {v: '${params.list}'}\n"
      "      inputs: {n: '${params.n}', l: '${params.list}', e: '${params.list[0]}'}\n"
      "      condition: ${params.name} == 'a b' and ${params.n} < 4\n");
  EXPECT_EQ(problems(file), "");
  EXPECT_THAT(only(file).spec.program->arguments, ElementsAre("p", "3", "xa by", "$${x}"));
  EXPECT_EQ(only(file).retry.max_attempts, 3);
  EXPECT_THAT(file.spec.stages.at(0).items, ElementsAre(R"({"v":1.50})", R"({"v":"x"})"));
  EXPECT_EQ(only(file).spec.inputs, R"({"n":3,"l":[1.50,"x"],"e":1.50})");
  EXPECT_EQ(only(file).condition, R"("a b" == 'a b' and 3 < 4)");
}

// Y-1: in a shell text a parameter is a variable, and its value is never code.
TEST(Params, AreVariablesInAShellText) {
  const WorkflowFile file = read("  params: {x: '$(rm) ${y}'}\n  stages: [{name: a, run: 'echo \"${params.x}\"'}]\n");
  EXPECT_EQ(problems(file), "");
  EXPECT_EQ(only(file).spec.program->shell, "echo \"$${ROTA_REF_1}\"");
  EXPECT_THAT(only(file).spec.program->environment, ElementsAre(model::Variable{"ROTA_REF_1", "$(rm) $${y}"}));
}

// Y-1: text stays as it is written, and choices are compared as values.
TEST(Params, GivenValues) {
  constexpr std::string_view kSpec =
      "  params: {v: {type: text, default: a}, b: false, c: {choices: [1, 2], default: 1}}\n"
      "  stages: [{name: a, run: ['${params.v}', '${params.b}', '${params.c}']}]\n";
  const WorkflowFile file = read(kSpec, {{"v", "1.10", "--set"}, {"b", "true", "--set"}, {"c", "2", "--set"}});
  EXPECT_EQ(problems(file), "");
  EXPECT_THAT(only(file).spec.program->arguments, ElementsAre("1.10", "true", "2"));
  EXPECT_EQ(problems(read(kSpec, {{"b", "yes", "--set b=yes"}})),
            "w.yaml:3:41: the parameter 'b' is \"yes\"; it must be of the type boolean (--set b=yes)\n");
  EXPECT_THAT(problems(read(kSpec, {{"c", "3", "--set c=3"}})), HasSubstr("it must be one of 1, 2"));
  EXPECT_THAT(problems(read(kSpec, {{"v", "[", "x"}})), "");
  EXPECT_THAT(problems(read(kSpec, {{"b", "[", "x"}})), HasSubstr("cannot be read"));
}

TEST(Params, WrongDeclarations) {
  const std::string text =
      problems(read("  params: {t: {type: string}, d: {type: integer, default: x}, 'a b': 1, u: {defualt: 1}}\n"
                    "  stages: [{name: params, run: 'echo ${params.tt}'}]\n"));
  EXPECT_THAT(text, HasSubstr("the type of the parameter 't' is 'string'; it must be one of text"));
  EXPECT_THAT(text, HasSubstr("the default of the parameter 'd' is \"x\"; it must be of the type integer"));
  EXPECT_THAT(text, HasSubstr("'a b' cannot be the name of a parameter"));
  EXPECT_THAT(text, HasSubstr("unknown key 'defualt' in a parameter; did you mean 'default'?"));
  EXPECT_THAT(text, HasSubstr("no stage can be called params"));
}

// Y-7: a stage's own keys come first, then the last template; some mappings are merged.
TEST(Templates, AreMerged) {
  const WorkflowFile file = read(
      "  templates:\n"
      "    base: {run: base, env: {A: 1, B: 1}, resources: {hardware: {cpu: 2, memory: 1GiB}}, timeout: 5m}\n"
      "    more: {env: {B: 2, C: 2}, max_attempts: 7}\n"
      "  graph:\n"
      "    a: {use: [base, more], env: {C: 3}, resources: {hardware: {cpu: 4}}}\n"
      "    b: {use: base, run: own, needs: a}\n");
  EXPECT_EQ(problems(file), "");
  const model::TaskTemplate& a = file.spec.templates.at(0);
  EXPECT_EQ(a.spec.program->shell, "base");
  EXPECT_THAT(
      a.spec.program->environment,
      testing::UnorderedElementsAre(model::Variable{"A", "1"}, model::Variable{"B", "2"}, model::Variable{"C", "3"}));
  EXPECT_EQ(a.needs.cpu_millis, 4000);
  EXPECT_EQ(a.needs.memory_bytes, 1 << 30);
  EXPECT_EQ(a.retry.max_attempts, 7);
  EXPECT_EQ(file.spec.templates.at(1).spec.program->shell, "own");
  EXPECT_EQ(file.spec.templates.at(1).spec.timeout_ms, 300'000);
}

// H-1: a host reads no files for its clients.
TEST(Includes, AreRefusedWhereFilesCannotBeRead) {
  EXPECT_THAT(problems(read("  include: x.yaml\n  stages: [{name: a, run: b, env_file: /etc/passwd}]\n")),
              testing::AllOf(HasSubstr("w.yaml:3:12: the included file 'x.yaml': files cannot be read here"),
                             HasSubstr("the env_file '/etc/passwd': files cannot be read here")));
}

// Y-2: as GitHub's matrix.
TEST(Matrix, IncludeAndExclude) {
  const WorkflowFile file = read(
      "  stages:\n    - name: a\n      run: x\n"
      "      matrix: {i: [1, 2], j: [a, b], exclude: [{i: 1, j: b}], include: [{i: 2, k: y}, {i: 3, j: c}]}\n");
  EXPECT_EQ(problems(file), "");
  EXPECT_THAT(file.spec.stages.at(0).items, ElementsAre(R"({"i":1,"j":"a","k":null})", R"({"i":2,"j":"a","k":"y"})",
                                                        R"({"i":2,"j":"b","k":"y"})", R"({"i":3,"j":"c","k":null})"));
  EXPECT_THAT(problems(read("  stages: [{name: a, run: x, matrix: {i: [1], exclude: [{i: 1}]}}]\n")),
              HasSubstr("exclude leaves no combination"));
  EXPECT_THAT(problems(read("  stages: [{name: a, run: x, matrix: {i: [1], exclude: [{ii: 1}]}}]\n")),
              HasSubstr("exclude has 'ii', which is not a list of the matrix"));
  EXPECT_THAT(problems(read("  stages: [{name: a, run: x, matrix: {i: [1], include: 3}}]\n")),
              HasSubstr("it must be a list of mappings"));
}

}  // namespace
}  // namespace rota::workflow
