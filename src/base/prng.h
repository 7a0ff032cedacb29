// Random numbers that a seed reproduces on every machine: xoshiro256** seeded through splitmix64.
//
// Both algorithms are by Blackman and Vigna (public domain, https://prng.di.unimi.it). Recorded runs depend on the
// sequence for a seed; a test freezes it. Not for secrets.
//
// Nothing here calls into the standard library's distributions: their results differ between implementations.
//
// Thread safety: none; give each thread its own generator, separated by jump() or by a stream number.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>

#include "rota/assert.h"

namespace rota {

// A 64-bit generator for which every state is good; for seeding and for turning counters into well-mixed words.
class SplitMix64 {
 public:
  constexpr explicit SplitMix64(std::uint64_t seed) noexcept : state_(seed) {}

  constexpr std::uint64_t next() noexcept { return mix(state_ += 0x9e3779b97f4a7c15U); }

  // A bijection of 64-bit words.
  static constexpr std::uint64_t mix(std::uint64_t x) noexcept {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
  }

 private:
  std::uint64_t state_;
};

// Satisfies std::uniform_random_bit_generator.
class Prng {
 public:
  using result_type = std::uint64_t;
  using State = std::array<std::uint64_t, 4>;

  constexpr explicit Prng(std::uint64_t seed) noexcept {
    SplitMix64 mixer(seed);
    for (std::uint64_t& word : state_) word = mixer.next();
  }
  // Continues from a saved state. REQUIRES: not all zero.
  constexpr explicit Prng(const State& state) noexcept : state_(state) {
    ROTA_ASSERT((state_[0] | state_[1] | state_[2] | state_[3]) != 0, "xoshiro256** cannot start from zero");
  }

  [[nodiscard]] constexpr const State& state() const noexcept { return state_; }

  constexpr std::uint64_t next() noexcept {
    const std::uint64_t result = rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = rotl(state_[3], 45);
    return result;
  }

  constexpr std::uint64_t operator()() noexcept { return next(); }
  static constexpr std::uint64_t min() noexcept { return 0; }
  static constexpr std::uint64_t max() noexcept { return std::numeric_limits<std::uint64_t>::max(); }

  // Uniform over [0, bound), without bias: Lemire's multiply with rejection; one multiplication almost always.
  // REQUIRES: bound > 0.
  constexpr std::uint64_t below(std::uint64_t bound) noexcept {
    ROTA_DASSERT(bound > 0);
    auto [high, low] = multiply(next(), bound);
    if (low < bound) [[unlikely]] {
      const std::uint64_t threshold = (0 - bound) % bound;
      while (low < threshold) {
        const auto product = multiply(next(), bound);
        high = product.first;
        low = product.second;
      }
    }
    return high;
  }
  // Uniform over [low, high], both ends included. REQUIRES: low <= high.
  constexpr std::int64_t between(std::int64_t low, std::int64_t high) noexcept {
    ROTA_DASSERT(low <= high);
    const std::uint64_t span = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
    const std::uint64_t offset = span == max() ? next() : below(span + 1);
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(low) + offset);
  }
  // True with probability numerator / denominator, exactly. REQUIRES: denominator > 0.
  constexpr bool chance(std::uint64_t numerator, std::uint64_t denominator) noexcept {
    return below(denominator) < numerator;
  }
  // Uniform over the 2^53 multiples of 2^-53 in [0, 1). Not for pure rooms, which do not use floating point.
  constexpr double unit() noexcept { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  // Fisher-Yates shuffle of anything with size() and operator[].
  template <class Range>
  constexpr void shuffle(Range& range) noexcept(noexcept(std::swap(range[0], range[0]))) {
    for (std::size_t i = range.size(); i > 1; --i) {
      using std::swap;
      swap(range[i - 1], range[static_cast<std::size_t>(below(i))]);
    }
  }

  // Equivalent to 2^128 calls of next(): gives up to 2^128 sequences that do not overlap.
  constexpr void jump() noexcept {
    leap({0x180ec6d33cfd0abaU, 0xd5a61266f0c9392cU, 0xa9582618e03fc9aaU, 0x39abdc4529b1661cU});
  }
  // Equivalent to 2^192 calls of next().
  constexpr void long_jump() noexcept {
    leap({0x76e15d3efefdcbbfU, 0xc5004e441c522fb3U, 0x77710069854ee241U, 0x39109bb02acbe635U});
  }

  // An independent generator for a part of the program, by number: the same seed and stream give the same sequence,
  // whatever else was drawn. Two streams of one seed never start at the same place; the probability that they overlap
  // within 2^64 draws is about 2^-191. Where even that is too much, use jump().
  static constexpr Prng stream(std::uint64_t seed, std::uint64_t number) noexcept {
    return Prng(SplitMix64::mix(seed) ^ SplitMix64(number).next());
  }

  friend constexpr bool operator==(const Prng&, const Prng&) noexcept = default;

 private:
  static constexpr std::uint64_t rotl(std::uint64_t x, int k) noexcept { return (x << k) | (x >> (64 - k)); }

  static constexpr std::pair<std::uint64_t, std::uint64_t> multiply(std::uint64_t a, std::uint64_t b) noexcept {
#if defined(__SIZEOF_INT128__)
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(a) * b;
    return {static_cast<std::uint64_t>(product >> 64), static_cast<std::uint64_t>(product)};
#else
    const std::uint64_t a0 = a & 0xffffffffU, a1 = a >> 32, b0 = b & 0xffffffffU, b1 = b >> 32;
    const std::uint64_t p00 = a0 * b0, p01 = a0 * b1, p10 = a1 * b0;
    const std::uint64_t middle = (p00 >> 32) + (p01 & 0xffffffffU) + (p10 & 0xffffffffU);
    return {a1 * b1 + (p01 >> 32) + (p10 >> 32) + (middle >> 32), a * b};
#endif
  }

  constexpr void leap(const State& polynomial) noexcept {
    State sum{};
    for (const std::uint64_t word : polynomial) {
      for (int bit = 0; bit < 64; ++bit) {
        if ((word >> bit & 1U) != 0) {
          for (std::size_t i = 0; i < sum.size(); ++i) sum[i] ^= state_[i];
        }
        next();
      }
    }
    state_ = sum;
  }

  State state_{};
};

}  // namespace rota
