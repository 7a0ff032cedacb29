#include "cli/output.h"

#include "cli/output_json.h"
#include "cli/output_table.h"

namespace rota::cli {

void Output::note(const std::string& text) {
  if (!text.empty()) std::fprintf(stderr, "rota: %s\n", text.c_str());
}

std::unique_ptr<Output> make_output(OutputMode mode, std::FILE* out) {
  switch (mode) {
    case OutputMode::kJson:
      return std::make_unique<JsonOutput>(out);
    case OutputMode::kQuiet:
      return std::make_unique<QuietOutput>(out);
    case OutputMode::kTable:
      break;
  }
  return std::make_unique<TableOutput>(out);
}

void print_error(const Error& error) {
  std::string text = "rota: " + error.message + "\n";
  // The problems of a file are in the message already, one per line.
  for (const ErrorDetail& detail : error.details) {
    if (detail.key != "problem") text += "  " + detail.key + ": " + detail.value + "\n";
  }
  std::fputs(text.c_str(), stderr);
}

}  // namespace rota::cli
