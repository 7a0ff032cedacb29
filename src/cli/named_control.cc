#include "cli/named_control.h"

#include "base/json_text.h"
#include "cli/control_client.h"
#include "cli/remote_host.h"

namespace rota::cli {

Result<int> list_or_control(const NamedKind& kind, const NamedOptions& options, Output& output) {
  const std::optional<fleet::Command> command = kind.command_of(options.first, options.name);
  if (!command) {
    const bool listed = options.first == "list";
    if (!options.name.empty() && !listed) {
      return Error{ErrorCode::kInvalidArgument, "'" + printable(options.first) + "' is not something to do with a " +
                                                    kind.word + "; there are " + kind.actions};
    }
    const std::string& where = listed ? options.name : options.first;
    return kind.list(where.empty() ? options.host : where, output);
  }
  if (options.name.empty()) {
    return Error{ErrorCode::kInvalidArgument, "which " + kind.word + "? `rota " + kind.word + "s` lists them"};
  }
  ROTA_TRY_ASSIGN(const std::string target, host_target(options.host));
  ROTA_TRY_ASSIGN(const host::ControlAnswer answer, ask_host(target, host::Execute{*command}));
  output.controlled(options.first, options.name, answer.index);
  return 0;
}

}  // namespace rota::cli
