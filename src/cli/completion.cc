// Completion scripts for bash, zsh and fish.
#include <string>
#include <string_view>
#include <vector>

#include "cli/describe.h"

namespace rota::cli {

namespace {

using Takes = OptionText::Takes;

// 'it'\''s': for any shell but fish.
std::string quoted(std::string_view text) {
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

std::vector<std::string> names_of(const std::vector<OptionText>& options) {
  std::vector<std::string> names;
  for (const OptionText& option : options) names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

std::vector<std::string> names_of(const std::vector<VerbText>& verbs) {
  std::vector<std::string> names;
  for (const VerbText& verb : verbs) names.push_back(verb.name);
  return names;
}

// What bash does for a value.
std::string bash_value(const OptionText& option) {
  switch (option.takes) {
    case Takes::kChoice:
      return "_rota_words " + quoted(joined(option.choices));
    case Takes::kFile:
      return "_rota_files -f";
    case Takes::kFolder:
      return "_rota_files -d";
    default:
      return ":";
  }
}

}  // namespace

std::string bash_completion(const std::vector<VerbText>& verbs) {
  std::string out =
      "# Completion of rota for bash; written by `rota completion bash`.\n"
      "_rota_words() {\n"
      "  mapfile -t COMPREPLY < <(compgen -W \"$1\" -- \"$cur\")\n"
      "}\n"
      "_rota_files() {\n"
      "  compopt -o filenames 2> /dev/null\n"
      "  mapfile -t COMPREPLY < <(compgen \"$1\" -- \"$cur\")\n"
      "}\n"
      "_rota() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD - 1]} verb= i\n"
      "  COMPREPLY=()\n"
      "  # `--option=value` arrives as three words.\n"
      "  if [[ $cur == '=' ]]; then\n"
      "    cur=\n"
      "  elif [[ $option == '=' ]]; then\n"
      "    option=${COMP_WORDS[COMP_CWORD - 2]}\n"
      "  fi\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    if [[ ${COMP_WORDS[i]} != -* ]]; then\n"
      "      verb=${COMP_WORDS[i]}\n"
      "      break\n"
      "    fi\n"
      "  done\n"
      "  case $verb in\n";
  out += "    '')\n      _rota_words " + quoted(joined(names_of(verbs)) + " --help") + "\n      ;;\n";
  for (const VerbText& verb : verbs) {
    out += "    " + verb.name + ")\n      case $option in\n";
    for (const OptionText& option : verb.options) {
      if (option.takes == Takes::kNothing) continue;
      out += "        " + joined(option.names, " | ") + ")\n          " + bash_value(option) +
             "\n          return\n          ;;\n";
    }
    out += "      esac\n      if [[ $cur == -* ]]; then\n        _rota_words " +
           quoted(joined(names_of(verb.options))) + "\n";
    if (!verb.positionals.empty() && verb.positionals.front().takes != Takes::kText) {
      out += "      else\n        " + bash_value(verb.positionals.front()) + "\n";
    }
    out += "      fi\n      ;;\n";
  }
  return out + "  esac\n}\ncomplete -F _rota rota\n";
}

std::string zsh_completion(const std::vector<VerbText>& verbs) {
  const auto described = [](std::string_view text) {  // Within [...] of _arguments.
    std::string out;
    for (const char c : text) {
      if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
      out += c;
    }
    return out;
  };
  const auto action = [](const OptionText& option) -> std::string {
    switch (option.takes) {
      case Takes::kChoice:
        return "(" + joined(option.choices) + ")";
      case Takes::kFile:
        return "_files";
      case Takes::kFolder:
        return "_files -/";
      default:
        return " ";
    }
  };
  std::string out =
      "#compdef rota\n"
      "# Completion of rota for zsh; written by `rota completion zsh`.\n"
      "_rota() {\n"
      "  local context state state_descr line\n"
      "  typeset -A opt_args\n"
      "  local -a verbs\n"
      "  verbs=(\n";
  for (const VerbText& verb : verbs) out += "    " + quoted(verb.name + ":" + described(verb.meaning)) + "\n";
  out +=
      "  )\n"
      "  _arguments -C '(-h --help)'{-h,--help}'[help]' '1: :->verb' '*:: :->rest'\n"
      "  case $state in\n"
      "    verb)\n"
      "      _describe -t verbs verb verbs\n"
      "      ;;\n"
      "    rest)\n"
      "      case $line[1] in\n";
  for (const VerbText& verb : verbs) {
    out += "        " + verb.name + ")\n          _arguments";
    for (const OptionText& option : verb.options) {
      for (const std::string& name : option.names) {
        const bool value = option.takes != Takes::kNothing;
        std::string spec = option.names.size() > 1 ? "(" + joined(option.names) + ")" : option.many ? "*" : "";
        spec += name + (value && name.starts_with("--") ? "=" : "") + "[" + described(option.meaning) + "]";
        if (value) spec += ":" + described(option.value) + ":" + action(option);
        out += " \\\n            " + quoted(spec);
      }
    }
    for (std::size_t i = 0; i < verb.positionals.size(); ++i) {
      const OptionText& each = verb.positionals[i];
      const std::string place = each.many ? "*" : std::to_string(i + 1);
      const std::string spec =
          place + (each.required || each.many ? ":" : "::") + described(each.names.front()) + ":" + action(each);
      out += " \\\n            " + quoted(spec);
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

std::string fish_completion(const std::vector<VerbText>& verbs) {
  const auto text = [](std::string_view raw) {  // Within single quotes.
    std::string out = "'";
    for (const char c : raw) {
      if (c == '\'' || c == '\\') out += '\\';
      out += c == '\n' ? ' ' : c;
    }
    return out + "'";
  };
  const auto value = [&](const OptionText& option) -> std::string {
    switch (option.takes) {
      case Takes::kChoice:
        return " -x -a " + text(joined(option.choices));
      case Takes::kFile:
        return " -r -F";
      case Takes::kFolder:
        return " -x -a '(__fish_complete_directories)'";
      case Takes::kText:
        return " -x";
      case Takes::kNothing:
        break;
    }
    return "";
  };
  std::string out =
      "# Completion of rota for fish; written by `rota completion fish`.\n"
      "complete -c rota -f\n"
      "complete -c rota -n __fish_use_subcommand -s h -l help -d 'help'\n";
  for (const VerbText& verb : verbs) {
    out += "complete -c rota -n __fish_use_subcommand -a " + verb.name + " -d " + text(verb.meaning) + "\n";
    const std::string begin = "complete -c rota -n '__fish_seen_subcommand_from " + verb.name + "'";
    for (const OptionText& option : verb.options) {
      out += begin;
      for (const std::string& name : option.names) {
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      out += value(option) + " -d " + text(option.meaning) + "\n";
    }
    for (const OptionText& each : verb.positionals) {
      if (each.takes == Takes::kFile) out += begin + " -F\n";
      if (each.takes == Takes::kChoice) out += begin + " -a " + text(joined(each.choices)) + "\n";
    }
  }
  return out;
}

}  // namespace rota::cli
