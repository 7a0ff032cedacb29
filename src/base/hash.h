// Hashes that are the same on every machine and in every version: XXH3 with a fixed seed.
//
//   hash64 / hash128   of bytes
//   Hasher             of a sequence of typed values, canonically encoded
//   SetHash            of a set of elements in any order, kept up to date in constant time
//
// For lookup and comparison, never against tampering: XXH3 is not cryptographic and the seed is public. Where somebody
// might forge a value, use SHA-256. The values are stored in logs and snapshots, so a test freezes them.
//
// Canonical encoding (Hasher): an integer is its fixed width in little-endian two's complement; a bool is one byte 0 or
// 1; an enum is its underlying integer; an id is its integer or text; text is a u64 length and the bytes; an optional
// is a bool and the value if any; a range is a u64 length and the elements in order. A sequence of values with the same
// types therefore has one encoding, and two different sequences of the same types have two. There are no floats:
// their bits are not their value.
//
// Thread safety: functions any thread; objects none.
#pragma once

#include <array>
#include <bit>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "rota/assert.h"
#include "rota/id.h"

namespace rota {

// "rota/1" in ASCII. Changing it changes every stored hash.
inline constexpr std::uint64_t kHashSeed = 0x726f74612f31U;

struct Hash128 {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend constexpr auto operator<=>(const Hash128&, const Hash128&) noexcept = default;
  // 32 lower-case hexadecimal digits, high half first.
  [[nodiscard]] std::string to_string() const;
  // Parses the format of to_string() (either case); nothing for other text.
  [[nodiscard]] static std::optional<Hash128> parse(std::string_view text) noexcept;
};

[[nodiscard]] std::uint64_t hash64(std::span<const std::byte> bytes, std::uint64_t seed = kHashSeed) noexcept;
[[nodiscard]] Hash128 hash128(std::span<const std::byte> bytes, std::uint64_t seed = kHashSeed) noexcept;
[[nodiscard]] inline std::uint64_t hash64(std::string_view text, std::uint64_t seed = kHashSeed) noexcept {
  return hash64(std::as_bytes(std::span(text)), seed);
}
[[nodiscard]] inline Hash128 hash128(std::string_view text, std::uint64_t seed = kHashSeed) noexcept {
  return hash128(std::as_bytes(std::span(text)), seed);
}

// Hashes a sequence of values. The result depends on the encoded bytes alone, not on how they were split into calls.
class Hasher {
 public:
  explicit Hasher(std::uint64_t seed = kHashSeed) noexcept : seed_(seed) {}

  // Bytes as they are, without a length, for data that is already canonical.
  Hasher& raw(std::span<const std::byte> bytes) noexcept {
    if (bytes.size() <= kSmallBytes - small_size_) [[likely]] {
      if (!bytes.empty()) std::memcpy(small_.data() + small_size_, bytes.data(), bytes.size());
      small_size_ += bytes.size();
    } else {
      raw_slow(bytes);
    }
    return *this;
  }

  template <std::integral T>
  [[gnu::always_inline]] Hasher& add(T value) noexcept {
    if constexpr (std::is_same_v<T, bool>) {
      return add(static_cast<std::uint8_t>(value ? 1 : 0));
    } else {
      auto bits = static_cast<std::make_unsigned_t<T>>(value);
      static_assert(std::endian::native == std::endian::little, "the bytes of `bits` are the encoding");
      if (sizeof bits <= kSmallBytes - small_size_) [[likely]] {
        std::memcpy(small_.data() + small_size_, &bits, sizeof bits);
        small_size_ += sizeof bits;
        return *this;
      }
      return raw(std::as_bytes(std::span(&bits, 1)));
    }
  }
  template <class T>
    requires std::is_enum_v<T>
  Hasher& add(T value) noexcept {
    return add(static_cast<std::underlying_type_t<T>>(value));
  }
  template <class Tag, class Rep>
  [[gnu::always_inline]] Hasher& add(Id<Tag, Rep> id) noexcept {
    return add(id.value());
  }
  template <class Tag>
  Hasher& add(const StringId<Tag>& id) noexcept {
    return add(id.view());
  }
  [[gnu::always_inline]] Hasher& add(const Hash128& hash) noexcept { return add(hash.high).add(hash.low); }
  Hasher& add(std::string_view text) noexcept {
    add(static_cast<std::uint64_t>(text.size()));
    return raw(std::as_bytes(std::span(text)));
  }
  Hasher& add(const std::string& text) noexcept { return add(std::string_view(text)); }
  Hasher& add(const char* text) noexcept { return add(std::string_view(text)); }
  template <class T>
  Hasher& add(const std::optional<T>& value) noexcept {
    add(value.has_value());
    if (value.has_value()) add(*value);
    return *this;
  }
  // Vectors, spans, arrays, ordered sets. REQUIRES: the order is part of the value; never an unordered container.
  template <std::ranges::sized_range Range>
    requires(!std::convertible_to<const Range&, std::string_view>)
  Hasher& add(const Range& range) noexcept {
    add(static_cast<std::uint64_t>(std::ranges::size(range)));
    for (const auto& element : range) add(element);
    return *this;
  }
  template <std::floating_point T>
  Hasher& add(T) = delete;

  // The hash of everything added so far; more may be added afterwards.
  [[nodiscard]] std::uint64_t finish64() const noexcept;
  [[nodiscard]] Hash128 finish128() const noexcept;

 private:
  static constexpr std::size_t kSmallBytes = 240;  // Up to this size XXH3 needs no state.
  static constexpr std::size_t kStateBytes = 576;  // XXH3_state_t, checked in hash.cc.

  void raw_slow(std::span<const std::byte> bytes) noexcept;

  std::uint64_t seed_;
  std::size_t small_size_ = 0;  // Bytes in small_ that state_ has not processed.
  bool streaming_ = false;      // state_ is constructed.
  std::array<std::byte, kSmallBytes> small_;
  alignas(64) std::array<std::byte, kStateBytes> state_;
};

// The hash of values: hash_of(task_id, attempt).
template <class... Values>
[[nodiscard]] Hash128 hash_of(const Values&... values) noexcept {
  Hasher hasher;
  (hasher.add(values), ...);
  return hasher.finish128();
}

// A hash of a multiset of elements, each given by its 128-bit hash, independent of their order. Adding and removing
// cost a few instructions, so the hash of a state can be updated while the state changes.
//
// It is the sum of the elements' hashes in each 64-bit half, with the number of elements, mixed at the end. An element
// that is added twice counts twice; include a key in each element (a task's id with its state) if elements may repeat.
//
// Guarantee: for elements that were not chosen to break it, two different sets have the same value with a probability
// of about 2^-128, and among 2^32 sets that are all compared with each other the probability of any collision is about
// 2^-65. It does not resist somebody who chooses the elements: sums are linear, so with k elements to choose from
// Wagner's generalised birthday attack finds a collision in about 2^(128 / (1 + log2 k)) work, and XXH3 itself can be
// inverted for short inputs. It detects divergence, not forgery.
class SetHash {
 public:
  constexpr void add(const Hash128& element) noexcept {
    high_ += element.high;
    low_ += element.low;
    ++count_;
  }
  // REQUIRES: the element was added and not removed since (only the count can be checked).
  constexpr void remove(const Hash128& element) noexcept {
    ROTA_ASSERT(count_ > 0, "removed from an empty SetHash");
    high_ -= element.high;
    low_ -= element.low;
    --count_;
  }
  constexpr void replace(const Hash128& before, const Hash128& after) noexcept {
    remove(before);
    add(after);
  }
  // Adds all elements of another set.
  constexpr void merge(const SetHash& other) noexcept {
    high_ += other.high_;
    low_ += other.low_;
    count_ += other.count_;
  }
  [[nodiscard]] constexpr std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] Hash128 value() const noexcept { return hash_of(high_, low_, count_); }

  friend constexpr bool operator==(const SetHash&, const SetHash&) noexcept = default;

 private:
  std::uint64_t high_ = 0;
  std::uint64_t low_ = 0;
  std::uint64_t count_ = 0;
};

}  // namespace rota
