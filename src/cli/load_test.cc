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
  model::WorkflowSpec spec;
  spec.name = "w";
  spec.templates.resize(1);
  spec.templates[0].spec.program.emplace().shell = "true";
  spec.stages = {model::Stage{"none"}, model::Stage{"one"}, model::Stage{"two"}};
  spec.stages[1].items = {"{}"};
  spec.stages[2].items = {"{}", "{}"};
  fleet::Brain brain;
  fleet::SubmitWorkflow submit;
  submit.workflow = spec;
  model::WorkerSpec worker;
  worker.name = "a";
  worker.resources.cpu_millis = 1000;
  fleet::RegisterWorker registered;
  registered.worker = worker;
  ASSERT_TRUE(brain.execute(registered, 1).ok());
  const auto submitted = brain.execute(submit, 2);
  ASSERT_TRUE(submitted.ok()) << submitted.error().message;
  std::vector<std::string> names;
  const fleet::Workflow& workflow = brain.state().at(model::WorkflowId(1));
  for (const fleet::Task& task : workflow.tasks) names.push_back(workflow.name_of(task));
  EXPECT_EQ(task_names(spec), names);
  EXPECT_EQ(names, (std::vector<std::string>{"none", "one", "two[0]", "two[1]"}));
  EXPECT_EQ(count_tasks(spec), names.size());
}

}  // namespace
}  // namespace rota::cli
