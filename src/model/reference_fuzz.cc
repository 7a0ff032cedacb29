// libFuzzer: no payload, value or condition may crash the brain, and what comes out is canonical JSON.
#include <cstddef>
#include <cstdint>
#include <string>

#include "model/json.h"
#include "model/reference.h"
#include "rota/assert.h"

namespace {

class Scope final : public rota::model::ReferenceScope {
 public:
  explicit Scope(std::string_view value) : value_(value) {}
  rota::Result<std::string_view> value(std::string_view, std::string_view) override { return value_; }

 private:
  std::string_view value_;
};

}  // namespace

// The bytes up to the first 0 are the payload and the condition, those after it are the value of everything.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace rota::model;  // NOLINT
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::size_t zero = all.find('\0');
  const std::string_view text = all.substr(0, zero);
  const std::string_view given = zero == std::string_view::npos ? "null" : all.substr(zero + 1);
  // As the brain does: a value that is no JSON never gets in. The helpers must bear it nevertheless.
  const bool valid = json_validate(given).ok();
  Scope scope(valid ? given : "{\"a\":[1,\"x\"]}");

  const auto uses = find_references(text);
  const auto resolved = resolve_references(text, scope, 1 << 20);
  ROTA_ASSERT(uses.ok() || !resolved.ok(), "resolved what was refused");
  if (resolved.ok()) ROTA_ASSERT(*rota::model::json_minify(*resolved) == *resolved, "not canonical");
  const auto checked = check_condition(text);
  const auto answer = evaluate_condition(text, scope);
  ROTA_ASSERT(checked.ok() || !answer.ok(), "evaluated what was refused");
  if (checked.ok() && !answer.ok()) {
    ROTA_ASSERT(answer.code() != rota::ErrorCode::kParseError, "refused what was checked");
  }
  return 0;
}
