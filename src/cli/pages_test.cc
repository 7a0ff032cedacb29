// The texts that are made from the subcommands' descriptions: the pages in docs/, and the completion scripts.
#include "cli/pages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "base/source_dir.h"
#include "cli/subcommands.h"

namespace rota::cli {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// With --help, --json and --quiet, which every page lists.
std::vector<Option> options_of(const Subcommand& subcommand) {
  static CommonFlags flags;
  return all_options(subcommand, &flags);
}

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Describes the first line in which the page differs from what it should be; empty if there is none.
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

// C-2: the pages in docs/ describe the program as it is.
TEST(Pages, AreUpToDate) {
  const std::string root = kSourceDir;
  EXPECT_EQ(first_difference(read(root + "/docs/cli.md"), markdown_page(listed_subcommands())), "")
      << "docs/cli.md is out of date; print it again: rota help-page markdown > docs/cli.md";
  EXPECT_EQ(first_difference(read(root + "/docs/man/rota.1"), man_page(listed_subcommands())), "")
      << "docs/man/rota.1 is out of date; print it again: rota help-page man > docs/man/rota.1";
}

// The options in an example are options of its subcommand; what comes before `rota` or after `--` belongs to other
// programs.
TEST(Pages, ExamplesUseWhatThereIs) {
  for (const Subcommand& each : listed_subcommands()) {
    std::vector<std::string> known;
    for (const Option& option : options_of(each)) known.insert(known.end(), option.names.begin(), option.names.end());
    for (const std::string& example : each.examples) {
      std::istringstream words(example.substr(example.find("rota " + each.name)));
      for (std::string word; words >> word && word != "|" && word != "#" && word != ">" && word != "--";) {
        if (!word.starts_with('-')) continue;
        EXPECT_THAT(known, Contains(word)) << example;
      }
    }
  }
}

// C-2: every subcommand has a meaning in the same form, an example of its own, and --json.
TEST(Pages, EverySubcommandHasAnExampleAndJson) {
  for (const Subcommand& each : listed_subcommands()) {
    ASSERT_FALSE(each.examples.empty()) << each.name;
    for (const std::string& example : each.examples) EXPECT_THAT(example, HasSubstr("rota " + each.name));
    EXPECT_FALSE(each.meaning.ends_with('.')) << each.name << ": the pages add the full stop";
    bool json = false;
    for (const Option& option : options_of(each)) {
      json = json || option.name() == "--json";
      EXPECT_FALSE(option.meaning.empty()) << each.name << " " << option.names.front();
      EXPECT_EQ(option.value.empty(), option.flag != nullptr) << each.name << " " << option.names.front();
    }
    // A daemon prints nothing but its log, which has --log-format json. The others print a script, a picture, an
    // address, a sentence, or what the commands of the user print.
    const std::set<std::string, std::less<>> others{"host", "worker", "completion", "density", "view", "clean", "each"};
    EXPECT_TRUE(json || others.contains(each.name)) << each.name;
  }
}

// C-2: a completion script has every subcommand and option, and its quotes are balanced whatever the texts contain.
TEST(Completion, HasEverySubcommandAndOption) {
  const std::vector<Subcommand> all = listed_subcommands();
  const std::string bash = bash_completion(all);
  const std::string zsh = zsh_completion(all);
  const std::string fish = fish_completion(all);
  for (const Subcommand& each : all) {
    EXPECT_THAT(bash, HasSubstr("    " + each.name + ")\n"));
    EXPECT_THAT(zsh, HasSubstr("        " + each.name + ")\n"));
    EXPECT_THAT(fish, HasSubstr(" -a " + each.name + " -d "));
    for (const Option& option : options_of(each)) {
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
    // Outside of quotes a backslash escapes any character; inside of them it escapes none, but _arguments reads it.
    if (zsh[i] == '\\' && i + 1 < zsh.size() && !(in_quotes && zsh[i + 1] == '\'')) {
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
