// Metrics of a host (H-2): one list of families, written as Prometheus text (GET /metrics) and as JSON (metrics.json).
//
// What is counted from the log equals a recount of it (LogTail). Cost, energy, waits and times are counted from the
// start of this host.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "host/http_routes.h"
#include "rota/result.h"

namespace rota::host {

struct Metric {
  enum class Type : std::uint8_t { kCounter, kGauge, kHistogram };
  struct Sample {
    std::string_view suffix{};  // Of the name: "_bucket", "_sum", "_count" of a histogram.
    std::string_view label{};   // Empty: none.
    std::string of{};           // The label's value. It is ours, and needs no escape.
    std::string value{};        // A number.
  };
  std::string_view name{};
  Type type = Type::kCounter;
  std::string_view help{};
  std::vector<Sample> samples{};
};

// Unavailable while the host stops.
[[nodiscard]] Result<std::vector<Metric>> collect_metrics(HttpServices& services);

// Version 0.0.4 of the text format.
[[nodiscard]] std::string to_prometheus(const std::vector<Metric>& metrics);
// {"rota_tasks": {"type": "gauge", "help": "...", "samples": [{"state": "ready", "value": 3}, ...]}, ...}. A sample of
// a histogram also has its part: {"part": "bucket", "le": "0.001", "value": 7}.
[[nodiscard]] std::string to_json(const std::vector<Metric>& metrics);

}  // namespace rota::host
