// Parses the command line of `rota` and runs the subcommand that it names.
//
// arguments.cc is the only file that includes CLI11, whose header takes seconds to compile.
//
// Thread safety: one call at a time; a subcommand uses the process's signals, standard output and standard error.
#pragma once

#include <string>
#include <vector>

#include "cli/subcommand.h"

namespace rota::cli {

// Parses `arguments` (without the program's name), stores the values through the options of the subcommand that they
// name, and runs it. Returns the exit status, by the table in rota/error_code.h; a mistake in the arguments is 2.
int run_command(const std::vector<Subcommand>& subcommands, const std::vector<std::string>& arguments);

}  // namespace rota::cli
