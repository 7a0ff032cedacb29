// The parser of settings files: values and positions, what is refused, that it continues after an error, random bytes.
// Contract: H-4
#include "workflow/settings_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/prng.h"
#include "workflow/settings_file_testing.h"

namespace rota::workflow {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

SettingsFile flatten(std::string_view text) { return parse_settings_file("f", text); }

std::vector<std::string> pairs(const SettingsFile& contents) {
  std::vector<std::string> out;
  for (const auto& entry : contents.entries) {
    std::string text = entry.key + "=" + entry.text;
    for (const std::string& item : entry.items) text.append("[").append(item).append("]");
    out.push_back(text + "@" + entry.where);
  }
  return out;
}

TEST(SettingsFileTest, GroupsBecomeDottedNames) {
  const auto contents = flatten("a:\n  b:\n    c: 1\n  d: two words\ne.f: '3'\ng: [x, \"y\"]\nh: []\n");
  EXPECT_THAT(contents.errors, IsEmpty());
  EXPECT_THAT(pairs(contents),
              ElementsAre("a.b.c=1@f:3:8", "a.d=two words@f:4:6", "e.f=3@f:5:6", "g=[x][y]@f:6:4", "h=@f:7:4"));
}

TEST(SettingsFileTest, EmptyFilesAreFine) {
  for (const char* text : {"", "\n", "# only a comment\n", "---\n", "{}", "~"}) {
    const auto contents = flatten(text);
    EXPECT_THAT(contents.errors, IsEmpty()) << text;
    EXPECT_THAT(contents.entries, IsEmpty()) << text;
  }
}

TEST(SettingsFileTest, EachProblemIsPlacedAndTheRestIsRead) {
  const auto contents = flatten(
      "a: &x 1\n"
      "b: *x\n"
      "c: !!int 5\n"
      "d:\n"
      "e: [1, [2], {f: 3}, ~, 4]\n"
      "[g, h]: 1\n"
      "{i: j}: {k: l}\n"
      "m: 2\n");
  EXPECT_THAT(
      contents.errors,
      ElementsAre("f:2:4: aliases are not allowed in a settings file", "f:3:4: tags are not allowed in a settings file",
                  "f:4:3: d has no value; give it one or remove the line", "f:5:8: a list holds plain values only",
                  "f:5:13: a list holds plain values only", "f:5:21: a list item has no value",
                  "f:6:1: a name must be plain text", "f:7:1: a name must be plain text"));
  EXPECT_THAT(pairs(contents), ElementsAre("a=1@f:1:4", "e=[1][4]@f:5:4", "m=2@f:8:4"));
}

TEST(SettingsFileTest, OneMappingInOneDocument) {
  EXPECT_THAT(flatten("- a\n- b\n").errors, ElementsAre("f:1:1: a settings file is a mapping of names to values"));
  EXPECT_THAT(flatten("text").errors, ElementsAre("f:1:1: a settings file is a mapping of names to values"));
  EXPECT_THAT(flatten("a: 1\n---\nb: 2\n").errors, ElementsAre("f:2:1: a settings file has one document only"));
}

TEST(SettingsFileTest, SyntaxErrorsHaveAPlace) {
  EXPECT_THAT(flatten("a: 1\nb: [1\nc: 2\n").errors, SizeIs(1));
  EXPECT_THAT(flatten("a: 1\n\tb: 2\n").errors,
              ElementsAre("f:2:1: found a tab character that violates indentation while scanning a plain scalar"));
  EXPECT_THAT(flatten("a: \xff\n").errors, ElementsAre("f: byte 3: invalid leading UTF-8 octet"));
  EXPECT_THAT(pairs(flatten("a: 1\nb: 2\nc: @\n")), ElementsAre("a=1@f:1:4", "b=2@f:2:4"));
}

TEST(SettingsFileTest, DepthIsBounded) {
  std::string deep;
  for (int i = 0; i < 40; ++i) deep += "{a: ";
  deep += "1";
  for (int i = 0; i < 40; ++i) deep += "}";
  const auto contents = flatten("x: 1\ny: " + deep + "\nz: 2\n");
  EXPECT_THAT(contents.errors, SizeIs(1));
  EXPECT_THAT(pairs(contents), SizeIs(2));
  flatten(std::string(500'000, '['));  // Must end, in bounded memory and stack.
  flatten(std::string(100'000, '{'));
}

TEST(SettingsFileTest, DuplicatesAreErrors) {
  const testing_support::ExampleSettings example;
  const SettingsLoad load = load_settings(
      example.table, {.files = {flatten("fiber: {workers: 1}\nfiber.workers: 2\nfiber: {workers: 3}\n")}});
  EXPECT_THAT(load.errors, ElementsAre("f:2:16: fiber.workers was given already at f:1:18",
                                       "f:3:18: fiber.workers was given already at f:1:18"));
  EXPECT_EQ(load.settings.get(example.workers), 1);
}

TEST(SettingsFileTest, EveryTypeFromAFile) {
  const testing_support::ExampleSettings example;
  const SettingsLoad result = load_settings(example.table, {.files = {parse_settings_file("rota.yaml", R"(# comment
cli: {color: no}
fiber:
  workers: 16
  offset: "7"
  stack_bytes: 16 KiB
fleet.ratio: 0.75
host:
  name: 'quoted'
worker:
  grace: 2s
flow: {mode: threadpool}
bus:
  hosts: ["one", two, 'with, comma']
)")}});
  EXPECT_EQ(testing_support::violation(result), "");
  EXPECT_THAT(result.errors, IsEmpty());
  EXPECT_EQ(result.settings.get(example.color), false);
  EXPECT_EQ(result.settings.get(example.workers), 16);
  EXPECT_EQ(result.settings.get(example.offset), 7);
  EXPECT_EQ(result.settings.get(example.ratio), 0.75);
  EXPECT_EQ(result.settings.get(example.name), "quoted");
  EXPECT_EQ(result.settings.get(example.grace), 2s);
  EXPECT_EQ(result.settings.get(example.stack).count, 16384U);
  EXPECT_EQ(result.settings.get(example.mode), testing_support::Mode::kThreadpool);
  EXPECT_THAT(result.settings.get(example.hosts), ElementsAre("one", "two", "with, comma"));
  EXPECT_EQ(result.settings.origin(example.workers).to_string(), "file rota.yaml:4:12");
  EXPECT_EQ(result.settings.origin(example.ratio).to_string(), "file rota.yaml:7:14");
}

TEST(SettingsFileTest, FilesAreReadFromDisk) {
  const testing_support::ExampleSettings example;
  const std::string path = testing::TempDir() + "/rota_settings_test_" + std::to_string(::getpid()) + ".yaml";
  std::ofstream(path) << "fiber.workers: 9\n";
  const auto file = read_settings_file(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(load_settings(example.table, {.files = {*file}}).settings.get(example.workers), 9);
  std::ofstream(path) << std::string((std::size_t{1} << 20) + 1, ' ');
  EXPECT_EQ(read_settings_file(path).code(), ErrorCode::kTooLarge);
  EXPECT_EQ(flatten(std::string((std::size_t{1} << 20) + 1, ' ')).errors.size(), 1U);
  std::filesystem::remove(path);
  EXPECT_EQ(read_settings_file(path).code(), ErrorCode::kNotFound);
  EXPECT_EQ(read_settings_file(testing::TempDir()).code(), ErrorCode::kIoError);
}

// The same inputs on every machine; the fuzzer goes further.
TEST(SettingsFuzzTest, RandomBytesNeverGetPastTheChecks) {
  Prng prng(20240501);
  const std::vector<std::string> words = {"fiber",
                                          "workers",
                                          "fiber.workers",
                                          ": ",
                                          "\n",
                                          "  ",
                                          "[",
                                          "]",
                                          "{",
                                          "}",
                                          ", ",
                                          "- ",
                                          "&a ",
                                          "*a",
                                          "!!x ",
                                          "'",
                                          "\"",
                                          "#",
                                          "1",
                                          "-5",
                                          "10s",
                                          "8KiB",
                                          "true",
                                          "--fiber-workers",
                                          "--no-cli-color",
                                          "=",
                                          "--stack",
                                          "threadpool",
                                          std::string(1, '\0'),
                                          "\xff",
                                          "|\n",
                                          "? ",
                                          "---\n",
                                          "~",
                                          "\t",
                                          "%"};
  for (int round = 0; round < 4000; ++round) {
    std::string bytes;
    const std::uint64_t length = prng.below(60);
    for (std::uint64_t i = 0; i < length; ++i) {
      if (prng.chance(1, 4)) {
        bytes.push_back(static_cast<char>(prng.below(256)));
      } else {
        bytes += words[prng.below(words.size())];
      }
    }
    ASSERT_EQ(load_bytes(bytes), "") << "round " << round << ": " << testing::PrintToString(bytes);
  }
}

}  // namespace
}  // namespace rota::workflow
