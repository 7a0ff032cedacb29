// The items of a matrix: products, include, exclude, bounds.
#include "model/matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rota::model {
namespace {

using testing::ElementsAre;

std::vector<std::string> items(const Matrix& matrix) {
  Result<std::vector<std::string>> found = matrix_items(matrix, 1000, 1 << 20);
  EXPECT_TRUE(found.ok()) << found.error().message;
  return found.ok() ? *found : std::vector<std::string>();
}

// Contract: Y-2. Every combination, the last list varies fastest; values stay as they are written.
TEST(Matrix, Product) {
  EXPECT_THAT(items({.names = {"a", "b"}, .values = {{"1", "2.50"}, {"\"x\"", "{\"k\":[]}"}}}),
              ElementsAre(R"({"a":1,"b":"x"})", R"({"a":1,"b":{"k":[]}})", R"({"a":2.50,"b":"x"})",
                          R"({"a":2.50,"b":{"k":[]}})"));
  EXPECT_THAT(items({.names = {"a"}, .values = {{"1", "1"}}}), ElementsAre(R"({"a":1})", R"({"a":1})"));
  EXPECT_THAT(items({.names = {"a", "b"}, .values = {{"1"}, {}}}), ElementsAre());
}

// Contract: Y-2. exclude removes what has all of its values; include adds values, or an item of its own.
TEST(Matrix, IncludeAndExclude) {
  const Matrix matrix{.names = {"a", "b"},
                      .values = {{"1", "2"}, {"3", "4"}},
                      .include = {{{"a", "1"}, {"c", "9"}}, {{"a", "7"}, {"b", "8"}}},
                      .exclude = {{{"a", "2"}, {"b", "4"}}}};
  EXPECT_THAT(items(matrix), ElementsAre(R"({"a":1,"b":3,"c":9})", R"({"a":1,"b":4,"c":9})",
                                         R"({"a":2,"b":3,"c":null})", R"({"a":7,"b":8,"c":null})"));
  EXPECT_THAT(items({.names = {"a"}, .values = {{}}, .include = {{{"a", "7"}}}}), ElementsAre(R"({"a":7})"));
}

// Contract: Y-2. It is bounded, in items and in bytes, before anything is created.
TEST(Matrix, Bounds) {
  const std::vector<std::string> many(1001, "1");
  EXPECT_EQ(matrix_items({.names = {"a"}, .values = {many}}, 1000, 1 << 20).code(), ErrorCode::kTooLarge);
  EXPECT_EQ(matrix_items({.names = {"a", "b", "c"}, .values = {many, many, many}}, 1'000'000, 1 << 30).code(),
            ErrorCode::kTooLarge);
  const std::vector<std::string> wide(100, "\"" + std::string(1000, 'x') + "\"");
  for (const bool with_include : {false, true}) {
    Matrix matrix{.names = {"a", "b"}, .values = {wide, wide}};
    if (with_include) matrix.include = {{{"c", "1"}}};
    const Result<std::vector<std::string>> found = matrix_items(matrix, 100'000, 1 << 20);
    ASSERT_EQ(found.code(), ErrorCode::kTooLarge);
    EXPECT_NE(found.error().detail("bytes"), nullptr);
  }
}

TEST(Matrix, Entries) {
  const Result<MatrixEntry> entry = matrix_entry(R"({"a": 1, "b" : {"x": [1, 2]}})");
  ASSERT_TRUE(entry.ok());
  EXPECT_THAT(*entry, ElementsAre(MatrixValue("a", "1"), MatrixValue("b", R"({"x":[1,2]})")));
  EXPECT_FALSE(matrix_entry("[1]").ok());
  EXPECT_FALSE(matrix_entry("{").ok());
}

}  // namespace
}  // namespace rota::model
