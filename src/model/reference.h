// References: how a task's payload and its condition speak of what is known only when it starts (B-13).
//
//   ${prepare.result.files[3].name}   what a stage came to; of a stage with several tasks, the array of their results
//   ${prepare.state}  .error          how a stage ended, and why it failed (Y-4)
//   ${matrix.lr}                      the task's own data
//   ${task.name}  .attempt  .index  .checkpoint      the task itself; the checkpoint is that of an earlier attempt
//   ${workflow.name}  .id  .state     the state only in stages of `finally`
//
//   reference = "${" root step { step } "}"
//   step      = "." name | "[" digits "]" | "['" any but ' "']" | '["' any but " '"]'
//   root, name = letters, digits, "_" and "-"
//
// They stand in the strings of the payload, not in its member names. `$${` is the text `${`; any other `${` must be a
// reference. A string that is nothing but one reference becomes the value with its type; one inside other text becomes
// text: a string as it is, anything else as JSON. What a reference stands for is never read again: a value that
// contains `${...}`, quotes or braces stays data.
//
// Thread safety: functions without state.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "model/task_spec.h"
#include "rota/result.h"

namespace rota::model {

inline constexpr std::size_t kResolvedMostBytes = std::size_t{16} << 20;
inline constexpr std::size_t kReferencesMost = 1000;  // In one payload or condition: each costs a search in a value.
inline constexpr std::size_t kReferenceMostSteps = 64;

struct ReferenceStep {
  std::string name{};     // A member,
  std::size_t index = 0;  // or an element,
  bool is_index = false;  // as this says.
  friend bool operator==(const ReferenceStep&, const ReferenceStep&) = default;
};

struct Reference {
  std::string text{};  // "${prepare.result.n}"
  std::string root{};  // "prepare"
  std::vector<ReferenceStep> path{};
  friend bool operator==(const Reference&, const Reference&) = default;
};

struct ReferenceUse {
  Reference reference{};
  std::string under{};  // Where in the payload: "inputs.models[2]". In a condition: "condition".
  std::size_t at = 0;   // The byte in the payload at which its string starts; in a condition, that of the reference.
  friend bool operator==(const ReferenceUse&, const ReferenceUse&) = default;
};

// `matrix`, `task` and `workflow`: what no stage may be called.
[[nodiscard]] bool is_reserved_root(std::string_view name);
// Letters, digits, "_" and "-", at least one: what a stage that is referred to must be called.
[[nodiscard]] bool is_reference_name(std::string_view name);
// Is it about how stages ended, and not about their results: `.state` or `.error` of a stage or of the workflow?
[[nodiscard]] bool is_about_end(const Reference& reference);
// Does it hand on weights (B-11): is a checkpoint or an adapter asked for, or put where one is expected?
[[nodiscard]] bool hands_on_weights(const ReferenceUse& use);

// One reference from the front of `text`, which starts with "${". Checks all but whether the stage exists.
// kParseError: the sentence, without a position.
Result<Reference> parse_reference(std::string_view text);

// All references of a JSON object, in order. kParseError for a text that is not a JSON object, or for a `${` that does
// not start a reference: what is wrong, where, and what would be right.
Result<std::vector<ReferenceUse>> find_references(std::string_view json);

// Where values come from. An error (say kWouldBlock: not known yet) ends the resolving with it.
class ReferenceScope {
 public:
  virtual ~ReferenceScope() = default;
  // A JSON value (json_validate), there as text until the next call. `member` is "result", "state" or "error" for a
  // stage; empty for `matrix`, whose value is the whole object; the name for `task` and `workflow`, one of those above.
  virtual Result<std::string_view> value(std::string_view root, std::string_view member) = 0;
};

// The JSON object with every reference replaced: canonical JSON (json_minify). kNotFound for a path that does not
// exist: the whole path, which part is missing and what is there instead. kTooLarge if it comes to more than
// `most_bytes`.
Result<std::string> resolve_references(std::string_view json, ReferenceScope& scope,
                                       std::size_t most_bytes = kResolvedMostBytes);

// One reference's value as it is written in what the scope returned, and valid as long as that.
Result<std::string_view> find_value(const Reference& reference, ReferenceScope& scope);
// One reference's value as canonical JSON.
Result<std::string> resolve_reference(const Reference& reference, ReferenceScope& scope);

// The same for all texts of a specification: `run`, `env`, `dir`, the patterns of `cache`, and `inputs`, which is JSON.
// In a text, a reference becomes the value's text: a string as it is, anything else as JSON.
Result<std::vector<ReferenceUse>> find_references(const TaskSpec& spec);
Result<TaskSpec> resolve_references(const TaskSpec& spec, ReferenceScope& scope,
                                    std::size_t most_bytes = kResolvedMostBytes);

// Conditions.
//
//   either     = both { ( "or" | "||" ) both }
//   both       = negation { ( "and" | "&&" ) negation }
//   negation   = ( "not" | "!" ) negation | comparison
//   comparison = operand [ ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) operand ]
//   operand    = "(" either ")" | reference | number | "string" | 'string' | "true" | "false" | "null"
//
// Numbers are compared as the decimals they are, of any length; strings by their bytes; arrays and objects for
// equality, member by member. Values of different kinds are unequal, and to ask which is less is an error. A value
// alone is true unless it is false, null, 0, "", [] or {}. `and` and `or` look at their right side only if the left
// does not decide. A "string" has JSON's escapes, a 'string' none.
//
// Its references, or kParseError: "column 7: ...", columns counted from 1 in bytes.
Result<std::vector<ReferenceUse>> check_condition(std::string_view text);
// kInvalidArgument for values that cannot be compared.
Result<bool> evaluate_condition(std::string_view text, ReferenceScope& scope);

}  // namespace rota::model
