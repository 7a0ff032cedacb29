// The schemas and the docs match the reader: both name every key that it knows, and no others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/source_dir.h"
#include "model/json.h"
#include "workflow/keys.h"

namespace rota::workflow {
namespace {

std::string file(const std::string& path) {
  std::ifstream in(std::filesystem::path(kSourceDir) / path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  EXPECT_FALSE(out.str().empty()) << path;
  return out.str();
}

// The objects of a schema that allow no other keys, by name.
std::vector<std::string> closed_objects(std::string_view schema) {
  std::vector<std::string> names = {""};
  for (const auto& [name, definition] : model::json_members(model::json_member(schema, "definitions"))) {
    const std::string_view others = model::json_member(definition, "additionalProperties");
    if (others == "false") names.push_back(name);
  }
  return names;
}

void compare(const std::string& path, const std::vector<const KeySet*>& sets) {
  const std::string schema = file(path);
  ASSERT_TRUE(model::json_validate(schema).ok()) << path;
  std::vector<std::string> known;
  for (const KeySet* set : sets) {
    known.emplace_back(set->schema);
    std::string_view object = schema;
    if (!set->schema.empty()) {
      object = model::json_member(model::json_member(schema, "definitions"), set->schema);
      ASSERT_NE(object.data(), nullptr) << path << " does not define " << set->schema;
    }
    EXPECT_EQ(model::json_member(object, "additionalProperties"), "false") << set->what;
    std::vector<std::string> names;
    for (const auto& member : model::json_members(model::json_member(object, "properties")))
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

}  // namespace
}  // namespace rota::workflow
