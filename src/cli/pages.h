// Texts that are made from the descriptions of the subcommands: the reference pages and the completion scripts.
//
// Thread safety: functions without state.
#pragma once

#include <string>
#include <vector>

#include "cli/subcommand.h"

namespace rota::cli {

// docs/cli.md and docs/man/rota.1; the exit statuses are those of rota/error_code.h.
[[nodiscard]] std::string markdown_page(const std::vector<Subcommand>& subcommands);
[[nodiscard]] std::string man_page(const std::vector<Subcommand>& subcommands);

[[nodiscard]] std::string bash_completion(const std::vector<Subcommand>& subcommands);
[[nodiscard]] std::string zsh_completion(const std::vector<Subcommand>& subcommands);
[[nodiscard]] std::string fish_completion(const std::vector<Subcommand>& subcommands);

}  // namespace rota::cli
