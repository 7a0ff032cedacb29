// Lookups in the error table, and the cold paths of Result. See include/rota/error_code.h and include/rota/result.h.
#include "rota/result.h"

#include <algorithm>
#include <array>

namespace rota {
namespace {

constexpr ErrorCodeInfo kTable[] = {
#define ROTA_ERROR_ROW(name, number, http, exit, meaning) {ErrorCode::k##name, #name, http, exit, meaning},
    ROTA_ERROR_TABLE(ROTA_ERROR_ROW)
#undef ROTA_ERROR_ROW
};
constexpr std::size_t kRows = std::size(kTable);

constexpr bool ascending() {
  for (std::size_t i = 1; i < kRows; ++i) {
    if (kTable[i - 1].code >= kTable[i].code) return false;
  }
  return true;
}
static_assert(ascending(), "the rows of ROTA_ERROR_TABLE must be in ascending order of their numbers");

constexpr std::size_t kInternalRow = 1;
static_assert(kTable[kInternalRow].code == ErrorCode::kInternal);

std::size_t row_of(ErrorCode code) noexcept {
  const auto* const row = std::lower_bound(std::begin(kTable), std::end(kTable), code,
                                           [](const ErrorCodeInfo& info, ErrorCode c) { return info.code < c; });
  if (row == std::end(kTable) || row->code != code) return kInternalRow;
  return static_cast<std::size_t>(row - std::begin(kTable));
}

}  // namespace

std::span<const ErrorCodeInfo> error_codes() noexcept { return kTable; }

const ErrorCodeInfo& error_code_info(ErrorCode code) noexcept { return kTable[row_of(code)]; }

const ErrorCodeInfo* find_error_code(std::string_view name) noexcept {
  for (const ErrorCodeInfo& info : kTable) {
    if (info.name == name) return &info;
  }
  return nullptr;
}

std::string Error::to_string() const {
  std::string text(rota::to_string(code));
  if (!message.empty()) text.append(": ").append(message);
  for (std::size_t i = 0; i < details.size(); ++i) {
    text.append(i == 0 ? " (" : ", ").append(details[i].key).append("=").append(details[i].value);
  }
  if (!details.empty()) text.push_back(')');
  return text;
}

namespace detail {

const Error& bare_error(ErrorCode code) noexcept {
  // Made before main() starts, and never destroyed: a Result with a bare code may be read when memory is used up, and
  // while the process ends.
  static const auto* const errors = [] {
    auto* table = new std::array<Error, kRows>();
    for (std::size_t i = 0; i < kRows; ++i) (*table)[i] = Error{kTable[i].code, std::string(kTable[i].meaning), {}};
    return table;
  }();
  return (*errors)[row_of(code)];
}
namespace {
[[maybe_unused]] const Error& made_early = bare_error(ErrorCode::kInternal);
}

void value_of_error(const Error& error) { ROTA_PANIC("value() of an error: ", error.to_string()); }

void result_misuse(const char* what) { ROTA_PANIC("misuse of Result: ", what); }

}  // namespace detail
}  // namespace rota
