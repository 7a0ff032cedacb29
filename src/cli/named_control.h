// What `rota workers` and `rota schedules` have in common: they list things of a host, or do something with one of
// them.
//
//   rota workers [list] [WHERE]         lists
//   rota workers drain NAME             an action, in place of WHERE, and a name
//
// Thread safety: functions without state.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/output.h"
#include "fleet/command.h"
#include "rota/result.h"

namespace rota::cli {

struct NamedOptions {
  std::string first;  // WHERE, "list", or an action.
  std::string name;   // What the action is done with; after "list", WHERE.
  std::string host;
};

struct NamedKind {
  std::string word{};     // "worker"
  std::string actions{};  // For messages: "drain, enable, disable and elastic".
  std::function<Result<int>(const std::string& where, Output& output)> list{};
  // The command of an action; none if there is no such action.
  std::function<std::optional<fleet::Command>(const std::string& action, const std::string& name)> command_of{};
};

[[nodiscard]] Result<int> list_or_control(const NamedKind& kind, const NamedOptions& options, Output& output);

}  // namespace rota::cli
