// References (B-13): found with their place, resolved with their type, and never read again.
#include "model/reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>

#include "base/json_text.h"
#include "model/json.h"

namespace rota::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// What is known, by "root.member".
class Known final : public ReferenceScope {
 public:
  explicit Known(std::map<std::string, std::string> values) : values_(std::move(values)) {}
  Known(std::string key, std::string value) { values_.emplace(std::move(key), std::move(value)); }
  Result<std::string_view> value(std::string_view root, std::string_view member) override {
    const auto found = values_.find(std::string(root) + "." + std::string(member));
    if (found == values_.end()) return Error{ErrorCode::kWouldBlock, std::string(root) + " has not ended"};
    return std::string_view(found->second);
  }

 private:
  std::map<std::string, std::string> values_{};
};

Known known() {
  return Known({{"prep.result", R"({"n": 3, "name": "a\"b", "list": [10, {"x": null}, "s"], "odd key": [1.50]})"},
                {"fan.result", "[1, [2], \"three\"]"},
                {"matrix.", R"({"lr": 0.10, "model": "llama"})"},
                {"task.attempt", "2"},
                {"task.checkpoint", R"({"step": 7})"},
                {"workflow.name", "\"night\""}});
}
std::string resolved(std::string_view payload) {
  Known scope = known();
  const Result<std::string> result = resolve_references(payload, scope);
  return result.ok() ? *result : result.error().to_string();
}
std::vector<std::string> uses(std::string_view payload) {
  const auto result = find_references(payload);
  if (!result.ok()) return {result.error().message};
  std::vector<std::string> out;
  for (const ReferenceUse& use : *result) out.push_back(use.under + " " + use.reference.text);
  return out;
}
std::string problem(std::string_view reference) {
  std::string payload = "{\"a\":";
  append_json_string(payload, reference);
  const auto result = find_references(payload + "}");
  return result.ok() ? "" : result.error().message;
}

// B-13: each use is known with its root, its path and the place where it stands.
TEST(References, AreFoundWithTheirPlace) {
  EXPECT_THAT(
      uses(
          R"({"run": "echo $X", "inputs": {"adapter": "${prep.result.a[3]['x y']}", "l": [1, "a ${m-1.result}${task.index}"]}})"),
      ElementsAre("inputs.adapter ${prep.result.a[3]['x y']}", "inputs.l[1] ${m-1.result}",
                  "inputs.l[1] ${task.index}"));
  const auto result = find_references(R"({"i": "${prep.result.a[3]['x y']}"})");
  ASSERT_TRUE(result.ok());
  const Reference& reference = result->front().reference;
  EXPECT_EQ(reference.root, "prep");
  EXPECT_THAT(reference.path, ElementsAre(ReferenceStep{.name = "result"}, ReferenceStep{.name = "a"},
                                          ReferenceStep{.index = 3, .is_index = true}, ReferenceStep{.name = "x y"}));
  EXPECT_EQ(result->front().at, 6U);
  EXPECT_THAT(uses(R"({"${x.result}": 1, "b": "\u0024{prep.result}"})"), ElementsAre("b ${prep.result}"));
  EXPECT_THAT(uses(R"({"a": "$${x} $$${y} $ {z} $x }"})"), IsEmpty());
}

// Y-4: how stages ended is told apart from what they came to.
TEST(References, AboutTheEnd) {
  for (const char* text : {"${a.state}", "${a.error}", "${workflow.state}"}) {
    EXPECT_TRUE(is_about_end(parse_reference(text).value())) << text;
  }
  for (const char* text : {"${a.result.state}", "${workflow.name}", "${matrix.state}", "${task.name}"}) {
    EXPECT_FALSE(is_about_end(parse_reference(text).value())) << text;
  }
}

TEST(References, WhatIsNoneSaysWhy) {
  EXPECT_EQ(problem("x ${}"), "byte 5, in a: the reference '${}' is empty; write it like ${stage.result}");
  EXPECT_EQ(problem("${a.result"),
            "byte 5, in a: the reference '${a.result' is not closed; a '}' is missing, or write $${ for that text");
  EXPECT_THAT(problem("${HOME}"), HasSubstr("has no path; write it like ${HOME.result}, or $${HOME} for that text"));
  EXPECT_THAT(problem("${a.results}"), HasSubstr("'${a.results}' must continue with .result"));
  EXPECT_THAT(problem("${a[0]}"), HasSubstr("must continue with .result"));
  EXPECT_THAT(problem("${a.result[x]}"), HasSubstr("bad index; write it like [0], or ['name'] for a member"));
  EXPECT_THAT(problem("${a.result[-1]}"), HasSubstr("bad index"));
  EXPECT_THAT(problem("${a.result[1234567890]}"), HasSubstr("an index of more than 9 digits"));
  EXPECT_THAT(problem("${a.result[1}"), HasSubstr("a '[' without its ']'"));
  EXPECT_THAT(problem("${a.result['x}"), HasSubstr("a quote that is not closed"));
  EXPECT_THAT(problem("${a.result..b}"), HasSubstr("has no name after a '.'"));
  EXPECT_THAT(problem("${ a.result}"), HasSubstr("has ' ' in it"));
  EXPECT_THAT(problem("${a.result|b}"), HasSubstr("has '|' in it"));
  EXPECT_THAT(problem("${task.nme}"), HasSubstr("must continue with one of .name, .attempt, .index, .checkpoint"));
  EXPECT_THAT(problem("${workflow.user}"), HasSubstr("must continue with one of .name, .id, .state"));
  EXPECT_THAT(problem("${a.state.x}"), HasSubstr("must end after .state, which is a text"));
  EXPECT_THAT(problem("${matrix[0]}"), HasSubstr("must name one of the matrix's lists"));
  EXPECT_THAT(problem("${matrix}"), HasSubstr("has no path"));
  std::string deep = "${a.result";
  for (int i = 0; i < 64; ++i) deep.append(".x");
  EXPECT_THAT(problem(deep + "}"), HasSubstr("more than 64 steps"));
  EXPECT_EQ(uses("[]").front(), "byte 0: this must be a JSON object");
  EXPECT_EQ(uses("{\"a\":}").front(), "byte 5: expected a JSON value, found '}'");
  std::string many = "{\"a\":\"";
  for (std::size_t i = 0; i <= kReferencesMost; ++i) many.append("${a.result}");
  EXPECT_THAT(uses(many + "\"}").front(), HasSubstr("at most 1000 references"));
}

// B-13: an exact one keeps its type, an embedded one becomes text, list indices work.
TEST(References, ExactOnesKeepTheirTypeAndOthersBecomeText) {
  EXPECT_EQ(resolved(R"({"a": "${prep.result.n}"})"), R"({"a":3})");
  EXPECT_EQ(resolved(R"({"a": "${prep.result.list}"})"), R"({"a":[10,{"x":null},"s"]})");
  EXPECT_EQ(resolved(R"({"a": "${prep.result.list[1].x}"})"), R"({"a":null})");
  EXPECT_EQ(resolved(R"({"a": "${prep.result['odd key'][0]}"})"), R"({"a":1.50})");
  EXPECT_EQ(resolved(R"({"a": "${prep.result.name}"})"), R"({"a":"a\"b"})");
  EXPECT_EQ(resolved(R"({"a": "n=${prep.result.n}, ${prep.result.name}, ${prep.result.list}"})"),
            R"({"a":"n=3, a\"b, [10,{\"x\":null},\"s\"]"})");
  EXPECT_EQ(resolved(R"({"a": "${prep.result.n}${prep.result.n}", "b": "${prep.result.n} "})"),
            R"({"a":"33","b":"3 "})");
  EXPECT_EQ(resolved(R"({"a": ["${fan.result[1][0]}", "${fan.result[2]}"]})"), R"({"a":[2,"three"]})");
  EXPECT_EQ(
      resolved(R"({"a": "${matrix.lr}", "b": "${matrix.model}-${task.attempt}", "c": "${task.checkpoint.step}"})"),
      R"({"a":0.10,"b":"llama-2","c":7})");
  EXPECT_EQ(resolved(R"({"a": "${workflow.name}", "${x}": 1})"), R"({"a":"night","${x}":1})");
  EXPECT_EQ(resolved(R"({"a": "$${HOME} $$${prep.result}"})"), R"({"a":"${HOME} $${prep.result}"})");
}

// B-13: unknown ones fail with the path named, and with what is there instead.
TEST(References, UnknownOnesNameThePath) {
  EXPECT_EQ(resolved(R"({"a": "${prep.result.m}"})"),
            "NotFound: ${prep.result.m} leads nowhere: prep.result has no member 'm'; it has 'n', 'name', 'list', 'odd "
            "key' (reference=${prep.result.m})");
  EXPECT_THAT(resolved(R"({"a": "${prep.result.list[3]}"})"),
              HasSubstr("prep.result.list has no element [3]; it is an array of 3"));
  EXPECT_THAT(resolved(R"({"a": "${prep.result.n.x.y}"})"),
              HasSubstr("prep.result.n has no member 'x'; it is a number"));
  EXPECT_THAT(resolved(R"({"a": "${prep.result.name[0]}"})"), HasSubstr("it is a string"));
  EXPECT_THAT(resolved(R"({"a": "${fan.result.x}"})"), HasSubstr("fan.result has no member 'x'; it is an array of 3"));
  EXPECT_THAT(resolved(R"({"a": "${matrix.rl}"})"), HasSubstr("matrix has no member 'rl'; it has 'lr', 'model'"));
  EXPECT_EQ(resolved(R"({"a": "${later.result}"})"), "WouldBlock: later has not ended");
}

// B-13: a value never becomes code. What comes in by a reference is not searched for references, and its quotes and
// braces stay inside the string that it is put into.
TEST(References, AValueIsNeverReadAgain) {
  Known scope("evil.result", R"(["${secret.result}", "\", \"run\": \"rm -rf /", "$${"])");
  const auto result = resolve_references(
      R"({"run": "x", "a": "${evil.result[0]}", "b": "<${evil.result[1]}>", "c": "$${evil.result[2]} ${evil.result[2]}x}"})",
      scope);
  ASSERT_TRUE(result.ok()) << result.error().message;
  EXPECT_EQ(*result,
            R"({"run":"x","a":"${secret.result}","b":"<\", \"run\": \"rm -rf />","c":"${evil.result[2]} $${x}"})");
}

TEST(References, TheResultIsBounded) {
  Known scope("big.result", "\"" + std::string(1000, 'x') + "\"");
  const std::string payload = R"({"a": ["${big.result}", "${big.result}", "${big.result}"]})";
  EXPECT_TRUE(resolve_references(payload, scope, 4000).ok());
  EXPECT_EQ(resolve_references(payload, scope, 2500).code(), ErrorCode::kTooLarge);
  EXPECT_EQ(resolve_references(R"({"a": "${big.result}${big.result}${big.result}"})", scope, 2500).code(),
            ErrorCode::kTooLarge);
}

// Stickiness goes by which references hand on a parent's weights.
TEST(References, WeightsAreRecognisedByWhereTheyComeFromOrGoTo) {
  const auto first = [](std::string_view payload) { return find_references(payload)->front(); };
  EXPECT_TRUE(hands_on_weights(first(R"({"inputs": {"adapter_path": "${sft.result.out}"}})")));
  EXPECT_TRUE(hands_on_weights(first(R"({"env": {"ROTA_REF_1": "${sft.result.final_checkpoint.dir}"}})")));
  EXPECT_FALSE(hands_on_weights(first(R"({"inputs": {"path": "${sft.result.out}"}})")));
  EXPECT_FALSE(hands_on_weights(first(R"({"inputs": {"resume": "${task.checkpoint}"}})")));
}

// Any text survives: escaped it is itself, and by way of a reference too.
RC_GTEST_PROP(ReferencesProperty, AnyTextTravelsUnchanged, ()) {
  std::string text;
  for (const int i : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 9))) {
    text.append(std::vector<std::string>{"$", "{", "}", "${", "a", "\"", "\\", "${a.result}",
                                         "."}[static_cast<std::size_t>(i)]);
  }
  std::string escaped;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "${") == 0) escaped.push_back('$');
    escaped.push_back(text[i]);
  }
  std::string literal, json;
  append_json_string(literal, escaped);
  append_json_string(json, text);
  Known scope("a.result", json);
  const auto by_escape = resolve_references("{\"x\":" + literal + "}", scope);
  RC_ASSERT(by_escape.ok());
  RC_ASSERT(*by_escape == "{\"x\":" + json + "}");
  RC_ASSERT(find_references("{\"x\":" + literal + "}")->empty());
  const auto by_value = resolve_references(R"({"x":"${a.result}"})", scope);
  RC_ASSERT(by_value.ok());
  RC_ASSERT(*by_value == "{\"x\":" + json + "}");
  const auto embedded = resolve_references(R"({"x":"<${a.result}>"})", scope);
  RC_ASSERT(embedded.ok());
  RC_ASSERT(json_unescape(json_member(*embedded, "x")) == "<" + text + ">");
}

}  // namespace
}  // namespace rota::model
