// RESP2, the protocol of Redis: commands as bytes, and replies as values.
//
// A reply is parsed by hiredis's reader as its bytes arrive; no type of hiredis appears here. The server is not
// trusted: the bytes and the values of one reply are bounded, and so is the nesting (7 levels), so that no reply makes
// this process allocate without bound. Thread safety: none; one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rota/result.h"

namespace rota::net {

// One value of a reply.
struct RespValue {
  enum class Kind : std::uint8_t { kNil, kInteger, kText, kStatus, kError, kArray };
  Kind kind = Kind::kNil;
  std::int64_t integer = 0;        // kInteger.
  std::string text{};              // kText, kStatus; kError: "WRONGTYPE Operation against...".
  std::vector<RespValue> items{};  // kArray.

  [[nodiscard]] bool is_nil() const { return kind == Kind::kNil; }
  [[nodiscard]] bool is_text() const { return kind == Kind::kText; }
  [[nodiscard]] bool is_array() const { return kind == Kind::kArray; }
  [[nodiscard]] bool is_error() const { return kind == Kind::kError; }
  [[nodiscard]] bool is_integer() const { return kind == Kind::kInteger; }
  friend bool operator==(const RespValue&, const RespValue&) = default;
};

// A sequence of commands as bytes, to be sent at once.
class RespCommands {
 public:
  void add(std::initializer_list<std::string_view> arguments) { add(std::span(arguments.begin(), arguments.size())); }
  void add(std::span<const std::string_view> arguments);
  // The same in pieces, for a command with many arguments: begin(2), argument("GET"), argument("key").
  void begin(std::size_t arguments);
  void argument(std::string_view text);
  void append(const RespCommands& others) { bytes_ += others.bytes_, count_ += others.count_; }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] bool empty() const { return count_ == 0; }
  void clear() { bytes_.clear(), count_ = 0; }

 private:
  std::string bytes_;
  std::size_t count_ = 0;
};

// A reply as bytes, for servers. An error must begin with its code in capitals and have no line breaks.
void append_reply(std::string& out, const RespValue& value);

class RespReader {
 public:
  struct Limits {
    std::size_t reply_bytes = std::size_t{256} << 20;
    std::size_t reply_values = std::size_t{4} << 20;
  };
  RespReader() : RespReader(Limits{}) {}
  explicit RespReader(Limits limits);
  ~RespReader();
  RespReader(const RespReader&) = delete;
  RespReader& operator=(const RespReader&) = delete;

  void feed(std::string_view bytes);
  // The next complete reply; nothing if more bytes are needed. Corrupt or TooLarge: the stream cannot be used any more,
  // and every further call returns the same error.
  Result<std::optional<RespValue>> next();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rota::net
