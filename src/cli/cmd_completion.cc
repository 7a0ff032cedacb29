// `rota completion SHELL`, and the hidden `rota help-page`: the command describes itself.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/describe.h"

namespace rota::cli {

void add_completion(CLI::App& app, Exit& exit) {
  CLI::App* verb =
      app.add_subcommand("completion", "Print a script that completes verbs, options and files in a shell");
  auto shell = std::make_shared<std::string>();
  verb->add_option("SHELL", *shell, "for which shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->option_text("bash|zsh|fish");
  verb->footer(
      "An installed Rota has them in their places already.\n"
      "\n"
      "Examples:\n"
      "  source <(rota completion bash)\n"
      "  rota completion zsh > ~/.zfunc/_rota   # a folder of fpath\n"
      "  rota completion fish > ~/.config/fish/completions/rota.fish");
  verb->callback([&app, &exit, shell] {
    const std::vector<VerbText> verbs = describe(app);
    const std::string script = *shell == "bash"  ? bash_completion(verbs)
                               : *shell == "zsh" ? zsh_completion(verbs)
                                                 : fish_completion(verbs);
    std::fputs(script.c_str(), stdout);
    exit.status = 0;
  });
}

void add_help_page(CLI::App& app, Exit& exit) {
  CLI::App* verb = app.add_subcommand("help-page", "Print the manual");
  verb->group("");  // For whoever builds the pages.
  auto form = std::make_shared<std::string>();
  verb->add_option("FORM", *form, "as what")->required()->check(CLI::IsMember({"markdown", "man"}));
  verb->callback([&app, &exit, form] {
    const std::vector<VerbText> verbs = describe(app);
    std::fputs((*form == "man" ? man_page(verbs) : markdown_page(verbs)).c_str(), stdout);
    exit.status = 0;
  });
}

}  // namespace rota::cli
