// `rota each -- COMMAND {}`: runs a command for each line, argument or combination of arguments (Y-8).
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_text.h"
#include "cli/each_text.h"
#include "cli/each_view.h"
#include "cli/output.h"
#include "cli/run_local.h"
#include "cli/run_session.h"
#include "cli/subcommands.h"
#include "model/codec.h"
#include "worker/task_check.h"

namespace rota::cli {

namespace {

constexpr std::size_t kMostValues = 1'000'000;
constexpr std::string_view kSeparator = ":::";

struct EachOptions {
  std::vector<std::string> words;
  std::string file;
  std::string state;
  std::int64_t jobs = 0;
  std::int64_t attempts = 1;
  bool keep_order = false;
  bool dry_run = false;
  bool fresh = false;
  bool resume = false;
};

using Lists = std::vector<std::vector<std::string>>;

Error wrong(std::string message) { return Error{ErrorCode::kInvalidArgument, std::move(message)}; }

Result<std::vector<std::string>> read_lines(std::istream& in) {
  std::vector<std::string> lines;
  std::string line;
  while (std::getline(in, line)) {
    if (line.empty()) continue;
    if (lines.size() == kMostValues) return Error{ErrorCode::kTooLarge, "there are more than 1000000 lines"};
    lines.push_back(line);
  }
  return lines;
}

// The command, and one list of values for each `:::`; without any, the lines of the file or of the standard input.
Result<Lists> lists_of(const EachOptions& options, std::vector<std::string>* command) {
  Lists lists;
  for (const std::string& word : options.words) {
    if (word == kSeparator) {
      lists.emplace_back();
    } else {
      (lists.empty() ? *command : lists.back()).push_back(word);
    }
  }
  if (command->empty()) return wrong("there is no command; write it after --: rota each -- gzip {} ::: a.txt b.txt");
  if (!lists.empty() && !options.file.empty()) return wrong("give the values with ::: or in a file, not both");
  const bool from_arguments = !lists.empty();
  if (!options.file.empty()) {
    std::ifstream in(options.file);
    if (!in) return Error{ErrorCode::kNotFound, "the file " + options.file + " cannot be opened"};
    ROTA_TRY_ASSIGN(lists.emplace_back(), read_lines(in));
  } else if (lists.empty()) {
    ROTA_TRY_ASSIGN(lists.emplace_back(), read_lines(std::cin));
  }
  std::size_t product = 1;
  for (const std::vector<std::string>& list : lists) {
    for (const std::string& value : list) {
      if (worker::is_utf8(value)) continue;
      return wrong(
          "the value '" + printable(value) +
          "' is not UTF-8 text, and would reach the command changed; rename the file, or quote it in another way");
    }
    if (list.empty() && from_arguments) return wrong("a list of values is empty: there is nothing to run");
    if (list.empty()) return lists;
    if (product > kMostValues / list.size())
      return Error{ErrorCode::kTooLarge, "that would be more than 1000000 tasks"};
    product *= list.size();
  }
  return lists;
}

// How text of a shell is quoted at each of its positions, so that a value can be inserted there as one word: in double
// quotes, in single quotes, or not at all. Follows quotes, backslashes, comments and $(...); not here-documents.
class ShellQuotes {
 public:
  enum class State : std::uint8_t { kBare, kDouble, kSingle };

  [[nodiscard]] State state() const { return states_.back(); }
  // The next characters of the text; returns how many of them it has read.
  std::size_t read(std::string_view rest) {
    const char c = rest.front();
    const bool begins_word = std::exchange(begins_word_, c == ' ' || c == '\t' || c == '\n' || c == ';' || c == '(');
    if (comment_) {
      comment_ = c != '\n';
      return 1;
    }
    if (state() == State::kSingle) {
      if (c == '\'') states_.pop_back();
      return 1;
    }
    if (c == '\\' && rest.size() > 1) return 2;
    if (rest.starts_with("$(")) {
      states_.push_back(State::kBare);
      return 2;
    }
    if (c == '"') {
      if (state() == State::kDouble) {
        states_.pop_back();
      } else {
        states_.push_back(State::kDouble);
      }
    } else if (state() == State::kBare) {
      if (c == '\'') states_.push_back(State::kSingle);
      if (c == '(') states_.push_back(State::kBare);
      if (c == ')' && states_.size() > 1) states_.pop_back();
      comment_ = c == '#' && begins_word;
    }
    return 1;
  }

 private:
  std::vector<State> states_{State::kBare};
  bool comment_ = false;
  bool begins_word_ = true;
};

// A reference to a variable of the shell that is one word there.
std::string shell_word(const std::string& variable, ShellQuotes::State state) {
  const std::string reference = "$${" + variable + "}";
  if (state == ShellQuotes::State::kDouble) return reference;
  if (state == ShellQuotes::State::kSingle) return "'\"" + reference + "\"'";
  return "\"" + reference + "\"";
}

// Puts what `value(i, quotes)` returns in the place of {1}, {2}, ..., and all values in the place of {}.
template <class F>
std::string replaced(std::string_view word, std::size_t lists, F&& value) {
  std::string out;
  ShellQuotes quotes;
  while (!word.empty()) {
    bool found = false;
    if (word.starts_with("{}")) {
      for (std::size_t i = 0; i < lists; ++i) out.append(i == 0 ? "" : " ").append(value(i, quotes.state()));
      word.remove_prefix(2);
      found = true;
    }
    for (std::size_t i = 0; i < lists && !found; ++i) {
      const std::string mark = "{" + std::to_string(i + 1) + "}";
      if (!word.starts_with(mark)) continue;
      out.append(value(i, quotes.state()));
      word.remove_prefix(mark.size());
      found = true;
    }
    if (found) continue;
    const std::size_t count = quotes.read(word);
    for (std::size_t i = 0; i < count; ++i) {
      if (word.substr(i).starts_with("${")) out.push_back('$');  // The user's own text is not a reference.
      out.push_back(word[i]);
    }
    word.remove_prefix(count);
  }
  return out;
}

// {3} without a third list would reach the command as it is.
Result<void> check_marks(const std::vector<std::string>& command, std::size_t lists) {
  for (const std::string& word : command) {
    for (std::size_t at = word.find('{'); at != std::string::npos; at = word.find('{', at + 1)) {
      const std::size_t end = word.find_first_not_of("0123456789", at + 1);
      if (end == std::string::npos || end == at + 1 || word[end] != '}') continue;
      if (at > 0 && word[at - 1] == '$') continue;  // ${3} of the shell.
      std::size_t number = 0;
      const auto parsed = std::from_chars(word.data() + at + 1, word.data() + end, number);
      if (parsed.ec == std::errc() && number >= 1 && number <= lists) continue;
      const std::string digits = word.substr(at + 1, end - at - 1).substr(0, 20);
      const std::string known = lists == 1   ? "there is one list of values, {1}"
                                : lists == 2 ? "there are 2 lists of values, {1} and {2}"
                                             : "there are " + std::to_string(lists) + " lists of values, {1} to {" +
                                                   std::to_string(lists) + "}";
      return wrong("the command has {" + digits + "}, and " + known +
                   "; if it is not meant as a value, as in a regular expression, write {" + digits + "," + digits +
                   "}");
    }
  }
  return {};
}

bool has_mark(const std::vector<std::string>& command, std::size_t lists) {
  return std::any_of(command.begin(), command.end(), [&](const std::string& word) {
    bool any = word.find("{}") != std::string::npos;
    for (std::size_t i = 0; i < lists; ++i)
      any = any || word.find("{" + std::to_string(i + 1) + "}") != std::string::npos;
    return any;
  });
}

// One stage with one task per combination; the last list varies fastest. One word is text for a shell, in which values
// are variables, so that data never becomes code; several words are a program and its arguments.
model::WorkflowSpec spec_of(std::vector<std::string> command, const Lists& lists, const EachOptions& options) {
  if (!has_mark(command, lists.size())) {
    if (command.size() == 1) {
      command.front() += " {}";
    } else {
      command.emplace_back("{}");
    }
  }
  model::WorkflowSpec spec;
  spec.name = "each";
  model::TaskTemplate& use = spec.templates.emplace_back();
  use.spec.type = "shell";
  use.retry.max_attempts = options.attempts;
  use.needs.cpu_millis = 1000;
  model::ProgramSpec& program = use.spec.program.emplace();
  std::error_code error;
  program.directory = std::filesystem::current_path(error).string();
  if (command.size() == 1) {
    program.shell = replaced(command.front(), lists.size(), [](std::size_t i, ShellQuotes::State state) {
      return shell_word("ROTA_REF_" + std::to_string(i + 1), state);
    });
    for (std::size_t i = 1; i <= lists.size(); ++i) {
      program.environment.push_back({"ROTA_REF_" + std::to_string(i), "${matrix.v" + std::to_string(i) + "}"});
    }
  } else {
    for (const std::string& word : command) {
      program.arguments.push_back(replaced(word, lists.size(), [](std::size_t i, ShellQuotes::State) {
        return "${matrix.v" + std::to_string(i + 1) + "}";
      }));
    }
  }
  model::Stage& stage = spec.stages.emplace_back();
  stage.name = "each";
  std::vector<std::size_t> at(lists.size());
  while (true) {
    std::string item = "{";
    for (std::size_t i = 0; i < lists.size(); ++i) {
      item += (i == 0 ? "\"v" : ",\"v") + std::to_string(i + 1) + "\":";
      append_json_string(item, lists[i][at[i]]);
    }
    stage.items.push_back(item + "}");
    std::size_t digit = lists.size();
    while (digit > 0 && ++at[digit - 1] == lists[digit - 1].size()) at[--digit] = 0;
    if (digit == 0) return spec;
  }
}

// The state folder of a command: for the same command, whatever its values are.
std::string state_of(model::WorkflowSpec spec) {
  spec.stages.front().items.clear();
  spec.templates.front().retry = {};
  return ".rota/each-" + model::hash_fields(spec).to_string().substr(0, 12);
}

Result<int> each(const EachOptions& options, Output& output) {
  std::vector<std::string> command;
  ROTA_TRY_ASSIGN(const Lists lists, lists_of(options, &command));
  ROTA_TRY(check_marks(command, lists.size()));
  ROTA_TRY(command.size() == 1 ? check_shell_text(command.front(), lists.size())
                               : check_arguments(command, lists.size()));
  if (lists.front().empty()) {
    output.note("there are no values: nothing to run");
    return 0;
  }
  RunSetup setup;
  setup.workflow.spec = spec_of(command, lists, options);
  setup.workflow.content = model::hash_fields(setup.workflow.spec).to_string();
  setup.state = std::filesystem::absolute(options.state.empty() ? state_of(setup.workflow.spec) : options.state)
                    .lexically_normal()
                    .string();
  ROTA_TRY(use_workers(setup, "", options.jobs));
  setup.fresh = options.fresh;
  setup.reuse_all = options.resume;
  setup.whole_output = true;
  if (options.dry_run) {
    for (const std::string& item : setup.workflow.spec.stages.front().items) output.document(item + "\n");
    return 0;
  }
  std::signal(SIGPIPE, SIG_IGN);
  Result<void> printed;
  const EachView::Options printing{.out = STDOUT_FILENO, .err = STDERR_FILENO, .keep_order = options.keep_order};
  Result<RunEnd> ran = run_session(std::move(setup), std::make_unique<EachView>(printing, output, printed));
  if (ran.code() == ErrorCode::kConflict) {
    Error error = std::move(ran).take_error();
    error.message += "; to run the same command twice at once, give one of them another folder with --state DIR";
    return error;
  }
  ROTA_TRY_ASSIGN(const RunEnd end, std::move(ran));
  if (!printed.ok()) {
    Error error = std::move(printed).take_error();
    error.message += "; what was not printed is kept, and the same command prints it and runs what is left";
    return error;
  }
  if (end.report.outcome != fleet::Outcome::kSucceeded) {
    output.note("not all of them succeeded; run the same command again to run the others. Logs: " + end.logs);
  }
  confirm(end);
  return exit_status_of(end.report.outcome);
}

}  // namespace

Subcommand each_subcommand() {
  auto options = std::make_shared<EachOptions>();
  return {
      .name = "each",
      .meaning = "Run a command for each line, argument or combination of arguments; run it again to resume",
      .positionals = {required(positionals("COMMAND", &options->words,
                                           "the command, after --; then ::: and values, for as many lists as needed"))},
      .options = {text("-a,--arg-file", "FILE", &options->file, "one value per line; default: the standard input"),
                  number("-j,--jobs", &options->jobs, 1, 100'000,
                         "commands at once; default: all CPUs of this machine"),
                  number("--max-attempts", &options->attempts, 1, 1'000, "how often a command is tried; default: 1"),
                  flag("-k,--keep-order", &options->keep_order, "print output in the order of the values"),
                  flag("--dry-run", &options->dry_run, "print the values of each task, and run nothing"),
                  flag("--fresh", &options->fresh, "run everything again instead of resuming"),
                  excluding(flag("--resume", &options->resume,
                                 "do not run values again that have ever succeeded, also after a success"),
                            "--fresh"),
                  text("--state", "DIR", &options->state, "the state folder; default: one in .rota/ for this command")},
      .footer =
          "{} is the value, {1}, {2}, ... are the values of several lists; without any of them, {} is added at the "
          "end.\n"
          "One word is text for a shell, in which a value is one word, or a part of one, with or without quotes "
          "around\n"
          "{}; several words are a program and its arguments. Empty lines are left out.\n"
          "When a command has ended, all of its output is printed: first what it wrote to its standard output, then\n"
          "what it wrote to its standard error. The same command resumes after a failure, Ctrl-C or a kill, also with\n"
          "other values: values that are done are not run again. After a success it starts again; see --resume.",
      .examples = {"rota each -- gzip {} ::: *.log", "find . -name '*.png' | rota each -j 4 -- 'convert {} {}.webp'",
                   "rota each -- ./train --lr {1} --seed {2} ::: 0.1 0.01 ::: 1 2 3"},
      .run = [options](Output& output) { return each(*options, output); }};
}

}  // namespace rota::cli
