#include "net/resp.h"

#include <hiredis/read.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "base/json_text.h"

namespace rota::net {

namespace {

void append_number(std::string& out, char prefix, std::int64_t number) {
  char digits[24];
  const char* end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  out.push_back(prefix);
  out.append(digits, static_cast<std::size_t>(end - digits));
  out.append("\r\n");
}

void append_bulk(std::string& out, std::string_view text) {
  append_number(out, '$', static_cast<std::int64_t>(text.size()));
  out.append(text);
  out.append("\r\n");
}

}  // namespace

void RespCommands::begin(std::size_t arguments) {
  append_number(bytes_, '*', static_cast<std::int64_t>(arguments));
  ++count_;
}

void RespCommands::argument(std::string_view text) { append_bulk(bytes_, text); }

void RespCommands::add(std::span<const std::string_view> arguments) {
  begin(arguments.size());
  for (const std::string_view text : arguments) argument(text);
}

void append_reply(std::string& out, const RespValue& value) {
  switch (value.kind) {
    case RespValue::Kind::kNil:
      out.append("$-1\r\n");
      break;
    case RespValue::Kind::kInteger:
      append_number(out, ':', value.integer);
      break;
    case RespValue::Kind::kText:
      append_bulk(out, value.text);
      break;
    case RespValue::Kind::kStatus:
    case RespValue::Kind::kError:
      out.push_back(value.kind == RespValue::Kind::kError ? '-' : '+');
      out.append(value.text).append("\r\n");
      break;
    case RespValue::Kind::kArray:
      append_number(out, '*', static_cast<std::int64_t>(value.items.size()));
      for (const RespValue& item : value.items) append_reply(out, item);
      break;
  }
}

// The values of a reply are made by callbacks of hiredis. A value is a member of the array around it: the reader keeps
// pointers only to the arrays that are still open, and adding to the innermost one moves none of those.
struct RespReader::State {
  explicit State(Limits the_limits) : limits(the_limits) {}

  Limits limits;
  redisReader* reader = nullptr;
  std::size_t values = 0;         // Of the reply being parsed.
  std::size_t pending_bytes = 0;  // Fed since the last complete reply.
  bool too_many = false;
  std::optional<Error> failed{};

  RespValue* make(const redisReadTask* task, RespValue::Kind kind) {
    if (++values > limits.reply_values) {
      too_many = true;
      return nullptr;
    }
    RespValue* value = task->parent == nullptr ? new RespValue  // NOLINT: owned by the reader until next() takes it.
                                               : &static_cast<RespValue*>(task->parent->obj)->items.emplace_back();
    value->kind = kind;
    return value;
  }

  static void* make_text(const redisReadTask* task, char* text, std::size_t size) {
    const RespValue::Kind kind = task->type == REDIS_REPLY_ERROR    ? RespValue::Kind::kError
                                 : task->type == REDIS_REPLY_STATUS ? RespValue::Kind::kStatus
                                                                    : RespValue::Kind::kText;
    RespValue* value = static_cast<State*>(task->privdata)->make(task, kind);
    if (value != nullptr) value->text.assign(text, size);
    return value;
  }
  static void* make_array(const redisReadTask* task, int) {
    return static_cast<State*>(task->privdata)->make(task, RespValue::Kind::kArray);  // Grows with what arrives.
  }
  static void* make_integer(const redisReadTask* task, long long number) {
    RespValue* value = static_cast<State*>(task->privdata)->make(task, RespValue::Kind::kInteger);
    if (value != nullptr) value->integer = number;
    return value;
  }
  static void* make_nil(const redisReadTask* task) {
    return static_cast<State*>(task->privdata)->make(task, RespValue::Kind::kNil);
  }
  static void destroy(void* value) { delete static_cast<RespValue*>(value); }

  static redisReplyObjectFunctions* functions() {
    static redisReplyObjectFunctions table = {make_text, make_array, make_integer, make_nil, destroy};
    return &table;
  }

  Error fail(ErrorCode code, std::string message) {
    failed = Error{code, std::move(message)};
    return *failed;
  }
};

RespReader::RespReader(Limits limits) : state_(std::make_unique<State>(limits)) {
  state_->reader = redisReaderCreateWithFunctions(State::functions());
  ROTA_ASSERT(state_->reader != nullptr, "no memory for a reader of replies");
  state_->reader->privdata = state_.get();
}

RespReader::~RespReader() { redisReaderFree(state_->reader); }

void RespReader::feed(std::string_view bytes) {
  State& s = *state_;
  if (s.failed || bytes.empty()) return;
  s.pending_bytes += bytes.size();
  if (s.pending_bytes > s.limits.reply_bytes) {
    s.fail(ErrorCode::kTooLarge, "a reply of Redis has more than " + std::to_string(s.limits.reply_bytes) +
                                     " bytes, which is the limit of this connection");
    return;
  }
  if (redisReaderFeed(s.reader, bytes.data(), bytes.size()) != REDIS_OK) {
    s.fail(ErrorCode::kResourceExhausted, "no memory for a reply of Redis");
  }
}

Result<std::optional<RespValue>> RespReader::next() {
  State& s = *state_;
  if (s.failed) return *s.failed;
  void* made = nullptr;
  if (redisReaderGetReply(s.reader, &made) != REDIS_OK) {
    if (s.too_many) {
      return s.fail(ErrorCode::kTooLarge, "a reply of Redis has more than " + std::to_string(s.limits.reply_values) +
                                              " values, which is the limit of this connection");
    }
    return s.fail(ErrorCode::kCorrupt,
                  "the server does not speak the protocol of Redis: " + printable(s.reader->errstr) +
                      ". Check that the address is that of a Redis server, without TLS for redis://");
  }
  if (made == nullptr) return std::optional<RespValue>();
  const std::unique_ptr<RespValue> value(static_cast<RespValue*>(made));
  s.values = 0;
  s.pending_bytes = s.reader->len - s.reader->pos;
  return std::optional<RespValue>(std::move(*value));
}

}  // namespace rota::net
