// The schema and the docs say what the reader does: every key it knows is in both, and no other; every example is read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "fleet/json.h"
#include "fleet/state.h"
#include "workflow/fleet_file.h"
#include "workflow/keys.h"
#include "workflow/workflow.h"

namespace rota::workflow {
namespace {

std::string file(const std::string& path) {
  std::ifstream in(std::filesystem::path(ROTA_SOURCE_DIR) / path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  EXPECT_FALSE(out.str().empty()) << path;
  return out.str();
}

// The objects of a schema that allow no other keys, by name.
std::vector<std::string> closed_objects(std::string_view schema) {
  std::vector<std::string> names = {""};
  for (const auto& [name, definition] : fleet::json_members(fleet::json_member(schema, "definitions"))) {
    const std::string_view others = fleet::json_member(definition, "additionalProperties");
    if (others == "false") names.push_back(name);
  }
  return names;
}

void compare(const std::string& path, const std::vector<const KeySet*>& sets) {
  const std::string schema = file(path);
  ASSERT_TRUE(fleet::json_validate(schema).ok()) << path;
  std::vector<std::string> known;
  for (const KeySet* set : sets) {
    known.emplace_back(set->schema);
    std::string_view object = schema;
    if (!set->schema.empty()) {
      object = fleet::json_member(fleet::json_member(schema, "definitions"), set->schema);
      ASSERT_NE(object.data(), nullptr) << path << " does not define " << set->schema;
    }
    EXPECT_EQ(fleet::json_member(object, "additionalProperties"), "false") << set->what;
    std::vector<std::string> names;
    for (const auto& member : fleet::json_members(fleet::json_member(object, "properties")))
      names.push_back(member.first);
    EXPECT_THAT(names, testing::UnorderedElementsAreArray(set->names)) << path << ": " << set->what;
  }
  EXPECT_THAT(closed_objects(schema), testing::UnorderedElementsAreArray(known));
}

TEST(Schema, KnowsTheKeysOfTheReaderAndNoOthers) {
  compare("schema/workflow.schema.json", workflow_key_sets());
  compare("schema/fleet.schema.json", fleet_key_sets());
}

TEST(WorkflowDocs, NameEveryKey) {
  const std::string page = file("docs/workflows.md");
  for (const KeySet* set : all_key_sets()) {
    for (const std::string& name : set->names) {
      const std::string alone = std::string("`").append(name), last = std::string(".").append(name).append("`");
      const bool found = page.find(alone) != std::string::npos || page.find(last) != std::string::npos;
      EXPECT_TRUE(found) << name << " of " << set->what << " is not explained";
    }
  }
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
// stages, one that begins with `workers:` a fleet, and any other is a whole file. What is read, the brain accepts.
TEST(WorkflowDocs, EveryExampleIsRead) {
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
      const WorkflowFile read = read_workflow({path, text});
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

}  // namespace
}  // namespace rota::workflow
