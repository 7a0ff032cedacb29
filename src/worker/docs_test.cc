// Every program of docs/worker.md runs, and prints what the page says.
#include <gtest/gtest.h>

#include <regex>

#include "base/source_dir.h"
#include "worker/process_testing.h"
#include "worker/program.h"

namespace rota::worker {
namespace {

using testing::Folder;
using testing::in_runtime;

struct Example {
  std::string name;
  std::string language;
  std::string code;
  std::string expected;
};

// A marker <!-- program: name -->, a block of sh or python, and a block of text.
std::vector<Example> examples_of(const std::string& page) {
  static const std::regex pattern("<!-- program: (\\w+) -->\n```(sh|python)\n([^`]*)```\n```text\n([^`]*)```\n");
  std::vector<Example> found;
  for (std::sregex_iterator match(page.begin(), page.end(), pattern), end; match != end; ++match) {
    found.push_back({(*match)[1], (*match)[2], (*match)[3], (*match)[4]});
  }
  return found;
}

struct Printed : ProgramEvents {
  void on_progress(std::uint32_t permille, const std::string& message) override {
    text += "progress " + std::to_string(permille) + " " + message + "\n";
  }
  void on_checkpoint(const std::string& json) override { text += "checkpoint " + json + "\n"; }
  void on_log(const std::string& line) override { text += "log " + line + "\n"; }
  void on_cached(const std::string& item) override { text += "cached " + item + "\n"; }
  std::string text;
};

// Contract: U-2.
TEST(WorkerPage, ExamplesDoWhatThePageSays) {
  const std::string page = testing::read_text(std::string(kSourceDir) + "/docs/worker.md");
  const std::vector<Example> examples = examples_of(page);
  std::size_t markers = 0;
  for (std::size_t at = 0; (at = page.find("<!-- program:", at)) != std::string::npos; ++at) ++markers;
  ASSERT_EQ(examples.size(), markers) << "a marker is not followed by a program and its output";
  ASSERT_GE(examples.size(), 5U);
  in_runtime([&] {
    Folder folder;
    GuardPool guards;
    const ProgramPlace place{.directory = folder.path(), .environment = {"PATH=/usr/local/bin:/usr/bin:/bin"}};
    std::uint64_t task = 0;
    for (const Example& example : examples) {
      ProgramRequest request{.id = {model::TaskId(++task), model::AttemptNumber(1)}};
      model::ProgramSpec& program = request.spec.program.emplace();
      if (example.language == "sh") {
        program.shell = example.code;
      } else {
        program.arguments = {"python3", "-c", example.code};
      }
      request.spec.inputs = "{\"n\":2}";
      if (example.name == "resume") request.spec.checkpoint = "{\"step\":1}";
      Printed printed;
      ProgramRun run(guards, place, std::move(request), printed);
      const model::AttemptOutcome end = run.wait().value().outcome;
      EXPECT_EQ(end.end, model::AttemptEnd::kSucceeded) << example.name << ": " << end.message;
      std::string result = end.result;
      while (result.ends_with('\n')) result.pop_back();
      EXPECT_EQ(printed.text + "result " + result + "\n", example.expected) << example.name;
    }
  });
}

}  // namespace
}  // namespace rota::worker
