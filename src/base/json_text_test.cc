// JSON strings are valid JSON whatever the bytes.
#include "base/json_text.h"

#include <gtest/gtest.h>

#include <string>

namespace rota {
namespace {

std::string json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(JsonTextTest, EscapesWhatMustBe) {
  EXPECT_EQ(json(""), "\"\"");
  EXPECT_EQ(json("plain text, ~"), "\"plain text, ~\"");
  EXPECT_EQ(json("a\"b\\c\nd\te\rf"), R"("a\"b\\c\nd\te\rf")");
  EXPECT_EQ(json(std::string_view("\0\x1f\x7f", 3)), R"("\u0000\u001f\u007f")");
}

TEST(JsonTextTest, KeepsUtf8AndReplacesTheRest) {
  EXPECT_EQ(json("h\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80"), "\"h\xc3\xbc\xe2\x82\xac\xf0\x9f\x98\x80\"");
  EXPECT_EQ(json("\xff"), R"("\ufffd")");
  EXPECT_EQ(json("\xc3"), R"("\ufffd")");                      // Cut short.
  EXPECT_EQ(json("\xc0\x80"), R"("\ufffd\ufffd")");            // Overlong.
  EXPECT_EQ(json("\xed\xa0\x80"), R"("\ufffd\ufffd\ufffd")");  // A surrogate.
  EXPECT_EQ(json("\xf4\x90\x80\x80x"), R"("\ufffd\ufffd\ufffd\ufffdx")");
  EXPECT_EQ(json("\xe2\x82"
                 "a"),
            R"("\ufffd\ufffda")");
}

TEST(JsonTextTest, PrintableIsOneBoundedLine) {
  EXPECT_EQ(printable("a b\n\x01\xff"), "a b\\x0a\\x01\\xff");
  EXPECT_EQ(printable("h\xc3\xbc"), "h\xc3\xbc");
  EXPECT_EQ(printable("abcdef", 3), "abc...");
  EXPECT_EQ(printable("ab\xc3\xbc", 3), "ab...");  // Never half a character.
  EXPECT_EQ(printable("abc", 3), "abc");
}

}  // namespace
}  // namespace rota
