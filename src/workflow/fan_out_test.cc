// A matrix that is a result, and references to stages that are reached by item only: what is read, and the messages.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "workflow/workflow.h"

namespace rota::workflow {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

WorkflowFile read(const std::string& graph) {
  return read_workflow({.path = "w.yaml", .text = "apiVersion: rota/v1\nspec:\n  graph:\n" + graph});
}
std::string problems(const std::string& graph) {
  std::string all;
  for (const Problem& problem : read(graph).problems) all += to_string("w.yaml", problem) + "\n";
  return all;
}

// Contract: Y-2. A list that is a reference is read as one, beside lists that are written, include and exclude.
TEST(FanOut, IsRead) {
  const std::string graph =
      "    list: {run: x}\n"
      "    work:\n"
      "      needs: list\n"
      "      run: echo ${matrix.item} ${matrix.size} ${matrix.more}\n"
      "      matrix: {item: \"${list.result.items}\", size: [1, 2.50], exclude: [{size: 1, item: a}], include: [{more: "
      "y}]}\n";
  const WorkflowFile file = read(graph);
  ASSERT_TRUE(file.ok()) << problems(graph);
  const model::Stage& stage = file.spec.stages[1];
  ASSERT_TRUE(stage.fan_out.has_value());
  EXPECT_TRUE(stage.items.empty());
  EXPECT_THAT(stage.fan_out->lists,
              ElementsAre(model::MatrixList{"item", "${list.result.items}"}, model::MatrixList{"size", "[1,2.50]"}));
  EXPECT_THAT(stage.fan_out->include, ElementsAre(R"({"more":"y"})"));
  EXPECT_THAT(stage.fan_out->exclude, ElementsAre(R"({"size":1,"item":"a"})"));
  EXPECT_THAT(stage.item_names(), ElementsAre("item", "size", "more"));
}

// Contract: Y-2. In {...}, where YAML requires quotes, a value that is one reference needs none; other faults of YAML
// are reported as before.
TEST(FanOut, QuotesMayBeLeftOut) {
  const WorkflowFile file =
      read("    list: {run: x}\n    work: {needs: list, matrix: {item: ${list.result.items}}, run: y}\n");
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file.spec.stages[1].fan_out->lists.front().values, "${list.result.items}");
  EXPECT_THAT(problems("    list: {run: x\n    work: {needs: list, matrix: {item: ${list.result.items}}, run: y}\n"),
              HasSubstr("w.yaml:"));
}

// Contract: Y-2. What cannot be a list of tasks.
TEST(FanOut, Problems) {
  const auto matrix = [](const std::string& value) {
    return problems("    list: {run: x}\n    work: {needs: list, run: y, matrix: {item: \"" + value + "\"}}\n");
  };
  EXPECT_THAT(matrix("${nobody.result}"), HasSubstr("refers to a stage 'nobody' that does not exist"));
  EXPECT_THAT(matrix("${task.index}"), HasSubstr("one reference to a result"));
  EXPECT_THAT(matrix("${list.state}"), HasSubstr("one reference to a result"));
  EXPECT_THAT(matrix("${list.result} and more"), HasSubstr("one reference to a result"));
  EXPECT_THAT(matrix("plain"), HasSubstr("it must be a list of values, or a reference to one"));
  EXPECT_THAT(problems("    list: {run: x}\n    work: {run: y, matrix: {item: \"${list.result}\"}}\n"),
              HasSubstr("does not wait for; add list to its needs"));
  EXPECT_THAT(problems("    list: {run: x}\n    work: {needs: list, run: y, matrix: {item: [\"${list.result}\"]}}\n"),
              HasSubstr("a whole list can be one"));
}

// Contract: Y-3. A stage that is reached by item only is not waited for as a whole: a reference to it must say which of
// its tasks it means.
TEST(ItemNeeds, AReferenceToAnIndirectOne) {
  const std::string stages =
      "    map: {run: x, matrix: {s: [a, b]}}\n"
      "    sort: {needs: [{stage: map, each: [s]}], run: x, matrix: {s: [a, b]}}\n";
  const std::string last = "    call: {needs: [{stage: sort, each: [s]}";
  const std::string rest = "], run: 'echo ${map.result}', matrix: {s: [a, b]}}\n";
  EXPECT_THAT(problems(stages + last + rest),
              HasSubstr("waits by item only; add to its needs {stage: map, each: [...]}"));
  EXPECT_EQ(problems(stages + last + ", {stage: map, each: [s]}" + rest), "");
  EXPECT_EQ(problems(stages + last + ", map" + rest), "");
  // It waits for all of `sort`, and so for all that `sort` needs.
  EXPECT_EQ(problems(stages + "    call: {needs: sort, run: 'echo ${map.result}'}\n"), "");
}

}  // namespace
}  // namespace rota::workflow
