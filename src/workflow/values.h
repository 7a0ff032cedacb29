// Values that have no type of ours (inputs, matrix lists) as JSON, and references in texts.
//
// Thread safety: functions without state.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "model/reference.h"
#include "workflow/fields.h"

namespace rota::workflow {

// A reference and where it is written.
struct PlacedReference {
  model::Reference reference{};
  Position at{};
};

// Is called for every text.
using OnText = std::function<void(const Node& node, std::string_view text)>;

// Appends `node` as canonical JSON: plain scalars that are numbers, truth values or null are these, all others texts.
// False if there is something in it that JSON does not have, which is reported.
bool append_json(Reading& reading, const Node& node, const OnText& on_text, std::string& out);

// Every reference in a text that stands in a payload as it is; what is none is reported.
void collect_references(Reading& reading, const Node& node, std::string_view text, std::vector<PlacedReference>& out);

// Text for a shell. A reference becomes the variable ROTA_REF_1, ROTA_REF_2, ...: its value travels in the environment
// and never becomes part of the text, so that data never becomes code. Equal references share a variable.
//
// What counts: `${` name `.`, where the name is made of letters, digits, _ and -. No shell has such an expansion, but
// for one: `${VERSION-1.2}` is a default value. So a name with a - counts only if it is a stage's, or if .result
// follows. All else is the shell's. `$${` is the text `${`.
struct ShellText {
  std::string text{};                         // As it stands in the payload: each `${` of it is written `$${`.
  std::vector<model::Reference> variables{};  // The first is ROTA_REF_1's.
  std::vector<std::string> problems{};
};
[[nodiscard]] ShellText read_shell_text(std::string_view text, const std::function<bool(std::string_view)>& is_stage);

}  // namespace rota::workflow
