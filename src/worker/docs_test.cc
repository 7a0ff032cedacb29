// Every command of docs/worker.md runs, and says what the page says.
#include <gtest/gtest.h>

#include <regex>

#include "worker/command.h"
#include "worker/process_testing.h"

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

// A marker <!-- command: name -->, a block of sh or python, and a block of text.
std::vector<Example> examples_of(const std::string& page) {
  static const std::regex pattern("<!-- command: (\\w+) -->\n```(sh|python)\n([^`]*)```\n```text\n([^`]*)```\n");
  std::vector<Example> found;
  for (std::sregex_iterator match(page.begin(), page.end(), pattern), end; match != end; ++match) {
    found.push_back({(*match)[1], (*match)[2], (*match)[3], (*match)[4]});
  }
  return found;
}

struct Printed : CommandEvents {
  void on_progress(std::uint32_t permille, const std::string& message) override {
    text += "progress " + std::to_string(permille) + " " + message + "\n";
  }
  void on_checkpoint(const std::string& json) override { text += "checkpoint " + json + "\n"; }
  void on_log(const std::string& line) override { text += "log " + line + "\n"; }
  void on_cache(const std::string& kind, const std::string& name) override {
    text += "cache " + kind + " " + name + "\n";
  }
  std::string text;
};

// Contract: U-2.
TEST(WorkerPage, ExamplesDoWhatThePageSays) {
  const std::string page = testing::read_text(ROTA_SOURCE_DIR "/docs/worker.md");
  const std::vector<Example> examples = examples_of(page);
  std::size_t markers = 0;
  for (std::size_t at = 0; (at = page.find("<!-- command:", at)) != std::string::npos; ++at) ++markers;
  ASSERT_EQ(examples.size(), markers) << "a marker is not followed by a command and what it says";
  ASSERT_GE(examples.size(), 5U);
  in_runtime([&] {
    Folder folder;
    Guard guard;
    const CommandPlace place{.directory = folder.path(), .environment = {"PATH=/usr/local/bin:/usr/bin:/bin"}};
    std::uint64_t task = 0;
    for (const Example& example : examples) {
      CommandRequest request{.task = ++task, .attempt = 1};
      if (example.language == "sh") {
        request.spec.shell = example.code;
      } else {
        request.spec.arguments = {"python3", "-c", example.code};
      }
      request.spec.inputs = "{\"n\":2}";
      if (example.name == "resume") request.spec.checkpoint = "{\"step\":1}";
      Printed printed;
      CommandRun run(guard, place, std::move(request), printed);
      const CommandEnd end = run.run().value();
      EXPECT_TRUE(end.success) << example.name << ": " << end.message;
      std::string result = end.result;
      while (result.ends_with('\n')) result.pop_back();
      EXPECT_EQ(printed.text + "result " + result + "\n", example.expected) << example.name;
    }
  });
}

}  // namespace
}  // namespace rota::worker
