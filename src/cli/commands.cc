#include "cli/commands.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "base/json_text.h"
#include "base/nearest.h"

namespace rota::cli {

int report(const Error& error) {
  std::string text = "rota: " + error.message + "\n";
  // Problems of a file are in the message already, a line each.
  for (const ErrorDetail& detail : error.details) {
    if (detail.key != "problem") text += "  " + detail.key + ": " + detail.value + "\n";
  }
  std::fputs(text.c_str(), stderr);
  return exit_status(error.code);
}

void say_note(const std::string& note) {
  if (!note.empty()) std::fprintf(stderr, "rota: %s\n", note.c_str());
}

CLI::Option* add_where(CLI::App& verb, std::string& where) {
  return verb.add_option("WHERE", where,
                         "a workflow's file, a state folder, or a folder with .rota/ in it; otherwise this folder");
}

void add_commands(CLI::App& app, Exit& exit) {
  app.description("Rota: one scheduler, from fiber to fleet.");
  app.require_subcommand(1);
  app.footer(
      "`rota VERB --help` says more. Exit status: 0 success, 1 the workflow failed, 2 the request was wrong,\n"
      "3 not found, 4 conflict, 5 a limit, 6 too slow, 7 cancelled, 8 not reachable now, 9 not allowed,\n"
      "10 data or device damaged.");
  add_run(app, exit);
  add_validate(app, exit);
  add_graph(app, exit);
  add_status(app, exit);
  add_logs(app, exit);
  add_explain(app, exit);
  add_trace(app, exit);
  add_replay(app, exit);
  add_config(app, exit);
  add_completion(app, exit);
  add_version(app, exit);
  add_help_page(app, exit);
}

int run_command(int argc, char** argv) {
  CLI::App app("", "rota");
  Exit exit;
  add_commands(app, exit);
  // CLI11 would only say that a command is missing.
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(verb->get_name());
  }
  if (argc > 1 && argv[1][0] != '-' && std::find(names.begin(), names.end(), argv[1]) == names.end()) {
    const std::string_view near = nearest(argv[1], names);
    std::string text = "'" + printable(argv[1]) + "' is no command of rota";
    if (!near.empty()) text += "; did you mean '" + std::string(near) + "'?";
    text += "\nThere are:";
    for (const CLI::App* verb : app.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); })) {
      text += " " + verb->get_name();
    }
    return report(Error{ErrorCode::kInvalidArgument, text});
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    (void)app.exit(error);
    return exit_status(ErrorCode::kInvalidArgument);
  } catch (const std::exception& error) {
    return report(Error{ErrorCode::kInternal, error.what()});
  }
  return exit.status;
}

}  // namespace rota::cli
