// What the command can do, as data: from it come the pages, the man page and the completions.
//
// An option's `value` is what the help shows for it, and says what it takes: "a|b" is one of these, FILE and WHERE are
// files, DIR is a folder, anything else is text. A footer ends with "Examples:" and indented lines.
//
// Thread safety: functions without state.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace rota::cli {

struct OptionText {
  enum class Takes { kNothing, kText, kChoice, kFile, kFolder };

  std::vector<std::string> names{};  // "-f", "--follow"; of a positional its one name.
  bool positional = false;
  bool required = false;
  bool many = false;
  std::string value{};  // "N"; empty for a flag.
  std::string meaning{};
  Takes takes = Takes::kNothing;
  std::vector<std::string> choices{};
};

struct VerbText {
  std::string name{};
  std::string meaning{};
  std::vector<OptionText> positionals{};
  std::vector<OptionText> options{};
  std::string footer{};                 // Without the examples.
  std::vector<std::string> examples{};  // A line each.

  // "rota run [OPTIONS] FILE"
  [[nodiscard]] std::string usage() const;
};

// The verbs that are not hidden, in the order of the help.
[[nodiscard]] std::vector<VerbText> describe(const CLI::App& app);

// Pages, made from that; the exit statuses are those of rota/error_code.h.
[[nodiscard]] std::string markdown_page(const std::vector<VerbText>& verbs);
[[nodiscard]] std::string man_page(const std::vector<VerbText>& verbs);

// Scripts for shells.
[[nodiscard]] std::string bash_completion(const std::vector<VerbText>& verbs);
[[nodiscard]] std::string zsh_completion(const std::vector<VerbText>& verbs);
[[nodiscard]] std::string fish_completion(const std::vector<VerbText>& verbs);

}  // namespace rota::cli
