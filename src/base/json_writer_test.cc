// JsonWriter writes exactly the JSON that its calls describe, and refuses calls that describe none.
#include "base/json_writer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace rota {
namespace {

TEST(JsonWriter, WritesNestedContainersWithCommasOnlyBetween) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().field("name", "train").field("attempt", 2);
  json.key("needs").begin_array().value("load").value("split").end_array();
  json.key("none").begin_array().end_array().key("empty").begin_object().end_object();
  json.key("rows").begin_array();
  json.begin_object().field("a", 1).end_object().begin_array().value(2).value(3).end_array().null();
  json.end_array().field("last", true).end_object();
  EXPECT_EQ(out, R"({"name":"train","attempt":2,"needs":["load","split"],"none":[],"empty":{},)"
                 R"("rows":[{"a":1},[2,3],null],"last":true})");
  EXPECT_TRUE(nlohmann::json::accept(out));
}

TEST(JsonWriter, AppendsToWhatTheStringHolds) {
  std::string out = "data: ";
  JsonWriter(out).value("x");
  EXPECT_EQ(out, "data: \"x\"");
}

TEST(JsonWriter, WritesEveryKindOfValue) {
  std::string out;
  JsonWriter json(out);
  const std::string text = "a \"b\"\n\xff";
  json.begin_array().value(text).value(std::string_view("v")).value("c").value(true).value(false).null();
  json.value(std::numeric_limits<std::int64_t>::min()).value(std::numeric_limits<std::uint64_t>::max());
  json.value(std::uint8_t{7}).value(short{-3}).value(0).raw("1.5").raw("{\"k\":[]}").end_array();
  EXPECT_EQ(
      out,
      "[\"a \\\"b\\\"\\n\\ufffd\",\"v\",\"c\",true,false,null,-9223372036854775808,18446744073709551615,7,-3,0,1.5,"
      "{\"k\":[]}]");
}

TEST(JsonWriter, EscapesKeysAndKeepsRawFields) {
  std::string out;
  JsonWriter json(out);
  json.begin_object().field("a\"b", std::string("x")).raw_field("r", "[1,2]").field("b", false).end_object();
  EXPECT_EQ(out, R"({"a\"b":"x","r":[1,2],"b":false})");
}

TEST(JsonWriter, NestsDeeply) {
  std::string out;
  JsonWriter json(out);
  for (int i = 0; i < 1000; ++i) json.begin_array();
  for (int i = 0; i < 1000; ++i) json.end_array();
  EXPECT_EQ(out, std::string(1000, '[') + std::string(1000, ']'));
}

TEST(JsonWriter, AnExceptionMayLeaveTheValueIncomplete) {
  std::string out;
  EXPECT_THROW(
      {
        JsonWriter json(out);
        json.begin_object();
        throw std::runtime_error("a lookup failed");
      },
      std::runtime_error);
}

using JsonWriterDeathTest = testing::Test;

TEST(JsonWriterDeathTest, RefusesCallsThatFormNoValue) {
  std::string out;
  EXPECT_DEATH(JsonWriter(out).begin_object(), "the JSON value is incomplete");
  EXPECT_DEATH(JsonWriter{out}, "the JSON value is incomplete");
  EXPECT_DEATH(JsonWriter(out).begin_object().end_array(), "no matching container");
  EXPECT_DEATH(JsonWriter(out).end_object(), "no matching container");
  EXPECT_DEATH(JsonWriter(out).begin_object().value(1), "a member without a key");
  EXPECT_DEATH(JsonWriter(out).begin_object().field("a", 1).value(1), "a member without a key");
  EXPECT_DEATH(JsonWriter(out).begin_object().key("a").end_object(), "a key without a value");
  EXPECT_DEATH(JsonWriter(out).begin_object().key("a").key("b"), "no member can start here");
  EXPECT_DEATH(JsonWriter(out).begin_array().key("a"), "no member can start here");
  EXPECT_DEATH(JsonWriter(out).value(1).value(2), "a second value after the end of the first");
  EXPECT_DEATH(JsonWriter(out).value(static_cast<const char*>(nullptr)), "a null pointer is not a JSON string");
}

}  // namespace
}  // namespace rota
