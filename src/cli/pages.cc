// docs/cli.md and docs/man/rota.1: what the program can do, as pages.
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "cli/describe.h"
#include "rota/error_code.h"

namespace rota::cli {

namespace {

constexpr std::string_view kIntroduction =
    "`rota` runs workflows: files in YAML or JSON that say what to run, and what needs what.";
constexpr std::string_view kPlaces =
    "The run of `w.yaml` is kept in `.rota/w.yaml/` beside it, or in the folder that `--state` names: `ledger.db` is "
    "the "
    "log of all decisions, `logs/` has what each attempt of a task wrote. WHERE is the workflow's file, such a folder, "
    "or "
    "a folder with `.rota/` in it; without it the current folder is meant. A run that goes on can be looked at from "
    "another terminal; looking changes nothing.";
constexpr std::string_view kPrograms =
    "`--json` is for programs: one JSON value, or one a line. There are no colours and no lines that are written over "
    "unless the output is a terminal.";

struct Status {
  int number;
  std::string name;  // Of the error; none if it does not come from one.
  std::string meaning;
};

// By number, and then as in the table of errors.
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
std::string label_of(const OptionText& option) {
  std::string text;
  for (const std::string& name : option.names) text += (text.empty() ? "" : ", ") + name;
  if (!option.positional && !option.value.empty()) text += " " + option.value;
  return text;
}

// What may be left out is in brackets in the usage; a choice is said here.
std::string meaning_of(const OptionText& option) {
  if (!option.positional || option.choices.empty()) return option.meaning;
  std::string text = option.meaning + ":";
  for (const std::string& choice : option.choices) text += " " + choice;
  return text;
}

// In a table of Markdown.
std::string cell(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '|' || c == '<') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

// For troff: no line of it is a request, and what is typed stays as it is typed.
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
      case '`':  // Our texts have what is typed in backquotes.
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

void rows(std::string& out, const std::vector<OptionText>& options) {
  for (const OptionText& option : options) {
    out += "| `" + cell(label_of(option)) + "` | " + cell(meaning_of(option)) + " |\n";
  }
}

}  // namespace

std::string markdown_page(const std::vector<VerbText>& verbs) {
  std::string out =
      "# The `rota` command\n\n"
      "<!-- Written by `rota help-page markdown`; a test compares. Change the texts in src/cli/, and write it anew. "
      "-->\n\n";
  out.append(kIntroduction).append("\n\n| verb | |\n|---|---|\n");
  for (const VerbText& verb : verbs) {
    out += "| [`" + verb.name + "`](#rota-" + verb.name + ") | " + cell(verb.meaning) + " |\n";
  }
  out.append("\n## Where runs are kept\n\n").append(kPlaces).append("\n\n").append(kPrograms).append("\n");
  for (const VerbText& verb : verbs) {
    out += "\n## rota " + verb.name + "\n\n" + verb.meaning + ".\n\n```\n" + verb.usage() + "\n```\n\n";
    out += "| | |\n|---|---|\n";
    rows(out, verb.positionals);
    rows(out, verb.options);
    if (!verb.footer.empty()) out += "\n" + verb.footer + "\n";
    if (!verb.examples.empty()) out += "\n```\n";
    for (const std::string& example : verb.examples) out += example + "\n";
    if (!verb.examples.empty()) out += "```\n";
  }
  out += "\n## Exit status\n\n| status | error | |\n|---|---|---|\n";
  for (const Status& status : exit_statuses()) {
    out += "| " + std::to_string(status.number) + " | " + status.name + " | " + cell(status.meaning) + " |\n";
  }
  return out;
}

std::string man_page(const std::vector<VerbText>& verbs) {
  std::string out =
      ".\\\" Written by `rota help-page man`; a test compares. Change the texts in src/cli/, and write it anew.\n"
      ".TH ROTA 1 \"\" \"Rota\" \"Rota\"\n"
      ".SH NAME\nrota \\- run workflows, from one file on one machine to a fleet\n"
      ".SH SYNOPSIS\n.B rota\n.I VERB\n[\\fIOPTIONS\\fR] ...\n"
      ".SH DESCRIPTION\n";
  out += roff(kIntroduction) + "\n.PP\n" + roff(kPlaces) + "\n.PP\n" + roff(kPrograms) + "\n.SH VERBS\n";
  for (const VerbText& verb : verbs) {
    out += ".SS " + roff(verb.usage()) + "\n" + roff(verb.meaning) + ".\n";
    for (const auto* options : {&verb.positionals, &verb.options}) {
      for (const OptionText& option : *options) {
        out += ".TP\n.B " + roff(label_of(option)) + "\n" + roff(meaning_of(option)) + "\n";
      }
    }
    if (!verb.footer.empty()) out += ".PP\n" + roff(verb.footer) + "\n";
    if (!verb.examples.empty()) out += ".PP\nExamples:\n.PP\n.EX\n";
    for (const std::string& example : verb.examples) out += roff(example) + "\n";
    if (!verb.examples.empty()) out += ".EE\n";
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
