// A subcommand of `rota` as data: its name, options, help and the function that runs it.
//
// Each subcommand is described once, in its cmd_*.cc. arguments.cc parses the command line by these descriptions;
// pages.cc and completion.cc turn them into docs/cli.md, the man page and the completion scripts.
//
//   Subcommand greet_subcommand() {
//     struct Options { std::string name; bool loud = false; };
//     auto options = std::make_shared<Options>();
//     return {.name = "greet",
//             .meaning = "Greet somebody",
//             .positionals = {required(positional("NAME", &options->name, "who is greeted"))},
//             .options = {flag("--loud", &options->loud, "use capital letters")},
//             .examples = {"rota greet Ann"},
//             .run = [options](Output& output) { return greet(*options, output); }};
//   }
//
// An option points into the options struct of its subcommand; the closure in `run` owns that struct.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rota/result.h"

namespace rota::cli {

class Output;

struct Option {
  // What a shell completes after the option.
  enum class Takes : std::uint8_t { kNothing, kText, kChoice, kFile, kFolder, kId };

  std::vector<std::string> names{};  // {"-f", "--follow"}; a positional has one name, {"FILE"}.
  std::string value{};               // The value's name in the help: "N", "FILE", "full|relaxed"; empty for a flag.
  std::string meaning{};
  bool positional = false;
  bool required = false;
  bool many = false;                   // It may be given several times.
  std::string excludes{};              // The long name of an option that must not be given together with this one.
  std::vector<std::string> choices{};  // The allowed values; empty: any.
  bool* flag = nullptr;                // Where a flag is stored.
  // Stores one value; the error says what would be right. Empty for a flag.
  std::function<Result<void>(const std::string&)> set{};

  // FILE and WHERE are files, DIR is a folder, WHAT and WORKFLOW are ids, "a|b" is a choice, any other value is text.
  [[nodiscard]] Takes takes() const;
  // "--follow", "FILE": the name that messages use.
  [[nodiscard]] const std::string& name() const { return names.back(); }
};

struct Subcommand {
  std::string name{};
  std::string meaning{};  // One phrase without a full stop.
  std::vector<Option> positionals{};
  std::vector<Option> options{};
  std::string json{};  // What --json prints; empty: the subcommand has neither --json nor --quiet.
  std::string footer{};
  std::vector<std::string> examples{};  // One line each.
  bool hidden = false;                  // Not listed in the help, the pages and the completions.
  // Runs the subcommand; returns its exit status.
  std::function<Result<int>(Output&)> run{};

  // "rota run [OPTIONS] FILE"
  [[nodiscard]] std::string usage() const;
};

// `names` is a list with commas: "-f,--follow".
[[nodiscard]] Option flag(std::string_view names, bool* to, std::string meaning);
[[nodiscard]] Option text(std::string_view names, std::string value, std::string* to, std::string meaning);
// It may be given several times.
[[nodiscard]] Option texts(std::string_view names, std::string value, std::vector<std::string>* to,
                           std::string meaning);
[[nodiscard]] Option number(std::string_view names, std::int64_t* to, std::int64_t least, std::int64_t most,
                            std::string meaning);
[[nodiscard]] Option positional(std::string name, std::string* to, std::string meaning);
[[nodiscard]] Option positionals(std::string name, std::vector<std::string>* to, std::string meaning);
[[nodiscard]] Option required(Option option);
[[nodiscard]] Option excluding(Option option, std::string other);
// The FILE of the subcommands that read a workflow file.
[[nodiscard]] Option workflow_file(std::string* to);
// The optional WHERE of the subcommands that read a run (places.h).
[[nodiscard]] Option where(std::string* to);

// The --state and --host of the subcommands that reach a running host (host_target() in remote_host.h says which), and
// the folder that --state means: an absolute path.
// `with_host` has them before the subcommand's own options.
[[nodiscard]] std::vector<Option> with_host(std::string* to, std::vector<Option> own);
[[nodiscard]] Option host_state(std::string* to);
[[nodiscard]] std::string host_state_of(const std::string& given);

// One of several names, each of which stands for a value.
[[nodiscard]] Option choice_option(std::string_view names, std::vector<std::string> choices,
                                   std::function<void(std::size_t)> choose, std::string meaning);
template <class T>
[[nodiscard]] Option choice(std::string_view names, const std::vector<std::pair<std::string, T>>& choices, T* to,
                            std::string meaning) {
  std::vector<std::string> words;
  std::vector<T> values;
  for (const auto& [word, value] : choices) {
    words.push_back(word);
    values.push_back(value);
  }
  return choice_option(
      names, std::move(words), [values = std::move(values), to](std::size_t i) { *to = values[i]; },
      std::move(meaning));
}

// What --json and --quiet were given. Help and completions list these options, and --help, with every subcommand.
struct CommonFlags {
  bool help = false;
  bool json = false;
  bool quiet = false;
};
// --help, the subcommand's own options, then --json and --quiet if it has them.
// REQUIRES: flags outlives what is returned.
[[nodiscard]] std::vector<Option> all_options(const Subcommand& subcommand, CommonFlags* flags);

}  // namespace rota::cli
