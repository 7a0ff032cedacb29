#include "worker/task_check.h"

#include <cstdint>
#include <set>

#include "base/json_text.h"
#include "base/secret_file.h"
#include "model/json.h"

namespace rota::worker {

namespace {

// Years of milliseconds, petabytes: a larger number is a mistake, and sums of smaller ones do not overflow.
constexpr std::int64_t kMost = std::int64_t{1} << 53;

Error invalid(std::string message) { return Error{ErrorCode::kInvalidArgument, std::move(message)}; }

Result<void> check_range(std::string_view name, std::int64_t value) {
  if (value >= 0 && value <= kMost) return {};
  return invalid(std::string(name) + " must be a whole number from 0 to 2^53; it is " + std::to_string(value));
}

Result<void> check_environment(const model::ProgramSpec& program) {
  std::set<std::string_view> seen;
  std::vector<std::string_view> names;
  for (const model::Variable& variable : program.environment) names.emplace_back(variable.name);
  for (const model::SecretVariable& variable : program.secrets) {
    names.emplace_back(variable.name);
    if (!is_secret_name(variable.secret) || (!variable.version.empty() && !is_secret_name(variable.version))) {
      return invalid("env." + printable(variable.name) + ": '" +
                     printable(secret_file_name(variable.secret, variable.version)) +
                     "' cannot be the name of a secret");
    }
  }
  for (const std::string_view variable : names) {
    const std::string name = "env." + printable(variable);
    if (variable.empty() || variable.find_first_of(std::string_view("=\0", 2)) != std::string::npos) {
      return invalid(name + ": the name of a variable has at least one character, and no '=' or zero byte");
    }
    // ROTA_REF_1, ...: the values of references in the text for a shell.
    if (variable.starts_with("ROTA_") && !variable.starts_with("ROTA_REF_")) {
      return invalid(name + ": names that begin with ROTA_ are reserved for the worker; choose another name");
    }
    if (!seen.insert(variable).second) return invalid(name + " is given twice; remove one of the two");
  }
  return {};
}

Result<void> check_program(const model::ProgramSpec& program) {
  if (program.shell.empty() == program.arguments.empty()) {
    return invalid(program.shell.empty()
                       ? "run is empty; write text for a shell, or a list of a program and its arguments"
                       : "run is both text for a shell and a list of arguments; give one of the two");
  }
  ROTA_TRY(check_environment(program));
  const model::ProgramLimits& limits = program.limits;
  ROTA_TRY(check_range("limits.cpu_time_ms", limits.cpu_time_ms));
  ROTA_TRY(check_range("limits.memory_bytes", limits.memory_bytes));
  ROTA_TRY(check_range("limits.open_files", limits.open_files));
  ROTA_TRY(check_range("limits.processes", limits.processes));
  ROTA_TRY(check_range("limits.output_bytes", limits.output_bytes));
  return check_range("grace_ms", program.grace_ms.value_or(0));
}

}  // namespace

Result<void> check_json(std::string_view text) {
  Result<void> valid = model::json_validate(text);
  if (!valid.ok()) return std::move(valid).take_error().in("not valid JSON");
  return {};
}

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

Result<void> validate(const model::TaskSpec& spec) {
  if (spec.program) ROTA_TRY(check_program(*spec.program));
  ROTA_TRY(check_range("timeout_ms", spec.timeout_ms));
  if (Result<void> valid = check_json(spec.inputs); !valid.ok()) {
    return invalid("inputs: " + valid.error().message);
  }
  if (!spec.checkpoint.empty()) {
    if (Result<void> valid = check_json(spec.checkpoint); !valid.ok()) {
      return invalid("checkpoint: " + valid.error().message);
    }
  }
  return {};
}

}  // namespace rota::worker
