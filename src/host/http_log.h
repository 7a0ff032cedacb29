// The body of GET /v1/log: encoded records, each with its length before it (4 bytes, the highest first).
//
// Thread safety: functions without state.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rota/result.h"

namespace rota::host {

inline constexpr std::string_view kLogType = "application/vnd.rota.log";
// The encoded specification of a workflow, as the host's own release of `rota submit` sends it (model/codec.h).
inline constexpr std::string_view kSpecType = "application/vnd.rota.workflow";

void append_log_record(std::string& body, std::string_view record);
// The records, as views into the body. Corrupt if it does not end with the end of a record.
[[nodiscard]] Result<std::vector<std::string_view>> split_log(std::string_view body);

}  // namespace rota::host
