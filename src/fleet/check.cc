#include "fleet/check.h"

#include <string>

namespace rota::fleet {

Result<void> in_range(std::string_view what, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return {};
  return Error{ErrorCode::kInvalidArgument, std::string(what) + " is " + std::to_string(value) + "; allowed is " +
                                                std::to_string(least) + " to " + std::to_string(most)};
}

Result<void> amounts_in_range(const std::string& of, const model::Amounts& amounts) {
  for (const model::AmountKind& kind : model::kAmountKinds) {
    std::string what = of + std::string(kind.name);
    if (kind.unit == model::AmountUnit::kThousandths) what += " (thousandths of a core)";
    if (kind.unit == model::AmountUnit::kBytes) what += " in bytes";
    ROTA_TRY(
        in_range(what, amounts.*kind.member, 0, kind.unit == model::AmountUnit::kBytes ? kMostAmount : kMostCount));
  }
  for (const model::NamedAmount& entry : amounts.named) {
    ROTA_TRY(in_range(of + "'" + entry.name + "'", entry.count, 1, kMostCount));
  }
  if (amounts.named_is_valid()) return {};
  return Error{ErrorCode::kInvalidArgument, of + "named resources must have unique names, sorted"};
}

}  // namespace rota::fleet
