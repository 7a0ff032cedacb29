#include "model/codec.h"

#include "rota/assert.h"

namespace rota::model {

bool Decoder::finish() {
  if (left() == 0) return true;
  return fail(at_, "the value ends here, but " + std::to_string(left()) + " more bytes follow");
}

bool Decoder::raw(std::size_t size, std::string_view& bytes) {
  if (size > left()) return ends_early();
  bytes = bytes_.substr(at_, size);
  at_ += size;
  return true;
}

bool Decoder::length(std::size_t& size) {
  const std::size_t start = at_;
  std::uint64_t value = 0;
  if (!number(std::numeric_limits<std::uint64_t>::max(), value)) return false;
  if (value > left()) [[unlikely]] {
    return fail(start, "a length of " + std::to_string(value) + ", but only " + std::to_string(left()) +
                           " more bytes are there");
  }
  size = static_cast<std::size_t>(value);
  return true;
}

bool Decoder::long_number(std::uint64_t most, std::uint64_t& value) {
  const std::size_t start = at_;
  std::uint64_t bits = 0;
  for (int shift = 0;; shift += 7) {
    if (at_ == bytes_.size()) return ends_early();
    const auto next = static_cast<std::uint8_t>(bytes_[at_]);
    // The tenth byte has room for the 64th bit alone, and none may follow it.
    if (shift == 63 && next > 1) return fail(start, "a number of more than 64 bits");
    bits |= static_cast<std::uint64_t>(next & 0x7fU) << shift;
    ++at_;
    if (next >= 0x80) continue;
    if (next == 0 && shift > 0) return fail(start, "a number that is longer than it need be");
    if (bits > most) return too_large(start, bits, most);
    value = bits;
    return true;
  }
}

bool Decoder::half(std::uint64_t& value) {
  if (left() < 8) return ends_early();
  value = 0;
  for (int i = 0; i < 8; ++i) value |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(bytes_[at_++])) << (8 * i);
  return true;
}

bool Decoder::fail(std::size_t at, std::string what) {
  ROTA_ASSERT(!failed_, "read after a failure");
  failed_ = true;
  failed_at_ = at;
  what_ = std::move(what);
  return false;
}

bool Decoder::ends_early() { return fail(bytes_.size(), "the bytes end in the middle of it"); }

bool Decoder::too_large(std::size_t at, std::uint64_t value, std::uint64_t most) {
  return fail(at, std::to_string(value) + " is too large; it is at most " + std::to_string(most));
}

void Decoder::inside(std::string_view field) {
  if (!path_.empty() && path_.front() != '[') path_.insert(0, ".");
  path_.insert(0, field);
}

void Decoder::inside(std::size_t element) {
  if (!path_.empty() && path_.front() != '[') path_.insert(0, ".");
  path_.insert(0, "[" + std::to_string(element) + "]");
}

Error Decoder::error() const {
  ROTA_ASSERT(failed_, "there is no error");
  std::string message = "byte " + std::to_string(failed_at_);
  if (!path_.empty()) message.append(", in ").append(path_);
  message.append(": ").append(what_);
  Error error{ErrorCode::kCorrupt, std::move(message)};
  error.details.push_back({"byte", std::to_string(failed_at_)});
  if (!path_.empty()) error.details.push_back({"field", path_});
  return error;
}

}  // namespace rota::model
