#include "cli/subcommand.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "base/json_text.h"
#include "base/nearest.h"

namespace rota::cli {

namespace {

std::vector<std::string> split(std::string_view text, char at) {
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

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out += between;
    out += word;
  }
  return out;
}

Option named(std::string_view names, std::string value, std::string meaning) {
  Option option;
  option.names = split(names, ',');
  option.value = std::move(value);
  option.meaning = std::move(meaning);
  return option;
}

Error wrong(std::string message) { return Error{ErrorCode::kInvalidArgument, std::move(message)}; }

}  // namespace

Option::Takes Option::takes() const {
  if (value.empty()) return Takes::kNothing;
  if (!choices.empty()) return Takes::kChoice;
  if (value == "FILE" || value == "WHERE") return Takes::kFile;
  if (value == "WHAT" || value == "WORKFLOW") return Takes::kId;
  return value == "DIR" ? Takes::kFolder : Takes::kText;
}

std::string Subcommand::usage() const {
  std::string usage = "rota " + name + " [OPTIONS]";
  for (const Option& each : positionals) {
    const std::string word = each.name() + (each.many ? "..." : "");
    usage += each.required ? " " + word : " [" + word + "]";
  }
  return usage;
}

Option flag(std::string_view names, bool* to, std::string meaning) {
  Option option = named(names, "", std::move(meaning));
  option.flag = to;
  return option;
}

Option text(std::string_view names, std::string value, std::string* to, std::string meaning) {
  Option option = named(names, std::move(value), std::move(meaning));
  option.set = [to](const std::string& given) -> Result<void> {
    *to = given;
    return {};
  };
  return option;
}

Option texts(std::string_view names, std::string value, std::vector<std::string>* to, std::string meaning) {
  Option option = named(names, std::move(value), std::move(meaning));
  option.many = true;
  option.set = [to](const std::string& given) -> Result<void> {
    to->push_back(given);
    return {};
  };
  return option;
}

Option number(std::string_view names, std::int64_t* to, std::int64_t least, std::int64_t most, std::string meaning) {
  Option option = named(names, "N", std::move(meaning));
  option.set = [to, least, most](const std::string& given) -> Result<void> {
    std::int64_t parsed = 0;
    const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), parsed);
    if (error != std::errc() || end != given.data() + given.size() || parsed < least || parsed > most) {
      return wrong("write a number from " + std::to_string(least) + " to " + std::to_string(most));
    }
    *to = parsed;
    return {};
  };
  return option;
}

Option positional(std::string name, std::string* to, std::string meaning) {
  Option option = text(name, name, to, std::move(meaning));
  option.positional = true;
  return option;
}

Option positionals(std::string name, std::vector<std::string>* to, std::string meaning) {
  Option option = texts(name, name, to, std::move(meaning));
  option.positional = true;
  return option;
}

Option required(Option option) {
  option.required = true;
  return option;
}

Option excluding(Option option, std::string other) {
  option.excludes = std::move(other);
  return option;
}

Option workflow_file(std::string* to) { return required(positional("FILE", to, "the workflow file, YAML or JSON")); }

Option where(std::string* to) {
  return positional("WHERE", to,
                    "a workflow file, a state folder, a folder that contains .rota/, or the URL of a host; default: "
                    "$ROTA_URL, or the current folder");
}

std::vector<Option> with_host(std::string* to, std::vector<Option> own) {
  Option url = text("--host", "URL", to, "a host that is reached over HTTP; default: $ROTA_URL, or the context file's");
  url.set = [to](const std::string& given) -> Result<void> {
    if (!given.starts_with("http://") && !given.starts_with("https://")) {
      return wrong("write it like https://rota.example:7070");
    }
    *to = given;
    return {};
  };
  own.insert(own.begin(), {excluding(std::move(url), "--state"), host_state(to)});
  return own;
}

Option host_state(std::string* to) {
  return text("--state", "DIR", to, "the state folder of the host; default: $ROTA_HOST_STATE, or .rota/host");
}

std::string host_state_of(const std::string& given) {
  const char* named = std::getenv("ROTA_HOST_STATE");  // NOLINT(concurrency-mt-unsafe): no thread was started yet.
  const std::string state = !given.empty() ? given : named != nullptr && *named != '\0' ? named : ".rota/host";
  return std::filesystem::absolute(state).lexically_normal().string();
}

Option choice_option(std::string_view names, std::vector<std::string> choices, std::function<void(std::size_t)> choose,
                     std::string meaning) {
  Option option = named(names, joined(choices, "|"), std::move(meaning));
  option.choices = choices;
  option.set = [choices = std::move(choices), choose = std::move(choose)](const std::string& given) -> Result<void> {
    const auto found = std::find(choices.begin(), choices.end(), given);
    if (found == choices.end()) {
      const std::string_view near = nearest(given, choices);
      return wrong(near.empty() ? "write one of " + joined(choices, ", ")
                                : "did you mean '" + std::string(near) + "'? Allowed: " + joined(choices, ", "));
    }
    choose(static_cast<std::size_t>(found - choices.begin()));
    return {};
  };
  return option;
}

std::vector<Option> all_options(const Subcommand& subcommand, CommonFlags* flags) {
  std::vector<Option> options{flag("-h,--help", &flags->help, "print this help and exit")};
  options.insert(options.end(), subcommand.options.begin(), subcommand.options.end());
  if (!subcommand.json.empty()) {
    options.push_back(flag("--json", &flags->json, subcommand.json));
    options.push_back(excluding(flag("-q,--quiet", &flags->quiet, "print no progress, headings or remarks"), "--json"));
  }
  return options;
}

}  // namespace rota::cli
