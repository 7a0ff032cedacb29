// The layered graph of P-7, the same for every program: 100 layers, each node with three parents in the layer before.
//
// Nodes are numbered layer by layer. The parents are drawn by a fixed generator, so that every program sees the same
// graph. Immutable once made.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace bench {

struct Dag {
  static constexpr std::uint32_t kLayers = 100;
  static constexpr std::uint32_t kParents = 3;

  // REQUIRES: nodes >= kLayers * kParents.
  explicit Dag(std::uint64_t nodes)
      : width(static_cast<std::uint32_t>(nodes / kLayers)), size(width * kLayers), parents(size) {
    std::uint64_t state = 0x9e3779b97f4a7c15u;
    for (std::uint32_t node = width; node < size; ++node) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const auto first = static_cast<std::uint32_t>((state >> 33) % width);
      const std::uint32_t layer_before = (node / width - 1) * width;
      // Distinct for every width >= 3: the offsets 0, 1 and width / 2 + 1 (at width 3: 0, 1 and 2) differ.
      parents[node] = {layer_before + first, layer_before + (first + 1) % width,
                       layer_before + (first + width / 2 + 1) % width};
    }
  }
  std::uint32_t layer_of(std::uint32_t node) const { return node / width; }

  std::uint32_t width;
  std::uint32_t size;
  std::vector<std::array<std::uint32_t, kParents>> parents;  // Meaningless in the first layer.
};

}  // namespace bench
