#include "fleet/draw.h"

#include <array>
#include <bit>

namespace rota::fleet {

namespace {

__extension__ using Wide = unsigned __int128;
constexpr int kFraction = 32;  // Fractional bits of a logarithm.

constexpr std::uint64_t square_root(Wide x) {
  Wide root = 0;
  for (int bit = 63; bit >= 0; --bit) {
    const Wide next = root | Wide{1} << bit;
    if (next * next <= x) root = next;
  }
  return static_cast<std::uint64_t>(root);
}

// kPowers[k] = 2^(-2^-(k + 1)), where 2^64 stands for 1.
constexpr std::array<std::uint64_t, kFraction> kPowers = [] {
  std::array<std::uint64_t, kFraction> powers{};
  Wide power = Wide{1} << 63;
  for (std::uint64_t& each : powers) {
    each = square_root(power << 64);
    power = each;
  }
  return powers;
}();

// -log2(x / 2^64), in units of 2^-kFraction. REQUIRES: x > 0.
std::uint64_t negative_log2(std::uint64_t x) {
  const int zeros = std::countl_zero(x);
  std::uint64_t mantissa = x << zeros;  // In [1, 2), where 2^63 stands for 1.
  std::uint64_t fraction = 0;
  for (int i = 0; i < kFraction; ++i) {
    const Wide square = static_cast<Wide>(mantissa) * mantissa >> 63;
    const bool two = square >> 64 != 0;
    fraction = fraction << 1 | (two ? 1U : 0U);
    mantissa = static_cast<std::uint64_t>(two ? square >> 1 : square);
  }
  return (static_cast<std::uint64_t>(zeros + 1) << kFraction) - fraction;
}

}  // namespace

std::uint64_t draw_below(std::uint64_t uniform, std::uint64_t count) {
  return static_cast<std::uint64_t>(static_cast<Wide>(uniform) * count >> 64);
}

std::uint64_t largest_of(std::uint64_t uniform, std::uint64_t count) {
  if (count == 1) return uniform;
  const std::uint64_t exponent = negative_log2(uniform | 1U) / count;
  const std::uint64_t whole = exponent >> kFraction;
  if (whole >= 64) return 0;
  std::uint64_t power = ~0ULL;
  for (int k = 0; k < kFraction; ++k) {
    if ((exponent >> (kFraction - 1 - k) & 1U) == 0) continue;
    power = static_cast<std::uint64_t>(static_cast<Wide>(power) * kPowers[static_cast<std::size_t>(k)] >> 64);
  }
  return power >> whole;
}

}  // namespace rota::fleet
