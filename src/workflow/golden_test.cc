// The problems that are reported for wrong files. Each file of golden/ ends with the expected problems, one per line:
//   #! 3:5: message
// ROTA_REWRITE_GOLDEN=1 rewrites these lines; read the change as a diff.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/source_dir.h"
#include "workflow/fleet_file.h"
#include "workflow/workflow.h"

namespace rota::workflow {
namespace {

constexpr std::string_view kMark = "#! ";

TEST(Golden, EveryProblemIsNamedAndPlaced) {
  const std::filesystem::path folder = std::filesystem::path(kSourceDir) / "src/workflow/golden";
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    ++files;
    auto source = read_source(entry.path().string());
    ASSERT_TRUE(source.ok());
    const std::string text = source->text.substr(0, source->text.find(kMark));
    std::string expected = text;
    const bool fleet = entry.path().filename().string().starts_with("fleet");
    const std::vector<Problem> problems = fleet ? read_fleet(*source).problems : read_workflow(*source).problems;
    for (const Problem& problem : problems) {
      expected.append(kMark).append(to_string("", problem).substr(1)).append("\n");
    }
    EXPECT_FALSE(problems.empty()) << entry.path();
    if (std::getenv("ROTA_REWRITE_GOLDEN") != nullptr) {
      std::ofstream(entry.path(), std::ios::binary) << expected;
    } else {
      EXPECT_EQ(source->text, expected) << entry.path();
    }
  }
  EXPECT_GE(files, 15U);
}

TEST(Golden, OneErrorHasAllProblems) {
  const Source source{"f.yaml", "a: 1\nb: 2\n"};
  const Error error = to_error(source.path, read_workflow(source).problems);
  EXPECT_EQ(error.code, ErrorCode::kParseError);
  EXPECT_EQ(error.message,
            "f.yaml:1:1: apiVersion is missing; write apiVersion: rota/v1\n"
            "f.yaml:1:1: spec is missing; it lists the stages to run\n"
            "f.yaml:1:1: unknown key 'a' in a workflow. Allowed: apiVersion, kind, metadata, spec\n"
            "f.yaml:2:1: unknown key 'b' in a workflow. Allowed: apiVersion, kind, metadata, spec");
  EXPECT_EQ(error.details.size(), 4U);
}

}  // namespace
}  // namespace rota::workflow
