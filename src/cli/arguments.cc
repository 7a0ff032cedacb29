#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string_view>

#include "base/json_text.h"
#include "base/nearest.h"
#include "cli/output.h"

namespace rota::cli {

namespace {

constexpr const char* kFooter =
    "`rota SUBCOMMAND --help` describes a subcommand. Exit status: 0 success, 1 the workflow failed, 2 the request "
    "was\n"
    "wrong, 3 not found, 4 conflict, 5 a limit was reached, 6 timeout, 7 cancelled, 8 unavailable, 9 not permitted,\n"
    "10 damaged data or a failing device.";

std::string in_quotes(std::string_view text) { return "'" + printable(text) + "'"; }

Error wrong(std::string message) { return Error{ErrorCode::kInvalidArgument, std::move(message)}; }

// "; did you mean '--jobs'?", or empty.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string_view near = nearest(word, candidates);
  return near.empty() ? "" : "; did you mean '" + std::string(near) + "'?";
}

std::string comma_list(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

// "Rota's subcommands are run, validate, ..."
std::string list_of(const std::vector<Subcommand>& subcommands) {
  std::vector<std::string> names;
  for (const Subcommand& each : subcommands) {
    if (!each.hidden) names.push_back(each.name);
  }
  return comma_list(names);
}

// One subcommand as CLI11 sees it. CLI11 only collects the values; check() and store() look at them.
class Parsed {
 public:
  Parsed(CLI::App& parent, const Subcommand& subcommand) : subcommand_(subcommand) {
    app_ = parent.add_subcommand(subcommand.name, subcommand.meaning);
    app_->allow_extras();
    if (subcommand.hidden) app_->group("");
    app_->footer(footer());
    for (const Option& option : subcommand.positionals) add(option);
    for (const Option& option : all_options(subcommand, &flags_)) {
      if (option.flag != &flags_.help) add(option);  // CLI11 adds --help itself.
    }
  }

  [[nodiscard]] const CLI::App& app() const { return *app_; }
  [[nodiscard]] const Subcommand& subcommand() const { return subcommand_; }
  [[nodiscard]] OutputMode mode() const {
    return flags_.json ? OutputMode::kJson : flags_.quiet ? OutputMode::kQuiet : OutputMode::kTable;
  }

  // Finds what is wrong with the words that were given, whether or not CLI11 has refused them.
  [[nodiscard]] Result<void> check() const {
    for (const std::string& extra : app_->remaining()) {
      if (extra != "--") return unexpected(extra);  // CLI11 keeps the mark after which all words are positional.
    }
    for (const auto& entry : entries_) {
      const Option& option = entry->option;
      const std::size_t count = entry->cli->count();
      if (option.required && count == 0) {
        return wrong(option.name() + " is required; usage: " + subcommand_.usage());
      }
      if (count > 1 && !option.many && option.flag == nullptr) {
        return wrong(option.name() + " was given " + std::to_string(count) + " times; give it once");
      }
      if (count > 0 && !option.excludes.empty() && find(option.excludes)->cli->count() > 0) {
        return wrong(option.name() + " and " + option.excludes + " exclude each other; give one of them");
      }
    }
    return {};
  }

  [[nodiscard]] Result<void> store() const {
    for (const auto& entry : entries_) {
      for (const std::string& value : entry->values) {
        Result<void> stored = entry->option.set(value);
        if (!stored.ok()) return std::move(stored).take_error().in(entry->option.name() + " " + in_quotes(value));
      }
    }
    return {};
  }

  // `name` was given without a value.
  [[nodiscard]] Error missing_value(const std::string& name) const {
    const Entry* entry = find(name);
    return wrong(name + " needs a value" + (entry == nullptr ? "" : ": " + name + " " + entry->option.value));
  }

 private:
  struct Entry {
    Option option;
    std::vector<std::string> values;
    CLI::Option* cli = nullptr;
  };

  void add(const Option& option) {
    auto entry = std::make_unique<Entry>();
    entry->option = option;
    const std::string names = comma_list(option.names);
    if (option.flag != nullptr) {
      entry->cli = app_->add_flag(names, *option.flag, option.meaning);
    } else {
      entry->cli = app_->add_option(names, entry->values, option.meaning);
      entry->cli->required(option.required);
      entry->cli->type_name(option.positional ? "" : option.value);
      // One value each time; a positional that takes many words takes the rest.
      if (!option.positional || !option.many) entry->cli->expected(1)->allow_extra_args(false);
      entry->cli->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    }
    entries_.push_back(std::move(entry));
  }

  [[nodiscard]] const Entry* find(std::string_view name) const {
    for (const auto& entry : entries_) {
      const auto& names = entry->option.names;
      if (std::find(names.begin(), names.end(), name) != names.end()) return entry.get();
    }
    return nullptr;
  }

  [[nodiscard]] Error unexpected(const std::string& word) const {
    if (!word.starts_with('-')) {
      return wrong("unexpected argument " + in_quotes(word) + "; usage: " + subcommand_.usage());
    }
    std::vector<std::string> names{"--help"};
    for (const auto& entry : entries_) {
      if (entry->option.positional) continue;
      names.insert(names.end(), entry->option.names.begin(), entry->option.names.end());
    }
    const std::string name = word.substr(0, word.find('='));
    const std::string near = suggestion(name, names);
    return wrong("unknown option " + in_quotes(name) + " of `rota " + subcommand_.name + "`" +
                 (near.empty() ? "; `rota " + subcommand_.name + " --help` lists the options" : near));
  }

  [[nodiscard]] std::string footer() const {
    std::string text = subcommand_.footer;
    if (!text.empty() && !subcommand_.examples.empty()) text += "\n\n";
    if (!subcommand_.examples.empty()) text += "Examples:";
    for (const std::string& example : subcommand_.examples) text += "\n  " + example;
    return text;
  }

  const Subcommand& subcommand_;
  CommonFlags flags_;
  CLI::App* app_ = nullptr;
  std::vector<std::unique_ptr<Entry>> entries_;  // CLI11 keeps pointers to the values.
};

int refuse(const Error& error) {
  print_error(error);
  return exit_status(error.code);
}

// What CLI11 has refused, in Rota's words.
Error explain(const CLI::ParseError& error, const Parsed* parsed, const std::vector<Subcommand>& subcommands) {
  if (parsed == nullptr) {
    return wrong(error.get_name() == "RequiredError" ? "which subcommand? Name one of " + list_of(subcommands)
                                                     : error.what());
  }
  if (Result<void> checked = parsed->check(); !checked.ok()) return std::move(checked).take_error();
  const std::string message = error.what();
  if (error.get_name() == "ArgumentMismatch") return parsed->missing_value(message.substr(0, message.find(':')));
  return wrong(message);
}

// A subcommand that does not exist, or an option in its place.
std::optional<Error> check_first(const std::vector<Subcommand>& subcommands,
                                 const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front() == "-h" || arguments.front() == "--help") return {};
  const std::string& first = arguments.front();
  std::vector<std::string> names;
  for (const Subcommand& each : subcommands) names.push_back(each.name);
  if (std::find(names.begin(), names.end(), first) != names.end()) return {};
  if (first.starts_with('-')) {
    return wrong("unknown option " + in_quotes(first) + "; write the subcommand first: rota SUBCOMMAND [OPTIONS]");
  }
  return wrong("unknown command " + in_quotes(first) + suggestion(first, names) + "\nRota's subcommands are " +
               list_of(subcommands));
}

// `rota help`, `rota help run` and `rota --version` are other words for `rota --help`, `rota run --help` and
// `rota version`.
std::vector<std::string> usual_words(std::vector<std::string> arguments) {
  if (arguments.empty()) return arguments;
  if (arguments.front() == "--version" || arguments.front() == "-V") arguments.front() = "version";
  if (arguments.front() == "help") {
    arguments.erase(arguments.begin());
    arguments.insert(arguments.begin() + (arguments.empty() ? 0 : 1), "--help");
  }
  return arguments;
}

}  // namespace

int run_command(const std::vector<Subcommand>& subcommands, const std::vector<std::string>& given) {
  const std::vector<std::string> arguments = usual_words(given);
  if (const std::optional<Error> error = check_first(subcommands, arguments)) return refuse(*error);
  CLI::App app("Rota: one scheduler, from fiber to fleet.", "rota");
  app.set_help_flag("-h,--help", "print this help and exit");  // Before add_subcommand(), which inherits it.
  app.require_subcommand(1);
  app.footer(kFooter);
  std::vector<std::unique_ptr<Parsed>> all;
  for (const Subcommand& each : subcommands) all.push_back(std::make_unique<Parsed>(app, each));
  const auto chosen = [&]() -> const Parsed* {
    for (const auto& each : all) {
      if (each->app().parsed()) return each.get();
    }
    return nullptr;
  };
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
    const Parsed& parsed = *chosen();
    if (Result<void> checked = parsed.check(); !checked.ok()) return refuse(checked.error());
    if (Result<void> stored = parsed.store(); !stored.ok()) return refuse(stored.error());
    const std::unique_ptr<Output> output = make_output(parsed.mode(), stdout);
    const Result<int> status = parsed.subcommand().run(*output);
    return status.ok() ? *status : refuse(status.error());
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help
    return refuse(explain(error, chosen(), subcommands));
  } catch (const std::exception& error) {
    return refuse(Error{ErrorCode::kInternal, error.what()});
  }
}

}  // namespace rota::cli
