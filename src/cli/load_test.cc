#include "cli/load.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fleet/brain.h"

namespace rota::cli {
namespace {

// The names before the submission are those that all other views take from the brain's state: `x` for a stage of one
// task, whether or not that task has an item.
TEST(TaskNames, AreThoseOfTheState) {
  fleet::WorkflowSpec spec;
  spec.name = "w";
  spec.templates.resize(1);
  spec.stages = {fleet::Stage{"none"}, fleet::Stage{"one"}, fleet::Stage{"two"}};
  spec.stages[1].items = {"{}"};
  spec.stages[2].items = {"{}", "{}"};
  fleet::Brain brain;
  fleet::SubmitWorkflow submit;
  submit.workflow = spec;
  fleet::WorkerSpec worker;
  worker.name = "a";
  ASSERT_TRUE(brain.execute(fleet::RegisterWorker{worker, {}}, 1).ok());
  const auto submitted = brain.execute(submit, 2);
  ASSERT_TRUE(submitted.ok()) << submitted.error().message;
  std::vector<std::string> names;
  const fleet::Workflow& workflow = brain.state().at(fleet::WorkflowId(1));
  for (const fleet::Task& task : workflow.tasks) names.push_back(workflow.name_of(task));
  EXPECT_EQ(task_names(spec), names);
  EXPECT_EQ(names, (std::vector<std::string>{"none", "one", "two[0]", "two[1]"}));
  EXPECT_EQ(count_tasks(spec), names.size());
}

}  // namespace
}  // namespace rota::cli
