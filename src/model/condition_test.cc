// Conditions (B-13): what is true, what compares with what, and what is no condition.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "base/prng.h"
#include "model/reference.h"

namespace rota::model {
namespace {

using testing::HasSubstr;

class One final : public ReferenceScope {
 public:
  Result<std::string_view> value(std::string_view root, std::string_view) override {
    ++asked;
    if (root != "a") return Error{ErrorCode::kNotFound, "no stage " + std::string(root)};
    return std::string_view(
        R"({"n": 3, "s": "x\u0041", "yes": true, "no": false, "nil": null, "zero": -0.0e9, "none": [],
                                "obj": {"p": [1, 2.0], "q": "r"}, "same": {"q": 0, "q": "r", "p": [1.0, 2]}, "empty": {}, "blank": ""})");
  }
  int asked = 0;
};

std::string answer(std::string_view text) {
  One scope;
  const Result<bool> result = evaluate_condition(text, scope);
  return !result.ok() ? result.error().message : *result ? "true" : "false";
}
std::string problem(std::string_view text) {
  const auto result = check_condition(text);
  return result.ok() ? "" : result.error().message;
}

// B-13: a condition's values, alone and compared.
TEST(Conditions, AValueAloneIsTrueUnlessItIsNothing) {
  for (const char* text : {"true", "1", "-0.001", "'x'", "\"0\"", "${a.result.n}", "${a.result}", "${a.result.yes}"}) {
    EXPECT_EQ(answer(text), "true") << text;
  }
  for (const char* text : {"false", "null", "0", "-0.000e5", "''", "\"\"", "${a.result.no}", "${a.result.nil}",
                           "${a.result.zero}", "${a.result.none}", "${a.result.empty}", "${a.result.blank}"}) {
    EXPECT_EQ(answer(text), "false") << text;
  }
}

TEST(Conditions, NumbersAreComparedExactly) {
  for (const char* text :
       {"3 == 3.0", "30e-1 == 3", "0.3e1 == 3", "${a.result.n} >= 3", "-1 < 0", "-2 < -1.5", "0 == -0", "0e5 == 0",
        "100000000000000000000000000000001 > 100000000000000000000000000000000",
        "0.1000000000000000000000000000000001 > 0.1", "1e-400 > 0", "1e400 < 1e401", "-1e400 < 1e-400",
        "12345678901234567890e-19 < 1.2345678901234567891", "9 < 10", "0.09 < 0.1",
        "1e00000000000000000000001 == 10"}) {
    EXPECT_EQ(answer(text), "true") << text;
  }
  EXPECT_THAT(answer("1e9999999999999999 > 1"),
              HasSubstr("the exponent of 1e9999999999999999 is too large to compare"));
}

TEST(Conditions, OtherValuesCompareWithinTheirKind) {
  for (const char* text :
       {"${a.result.s} == 'xA'", "'a' < \"b\"", "'B' < 'a'", "'' < 'a'", "'10' < '9'", "null == null",
        "${a.result.obj} == ${a.result.same}", "${a.result.obj} != ${a.result.empty}", "'1' != 1", "true != 'true'",
        "${a.result.nil} == null", "(1 < 2) == true"}) {
    EXPECT_EQ(answer(text), "true") << text;
  }
  EXPECT_EQ(answer("1 < '2'"), "'<' compares two numbers or two strings, not 1 and \"2\"");
  EXPECT_EQ(answer("true >= false"), "'>=' compares two numbers or two strings, not true and false");
  EXPECT_THAT(answer("${a.result.obj} > ${a.result.obj}"), HasSubstr("'>' compares two numbers or two strings"));
}

TEST(Conditions, AndBindsTighterThanOrAndNotTighterThanBoth) {
  for (const char* text : {"true or false and false", "not false and true", "!(true and false)", "!false&&!false",
                           "false||1<2", "not not 1", "!!1", "not 1 == 2", "(1) and ((2))", " \t\n1\r"}) {
    EXPECT_EQ(answer(text), "true") << text;
  }
  EXPECT_EQ(answer("(true or false) and false"), "false");
  EXPECT_EQ(answer("not true or false"), "false");
}

// What is decided is not asked for; what is asked for and not there is an error.
TEST(Conditions, TheRightSideIsLookedAtOnlyIfItMatters) {
  EXPECT_EQ(answer("false and ${gone.result}"), "false");
  EXPECT_EQ(answer("true or (${gone.result} < 'x' and 1 < 'x')"), "true");
  EXPECT_EQ(answer("true and ${gone.result}"), "no stage gone");
  EXPECT_THAT(answer("${a.result.m} == 1"), HasSubstr("a.result has no member 'm'; it has 'n', 's'"));
  One scope;
  EXPECT_TRUE(evaluate_condition("1 or ${a.result} or ${a.result}", scope).ok());
  EXPECT_EQ(scope.asked, 0);
}

TEST(Conditions, WhatIsNoneSaysWhereAndWhy) {
  EXPECT_THAT(problem(""), HasSubstr("column 1: expected a value, found the end; write a reference like"));
  EXPECT_THAT(problem("a == 1"),
              HasSubstr("column 1: expected a value, found 'a'; write a reference like ${stage.result}"));
  EXPECT_THAT(problem("${a.result} == ok"), HasSubstr("column 16: expected a value, found 'ok'"));
  EXPECT_EQ(problem("1 = 1"), "column 3: write == to compare");
  EXPECT_EQ(problem("(1"), "column 1: this '(' is not closed");
  EXPECT_EQ(problem("1)"), "column 2: this ')' closes nothing");
  EXPECT_EQ(problem("(1 2)"), "column 4: expected 'and', 'or' or ')', found '2'");
  EXPECT_EQ(problem("1 2"), "column 3: expected 'and', 'or' or the end, found '2'");
  EXPECT_THAT(problem("1 < 2 < 3"), HasSubstr("comparisons cannot be chained; write a < b and b < c"));
  EXPECT_EQ(problem("'x"), "column 1: this string is not closed");
  EXPECT_EQ(problem("\"x\\\""), "column 1: this string is not closed");
  EXPECT_THAT(problem("\"\\q\""), HasSubstr("column 1: in this string, byte 2: expected an escape"));
  EXPECT_EQ(problem("'${a.result}' == 'x'"), "column 1: a reference in a condition stands without quotes");
  EXPECT_THAT(problem("1 and ${a.rslt}"), HasSubstr("column 7: the reference '${a.rslt}' must continue with .result"));
  EXPECT_THAT(problem("1.2.3"), HasSubstr("column 1: '1.2.3' is no number"));
  EXPECT_THAT(problem("007"), HasSubstr("'007' is no number"));
  EXPECT_THAT(problem("true and"), HasSubstr("column 9: expected a value, found the end"));
  EXPECT_THAT(problem("nothing"), HasSubstr("found 'nothing'"));
  EXPECT_THAT(problem(std::string(65, '(') + "1" + std::string(65, ')')), HasSubstr("deeper than 64 levels"));
  EXPECT_EQ(problem(std::string(64, '(') + "1" + std::string(64, ')')), "");
  EXPECT_EQ(problem(std::string(40'000, '!') + "1"), "");
  EXPECT_EQ(problem(std::string(70'000, '!') + "1"), "a condition has at most 65536 bytes");
}

TEST(Conditions, TheirReferencesAreListed) {
  const auto uses = check_condition("false and ${a.result.n} > ${matrix.lr}");
  ASSERT_TRUE(uses.ok());
  ASSERT_EQ(uses->size(), 2U);
  EXPECT_EQ(uses->at(0).reference.root, "a");
  EXPECT_EQ(uses->at(0).at, 10U);
  EXPECT_EQ(uses->at(1).reference.text, "${matrix.lr}");
}

// Numbers in any spelling order like the integers they stand for.
RC_GTEST_PROP(ConditionsProperty, DecimalsOrderLikeIntegers, (std::uint64_t seed)) {
  Prng random(seed);
  const auto number = [&](std::int64_t value) {
    std::string digits = std::to_string(value < 0 ? -value : value);
    const std::uint64_t shift = random.below(5);
    digits.insert(0, shift, '0');
    std::string text = digits.substr(0, digits.size() - shift);
    text.erase(0, std::min(text.find_first_not_of('0'), text.size()));
    if (text.empty()) text = "0";
    if (shift > 0) text += "." + digits.substr(digits.size() - shift) + "e" + std::to_string(shift);
    return (value < 0 ? "-" : "") + text;
  };
  const auto pick = [&] { return static_cast<std::int64_t>(random.below(random.below(2) == 0 ? 41 : 200'001)) - 20; };
  const std::int64_t a = pick(), b = pick();
  const std::string left = number(a), right = number(b);
  RC_ASSERT(answer(left + "<" + right) == (a < b ? "true" : "false"));
  RC_ASSERT(answer(left + "==" + right) == (a == b ? "true" : "false"));
  RC_ASSERT(answer(left + ">=" + right) == (a >= b ? "true" : "false"));
}

}  // namespace
}  // namespace rota::model
