// The verbs of the `rota` command, one file each: `add_x(app, exit)` adds its subcommand, whose callback leaves its
// exit status in `exit` (the table of rota/error_code.h).
#pragma once

#include <string>

#include "rota/result.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

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
void add_status(CLI::App& app, Exit& exit);
void add_logs(CLI::App& app, Exit& exit);
void add_trace(CLI::App& app, Exit& exit);
void add_completion(CLI::App& app, Exit& exit);
void add_help_page(CLI::App& app, Exit& exit);

// All of them, in the order in which the help lists them.
void add_commands(CLI::App& app, Exit& exit);

// The optional WHERE of the verbs that look at a run (places.h).
CLI::Option* add_where(CLI::App& verb, std::string& where);

// Prints "rota: <sentence>" and the details to standard error; returns the exit status of the error's code.
int report(const Error& error);
// A remark for people, to standard error; none if it is empty.
void say_note(const std::string& note);

// All of it: what `main` does.
int run_command(int argc, char** argv);

}  // namespace rota::cli
