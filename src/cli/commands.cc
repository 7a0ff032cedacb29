#include "cli/commands.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>

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

int run_command(int argc, char** argv) {
  CLI::App app("Rota: one scheduler, from fiber to fleet.", "rota");
  app.require_subcommand(1);
  app.footer(
      "Exit status: 0 success, 1 the workflow failed, 2 the request was wrong, 3 not found, 4 conflict, 5 a limit,\n"
      "6 too slow, 7 cancelled, 8 not reachable now, 9 not allowed, 10 data or device damaged.");
  Exit exit;
  add_run(app, exit);
  add_validate(app, exit);
  add_graph(app, exit);
  add_config(app, exit);
#if defined(ROTA_CLI_EXPLAIN)
  add_explain(app, exit);
#endif
#if defined(ROTA_CLI_REPLAY)
  add_replay(app, exit);
#endif
  add_version(app, exit);
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
