// One version number in the headers, the library and the build.
#include "rota/version.h"

#include <gtest/gtest.h>

#include <fstream>
#include <regex>
#include <string>

#include "base/source_dir.h"

namespace rota {
namespace {

TEST(VersionTest, HeadersLibraryAndBuildAgree) {
  EXPECT_EQ(kHeaderVersion, library_version());
  std::ifstream file(std::string(kSourceDir) + "/CMakeLists.txt");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  std::smatch match;
  ASSERT_TRUE(std::regex_search(text, match, std::regex("project\\(rota VERSION ([0-9.]+)")));
  EXPECT_EQ(match[1].str(), library_version_text());
}

}  // namespace
}  // namespace rota
