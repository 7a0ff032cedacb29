// The brain accepts every workflow that the reader of workflow files accepts.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/source_dir.h"
#include "fleet/state.h"
#include "workflow/fleet_file.h"
#include "workflow/workflow.h"

namespace rota::workflow {
namespace {

std::string file(const std::string& path) {
  std::ifstream in(std::filesystem::path(kSourceDir) / path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  EXPECT_FALSE(out.str().empty()) << path;
  return out.str();
}

struct Block {
  std::string language;
  std::string text;
  std::size_t line;
};
std::vector<Block> blocks(const std::string& page) {
  std::vector<Block> out;
  std::istringstream in(page);
  std::string line;
  bool inside = false;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (line.starts_with("```")) {
      inside = !inside;
      if (inside) out.push_back({line.substr(3), "", number});
    } else if (inside) {
      out.back().text.append(line).append("\n");
    }
  }
  return out;
}

// A list of stages as a whole file.
std::string as_stages(const std::string& list) {
  std::string out("apiVersion: rota/v1\nspec:\n  stages:\n");
  std::istringstream in(list);
  for (std::string line; std::getline(in, line);) out.append("    ").append(line).append("\n");
  return out;
}

// A block that begins with `# broken.yaml` is followed by what is said about it. One that begins with `- ` is a list of
// stages, one that begins with `workers:` a fleet, and any other is a whole file. The brain accepts what the reader
// accepts.
TEST(AcceptedWorkflows, EveryExampleOfTheDocs) {
  const std::vector<Block> all = blocks(file("docs/workflows.md"));
  std::size_t examples = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].language != "yaml") continue;
    ++examples;
    std::string text = all[i].text;
    std::string path = std::string("docs/workflows.md:").append(std::to_string(all[i].line));
    std::string expected;
    std::string said;
    if (text.starts_with("# broken.yaml\n")) {
      path = "broken.yaml";
      ASSERT_TRUE(i + 1 < all.size() && all[i + 1].language == "text");
      expected = all[i + 1].text;
    }
    if (text.starts_with("- ")) text = as_stages(text);
    std::vector<Problem> problems;
    if (text.starts_with("workers:")) {
      problems = read_fleet({path, text}).problems;
    } else {
      const WorkflowFile read = read_workflow({.path = path, .text = text, .reads_files = true});
      problems = read.problems;
      if (read.ok()) {
        const auto plan = fleet::plan_workflow(read.spec);
        EXPECT_TRUE(plan.ok()) << path << ": the brain says: " << plan.error().message;
      }
    }
    for (const Problem& problem : problems) said.append(to_string(path, problem)).append("\n");
    EXPECT_EQ(said, expected);
  }
  EXPECT_GE(examples, 9U);
}

// The brain accepts the largest and smallest values that the reader accepts.
TEST(AcceptedWorkflows, TheExtremes) {
  const WorkflowFile file = read_workflow({"w.yaml", R"(apiVersion: rota/v1
metadata: {name: w}
spec:
  priority: -1000000000
  stages:
    - name: a
      run: x
      priority: 1000000000
      resources: {hardware: {cpu: 1000000, memory: 1PiB, gpu: {count: 64, memory: 1PiB}}}
      max_attempts: 1000
      retry: {backoff: 240h, factor: 100, max_backoff: 240h, memory_factor: 100}
      timeout: 876000h
    - {name: b, run: x, resources: {hardware: {cpu: 0, memory: 0}}, max_attempts: 1, retry: {backoff: 1ns, factor: 1}}
    - {name: c, run: 'x', replicas: 10000}
)"});
  ASSERT_TRUE(file.ok()) << file.problems.front().message;
  const auto plan = fleet::plan_workflow(file.spec);
  EXPECT_TRUE(plan.ok()) << plan.error().message;
}

}  // namespace
}  // namespace rota::workflow
