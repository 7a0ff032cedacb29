// Completion scripts for bash, zsh and fish.
#include <string>
#include <string_view>
#include <vector>

#include "cli/pages.h"

namespace rota::cli {

namespace {

using Takes = Option::Takes;

// 'it'\''s': quotes for bash and zsh.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c == '\n' ? ' ' : c;
    }
  }
  return out + "'";
}

std::string joined(const std::vector<std::string>& words, std::string_view between = " ") {
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out += between;
    out += word;
  }
  return out;
}

std::vector<std::string> names_of(const std::vector<Option>& options) {
  std::vector<std::string> names;
  for (const Option& option : options) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

std::vector<std::string> names_of(const std::vector<Subcommand>& subcommands) {
  std::vector<std::string> names;
  for (const Subcommand& each : subcommands) names.push_back(each.name);
  return names;
}

// The bash function that completes an option's value.
std::string bash_value(const Option& option) {
  switch (option.takes()) {
    case Takes::kChoice:
      return "_rota_words " + shell_quoted(joined(option.choices));
    case Takes::kFile:
      return "_rota_files -f";
    case Takes::kFolder:
      return "_rota_files -d";
    case Takes::kId:
      return "_rota_words \"$(rota complete-ids 2> /dev/null)\"";
    default:
      return ":";
  }
}

}  // namespace

std::string bash_completion(const std::vector<Subcommand>& subcommands) {
  CommonFlags flags;
  std::string out =
      "# Completion of rota for bash; printed by `rota completion bash`.\n"
      "_rota_words() {\n"
      "  mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\")\n"
      "}\n"
      "_rota_files() {\n"
      "  compopt -o filenames 2> /dev/null\n"
      "  mapfile -t COMPREPLY < <(compgen \"$1\" -- \"$cur\")\n"
      "}\n"
      "_rota() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} subcommand= i\n"
      "  COMPREPLY=()\n"
      "  # `--option=value` arrives as three words.\n"
      "  if [[ $cur == '=' ]]; then\n"
      "    cur=\n"
      "  elif [[ $option == '=' ]]; then\n"
      "    option=${COMP_WORDS[COMP_CWORD - 2]}\n"
      "  fi\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    if [[ ${COMP_WORDS[i]} != -* ]]; then\n"
      "      subcommand=${COMP_WORDS[i]}\n"
      "      break\n"
      "    fi\n"
      "  done\n"
      "  case $subcommand in\n";
  out += "    '')\n      _rota_words " + shell_quoted(joined(names_of(subcommands)) + " --help") + "\n      ;;\n";
  for (const Subcommand& each : subcommands) {
    out += "    " + each.name + ")\n      case $option in\n";
    for (const Option& option : all_options(each, &flags)) {
      if (option.takes() == Takes::kNothing) continue;
      out += "        " + joined(option.names, " | ") + ")\n          " + bash_value(option) +
             "\n          return\n          ;;\n";
    }
    out += "      esac\n      if [[ $cur == -* ]]; then\n        _rota_words " +
           shell_quoted(joined(names_of(all_options(each, &flags)))) + "\n";
    if (!each.positionals.empty() && each.positionals.front().takes() != Takes::kText) {
      out += "      else\n        " + bash_value(each.positionals.front()) + "\n";
    }
    out += "      fi\n      ;;\n";
  }
  return out + "  esac\n}\ncomplete -F _rota rota\n";
}

std::string zsh_completion(const std::vector<Subcommand>& subcommands) {
  const auto described = [](std::string_view text) {  // Within [...] of _arguments.
    std::string out;
    for (const char c : text) {
      if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
      out += c;
    }
    return out;
  };
  const auto action = [](const Option& option) -> std::string {
    switch (option.takes()) {
      case Takes::kChoice:
        return "(" + joined(option.choices) + ")";
      case Takes::kFile:
        return "_files";
      case Takes::kFolder:
        return "_files -/";
      case Takes::kId:
        return "{compadd ${(f)\"$(rota complete-ids 2> /dev/null)\"}}";
      default:
        return " ";
    }
  };
  CommonFlags flags;
  std::string out =
      "#compdef rota\n"
      "# Completion of rota for zsh; printed by `rota completion zsh`.\n"
      "_rota() {\n"
      "  local context state state_descr line\n"
      "  typeset -A opt_args\n"
      "  local -a subcommands\n"
      "  subcommands=(\n";
  for (const Subcommand& each : subcommands)
    out += "    " + shell_quoted(each.name + ":" + described(each.meaning)) + "\n";
  out +=
      "  )\n"
      "  _arguments -C '(-h --help)'{-h,--help}'[help]' '1: :->subcommand' '*:: :->rest'\n"
      "  case $state in\n"
      "    subcommand)\n"
      "      _describe -t subcommands subcommand subcommands\n"
      "      ;;\n"
      "    rest)\n"
      "      case $line[1] in\n";
  for (const Subcommand& each : subcommands) {
    out += "        " + each.name + ")\n          _arguments";
    for (const Option& option : all_options(each, &flags)) {
      for (const std::string& name : option.names) {
        const bool value = option.takes() != Takes::kNothing;
        std::string spec = option.names.size() > 1 ? "(" + joined(option.names) + ")" : option.many ? "*" : "";
        spec += name + (value && name.starts_with("--") ? "=" : "") + "[" + described(option.meaning) + "]";
        if (value) spec += ":" + described(option.value) + ":" + action(option);
        out += " \\\n            " + shell_quoted(spec);
      }
    }
    for (std::size_t i = 0; i < each.positionals.size(); ++i) {
      const Option& option = each.positionals[i];
      const std::string place = option.many ? "*" : std::to_string(i + 1);
      const std::string spec =
          place + (option.required || option.many ? ":" : "::") + described(option.name()) + ":" + action(option);
      out += " \\\n            " + shell_quoted(spec);
    }
    out += "\n          ;;\n";
  }
  return out +
         "      esac\n"
         "      ;;\n"
         "  esac\n"
         "}\n"
         "if [[ $funcstack[1] == _rota ]]; then\n"
         "  _rota \"$@\"\n"
         "else\n"
         "  compdef _rota rota\n"
         "fi\n";
}

std::string fish_completion(const std::vector<Subcommand>& subcommands) {
  const auto text = [](std::string_view raw) {  // Within single quotes.
    std::string out = "'";
    for (const char c : raw) {
      if (c == '\'' || c == '\\') out += '\\';
      out += c == '\n' ? ' ' : c;
    }
    return out + "'";
  };
  const auto value = [&](const Option& option) -> std::string {
    switch (option.takes()) {
      case Takes::kChoice:
        return " -x -a " + text(joined(option.choices));
      case Takes::kFile:
        return " -r -F";
      case Takes::kFolder:
        return " -x -a '(__fish_complete_directories)'";
      case Takes::kId:
        return " -x -a '(rota complete-ids 2> /dev/null)'";
      case Takes::kText:
        return " -x";
      case Takes::kNothing:
        break;
    }
    return "";
  };
  CommonFlags flags;
  std::string out =
      "# Completion of rota for fish; printed by `rota completion fish`.\n"
      "complete -c rota -f\n"
      "complete -c rota -n __fish_use_subcommand -s h -l help -d 'help'\n";
  for (const Subcommand& each : subcommands) {
    out += "complete -c rota -n __fish_use_subcommand -a " + each.name + " -d " + text(each.meaning) + "\n";
    const std::string begin = "complete -c rota -n '__fish_seen_subcommand_from " + each.name + "'";
    for (const Option& option : all_options(each, &flags)) {
      out += begin;
      for (const std::string& name : option.names) {
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      out += value(option) + " -d " + text(option.meaning) + "\n";
    }
    for (const Option& option : each.positionals) {
      if (option.takes() == Takes::kFile) out += begin + " -F\n";
      if (option.takes() == Takes::kId) out += begin + value(option) + "\n";
      if (option.takes() == Takes::kChoice) out += begin + " -a " + text(joined(option.choices)) + "\n";
    }
  }
  return out;
}

}  // namespace rota::cli
