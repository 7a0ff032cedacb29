// The bytes of a value: one encoding for each value, taken from the lists of ROTA_FIELDS.
//
//   std::string bytes;  encode(command, bytes);
//   Result<Command> again = decode<Command>(bytes);
//
//   bool             1 byte, 0 or 1
//   enum             1 byte, at most the last enumerator
//   unsigned number  LEB128: 7 bits a byte, lowest first, the top bit says that more follow; the shortest form only
//   signed number    zigzag (0, -1, 1, -2, ...), then as an unsigned one
//   id               its number
//   Hash128          16 bytes, high half first, each half little-endian
//   text             its length in bytes, the bytes
//   list             its length, the elements
//   optional         a bool, the value if there is one
//   struct           its fields in order
//   variant          1 byte, which alternative; the alternative
//
// Canonical: decode() accepts exactly what encode() writes, so that equal values have equal bytes and accepted bytes
// have one value. Hashes and the log's chain rest on that.
//
// Decoding never reads past the end, whatever the bytes. A length is at most the bytes that are left, memory grows with
// what was really read, and the depth is that of the types, none of which contains itself.
//
// Thread safety: functions any thread; objects none.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "model/enum_names.h"
#include "rota/model/ids.h"
#include "rota/result.h"

namespace rota::model {

namespace detail {
struct AnyVisit {
  void operator()(std::string_view, auto&) const {}
};
template <class T>
inline constexpr bool is_variant = false;
template <class... T>
inline constexpr bool is_variant<std::variant<T...>> = true;
template <class T>
inline constexpr bool is_vector = false;
template <class T>
inline constexpr bool is_vector<std::vector<T>> = true;
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_id = std::is_same_v<T, TaskId>;
template <class Tag, class Rep>
inline constexpr bool is_id<Id<Tag, Rep>> = true;
// Ids that are written with a prefix: "wf-1", not "1".
template <class T>
inline constexpr bool has_prefix = std::is_same_v<T, TaskId>;
template <class Tag, class Rep>
inline constexpr bool has_prefix<Id<Tag, Rep>> = rota::detail::HasIdPrefix<Tag>;
template <class T>
concept HasPrefix = has_prefix<T>;
template <class T>
concept HasFields = requires(T& value) { T::fields(value, AnyVisit()); };
template <class T>
concept HasName = requires {
  { T::kName } -> std::convertible_to<std::string_view>;
};
constexpr std::uint64_t zigzag(std::int64_t value) {
  return static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63);
}
constexpr std::int64_t unzigzag(std::uint64_t bits) { return static_cast<std::int64_t>(bits >> 1 ^ (0 - (bits & 1))); }
}  // namespace detail

// Writes values to a sink (anything with append(const char*, size)), through a buffer of its own: what is written is
// there for sure only after flush() or the destructor.
template <class Sink>
class BasicEncoder {
 public:
  explicit BasicEncoder(Sink& sink) noexcept : sink_(sink) {}
  BasicEncoder(const BasicEncoder&) = delete;
  BasicEncoder& operator=(const BasicEncoder&) = delete;
  ~BasicEncoder() {
    if (size_ > 0) flush();
  }

  template <class T>
  void add(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      byte(value ? 1 : 0);
    } else if constexpr (std::is_enum_v<T>) {
      static_assert(sizeof(T) == 1, "an enum is one byte");
      byte(static_cast<std::uint8_t>(value));
    } else if constexpr (std::unsigned_integral<T>) {
      number(value);
    } else if constexpr (std::signed_integral<T>) {
      number(detail::zigzag(value));
    } else if constexpr (detail::is_id<T>) {
      number(value.value());
    } else if constexpr (std::is_same_v<T, Hash128>) {
      half(value.high);
      half(value.low);
    } else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::string_view>) {
      number(value.size());
      if (!value.empty()) raw(value);
    } else if constexpr (detail::is_vector<T>) {
      number(value.size());
      for (const auto& element : value) add(element);
    } else if constexpr (detail::is_optional<T>) {
      byte(value ? 1 : 0);
      if (value) add(*value);
    } else if constexpr (detail::is_variant<T>) {
      static_assert(std::variant_size_v<T> <= 256);
      byte(static_cast<std::uint8_t>(value.index()));
      std::visit([this](const auto& alternative) { this->add(alternative); }, value);
    } else {
      static_assert(detail::HasFields<T>, "no encoding for this type");
      T::fields(value, [this](std::string_view, const auto& member) { this->add(member); });
    }
  }

  // Bytes as they are, without a length.
  void raw(std::string_view bytes) {
    if (bytes.size() > kBytes - size_) [[unlikely]] {
      flush();
      if (bytes.size() > kBytes) {
        sink_.append(bytes.data(), bytes.size());
        return;
      }
    }
    if (!bytes.empty()) std::memcpy(buffer_.data() + size_, bytes.data(), bytes.size());
    size_ += bytes.size();
  }

  // Not inlined: nearly every field asks whether there is room.
  [[gnu::noinline]] void flush() {
    if (size_ > 0) sink_.append(buffer_.data(), size_);
    size_ = 0;
  }
  // What is written and not yet flushed.
  [[nodiscard]] std::string_view pending() const noexcept { return {buffer_.data(), size_}; }
  // Forgets that: the caller has taken it from pending().
  void drop_pending() noexcept { size_ = 0; }

 private:
  static constexpr std::size_t kBytes = 512;
  static constexpr std::size_t kMostPiece = 10;  // A number of 64 bits.

  void room() {
    if (kBytes - size_ < kMostPiece) [[unlikely]]
      flush();
  }
  [[gnu::always_inline]] void byte(std::uint8_t value) {
    room();
    buffer_[size_++] = static_cast<char>(value);
  }
  // Most numbers of a record are small.
  [[gnu::always_inline]] void number(std::uint64_t value) {
    if (value < 0x80) [[likely]] {
      byte(static_cast<std::uint8_t>(value));
    } else {
      long_number(value);
    }
  }
  // The place is kept in a variable: for all that the compiler knows, a byte that is stored might be size_ itself.
  [[gnu::noinline]] void long_number(std::uint64_t value) {
    room();
    char* at = buffer_.data() + size_;
    while (value >= 0x80) {
      *at++ = static_cast<char>(value | 0x80);
      value >>= 7;
    }
    *at++ = static_cast<char>(value);
    size_ = static_cast<std::size_t>(at - buffer_.data());
  }
  void half(std::uint64_t value) {
    static_assert(std::endian::native == std::endian::little, "the bytes of `value` are the encoding");
    room();
    std::memcpy(buffer_.data() + size_, &value, sizeof value);
    size_ += sizeof value;
  }

  Sink& sink_;
  std::size_t size_ = 0;
  std::array<char, kBytes> buffer_;  // Not initialised: only the first size_ bytes mean something.
};
using Encoder = BasicEncoder<std::string>;

// Reads values. After the first thing that is wrong it reads nothing more, and error() says what it was.
class Decoder {
 public:
  explicit Decoder(std::string_view bytes) noexcept : bytes_(bytes) {}

  // False if the bytes are wrong; `value` is then of no use. REQUIRES: ok().
  template <class T>
  [[nodiscard]] bool read(T& value);

  [[nodiscard]] bool ok() const noexcept { return !failed_; }
  [[nodiscard]] std::size_t position() const noexcept { return at_; }
  [[nodiscard]] std::size_t left() const noexcept { return bytes_.size() - at_; }
  // False, with an error, if anything is left.
  [[nodiscard]] bool finish();
  // The next `size` bytes as they are.
  [[nodiscard]] bool raw(std::size_t size, std::string_view& bytes);
  // kCorrupt: what was wrong, at which byte, in which field ("TaskAssigned.reasoning.why"); details "byte" and "field".
  // REQUIRES: !ok().
  [[nodiscard]] Error error() const;

 private:
  [[nodiscard]] bool byte(unsigned most, std::uint8_t& value) {
    if (at_ == bytes_.size()) [[unlikely]]
      return ends_early();
    value = static_cast<std::uint8_t>(bytes_[at_]);
    if (value > most) [[unlikely]]
      return too_large(at_, value, most);
    ++at_;
    return true;
  }
  [[nodiscard]] bool number(std::uint64_t most, std::uint64_t& value) {
    if (at_ < bytes_.size() && static_cast<std::uint8_t>(bytes_[at_]) < 0x80) [[likely]] {
      value = static_cast<std::uint8_t>(bytes_[at_]);  // Every `most` of a number type is over 127.
      ++at_;
      return true;
    }
    return long_number(most, value);
  }
  [[nodiscard]] bool length(std::size_t& size);
  [[nodiscard]] bool long_number(std::uint64_t most, std::uint64_t& value);
  [[nodiscard]] bool half(std::uint64_t& value);

  // These note what is wrong and return false.
  [[gnu::cold]] bool fail(std::size_t at, std::string what);
  [[gnu::cold]] bool ends_early();
  [[gnu::cold]] bool too_large(std::size_t at, std::uint64_t value, std::uint64_t most);
  // Puts a step in front of the path to what is wrong.
  [[gnu::cold]] void inside(std::string_view field);
  [[gnu::cold]] void inside(std::size_t element);

  template <class... T>
  bool read_variant(std::variant<T...>& value);

  std::string_view bytes_;
  std::size_t at_ = 0;
  bool failed_ = false;
  std::size_t failed_at_ = 0;
  std::string what_;
  std::string path_;
};

template <class T>
bool Decoder::read(T& value) {
  std::uint64_t bits = 0;
  std::uint8_t small = 0;
  if constexpr (std::is_same_v<T, bool>) {
    if (!byte(1, small)) return false;
    value = small != 0;
  } else if constexpr (std::is_enum_v<T>) {
    if (!byte(static_cast<unsigned>(last_enumerator<T>), small)) return false;
    value = static_cast<T>(small);
  } else if constexpr (std::unsigned_integral<T>) {
    if (!number(std::numeric_limits<T>::max(), bits)) return false;
    value = static_cast<T>(bits);
  } else if constexpr (std::signed_integral<T>) {
    if (!number(std::numeric_limits<std::make_unsigned_t<T>>::max(), bits)) return false;
    value = static_cast<T>(detail::unzigzag(bits));
  } else if constexpr (detail::is_id<T>) {
    if (!number(std::numeric_limits<typename T::rep>::max(), bits)) return false;
    value = T(static_cast<typename T::rep>(bits));
  } else if constexpr (std::is_same_v<T, Hash128>) {
    return half(value.high) && half(value.low);
  } else if constexpr (std::is_same_v<T, std::string>) {
    std::size_t size = 0;
    if (!length(size)) return false;
    value.assign(bytes_.substr(at_, size));
    at_ += size;
  } else if constexpr (detail::is_vector<T>) {
    std::size_t size = 0;
    if (!length(size)) return false;
    value.clear();
    // A length that lies must not take more memory than bytes that are there could fill, or only a little.
    constexpr std::size_t kSurelyFine = 4096 / sizeof(typename T::value_type) + 1;
    value.reserve(std::min(size, kSurelyFine));
    for (std::size_t i = 0; i < size; ++i) {
      if (!read(value.emplace_back())) [[unlikely]] {
        inside(i);
        return false;
      }
    }
  } else if constexpr (detail::is_optional<T>) {
    if (!byte(1, small)) return false;
    value.reset();
    if (small != 0) return read(value.emplace());
  } else if constexpr (detail::is_variant<T>) {
    return read_variant(value);
  } else {
    static_assert(detail::HasFields<T>, "no encoding for this type");
    bool fine = true;
    T::fields(value, [this, &fine](std::string_view name, auto& member) {
      if (!fine) return;
      fine = this->read(member);
      if (!fine) [[unlikely]]
        inside(name);
    });
    return fine;
  }
  return true;
}

template <class... T>
bool Decoder::read_variant(std::variant<T...>& value) {
  std::uint8_t index = 0;
  if (!byte(sizeof...(T) - 1, index)) return false;
  bool fine = false;
  std::uint8_t alternative = 0;
  const auto try_one = [&]<class One>(std::type_identity<One>) {
    if (index != alternative++) return false;
    fine = this->read(value.template emplace<One>());
    if constexpr (detail::HasName<One>) {
      if (!fine) [[unlikely]]
        inside(One::kName);
    }
    return true;
  };
  static_cast<void>((try_one(std::type_identity<T>()) || ...));
  return fine;
}

// Appends the bytes of `value`.
template <class T>
void encode(const T& value, std::string& out) {
  Encoder encoder(out);
  encoder.add(value);
}

// The value whose bytes these are, all of them.
template <class T>
[[nodiscard]] Result<T> decode(std::string_view bytes) {
  Result<T> result{T()};
  Decoder decoder(bytes);
  if (!decoder.read(*result) || !decoder.finish()) [[unlikely]]
    return decoder.error();
  return result;
}

// The hash128() of the value's bytes, without keeping them.
template <class T>
[[nodiscard]] Hash128 hash_fields(const T& value) {
  struct Sink {
    Hasher hasher{};
    void append(const char* data, std::size_t size) {
      hasher.raw(std::as_bytes(std::span(data, size)));
      used = true;
    }
    bool used = false;
  };
  Sink sink;
  BasicEncoder<Sink> encoder(sink);
  encoder.add(value);
  if (sink.used) [[unlikely]] {
    encoder.flush();
    return sink.hasher.finish128();
  }
  const Hash128 hash = hash128(encoder.pending());  // It is all here: nearly always.
  encoder.drop_pending();
  return hash;
}

}  // namespace rota::model
