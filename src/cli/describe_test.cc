// The command describes itself: pages that are checked in, and completions for shells.
#include "cli/describe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "cli/commands.h"

namespace rota::cli {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<VerbText> all_verbs() {
  CLI::App app("", "rota");
  Exit exit;
  add_commands(app, exit);
  return describe(app);
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The first line in which the page differs from what it should be; none if it does not.
std::string first_difference(const std::string& page, const std::string& wanted) {
  std::istringstream is(page);
  std::istringstream should_be(wanted);
  for (int number = 1;; ++number) {
    std::string a;
    std::string b;
    const bool more = static_cast<bool>(std::getline(is, a));
    const bool more_wanted = static_cast<bool>(std::getline(should_be, b));
    if (!more && !more_wanted) return {};
    if (more != more_wanted || a != b) return "line " + std::to_string(number) + " is '" + a + "', not '" + b + "'";
  }
}

// C-2: the pages say what the program does.
TEST(Pages, AreUpToDate) {
  const std::string root = ROTA_SOURCE_DIR;
  EXPECT_EQ(first_difference(read(root + "/docs/cli.md"), markdown_page(all_verbs())), "")
      << "docs/cli.md is old; write it anew: rota help-page markdown > docs/cli.md";
  EXPECT_EQ(first_difference(read(root + "/docs/man/rota.1"), man_page(all_verbs())), "")
      << "docs/man/rota.1 is old; write it anew: rota help-page man > docs/man/rota.1";
}

// The options in an example are options of its verb.
TEST(Pages, ExamplesUseWhatThereIs) {
  for (const VerbText& verb : all_verbs()) {
    std::vector<std::string> known;
    for (const OptionText& option : verb.options) known.insert(known.end(), option.names.begin(), option.names.end());
    for (const std::string& example : verb.examples) {
      std::istringstream words(example);
      for (std::string word; words >> word && word != "|" && word != "#" && word != ">";) {
        if (!word.starts_with('-')) continue;
        EXPECT_THAT(known, Contains(word)) << example;
      }
    }
  }
}

// C-2: every verb says what it does, in the same form, has an example that is about it, and JSON for programs.
TEST(Pages, EveryVerbHasAnExampleAndJson) {
  for (const VerbText& verb : all_verbs()) {
    ASSERT_FALSE(verb.examples.empty()) << verb.name;
    for (const std::string& example : verb.examples) EXPECT_THAT(example, HasSubstr("rota " + verb.name));
    EXPECT_FALSE(verb.meaning.ends_with('.')) << verb.name << ": the pages end the sentence";
    bool json = false;
    for (const OptionText& option : verb.options) {
      json = json || option.names.back() == "--json";
      EXPECT_FALSE(option.meaning.empty()) << verb.name << " " << option.names.front();
      EXPECT_NE(option.value, "TEXT") << verb.name << " " << option.names.front() << ": say what it takes";
    }
    EXPECT_TRUE(json || verb.name == "completion") << verb.name;
  }
}

TEST(Describe, OptionsAndTheirValues) {
  CLI::App app("", "rota");
  CLI::App* verb = app.add_subcommand("go", "Go");
  std::string text;
  std::vector<std::string> tasks;
  bool flag = false;
  verb->add_option("WHERE", text, "where");
  verb->add_option("TASK", tasks, "which");
  verb->add_option("-o,--output", text, "to")->option_text("FILE");
  verb->add_option("--how", text, "how")->option_text("fast|slow");
  verb->add_option("--in", text, "in")->option_text("DIR");
  verb->add_flag("-f,--follow", flag, "follow");
  verb->footer("A word.\n\nExamples:\n  rota go\n  rota go there   or there");
  app.add_subcommand("secret", "Secret")->group("");
  const std::vector<VerbText> verbs = describe(app);
  ASSERT_EQ(verbs.size(), 1U);
  EXPECT_EQ(verbs[0].usage(), "rota go [OPTIONS] [WHERE] [TASK...]");
  EXPECT_EQ(verbs[0].footer, "A word.");
  EXPECT_EQ(verbs[0].examples, (std::vector<std::string>{"rota go", "rota go there   or there"}));
  ASSERT_EQ(verbs[0].positionals.size(), 2U);
  EXPECT_EQ(verbs[0].positionals[0].takes, OptionText::Takes::kFile);
  EXPECT_TRUE(verbs[0].positionals[1].many);
  ASSERT_EQ(verbs[0].options.size(), 5U);  // With --help.
  EXPECT_EQ(verbs[0].options[1].names, (std::vector<std::string>{"-o", "--output"}));
  EXPECT_EQ(verbs[0].options[2].choices, (std::vector<std::string>{"fast", "slow"}));
  EXPECT_EQ(verbs[0].options[3].takes, OptionText::Takes::kFolder);
  EXPECT_EQ(verbs[0].options[4].takes, OptionText::Takes::kNothing);
}

// C-2: no verb and no option is left out of a completion, and quotes are balanced whatever the texts hold.
TEST(Completion, HasEveryVerbAndOption) {
  const std::vector<VerbText> verbs = all_verbs();
  const std::string bash = bash_completion(verbs);
  const std::string zsh = zsh_completion(verbs);
  const std::string fish = fish_completion(verbs);
  for (const VerbText& verb : verbs) {
    EXPECT_THAT(bash, HasSubstr("    " + verb.name + ")\n"));
    EXPECT_THAT(zsh, HasSubstr("        " + verb.name + ")\n"));
    EXPECT_THAT(fish, HasSubstr(" -a " + verb.name + " -d "));
    for (const OptionText& option : verb.options) {
      for (const std::string& name : option.names) {
        EXPECT_THAT(bash, HasSubstr(name));
        EXPECT_THAT(zsh, HasSubstr(name));
        EXPECT_THAT(fish, HasSubstr(name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1)));
      }
    }
  }
  for (const std::string& script : {bash, zsh, fish}) EXPECT_THAT(script, Not(HasSubstr("help-page")));
  // zsh: outside of quotes parentheses and brackets match; inside of them the brackets of a description do.
  bool in_quotes = false;
  int depth = 0;
  for (std::size_t i = 0; i < zsh.size(); ++i) {
    if (zsh[i] == '\\' && in_quotes && i + 1 < zsh.size() && zsh[i + 1] != '\'') {
      ++i;
    } else if (zsh[i] == '\'') {
      in_quotes = !in_quotes;
    } else if (in_quotes && (zsh[i] == '[' || zsh[i] == ']')) {
      depth += zsh[i] == '[' ? 1 : -1;
      EXPECT_TRUE(depth == 0 || depth == 1) << zsh.substr(i > 60 ? i - 60 : 0, 60);
    }
  }
  EXPECT_EQ(depth, 0);
}

}  // namespace
}  // namespace rota::cli
