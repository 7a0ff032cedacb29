// The workflows of the rows about the host (P-13, P-14): handlers that do nothing, in three forms.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/workflow_spec.h"

namespace bench {

namespace model = rota::model;

inline constexpr std::uint32_t kLayerWidth = 100;

inline model::WorkflowSpec empty_spec() {
  model::WorkflowSpec spec;
  spec.name = "bench";
  spec.user = "bench";
  spec.templates.emplace_back();
  spec.templates.back().spec.type = "noop";
  return spec;
}

inline model::WorkflowSpec flat_spec(std::uint64_t count) {
  model::WorkflowSpec spec = empty_spec();
  model::Stage& stage = spec.stages.emplace_back();
  stage.name = "flat";
  for (std::uint64_t i = 0; i < count; ++i) stage.items.push_back("{\"i\":" + std::to_string(i) + "}");
  return spec;
}

// Stages of one task each, task i behind needs(i).
template <typename Needs>
model::WorkflowSpec spec_of_stages(std::uint64_t count, const Needs& needs) {
  model::WorkflowSpec spec = empty_spec();
  for (std::uint64_t i = 0; i < count; ++i) {
    model::Stage& stage = spec.stages.emplace_back();
    stage.name = "s" + std::to_string(i);
    stage.needs = needs(static_cast<std::uint32_t>(i));
  }
  return spec;
}

inline model::WorkflowSpec chain_spec(std::uint64_t count) {
  return spec_of_stages(
      count, [](std::uint32_t i) { return i == 0 ? std::vector<std::uint32_t>{} : std::vector<std::uint32_t>{i - 1}; });
}

// Each task behind three of the layer before.
inline model::WorkflowSpec layers_spec(std::uint64_t count) {
  return spec_of_stages(count, [](std::uint32_t i) {
    std::vector<std::uint32_t> needs;
    if (i < kLayerWidth) return needs;
    const std::uint32_t above = (i / kLayerWidth - 1) * kLayerWidth;
    for (const std::uint32_t step : {0U, 1U, 7U}) {
      needs.push_back(above + (i % kLayerWidth + step) % kLayerWidth);
    }
    return needs;
  });
}

}  // namespace bench
