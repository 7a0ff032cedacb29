// Settings from all sources: precedence, origins, and messages about wrong values.
// Contract: H-4
#include "base/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/settings_example.h"

namespace rota {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::file_with;
using testing_support::Mode;
using Kind = SettingOrigin::Kind;

class SettingsTest : public testing::Test, protected testing_support::ExampleSettings {
 protected:
  SettingsLoad load(std::vector<std::string> arguments, Environment environment = {}, SettingsFile file = {}) {
    const SettingSources sources{std::move(arguments), std::move(environment), {std::move(file)}, false};
    SettingsLoad result = load_settings(table, sources);
    EXPECT_EQ(testing_support::violation(result), "");
    return result;
  }
};

TEST_F(SettingsTest, DefaultsWithoutAnySource) {
  const SettingsLoad result = load({});
  EXPECT_TRUE(result.ok());
  EXPECT_TRUE(result.status().ok());
  EXPECT_EQ(result.settings.get(color), true);
  EXPECT_EQ(result.settings.get(workers), 4);
  EXPECT_EQ(result.settings.get(ratio), 0.5);
  EXPECT_EQ(result.settings.get(name), "rota");
  EXPECT_EQ(result.settings.get(grace), 10s);
  EXPECT_EQ(result.settings.get(stack).count, 8192U);
  EXPECT_EQ(result.settings.get(mode), Mode::kSimple);
  EXPECT_THAT(result.settings.get(hosts), ElementsAre("localhost"));
  EXPECT_EQ(result.settings.origin(workers), SettingOrigin{});
  EXPECT_EQ(result.settings.origin(workers).to_string(), "default");
}

TEST_F(SettingsTest, EveryTypeFromFlags) {
  const SettingsLoad result = load({"--no-cli-color", "--fiber-workers", "8", "--fiber-offset", "-5",
                                    "--fleet-ratio=0.25", "--host-name=a=b", "--worker-grace", "1m30s", "--stack",
                                    "64KiB", "--flow-mode", "threadpool", "--bus-hosts", "a, b", "--bus-hosts=c"});
  EXPECT_THAT(result.errors, IsEmpty());
  EXPECT_EQ(result.settings.get(color), false);
  EXPECT_EQ(result.settings.get(workers), 8);
  EXPECT_EQ(result.settings.get(offset), -5);
  EXPECT_EQ(result.settings.get(ratio), 0.25);
  EXPECT_EQ(result.settings.get(name), "a=b");
  EXPECT_EQ(result.settings.get(grace), 90s);
  EXPECT_EQ(result.settings.get(stack).count, 65536U);
  EXPECT_EQ(result.settings.get(mode), Mode::kThreadpool);
  EXPECT_THAT(result.settings.get(hosts), ElementsAre("a", "b", "c"));
  EXPECT_EQ(result.settings.origin(stack).to_string(), "flag --stack");
  EXPECT_EQ(result.settings.origin(color).to_string(), "flag --no-cli-color");
}

TEST_F(SettingsTest, EveryTypeFromTheEnvironment) {
  const SettingsLoad result = load({}, {{"ROTA_CLI_COLOR", "off"},
                                        {"ROTA_FIBER_WORKERS", "2"},
                                        {"ROTA_FIBER_OFFSET", "-9223372036854775808"},
                                        {"ROTA_FLEET_RATIO", "1e-3"},
                                        {"ROTA_HOST_NAME", "x"},
                                        {"ROTA_WORKER_GRACE", "250ms"},
                                        {"ROTA_FIBER_STACK_BYTES", "4096"},
                                        {"STV_SCHEDULER", "threadpool"},
                                        {"ROTA_BUS_HOSTS", "x,y"},
                                        {"PATH", "/bin"}});
  EXPECT_THAT(result.errors, IsEmpty());
  EXPECT_THAT(result.warnings, IsEmpty());
  EXPECT_EQ(result.settings.get(color), false);
  EXPECT_EQ(result.settings.get(workers), 2);
  EXPECT_EQ(result.settings.get(offset), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(result.settings.get(ratio), 1e-3);
  EXPECT_EQ(result.settings.get(name), "x");
  EXPECT_EQ(result.settings.get(grace), 250ms);
  EXPECT_EQ(result.settings.get(stack).count, 4096U);
  EXPECT_EQ(result.settings.get(mode), Mode::kThreadpool);
  EXPECT_EQ(result.settings.origin(mode).to_string(), "environment STV_SCHEDULER");
  EXPECT_THAT(result.settings.get(hosts), ElementsAre("x", "y"));
}

TEST_F(SettingsTest, FlagBeatsEnvironmentBeatsFileBeatsDefault) {
  const SettingsFile file = file_with({{"fiber.workers", "rota.yaml:1:18", "10"},
                                       {"fiber.offset", "rota.yaml:1:30", "10"},
                                       {"host.name", "f:2:12", "file"}});
  const SettingsLoad result =
      load({"--fiber-workers=12"}, {{"ROTA_FIBER_WORKERS", "11"}, {"ROTA_FIBER_OFFSET", "11"}}, file);
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.settings.get(workers), 12);
  EXPECT_EQ(result.settings.origin(workers).kind, Kind::kFlag);
  EXPECT_EQ(result.settings.get(offset), 11);
  EXPECT_EQ(result.settings.origin(offset).kind, Kind::kEnvironment);
  EXPECT_EQ(result.settings.get(name), "file");
  EXPECT_EQ(result.settings.origin(name).kind, Kind::kFile);
  EXPECT_EQ(result.settings.origin(grace).kind, Kind::kDefault);
}

TEST_F(SettingsTest, ALaterFileBeatsAnEarlierOneAndTheLastFlagWins) {
  SettingSources sources;
  sources.files = {file_with({{"fiber.workers", "system.yaml:1:16", "1"}, {"host.name", "system.yaml:2:12", "sys"}}),
                   file_with({{"fiber.workers", "user.yaml:1:16", "2"}})};
  sources.arguments = {"--fiber-offset=1", "--fiber-offset=2"};
  const SettingsLoad result = load_settings(table, sources);
  EXPECT_EQ(result.settings.get(workers), 2);
  EXPECT_EQ(result.settings.origin(workers).to_string(), "file user.yaml:1:16");
  EXPECT_EQ(result.settings.get(name), "sys");
  EXPECT_EQ(result.settings.get(offset), 2);
}

TEST_F(SettingsTest, BadValuesNameSettingValueOriginAndWhatIsAllowed) {
  SettingsFile file = file_with({{"fiber.stack_bytes", "rota.yaml:2:16", "1TiB"},
                                 {"flow.mode", "rota.yaml:3:12", "fast"},
                                 {"host.name", "rota.yaml:4:12", "much_too_long_a_name"}});
  file.entries.push_back(
      {.key = "bus.hosts", .where = "rota.yaml:5:12", .is_list = true, .items = {"a", "b", "c", "d", "e"}});
  file.entries.push_back({.key = "fiber.offset", .where = "rota.yaml:6:15", .is_list = true, .items = {"1"}});
  const SettingsLoad result = load({"--fiber-workers", "0", "--worker-grace=soon"},
                                   {{"ROTA_FLEET_RATIO", "2"}, {"ROTA_CLI_COLOR", "maybe"}}, file);
  EXPECT_THAT(
      result.errors,
      ElementsAre(
          "file rota.yaml:2:16: fiber.stack_bytes: \"1TiB\" is too large; allowed: 4KiB to 1MiB",
          "file rota.yaml:3:12: flow.mode: \"fast\" is not one of the names; allowed: one of simple, threadpool",
          "file rota.yaml:4:12: host.name: \"much_too_long_a_name\" is too long; allowed: text of at most 16 bytes",
          "file rota.yaml:5:12: bus.hosts: \"a,b,c,d,e\" has too many items; allowed: at most 4 items, separated by "
          "commas",
          "file rota.yaml:6:15: fiber.offset: a list was given; allowed: any int",
          "environment ROTA_CLI_COLOR: cli.color: \"maybe\" is neither true nor false; allowed: true or false",
          "environment ROTA_FLEET_RATIO: fleet.ratio: \"2\" is too large; allowed: 0 to 1",
          "flag --fiber-workers: fiber.workers: \"0\" is too small; allowed: 1 to 256 threads",
          "flag --worker-grace: worker.grace: \"soon\" is not a duration; write it like 10ms, 2s or 1m30s; allowed: 0s "
          "to 1h"));
  EXPECT_EQ(result.settings.get(workers), 4);  // What was bad changed nothing.
  const Error error = result.status().error();
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(error.details.size(), result.errors.size());
  EXPECT_THAT(error.message, HasSubstr("fleet.ratio"));
}

TEST_F(SettingsTest, BadNumbersAreToldApart) {
  const std::pair<const char*, const char*> cases[] = {
      {"--fiber-offset=x", "is not a whole number"},
      {"--fiber-offset=1.5", "is not a whole number"},
      {"--fiber-offset=", "is not a whole number"},
      {"--fiber-offset=9223372036854775808", "is out of range"},
      {"--fleet-ratio=nan", "is not a number"},
      {"--fleet-ratio=inf", "is not a number"},
      {"--fleet-ratio=1e999", "is out of range"},
      {"--fleet-ratio=-0.1", "is too small"},
      {"--fleet-ratio=half", "is not a number"},
      {"--bus-hosts=a,,b", "has an empty item"},
      {"--stack=1K", "is not a size"},
      {"--worker-grace=2h", "is too large"},
  };
  for (const auto& [argument, why] : cases) {
    EXPECT_THAT(load({argument}).errors, ElementsAre(HasSubstr(why))) << argument;
  }
}

TEST_F(SettingsTest, UnknownNamesSuggestTheNearest) {
  const SettingsLoad result =
      load({"--fiber-wrokers=3", "--no-cli-colour", "--zzz", "--fiber.workers", "5"}, {{"ROTA_WORKER_GRACES", "1s"}},
           file_with({{"fiber.worker", "rota.yaml:1:17", "3"},
                      {"worker.grace", "rota.yaml:2:17", "1s"},
                      {"worker.grcae", "rota.yaml:2:28", "2s"},
                      {"host", "rota.yaml:3:7", "7"},
                      {"unrelated", "rota.yaml:4:12", "1"}}));
  EXPECT_THAT(result.errors, ElementsAre("rota.yaml:1:17: fiber.worker: no such setting; did you mean fiber.workers?",
                                         "rota.yaml:2:28: worker.grcae: no such setting; did you mean worker.grace?",
                                         "rota.yaml:3:7: host is a group of settings and has no value of its own",
                                         "rota.yaml:4:12: unrelated: no such setting",
                                         "flag --fiber-wrokers: no such flag; did you mean --fiber-workers?",
                                         "flag --no-cli-colour: no such flag; did you mean --no-cli-color?",
                                         "flag --zzz: no such flag",
                                         "flag --fiber.workers: no such flag; did you mean --fiber-workers?"));
  EXPECT_THAT(result.warnings,
              ElementsAre("environment ROTA_WORKER_GRACES: no such setting; did you mean ROTA_WORKER_GRACE?"));
}

TEST_F(SettingsTest, FlagsThatLackOrRefuseAValue) {
  EXPECT_THAT(load({"--fiber-workers"}).errors,
              ElementsAre("flag --fiber-workers: needs a value; allowed: 1 to 256 threads"));
  EXPECT_THAT(load({"--fiber-workers", "--cli-color"}).errors,
              ElementsAre("flag --fiber-workers: needs a value; allowed: 1 to 256 threads"));
  EXPECT_THAT(load({"--no-cli-color=yes"}).errors,
              ElementsAre("flag --no-cli-color: takes no value; write --cli-color=yes"));
  EXPECT_THAT(load({"--no-fiber-workers"}).errors, ElementsAre(HasSubstr("no such flag")));
  EXPECT_FALSE(load({"--cli-color=false"}).settings.get(color));
  EXPECT_TRUE(load({"--no-cli-color", "--cli-color"}).settings.get(color));
}

TEST_F(SettingsTest, AListFlagGivenAgainIsCheckedAgain) {
  const SettingsLoad result = load({"--bus-hosts=a,b,c", "--bus-hosts=d,,e", "--bus-hosts=f,g", "--bus-hosts=h"});
  EXPECT_THAT(
      result.errors,
      ElementsAre(
          "flag --bus-hosts: bus.hosts: \"d,,e\" has an empty item; allowed: at most 4 items, separated by commas",
          "flag --bus-hosts: bus.hosts: \"a,b,c,f,g\" has too many items; allowed: at most 4 items, separated by "
          "commas"));
  EXPECT_THAT(result.settings.get(hosts), ElementsAre("a", "b", "c", "h"));
}

TEST_F(SettingsTest, WhatIsNoFlagIsLeftInOrder) {
  const SettingsLoad result = load({"run", "--cli-color", "file.yaml", "-v", "--", "--fiber-workers", "x"});
  EXPECT_TRUE(result.ok());
  EXPECT_THAT(result.rest, ElementsAre("run", "file.yaml", "-v", "--fiber-workers", "x"));

  SettingSources sources;
  sources.keep_unknown_flags = true;
  sources.arguments = {"run", "--json", "--fiber-workers=2", "--", "a"};
  const SettingsLoad kept = load_settings(table, sources);
  EXPECT_TRUE(kept.ok());
  EXPECT_THAT(kept.rest, ElementsAre("run", "--json", "--", "a"));
  EXPECT_EQ(kept.settings.get(workers), 2);
}

TEST_F(SettingsTest, LenientVariablesWarnAndFallBack) {
  const SettingsLoad result =
      load({}, {{"STV_SCHEDULER", "fastest"}}, file_with({{"flow.mode", "rota.yaml:1:12", "threadpool"}}));
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.settings.get(mode), Mode::kThreadpool);
  EXPECT_THAT(result.warnings,
              ElementsAre("environment STV_SCHEDULER: flow.mode: \"fastest\" is not one of the names; allowed: one of "
                          "simple, threadpool; ignored, the value is threadpool"));
}

TEST_F(SettingsTest, TheFirstOfSeveralVariablesCountsAndAnEmptyOneDoesNot) {
  EXPECT_EQ(load({}, {{"STV_SCHEDULER", "simple"}, {"ROTA_FLOW_MODE", "threadpool"}}).settings.get(mode),
            Mode::kThreadpool);
  const SettingsLoad result = load({}, {{"ROTA_FLOW_MODE", ""}, {"STV_SCHEDULER", "threadpool"}});
  EXPECT_EQ(result.settings.origin(mode).to_string(), "environment STV_SCHEDULER");
}

TEST_F(SettingsTest, SecretsAreNeverShown) {
  const SettingsLoad result = load({"--host-token=hunter2"});
  EXPECT_EQ(result.settings.get(token), "hunter2");
  EXPECT_THAT(result.settings.to_text(), testing::Not(HasSubstr("hunter2")));
  EXPECT_THAT(result.settings.to_json(), testing::Not(HasSubstr("hunter2")));
  EXPECT_THAT(result.settings.to_text(), HasSubstr("(secret)"));
  const SettingsLoad bad = load({"--host-token=" + std::string(5000, 'x')});
  EXPECT_THAT(bad.errors, ElementsAre("flag --host-token: host.token: the value is too long; allowed: text of at most "
                                      "4096 bytes"));
}

TEST_F(SettingsTest, AProgramMaySetValuesWithinTheSameLimits) {
  Settings settings(table);
  EXPECT_TRUE(settings.set(workers, 256).ok());
  EXPECT_EQ(settings.get(workers), 256);
  EXPECT_EQ(settings.origin(workers).to_string(), "program");
  EXPECT_EQ(settings.set(workers, 257).error().message,
            "program: fiber.workers: \"257\" is too large; allowed: 1 to 256 threads");
  EXPECT_EQ(settings.get(workers), 256);
  EXPECT_TRUE(settings.set(mode, Mode::kThreadpool).ok());
  EXPECT_EQ(settings.get(mode), Mode::kThreadpool);
  EXPECT_FALSE(settings.set(mode, static_cast<Mode>(1)).ok());
  EXPECT_FALSE(settings.set(ratio, std::numeric_limits<double>::quiet_NaN()).ok());
  EXPECT_TRUE(settings.set(grace, 1ms).ok());
  EXPECT_TRUE(settings.set(hosts, {"a"}).ok());
}

TEST_F(SettingsTest, MessagesStayOneBoundedLineWhateverTheValue) {
  const SettingsLoad result = load({"--fiber-workers=a\nb\x01" + std::string(10'000, 'z')});
  ASSERT_EQ(result.errors.size(), 1U);
  EXPECT_THAT(result.errors[0], HasSubstr("a\\x0ab\\x01zzz"));
  EXPECT_LT(result.errors[0].size(), 300U);
}

TEST_F(SettingsTest, TheProcessEnvironmentIsRead) {
  ASSERT_EQ(setenv("ROTA_FIBER_WORKERS", "33", 1), 0);
  const SettingsLoad result = load({}, current_environment());
  unsetenv("ROTA_FIBER_WORKERS");
  EXPECT_EQ(result.settings.get(workers), 33);
}

using SettingsDeathTest = SettingsTest;

TEST_F(SettingsDeathTest, WrongRowsAreBugs) {
  const auto add = [](auto&&... specs) {
    SettingsTable t;
    (t.add_int(specs, 1, 0, 10), ...);
  };
  using S = SettingSpec;
  EXPECT_DEATH(add(S{"a.b", "m"}, S{"a.b", "m"}), "the setting a.b is there twice");
  EXPECT_DEATH(add(S{"a.b", "m"}, S{"a_b", "m"}), "the flag --a-b is there twice");
  EXPECT_DEATH(add(S{"a.b", "m"}, S{.name = "c", .meaning = "m", .environment = {"ROTA_A_B"}}),
               "the variable ROTA_A_B is there twice");
  EXPECT_DEATH(add(S{"a", "m"}, S{"a.b", "m"}), "a group and a setting at once");
  EXPECT_DEATH(add(S{"x", "m"}, S{"no_x", "m"}), "can be mistaken for each other");
  EXPECT_DEATH(add(S{"A", "m"}), "'A' is no name for a setting");
  EXPECT_DEATH(add(S{"a..b", "m"}), "is no name for a setting");
  EXPECT_DEATH(add(S{"a", ""}), "has no meaning");
  EXPECT_DEATH(add(S{.name = "a", .meaning = "m", .flag = "-a b"}), "no name for a flag");
  EXPECT_DEATH(SettingsTable().add_int({"a", "m"}, 11, 0, 10), "the default of a is too large");
  SettingsTable other;
  const auto foreign = other.add_int({"a", "m"}, 1);
  const Settings settings(table);
  EXPECT_DEATH(static_cast<void>(settings.get(foreign)), "a handle of another table");
}

}  // namespace
}  // namespace rota
