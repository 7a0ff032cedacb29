// The command line: how words become options, and what is said about mistakes.
#include "cli/arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/output.h"

namespace rota::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Options {
  std::string file;
  std::vector<std::string> tasks;
  std::vector<std::string> policies;
  std::string folder;
  std::int64_t jobs = 0;
  int mode = 1;
  bool follow = false;
};

class ArgumentsTest : public ::testing::Test {
 protected:
  ArgumentsTest() {
    Subcommand go;
    go.name = "go";
    go.meaning = "Go somewhere";
    go.positionals = {required(positional("FILE", &options_.file, "a file")),
                      positionals("TASK", &options_.tasks, "tasks")};
    go.options = {flag("-f,--follow", &options_.follow, "follow"), text("--state", "DIR", &options_.folder, "a folder"),
                  texts("--policy", "POLICY", &options_.policies, "a policy"),
                  excluding(number("--jobs", &options_.jobs, 1, 8, "a number"), "--state"),
                  choice<int>("--mode", {{"slow", 1}, {"fast", 2}}, &options_.mode, "a mode")};
    go.json = "print JSON";
    go.examples = {"rota go there"};
    go.run = [this](Output& output) -> Result<int> {
      ++runs_;
      output.version("1.2.3");
      return 7;
    };
    Subcommand secret;
    secret.name = "secret";
    secret.hidden = true;
    secret.run = [](Output&) -> Result<int> { return Error{ErrorCode::kNotFound, "nothing there"}; };
    all_ = {go, secret};
  }

  int rota(const std::vector<std::string>& arguments) {
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int status = run_command(all_, arguments);
    out_ = ::testing::internal::GetCapturedStdout();
    err_ = ::testing::internal::GetCapturedStderr();
    return status;
  }
  // What is said about a mistake; nothing is run.
  std::string refused(const std::vector<std::string>& arguments) {
    EXPECT_EQ(rota(arguments), 2);
    EXPECT_EQ(out_, "");
    EXPECT_EQ(runs_, 0);
    EXPECT_THAT(err_, StartsWith("rota: "));
    return err_.substr(0, err_.size() - 1);
  }

  Options options_;
  std::vector<Subcommand> all_;
  int runs_ = 0;
  std::string out_;
  std::string err_;
};

TEST_F(ArgumentsTest, StoresWhatWasGiven) {
  EXPECT_EQ(rota({"go", "here", "a", "b", "-f", "--policy", "x", "--policy=y", "--mode", "fast", "--jobs", "8"}), 7);
  EXPECT_EQ(runs_, 1);
  EXPECT_EQ(options_.file, "here");
  EXPECT_EQ(options_.tasks, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(options_.policies, (std::vector<std::string>{"x", "y"}));
  EXPECT_TRUE(options_.follow);
  EXPECT_EQ(options_.mode, 2);
  EXPECT_EQ(options_.jobs, 8);
}

// C-2: the output is chosen by --json and --quiet.
TEST_F(ArgumentsTest, ChoosesTheOutput) {
  rota({"go", "here"});
  EXPECT_EQ(out_, "rota 1.2.3\n");
  rota({"go", "here", "--json"});
  EXPECT_EQ(out_, "{\"version\":\"1.2.3\"}\n");
  rota({"go", "here", "-q"});
  EXPECT_EQ(out_, "1.2.3\n");
}

// C-2: the exit status of an error is that of its code.
TEST_F(ArgumentsTest, ReturnsTheStatusOfAnError) {
  EXPECT_EQ(rota({"secret"}), 3);
  EXPECT_EQ(err_, "rota: nothing there\n");
}

// C-3: a message names the mistake and what would be right.
TEST_F(ArgumentsTest, ExplainsMistakes) {
  EXPECT_EQ(refused({"goo"}), "rota: unknown command 'goo'; did you mean 'go'?\nRota's subcommands are go");
  EXPECT_EQ(refused({"xyzzy"}), "rota: unknown command 'xyzzy'\nRota's subcommands are go");
  EXPECT_EQ(refused({}), "rota: which subcommand? Name one of go");
  EXPECT_THAT(refused({"--follow", "go"}), HasSubstr("unknown option '--follow'; write the subcommand first"));
  EXPECT_EQ(refused({"go"}), "rota: FILE is required; usage: rota go [OPTIONS] FILE [TASK...]");
  EXPECT_EQ(refused({"go", "--folow"}), "rota: unknown option '--folow' of `rota go`; did you mean '--follow'?");
  EXPECT_EQ(refused({"go", "here", "--xyzzy=1"}),
            "rota: unknown option '--xyzzy' of `rota go`; `rota go --help` lists the options");
  EXPECT_EQ(refused({"go", "here", "--state"}), "rota: --state needs a value: --state DIR");
  EXPECT_EQ(refused({"go", "here", "--jobs="}), "rota: --jobs needs a value: --jobs N");
  EXPECT_EQ(refused({"go", "here", "--state", "a", "--state", "b"}), "rota: --state was given 2 times; give it once");
  EXPECT_EQ(refused({"go", "here", "--state", "a", "--jobs", "2"}),
            "rota: --jobs and --state exclude each other; give one of them");
  EXPECT_EQ(refused({"go", "here", "--json", "--quiet"}),
            "rota: --quiet and --json exclude each other; give one of them");
  for (const char* number : {"0", "9", "x", "1x", "-1", "99999999999999999999"}) {
    EXPECT_EQ(refused({"go", "here", "--jobs=" + std::string(number)}),
              "rota: --jobs '" + std::string(number) + "': write a number from 1 to 8")
        << number;
  }
  EXPECT_EQ(refused({"go", "here", "--mode", "fats"}), "rota: --mode 'fats': did you mean 'fast'? Allowed: slow, fast");
  EXPECT_EQ(refused({"go", "here", "--mode", "sideways"}), "rota: --mode 'sideways': write one of slow, fast");
}

TEST_F(ArgumentsTest, HelpListsOptionsAndExamples) {
  EXPECT_EQ(rota({"go", "--help"}), 0);
  for (const char* text : {"Go somewhere", "--state DIR", "--json", "--quiet", "FILE", "Examples:\n  rota go there"}) {
    EXPECT_THAT(out_, HasSubstr(text));
  }
  EXPECT_EQ(rota({"--help"}), 0);
  EXPECT_THAT(out_, HasSubstr("Go somewhere"));
  EXPECT_THAT(out_, ::testing::Not(HasSubstr("secret")));
  EXPECT_EQ(runs_, 0);
}

TEST(Option, SaysWhatItTakes) {
  std::string to;
  std::vector<std::string> many;
  bool on = false;
  EXPECT_EQ(flag("-f,--follow", &on, "").takes(), Option::Takes::kNothing);
  EXPECT_EQ(flag("-f,--follow", &on, "").names, (std::vector<std::string>{"-f", "--follow"}));
  EXPECT_EQ(text("--state", "DIR", &to, "").takes(), Option::Takes::kFolder);
  EXPECT_EQ(text("-o,--output", "FILE", &to, "").takes(), Option::Takes::kFile);
  EXPECT_EQ(text("--at", "TIME", &to, "").takes(), Option::Takes::kText);
  EXPECT_EQ(where(&to).takes(), Option::Takes::kFile);
  EXPECT_TRUE(positionals("TASK", &many, "").many);
  int mode = 0;
  const Option mode_option = choice<int>("--mode", {{"slow", 1}, {"fast", 2}}, &mode, "");
  EXPECT_EQ(mode_option.takes(), Option::Takes::kChoice);
  EXPECT_EQ(mode_option.value, "slow|fast");
}

}  // namespace
}  // namespace rota::cli
