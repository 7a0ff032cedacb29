// Draws of one among many, from a hash: exact integer arithmetic, the same on every machine.
//
// A choice among n equal workers draws one of n places, so that each worker has the same chance for any n. A choice
// among groups whose scores differ by less than the jitter compares the largest jitter of each group. Both cost the
// same for one worker as for ten thousand.
//
// Thread safety: functions without state.
#pragma once

#include <cstdint>

namespace rota::fleet {

// Spreads the bits of a number evenly (the finaliser of SplitMix64).
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// An even number in [0, count) from an even 64-bit number. REQUIRES: count > 0.
[[nodiscard]] std::uint64_t draw_below(std::uint64_t uniform, std::uint64_t count);

// The largest of `count` independent even 64-bit numbers, drawn by one: uniform^(1 / count), where 2^64 stands for 1.
// Exact to about 30 bits. REQUIRES: count > 0.
[[nodiscard]] std::uint64_t largest_of(std::uint64_t uniform, std::uint64_t count);

}  // namespace rota::fleet
