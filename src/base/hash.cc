// XXH3 behind base/hash.h. xxhash is compiled in here and its names are seen nowhere else.
#define XXH_INLINE_ALL
#define XXH_STATIC_LINKING_ONLY
#include "base/hash.h"

#include <xxhash.h>

#include <charconv>
#include <new>

namespace rota {
namespace {

XXH3_state_t* state_of(std::byte* bytes) noexcept { return std::launder(reinterpret_cast<XXH3_state_t*>(bytes)); }
const XXH3_state_t* state_of(const std::byte* bytes) noexcept {
  return std::launder(reinterpret_cast<const XXH3_state_t*>(bytes));
}

Hash128 to_hash128(XXH128_hash_t hash) noexcept { return {hash.high64, hash.low64}; }

// Not inlined: the copy of the state would cost every hash of a few bytes the setup of a large stack frame.
[[gnu::noinline]] Hash128 finish_streamed(const std::byte* so_far, std::span<const std::byte> rest) noexcept {
  XXH3_state_t state = *state_of(so_far);
  XXH3_128bits_update(&state, rest.data(), rest.size());
  return to_hash128(XXH3_128bits_digest(&state));
}

}  // namespace

std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

Hash128 hash128(std::span<const std::byte> bytes, std::uint64_t seed) noexcept {
  return to_hash128(XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed));
}

std::string Hash128::to_string() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text(32, '0');
  for (std::size_t i = 0; i < 16; ++i) {
    text[i] = kDigits[high >> (60 - 4 * i) & 0xfU];
    text[16 + i] = kDigits[low >> (60 - 4 * i) & 0xfU];
  }
  return text;
}

std::optional<Hash128> Hash128::parse(std::string_view text) noexcept {
  if (text.size() != 32) return std::nullopt;
  Hash128 hash;
  const auto half = [](std::string_view digits, std::uint64_t& out) {
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), out, 16);
    return result.ec == std::errc() && result.ptr == digits.data() + digits.size();
  };
  if (!half(text.substr(0, 16), hash.high) || !half(text.substr(16), hash.low)) return std::nullopt;
  return hash;
}

// XXH3 gives the same value for the same bytes in one call or in many, so the small path and the streaming path agree.
// Its state can be copied as bytes, so a Hasher is copyable.
static_assert(std::is_trivially_copyable_v<XXH3_state_t>);

void Hasher::raw_slow(std::span<const std::byte> bytes) noexcept {
  static_assert(sizeof(XXH3_state_t) == kStateBytes && alignof(XXH3_state_t) <= 64);
  if (!streaming_) {
    auto* fresh = ::new (static_cast<void*>(state_.data())) XXH3_state_t;
    XXH3_INITSTATE(fresh);
    // One state serves both widths: 64 and 128 bits differ only in the last step.
    XXH3_128bits_reset_withSeed(fresh, seed_);
    streaming_ = true;
  }
  XXH3_state_t* state = state_of(state_.data());
  XXH3_128bits_update(state, small_.data(), small_size_);
  XXH3_128bits_update(state, bytes.data(), bytes.size());
  small_size_ = 0;
}

std::uint64_t Hasher::finish64() const noexcept {
  if (!streaming_) return hash64(std::span(small_).first(small_size_), seed_);
  XXH3_state_t state = *state_of(state_.data());
  XXH3_64bits_update(&state, small_.data(), small_size_);
  return XXH3_64bits_digest(&state);
}

Hash128 Hasher::finish128() const noexcept {
  const auto rest = std::span(small_).first(small_size_);
  return streaming_ ? finish_streamed(state_.data(), rest) : hash128(rest, seed_);
}

}  // namespace rota
