// Draws task_worker_density.json (host/density.h) as an SVG picture: tasks submitted per bucket as bars, active workers
// as a line over them (H-3).
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rota/result.h"

namespace rota::cli {

struct DensityData {
  using Points =
      std::vector<std::pair<std::int64_t, std::int64_t>>;  // Start of the bucket in seconds since 1970, number.
  std::int64_t bucket_sec = 0;
  Points submissions{};
  Points active_workers{};
};

// ParseError, with what is wrong.
[[nodiscard]] Result<DensityData> parse_density(std::string_view json);
// A picture of 960 x 360. Buckets without a point have no submissions, and the workers of the bucket before.
[[nodiscard]] std::string density_svg(const DensityData& data);

}  // namespace rota::cli
