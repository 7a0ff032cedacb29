// The printed forms of settings: help, documentation, and the table of all values with their origins.
// Contract: H-4
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/settings.h"
#include "base/settings_example.h"

namespace rota {
namespace {

using testing::HasSubstr;

class SettingsPrintTest : public testing::Test, protected testing_support::ExampleSettings {};

TEST_F(SettingsPrintTest, HelpHasEveryRowAndKeepsItsWidth) {
  const std::string help = table.help(60);
  for (const SettingRow& row : table.rows()) {
    EXPECT_THAT(help, HasSubstr(row.flag));
    EXPECT_THAT(help, HasSubstr(row.environment.front()));
  }
  std::size_t start = 0;
  while (start < help.size()) {
    const std::size_t end = help.find('\n', start);
    EXPECT_LE(end - start, 60U) << help.substr(start, end - start);
    start = end + 1;
  }
  EXPECT_TRUE(
      help.starts_with("cli:\n"
                       "  --[no-]cli-color\n"
                       "      colours on a terminal (true or false; default true;\n"
                       "      ROTA_CLI_COLOR)\n"
                       "\n"
                       "fiber:\n"
                       "  --fiber-workers INT\n"
                       "      threads that run fibers (1 to 256 threads; default 4;\n"
                       "      ROTA_FIBER_WORKERS)\n"))
      << help;
}

TEST_F(SettingsPrintTest, MarkdownIsATablePerGroup) {
  const std::string markdown = table.markdown();
  EXPECT_THAT(markdown, HasSubstr("## fiber\n\n"
                                  "| setting | type | default | allowed | flag | environment | meaning |\n"
                                  "|---|---|---|---|---|---|---|\n"
                                  "| `fiber.workers` | int | 4 | 1 to 256 threads | `--fiber-workers INT` | "
                                  "`ROTA_FIBER_WORKERS` | threads that run fibers |\n"));
  EXPECT_THAT(markdown, HasSubstr("| `fiber.stack_bytes` | bytes | 8KiB | 4KiB to 1MiB | `--stack BYTES` | "
                                  "`ROTA_FIBER_STACK_BYTES` | stack of a fiber |\n"));
  EXPECT_THAT(markdown,
              HasSubstr("`ROTA_FLOW_MODE`, `STV_SCHEDULER` | which scheduler (a bad value in the environment"));
  EXPECT_THAT(markdown, HasSubstr("share of reuse \\| waste"));  // A bar in the text does not break the table.
  std::size_t rows = 0;
  const std::string start = "\n| `";
  for (std::size_t at = markdown.find(start); at != std::string::npos; at = markdown.find(start, at + 1)) ++rows;
  EXPECT_EQ(rows, table.rows().size());
}

TEST_F(SettingsPrintTest, TheTextTableShowsEachValueWithItsOrigin) {
  SettingSources sources;
  sources.arguments = {"--fiber-workers=8"};
  sources.environment = {{"ROTA_WORKER_GRACE", "1500ms"}};
  sources.files.emplace_back().entries = {
      {.key = "host.name", .where = "rota.yaml:1:12"},
      {.key = "bus.hosts", .where = "rota.yaml:2:12", .is_list = true, .items = {"a", "b"}}};
  const std::string text = load_settings(table, sources).settings.to_text();
  EXPECT_EQ(text,
            "SETTING            VALUE    ORIGIN\n"
            "cli.color          true     default\n"
            "fiber.workers      8        flag --fiber-workers\n"
            "fiber.offset       0        default\n"
            "fleet.ratio        0.5      default\n"
            "host.name          \"\"       file rota.yaml:1:12\n"
            "host.token         \"\"       default\n"
            "worker.grace       1s500ms  environment ROTA_WORKER_GRACE\n"
            "fiber.stack_bytes  8KiB     default\n"
            "flow.mode          simple   default\n"
            "bus.hosts          a,b      file rota.yaml:2:12\n");
}

TEST_F(SettingsPrintTest, TheJsonHasTypedValues) {
  SettingSources sources;
  sources.arguments = {"--fiber-workers=8", "--host-token=x", "--host-name=\"q\""};
  const std::string json = load_settings(table, sources).settings.to_json();
  EXPECT_THAT(json, HasSubstr(R"({"name":"cli.color","type":"bool","value":true,"origin":"default","default":true,)"));
  EXPECT_THAT(json, HasSubstr(R"({"name":"fiber.workers","type":"int","value":8,"origin":"flag",)"
                              R"("where":"--fiber-workers","default":4,"allowed":"1 to 256 threads",)"
                              R"("unit":"threads","flag":"--fiber-workers","environment":["ROTA_FIBER_WORKERS"],)"
                              R"("meaning":"threads that run fibers"})"));
  EXPECT_THAT(json, HasSubstr(R"("value":"10s","nanoseconds":10000000000,"origin":"default")"));
  EXPECT_THAT(json, HasSubstr(R"("value":"8KiB","bytes":8192,)"));
  EXPECT_THAT(json, HasSubstr(R"("value":["localhost"],)"));
  EXPECT_THAT(json, HasSubstr(R"("value":"\"q\"")"));
  EXPECT_THAT(json, HasSubstr(R"x("name":"host.token","type":"string","value":"(secret)",)x"));
  EXPECT_TRUE(json.starts_with("[\n{") && json.ends_with("}\n]\n"));
}

}  // namespace
}  // namespace rota
