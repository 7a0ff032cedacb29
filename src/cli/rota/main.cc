// The `rota` command: see cli/commands.h.
#include "cli/commands.h"

int main(int argc, char** argv) { return rota::cli::run_command(argc, argv); }
