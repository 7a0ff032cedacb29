// The files that a task gets from the tasks before it, and how they are kept.
#include "fleet/input_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "fleet/brain.h"
#include "fleet/explain.h"

namespace rota::fleet {
namespace {

using model::StoredFile;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;

StoredFile file(const std::string& path, char digit, std::int64_t bytes = 1) {
  return {path, std::string(64, digit), bytes, false};
}

TaskTemplate shell(std::vector<std::string> outputs, std::vector<model::FetchSpec> fetch) {
  TaskTemplate use;
  use.spec.type = "shell";
  use.spec.program = ProgramSpec{.shell = "true"};
  use.spec.files = model::FilesSpec{.outputs = std::move(outputs), .fetch = std::move(fetch)};
  return use;
}

// make (a task for each item) and other, then use, which fetches both.
WorkflowSpec workflow(std::size_t items, const std::string& to) {
  WorkflowSpec spec;
  spec.name = "files";
  spec.templates = {shell({"out"}, {}), shell({}, {{"make", ""}, {"other", to}})};
  spec.stages.resize(3);
  spec.stages[0].name = "make";
  for (std::size_t i = 0; items > 1 && i < items; ++i) {
    spec.stages[0].items.push_back("{\"n\":" + std::to_string(i) + "}");
  }
  spec.stages[1].name = "other";
  spec.stages[2] = {.name = "use", .use = 1, .needs = {0, 1}};
  return spec;
}

class InputFiles : public testing::Test {
 protected:
  InputFiles() {
    WorkerSpec worker;
    worker.name = "w";
    worker.resources.cpu_millis = 8000;
    EXPECT_TRUE(brain_.execute(RegisterWorker{worker, {}, {}}, kSecond).ok());
  }
  void submit(WorkflowSpec spec) {
    const Result<Record> accepted = brain_.execute(SubmitWorkflow{{}, std::move(spec)}, kSecond);
    ASSERT_TRUE(accepted.ok()) << accepted.error().message;
  }
  void succeed(std::uint32_t task, std::vector<StoredFile> outputs) {
    ReportEnded report{TaskId(WorkflowId(1), task), AttemptNumber(1), {}};
    report.outcome.end = AttemptEnd::kSucceeded;
    report.outcome.outputs = std::move(outputs);
    ASSERT_TRUE(brain_.execute(report, 2 * kSecond).ok());
    brain_.check_invariants();
  }
  Brain brain_;
};

// Contract: U-6. A task gets the outputs of all tasks of the stages that it fetches, where it asked for them; they are
// part of the state: a snapshot has them.
TEST_F(InputFiles, OfAllTasksByPath) {
  submit(workflow(2, "in/other"));
  succeed(0, {file("out-0", 'a', 10)});
  succeed(1, {file("out-1", 'b', 30), file("z", 'c', 20)});
  succeed(2, {file("out", 'd', 5)});
  const TaskId use(WorkflowId(1), 3);
  const auto check = [&](const State& state) {
    const auto files = input_files(state, use);
    ASSERT_TRUE(files.ok()) << files.error().message;
    EXPECT_THAT(*files, ElementsAre(file("in/other/out", 'd', 5), file("out-0", 'a', 10), file("out-1", 'b', 30),
                                    file("z", 'c', 20)));
    EXPECT_EQ(wanted_files(state, use).size(), 4U);
    EXPECT_TRUE(wanted_files(state, TaskId(WorkflowId(1), 0)).empty());
  };
  check(brain_.state());
  const Result<Brain> restored = Brain::restore(brain_.snapshot());
  ASSERT_TRUE(restored.ok());
  check(restored->state());
}

// Contract: U-6. Two contents under one name are not chosen from silently; the same content twice is one file.
TEST_F(InputFiles, TwoContentsUnderOneNameAreAnError) {
  submit(workflow(2, ""));
  succeed(0, {file("out", 'a')});
  succeed(1, {file("out", 'b')});
  succeed(2, {file("out", 'a')});
  const auto clash = input_files(brain_.state(), TaskId(WorkflowId(1), 3));
  EXPECT_EQ(clash.code(), ErrorCode::kAlreadyExists);
  EXPECT_THAT(clash.error().message, HasSubstr("two different files would get the path 'out'"));
}
TEST_F(InputFiles, TheSameContentTwiceIsOneFile) {
  submit(workflow(2, ""));
  for (std::uint32_t task = 0; task < 3; ++task) succeed(task, {file("out", 'a')});
  EXPECT_THAT(input_files(brain_.state(), TaskId(WorkflowId(1), 3)).value(), ElementsAre(file("out", 'a')));
}

// Contract: U-6. The number of files of one task is bounded.
TEST_F(InputFiles, TooManyFilesAreAnError) {
  submit(workflow(1, ""));
  std::vector<StoredFile> many;
  for (std::size_t i = 0; i <= model::kMostFetchedFiles; ++i) many.push_back(file(std::to_string(i), 'a'));
  succeed(0, many);
  succeed(1, {});
  EXPECT_EQ(input_files(brain_.state(), TaskId(WorkflowId(1), 2)).code(), ErrorCode::kTooLarge);
  EXPECT_EQ(wanted_files(brain_.state(), TaskId(WorkflowId(1), 2)),
            std::vector<std::string>{"file:" + std::string(64, 'a')});
}

// Contract: U-6. The largest files decide where a task runs.
TEST(FileItems, TheLargestCount) {
  std::vector<StoredFile> files;
  for (int i = 0; i < 40; ++i) {
    files.push_back({std::to_string(i), std::string(62, '0') + std::to_string(10 + i), i, false});
  }
  const std::vector<std::string> items = file_items(files);
  EXPECT_EQ(items.size(), 16U);
  EXPECT_EQ(items.front(), "file:" + std::string(62, '0') + "34");
  EXPECT_EQ(items.back(), "file:" + std::string(62, '0') + "49");
}

// Contract: U-6. An explanation names what a task has stored.
TEST_F(InputFiles, AnExplanationNamesTheFiles) {
  submit(workflow(1, ""));
  succeed(0, {file("out", 'a', 7), file("log", 'b', 3)});
  const Result<Explanation> why = explain(brain_.state(), TaskId(WorkflowId(1), 0));
  ASSERT_TRUE(why.ok());
  EXPECT_THAT(why->sentence, HasSubstr("it stored 2 files with 10 bytes"));
}

// Contract: U-6. What leaves the directory is refused when it is submitted, and so are files of merged tasks.
TEST_F(InputFiles, WhatIsRefusedAtOnce) {
  const auto refusal = [&](const std::function<void(WorkflowSpec&)>& change) {
    WorkflowSpec spec = workflow(1, "");
    change(spec);
    const Result<Record> refused = brain_.execute(SubmitWorkflow{{}, std::move(spec)}, kSecond);
    return refused.ok() ? std::string() : refused.error().message;
  };
  EXPECT_THAT(refusal([](WorkflowSpec& s) { s.templates[0].spec.files->outputs = {"/etc/passwd"}; }),
              HasSubstr("the output '/etc/passwd' is not inside"));
  EXPECT_THAT(refusal([](WorkflowSpec& s) { s.templates[1].spec.files->fetch[0].to = "../x"; }),
              HasSubstr("the folder '../x' of fetch is not inside"));
  EXPECT_THAT(refusal([](WorkflowSpec& s) { s.templates[1].spec.files->fetch[0].stage = "none"; }),
              HasSubstr("the workflow has no stage 'none'"));
  EXPECT_THAT(refusal([](WorkflowSpec& s) {
                s.templates[0].mergeable = true;
                s.templates[0].spec.program->batch = true;
              }),
              HasSubstr("are not merged"));
}

}  // namespace
}  // namespace rota::fleet
