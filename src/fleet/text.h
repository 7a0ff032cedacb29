// Commands and events as text: one line for people, scripts and tests; JSON for programs.
//
//   TaskAssigned task=wf-1.0 attempt=1 worker=worker-2 reasoning={why=score candidates=3}
// The grammar is in model/text_writer.h. JSON has "command" or "event" with the name as its first member.
//
// Thread safety: functions without state.
#pragma once

#include <string>
#include <string_view>

#include "fleet/command.h"
#include "fleet/event.h"
#include "rota/result.h"

namespace rota::fleet {

[[nodiscard]] std::string to_text(const Command& command);
[[nodiscard]] std::string to_text(const Event& event);
[[nodiscard]] std::string to_json(const Command& command);
[[nodiscard]] std::string to_json(const Event& event);

// kParseError: what is wrong at which column (from 1; also in the detail "column"), and what would be right.
[[nodiscard]] Result<Command> parse_command(std::string_view text);

// The fields of one struct, without its name: `mode=static_worker merge=false`. Instantiated in text.cc and
// text_parse.cc for Policy, WorkerSpec, TaskTemplate, WorkflowSpec and SetQuota, to write Reasoning, and to read
// FleetChange (what_if.h).
template <class T>
[[nodiscard]] std::string fields_to_text(const T& value);
template <class T>
[[nodiscard]] std::string fields_to_json(const T& value);
// Changes only the members that are named. After an error the content of `value` is unspecified.
template <class T>
[[nodiscard]] Result<void> parse_fields(std::string_view text, T& value);

}  // namespace rota::fleet
