#include "cli/policy_text.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "base/json_text.h"

namespace rota::cli {

namespace {

constexpr std::array<std::string_view, 5> kFractions = {"lambda_inference", "lambda_training", "lambda_other", "jitter",
                                                        "reject_threshold"};

// "0.25" is 250000000. From 0 to 1, with at most nine digits after the point.
Result<std::string> billionths(std::string_view name, std::string_view text) {
  const Error wrong{ErrorCode::kInvalidArgument,
                    std::string(name) + "=" + printable(text) +
                        ": write a fraction from 0 to 1 with at most nine digits after the "
                        "point, like 0.25"};
  const std::size_t point = std::min(text.find('.'), text.size());
  const std::string_view whole = text.substr(0, point);
  std::string digits(text.substr(std::min(point + 1, text.size())));
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if ((whole != "0" && whole != "1") || digits.size() > 9 || !std::all_of(digits.begin(), digits.end(), is_digit) ||
      (point < text.size() && digits.empty())) {
    return wrong;
  }
  digits.append(9 - digits.size(), '0');
  if (whole == "1") return digits == "000000000" ? Result<std::string>("1" + digits) : wrong;
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return digits;
}

}  // namespace

Result<std::string> policy_fields(std::string_view text) {
  std::string fields;
  std::string elastic;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view item = text.substr(at, end - at);
    at = end + 1;
    const std::size_t equals = item.find('=');
    if (equals == 0 || equals == std::string_view::npos || item.find_first_of(" {}[]\"") != std::string_view::npos) {
      return Error{ErrorCode::kParseError, "'" + printable(item) +
                                               "' is not of the form name=value; write a policy like "
                                               "mode=static_worker,lambda_other=0.2"};
    }
    std::string_view name = item.substr(0, equals);
    std::string value(item.substr(equals + 1));
    if (std::find(kFractions.begin(), kFractions.end(), name) != kFractions.end()) {
      ROTA_TRY_ASSIGN(value, billionths(name, value));
    }
    constexpr std::string_view kElastic = "elastic.";
    const bool inner = name.starts_with(kElastic);
    if (inner) name.remove_prefix(kElastic.size());
    std::string& to = inner ? elastic : fields;
    if (!to.empty()) to += ' ';
    to.append(name).append("=").append(value);
  }
  if (!elastic.empty()) fields += (fields.empty() ? "elastic={" : " elastic={") + elastic + "}";
  return fields;
}

}  // namespace rota::cli
