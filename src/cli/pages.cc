// docs/cli.md and docs/man/rota.1.
#include "cli/pages.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "rota/error_code.h"

namespace rota::cli {

namespace {

constexpr std::string_view kIntroduction =
    "`rota` runs workflows: files in YAML or JSON that list programs to run and the dependencies between them.";
constexpr std::string_view kPlaces =
    "The state of the runs of `w.yaml` is in the folder `.rota/w.yaml/` next to it, or in the folder that `--state` "
    "names: `ledger.db` is the log of all decisions, `logs/` contains what each attempt of a task wrote. WHERE names a "
    "run: the workflow file, its state folder, or a folder that contains `.rota/`; the default is the current folder. "
    "A run can be inspected from another terminal while it runs; inspecting it changes nothing.";
constexpr std::string_view kOutput =
    "Tables are for people. `--json` prints JSON for other software: one value, or one value per line. `--quiet` "
    "prints neither progress nor headings nor remarks. Colours and lines that are drawn again appear only on a "
    "terminal.";

struct Status {
  int number;
  std::string name;  // Of the error code; empty for a status that no error code has.
  std::string meaning;
};

// By number, then in the order of the table of error codes.
std::vector<Status> exit_statuses() {
  std::vector<Status> all{{0, "", "success"}, {1, "", "the workflow failed"}};
  int most = 1;
  for (const ErrorCodeInfo& code : error_codes()) most = std::max(most, code.exit_status);
  for (int number = 1; number <= most; ++number) {
    for (const ErrorCodeInfo& code : error_codes()) {
      if (code.exit_status == number) all.push_back({number, std::string(code.name), std::string(code.meaning)});
    }
  }
  return all;
}

// "-f, --follow", "--tail N"
std::string label_of(const Option& option) {
  std::string text;
  for (const std::string& name : option.names) text += (text.empty() ? "" : ", ") + name;
  if (!option.positional && !option.value.empty()) text += " " + option.value;
  return text;
}

// The usage shows the name of a positional only, so its choices are listed here.
std::string meaning_of(const Option& option) {
  if (!option.positional || option.choices.empty()) return option.meaning;
  std::string text = option.meaning + ":";
  for (const std::string& choice : option.choices) text += " " + choice;
  return text;
}

// Escapes text for a cell of a Markdown table.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '<') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

// Escapes text for troff: no line is taken for a request, and characters to type stay as they are.
std::string roff(std::string_view text) {
  std::string out;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) out += "\\&";
    line_start = c == '\n';
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '`':  // In Markdown: around text to type.
        out += '"';
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      default:
        out += c;
    }
  }
  return out;
}

void rows(std::string& out, const std::vector<Option>& options) {
  for (const Option& option : options) {
    out += "| `" + cell(label_of(option)) + "` | " + cell(meaning_of(option)) + " |\n";
  }
}

}  // namespace

std::string markdown_page(const std::vector<Subcommand>& subcommands) {
  CommonFlags flags;
  std::string out =
      "# The `rota` program\n\n"
      "<!-- Printed by `rota help-page markdown`, and compared by a test. To change it, change the texts in src/cli/ "
      "and print it again. -->\n\n";
  out.append(kIntroduction).append("\n\n| subcommand | |\n|---|---|\n");
  for (const Subcommand& each : subcommands) {
    out += "| [`" + each.name + "`](#rota-" + each.name + ") | " + cell(each.meaning) + " |\n";
  }
  out.append("\n## Where the state of a run is\n\n").append(kPlaces).append("\n\n").append(kOutput).append("\n");
  for (const Subcommand& each : subcommands) {
    out += "\n## rota " + each.name + "\n\n" + each.meaning + ".\n\n```\n" + each.usage() + "\n```\n\n";
    out += "| | |\n|---|---|\n";
    rows(out, each.positionals);
    rows(out, all_options(each, &flags));
    if (!each.footer.empty()) out += "\n" + each.footer + "\n";
    if (!each.examples.empty()) out += "\n```\n";
    for (const std::string& example : each.examples) out += example + "\n";
    if (!each.examples.empty()) out += "```\n";
  }
  out += "\n## Exit status\n\n| status | error | |\n|---|---|---|\n";
  for (const Status& status : exit_statuses()) {
    out += "| " + std::to_string(status.number) + " | " + status.name + " | " + cell(status.meaning) + " |\n";
  }
  return out;
}

std::string man_page(const std::vector<Subcommand>& subcommands) {
  CommonFlags flags;
  std::string out =
      ".\\\" Printed by `rota help-page man`, and compared by a test. To change it, change the texts in src/cli/ and "
      "print\n"
      ".\\\" it again.\n"
      ".TH ROTA 1 \"\" \"Rota\" \"Rota\"\n"
      ".SH NAME\nrota \\- run workflows, from one file on one machine to a fleet\n"
      ".SH SYNOPSIS\n.B rota\n.I SUBCOMMAND\n[\\fIOPTIONS\\fR] ...\n"
      ".SH DESCRIPTION\n";
  out += roff(kIntroduction) + "\n.PP\n" + roff(kPlaces) + "\n.PP\n" + roff(kOutput) + "\n.SH SUBCOMMANDS\n";
  for (const Subcommand& each : subcommands) {
    out += ".SS " + roff(each.usage()) + "\n" + roff(each.meaning) + ".\n";
    for (const std::vector<Option>& options : {each.positionals, all_options(each, &flags)}) {
      for (const Option& option : options) {
        out += ".TP\n.B " + roff(label_of(option)) + "\n" + roff(meaning_of(option)) + "\n";
      }
    }
    if (!each.footer.empty()) out += ".PP\n" + roff(each.footer) + "\n";
    if (!each.examples.empty()) out += ".PP\nExamples:\n.PP\n.EX\n";
    for (const std::string& example : each.examples) out += roff(example) + "\n";
    if (!each.examples.empty()) out += ".EE\n";
  }
  out += ".SH EXIT STATUS\n";
  int last = -1;
  for (const Status& status : exit_statuses()) {
    out += status.number == last ? ".br\n" : ".TP\n.B " + std::to_string(status.number) + "\n";
    out += roff(status.name.empty() ? status.meaning : status.name + ": " + status.meaning) + "\n";
    last = status.number;
  }
  out += ".SH FILES\n.TP\n.I .rota/w.yaml/ledger.db\nthe log of the runs of w.yaml\n";
  out += ".TP\n.I .rota/w.yaml/logs/\nwhat each attempt of a task wrote\n";
  return out;
}

}  // namespace rota::cli
