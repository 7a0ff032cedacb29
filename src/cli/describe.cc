#include "cli/describe.h"

#include <CLI/CLI.hpp>
#include <utility>

namespace rota::cli {

namespace {

using Takes = OptionText::Takes;

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

OptionText describe(const CLI::Option& option) {
  OptionText text;
  text.positional = option.get_positional();
  text.required = option.get_required();
  text.many = option.get_expected_max() >= CLI::detail::expected_max_vector_size;
  text.meaning = option.get_description();
  if (text.positional) {
    text.names.push_back(option.get_name(true, false));
  } else {
    for (const std::string& name : option.get_snames()) text.names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) text.names.push_back("--" + name);
  }
  if (!text.positional && option.get_items_expected_max() == 0) return text;  // A flag.
  text.value = option.get_option_text();
  if (text.value.empty()) text.value = text.positional ? text.names.front() : "TEXT";
  text.takes = Takes::kText;
  if (text.value.find('|') != std::string::npos) {
    text.takes = Takes::kChoice;
    text.choices = split(text.value, '|');
  } else if (text.value == "FILE" || text.value == "WHERE") {
    text.takes = Takes::kFile;
  } else if (text.value == "DIR") {
    text.takes = Takes::kFolder;
  }
  return text;
}

}  // namespace

std::string VerbText::usage() const {
  std::string text = "rota " + name + " [OPTIONS]";
  for (const OptionText& each : positionals) {
    const std::string word = each.names.front() + (each.many ? "..." : "");
    text += each.required ? " " + word : " [" + word + "]";
  }
  return text;
}

std::vector<VerbText> describe(const CLI::App& app) {
  std::vector<VerbText> verbs;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App* each) { return !each->get_group().empty(); })) {
    VerbText text;
    text.name = verb->get_name();
    text.meaning = verb->get_description();
    for (const CLI::Option* option : verb->get_options()) {
      OptionText described = describe(*option);
      (described.positional ? text.positionals : text.options).push_back(std::move(described));
    }
    constexpr std::string_view kExamples = "Examples:\n";
    text.footer = verb->get_footer();
    if (const std::size_t at = text.footer.find(kExamples); at != std::string::npos) {
      for (std::string& line : split(text.footer.substr(at + kExamples.size()), '\n')) {
        line.erase(0, line.find_first_not_of(' '));
        if (!line.empty()) text.examples.push_back(std::move(line));
      }
      text.footer.erase(at);
    }
    while (text.footer.ends_with('\n')) text.footer.pop_back();
    verbs.push_back(std::move(text));
  }
  return verbs;
}

}  // namespace rota::cli
