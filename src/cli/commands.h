// The verbs of the `rota` command, one file each: `add_x(app, exit)` adds its subcommand, whose callback leaves its
// exit status in `exit` (the table of rota/error_code.h).
#pragma once

#include "rota/result.h"

namespace CLI {
class App;
}

namespace rota::cli {

struct Exit {
  int status = 0;
};

void add_version(CLI::App& app, Exit& exit);
void add_run(CLI::App& app, Exit& exit);
void add_validate(CLI::App& app, Exit& exit);
void add_graph(CLI::App& app, Exit& exit);
void add_config(CLI::App& app, Exit& exit);
void add_replay(CLI::App& app, Exit& exit);
void add_explain(CLI::App& app, Exit& exit);

// Prints "rota: <sentence>" and the details to standard error; returns the exit status of the error's code.
int report(const Error& error);

// All of it: what `main` does.
int run_command(int argc, char** argv);

}  // namespace rota::cli
