// A worker as it describes itself when it registers (B-5).
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "rota/model/fields.h"
#include "rota/model/resources.h"

namespace rota::model {

// A name and a value that an operator gave to a machine: {"rack", "b7"}.
struct Label {
  std::string key{};
  std::string value{};
  ROTA_FIELDS(key, value)
  friend auto operator<=>(const Label&, const Label&) = default;
};

struct WorkerSpec {
  std::string name{};
  Resources resources{};
  std::string zone{};
  std::int64_t cost_microdollars_per_hour = 1'000'000;  // B-9: a worker that says nothing costs 1.
  std::int64_t power_milliwatts = 0;                    // 0: not known.
  std::vector<std::string> capabilities{};              // Sorted.
  std::vector<Label> labels{};                          // Sorted.
  std::vector<std::string> handlers{};                  // Types of tasks that it has a C++ handler for. Sorted.
  bool programs = true;                                 // It runs programs.
  std::string endpoint{};  // Where it can be reached, for people: "10.0.0.7:9000". No decision depends on it.
  ROTA_FIELDS(name, resources, zone, cost_microdollars_per_hour, power_milliwatts, capabilities, labels, handlers,
              programs, endpoint)
  friend auto operator<=>(const WorkerSpec&, const WorkerSpec&) = default;
};

// Something that a worker has at hand, and when it was last used: "model:llama-3". The time is wall time; 0: not known.
struct CacheItem {
  std::string item{};
  std::int64_t used_ns = 0;
  ROTA_FIELDS(item, used_ns)
  friend auto operator<=>(const CacheItem&, const CacheItem&) = default;
};

}  // namespace rota::model
