// JSON as text: what is valid and where not, one spelling for each value, looking in without a tree.
#include "model/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/json_text.h"
#include "base/prng.h"

namespace rota::model {
namespace {

using testing::ElementsAre;
using testing::Pair;

std::string problem(std::string_view text) {
  const Result<void> result = json_validate(text);
  return result.ok() ? "" : result.error().message;
}
std::string minified(std::string_view text) {
  const Result<std::string> result = json_minify(text);
  return result.ok() ? *result : result.error().to_string();
}

TEST(Json, TakesWhatTheStandardAllows) {
  for (const std::string_view text :
       {"null", " true ", "\t[\r\n]", "{}", "0", "-0", "12", "-1.50", "1e5", "1E+5", "0.1e-7", "\"\"", "\"\\u00e9\"",
        "\"\\ud83d\\ude00\"", R"("\"\\\/\b\f\n\r\t")", "\"\u00e9\x7f\"", R"({"a":[1,{"b":null}],"a":2})"}) {
    EXPECT_EQ(problem(text), "") << text;
  }
}

TEST(Json, SaysWhereItIsNoneAndWhy) {
  EXPECT_EQ(problem(""), "byte 0: expected a JSON value, found the end");
  EXPECT_EQ(problem("  nul"), "byte 2: expected a JSON value, found 'n'");
  EXPECT_EQ(problem("[1,]"), "byte 3: expected a JSON value, found ']'");
  EXPECT_EQ(problem("[1 2]"), "byte 3: expected ',' or ']', found '2'");
  EXPECT_EQ(problem("{\"a\":1"), "byte 6: expected ',' or '}', found the end");
  EXPECT_EQ(problem("{a:1}"), "byte 1: expected a member's name in quotes, found 'a'");
  EXPECT_EQ(problem("{\"a\" 1}"), "byte 5: expected ':' after a member's name, found '1'");
  EXPECT_EQ(problem("{\"a\":1,}"), "byte 7: expected a member's name in quotes, found '}'");
  EXPECT_EQ(problem("1 2"), "byte 2: expected the end after the value, found '2'");
  EXPECT_EQ(problem("01"), "byte 0: a number does not start with 0 and another digit");
  EXPECT_EQ(problem("1."), "byte 2: expected a digit, found the end");
  EXPECT_EQ(problem("-"), "byte 1: expected a digit, found the end");
  EXPECT_EQ(problem("1e+"), "byte 3: expected a digit, found the end");
  EXPECT_EQ(problem("+1"), "byte 0: expected a JSON value, found '+'");
  EXPECT_EQ(problem("NaN"), "byte 0: expected a JSON value, found 'N'");
  EXPECT_EQ(problem("\"ab"), "byte 0: a string is not closed");
  EXPECT_EQ(problem("\"ab\\"), "byte 4: expected an escape like \\n, found the end");
  EXPECT_EQ(problem("\"\\x\""), "byte 2: expected an escape like \\n, found 'x'");
  EXPECT_EQ(problem("\"\\u12g4\""), "byte 5: expected four hexadecimal digits after \\u, found 'g'");
  EXPECT_EQ(problem("\"a\nb\""), "byte 2: a control character in a string must be written as \\u00..");
  EXPECT_EQ(problem("\"\xff\""), "byte 1: a string is not UTF-8");
  EXPECT_EQ(problem("\"\\ud800\""), "byte 1: half of a surrogate pair");
  EXPECT_EQ(problem("\"\\ud800\\u0041\""), "byte 1: half of a surrogate pair");
  EXPECT_EQ(problem("\"\\udc00\""), "byte 1: half of a surrogate pair");
  EXPECT_EQ(problem(std::string_view("nul\0l", 5)), "byte 0: expected a JSON value, found 'n'");
}

TEST(Json, DepthIsBounded) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(problem(nested(kJsonMostDepth)), "");
  EXPECT_EQ(problem(nested(kJsonMostDepth + 1)), "byte 64: nested deeper than 64 levels");
  EXPECT_EQ(problem(std::string(1'000'000, '[')), "byte 64: nested deeper than 64 levels");
}

TEST(Json, OneSpellingForEachValue) {
  EXPECT_EQ(minified(" { \"a\" : [ 1 , \"\\u0041\\/\\u00e9\\n\" ] , \"\\u0062\" : 1.50e+3 } "),
            "{\"a\":[1,\"A/\u00e9\\n\"],\"b\":1.50e+3}");
  EXPECT_EQ(minified("\"\\ud83d\\ude00\""), "\"\U0001f600\"");
  EXPECT_EQ(minified("\"\\u0000\""), "\"\\u0000\"");
  EXPECT_EQ(minified("123456789012345678901234567890.10"), "123456789012345678901234567890.10");
}

TEST(Json, LooksInWithoutATree) {
  const std::string_view object = R"( { "a" : 1, "b\n": [ "x]\"" , {"c": "}"} , [] ], "a" : "last" } )";
  ASSERT_EQ(problem(object), "");
  EXPECT_EQ(json_member(object, "a"), "\"last\"");
  const std::string_view array = json_member(object, "b\n");
  EXPECT_THAT(json_elements(array), ElementsAre("\"x]\\\"\"", "{\"c\": \"}\"}", "[]"));
  EXPECT_EQ(json_element(array, 1), "{\"c\": \"}\"}");
  EXPECT_EQ(json_element(array, 3).data(), nullptr);
  EXPECT_EQ(json_member(object, "c").data(), nullptr);
  EXPECT_THAT(json_members(object), ElementsAre(Pair("a", "1"), Pair("b\n", array), Pair("a", "\"last\"")));
  EXPECT_EQ(json_kind(" -1"), JsonKind::kNumber);
  EXPECT_EQ(json_kind("false"), JsonKind::kBool);
  EXPECT_EQ(json_kind(object), JsonKind::kObject);
}

// A random value: its canonical text and a loose spelling of it.
struct Spelled {
  std::string canonical;
  std::string loose;
};
class Speller {
 public:
  explicit Speller(std::uint64_t seed) : random_(seed) {}
  Spelled value(int depth) {
    switch (random_.below(depth > 0 ? 7 : 5)) {
      case 0:
        return both("null");
      case 1:
        return both(random_.below(2) == 0 ? "true" : "false");
      case 2:
        return both(std::to_string(static_cast<std::int64_t>(random_.below(2'000'000)) - 1'000'000));
      case 3:
        return both("-0." + std::to_string(random_.below(1000)) + "E-" + std::to_string(random_.below(100)));
      case 4:
        return string();
      default:
        return container(depth - 1, random_.below(2) == 0);
    }
  }
  Spelled string() {
    std::string text;
    Spelled out{"", "\""};
    const std::uint64_t length = random_.below(6);
    for (std::uint64_t i = 0; i < length; ++i) {
      const char c = "ab\"\\\n\x01{}[],: $"[random_.below(15)];
      text.push_back(c);
      constexpr char kHex[] = "0123456789abcdef";
      const auto byte = static_cast<unsigned char>(c);
      if (random_.below(2) == 0 && byte >= 0x20 && c != '"' && c != '\\') {
        out.loose.push_back(c);
      } else {
        out.loose.append("\\u00").push_back(kHex[byte >> 4]);
        out.loose.push_back(kHex[byte & 15U]);
      }
    }
    out.loose.push_back('"');
    append_json_string(out.canonical, text);
    return out;
  }

 private:
  std::string space() { return std::string(random_.below(3), " \n\t"[random_.below(3)]); }
  Spelled both(const std::string& text) { return {text, space() + text + space()}; }
  Spelled container(int depth, bool object) {
    Spelled out{object ? "{" : "[", object ? " {" : "[ "};
    const std::uint64_t size = random_.below(4);
    for (std::uint64_t i = 0; i < size; ++i) {
      if (i > 0) out.canonical.push_back(','), out.loose.append(space() + ",");
      if (object) {
        const Spelled key = string();
        out.canonical.append(key.canonical + ":");
        out.loose.append(space() + key.loose + space() + ":");
      }
      const Spelled item = value(depth);
      out.canonical.append(item.canonical);
      out.loose.append(item.loose);
    }
    out.canonical.push_back(object ? '}' : ']');
    out.loose.append(space()).push_back(object ? '}' : ']');
    return out;
  }
  Prng random_;
};

RC_GTEST_PROP(JsonProperty, MinifyUndoesAnySpelling, (std::uint64_t seed)) {
  const Spelled spelled = Speller(seed).value(5);
  RC_ASSERT(minified(spelled.loose) == spelled.canonical);
  RC_ASSERT(minified(spelled.canonical) == spelled.canonical);
}

RC_GTEST_PROP(JsonProperty, ItemsAreTheOnesThatWerePutIn, (std::uint64_t seed)) {
  Speller speller(seed);
  std::vector<Spelled> items;
  std::string array = "[", object = "{";
  for (std::size_t i = 0; i < seed % 5; ++i) {
    items.push_back(speller.value(3));
    array.append(i == 0 ? "" : ",").append(items.back().loose);
    object.append(i == 0 ? "\"" : ",\"").append(std::to_string(i)).append("\" :").append(items.back().loose);
  }
  array.push_back(']'), object.push_back('}');
  RC_ASSERT(json_elements(array).size() == items.size());
  for (std::size_t i = 0; i < items.size(); ++i) {
    RC_ASSERT(minified(json_element(array, i)) == items[i].canonical);
    RC_ASSERT(minified(json_member(object, std::to_string(i))) == items[i].canonical);
  }
}

}  // namespace
}  // namespace rota::model
