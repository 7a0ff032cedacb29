// `rota completion SHELL`, and the hidden `rota help-page FORM`: texts that are made from the subcommands'
// descriptions.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/output.h"
#include "cli/pages.h"
#include "cli/subcommands.h"

namespace rota::cli {

namespace {

using Page = std::string (*)(const std::vector<Subcommand>&);

// A required positional that is one of several words.
Option chosen(std::string name, const std::vector<std::pair<std::string, Page>>& pages, Page* to, std::string meaning) {
  Option option = choice(name, pages, to, std::move(meaning));
  option.positional = true;
  return required(option);
}

}  // namespace

Subcommand completion_subcommand() {
  auto page = std::make_shared<Page>(nullptr);
  return {
      .name = "completion",
      .meaning = "Print a script with which a shell completes subcommands, options and files",
      .positionals = {chosen("SHELL", {{"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}},
                             page.get(), "the shell")},
      .footer = "An installed Rota has its scripts in the shells' folders already.",
      .examples = {"source <(rota completion bash)",
                   "rota completion zsh > ~/.zfunc/_rota   # a folder that is in fpath",
                   "rota completion fish > ~/.config/fish/completions/rota.fish"},
      .run = [page](Output& output) -> Result<int> {
        output.document((*page)(listed_subcommands()));
        return 0;
      }};
}

Subcommand help_page_subcommand() {
  auto page = std::make_shared<Page>(nullptr);
  return {.name = "help-page",
          .meaning = "Print the reference page",
          .positionals = {chosen("FORM", {{"markdown", markdown_page}, {"man", man_page}}, page.get(), "the format")},
          .hidden = true,
          .run = [page](Output& output) -> Result<int> {
            output.document((*page)(listed_subcommands()));
            return 0;
          }};
}

}  // namespace rota::cli
