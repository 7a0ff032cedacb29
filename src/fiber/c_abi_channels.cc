// The C interface: channels, select and tokens.
#include <array>
#include <chrono>
#include <optional>

#include "fiber/c_abi.h"
#include "rota/fiber/cancel.h"
#include "rota/fiber/channel.h"
#include "rota/fiber/select.h"

namespace rota::fiber::c_abi {

namespace {

struct ChannelHandle {
  static constexpr Kind kKind = Kind::kChannel;
  explicit ChannelHandle(std::size_t capacity) : channel(capacity) {}
  Channel<void*> channel;
};

struct TokenEntry {
  static constexpr Kind kKind = Kind::kToken;
  CancelToken token;
};

Result<void> check_limit(int64_t limit) {
  if (limit < JANUS_FOREVER) return invalid("a limit must be 0 or more, or JANUS_FOREVER");
  return {};
}

Result<void> add_token(CancelToken token, JanusToken* to) {
  *to = HandleTable::instance().add(Kind::kToken, std::make_shared<TokenEntry>(std::move(token)));
  return {};
}

}  // namespace

}  // namespace rota::fiber::c_abi

using namespace rota;
using namespace rota::fiber;
using namespace rota::fiber::c_abi;
using std::chrono::nanoseconds;

int janus_channel_create(size_t capacity, JanusChannel* channel) {
  if (channel != nullptr) *channel = 0;
  return guarded([&]() -> Result<void> {
    if (channel == nullptr) return invalid("channel is null");
    *channel = HandleTable::instance().add(Kind::kChannel, std::make_shared<ChannelHandle>(capacity));
    return {};
  });
}

int janus_channel_release(JanusChannel channel) {
  return guarded([channel]() -> Result<void> {
    ROTA_TRY(c_abi::remove<ChannelHandle>(channel));
    return {};
  });
}

int janus_channel_send(JanusChannel channel, void* value, int64_t limit) {
  return guarded([&]() -> Result<void> {
    ROTA_TRY(check_limit(limit));
    ROTA_TRY_ASSIGN(const auto found, c_abi::find<ChannelHandle>(channel));
    if (limit == 0) return found->channel.try_send(value);
    if (limit != JANUS_FOREVER) return found->channel.send_for(value, nanoseconds(limit));
    if (!found->channel.send(value)) return ErrorCode::kClosed;
    return {};
  });
}

int janus_channel_receive(JanusChannel channel, void** value, int64_t limit) {
  if (value != nullptr) *value = nullptr;
  return guarded([&]() -> Result<void> {
    if (value == nullptr) return invalid("value is null");
    ROTA_TRY(check_limit(limit));
    ROTA_TRY_ASSIGN(const auto found, c_abi::find<ChannelHandle>(channel));
    if (limit == JANUS_FOREVER) {
      const std::optional<void*> received = found->channel.receive();
      if (!received) return ErrorCode::kClosed;
      *value = *received;
    } else {
      ROTA_TRY_ASSIGN(*value,
                      limit == 0 ? found->channel.try_receive() : found->channel.receive_for(nanoseconds(limit)));
    }
    return {};
  });
}

int janus_channel_close(JanusChannel channel) {
  return guarded([channel]() -> Result<void> {
    ROTA_TRY_ASSIGN(const auto found, c_abi::find<ChannelHandle>(channel));
    found->channel.close();
    return {};
  });
}

int janus_channel_size(JanusChannel channel, size_t* size) {
  return guarded([&]() -> Result<void> {
    if (size == nullptr) return invalid("size is null");
    ROTA_TRY_ASSIGN(const auto found, c_abi::find<ChannelHandle>(channel));
    *size = found->channel.size();
    return {};
  });
}

int janus_select(JanusSelectCase* cases, size_t count, int64_t limit, size_t* chosen) {
  return guarded([&]() -> Result<void> {
    if (cases == nullptr || chosen == nullptr) return invalid("cases or chosen is null");
    if (count == 0 || count > JANUS_SELECT_MAX) return invalid("a select must have 1 to JANUS_SELECT_MAX cases");
    ROTA_TRY(check_limit(limit));
    // On the heap: a select of many cases is larger than the stack of a small task.
    struct Case {
      std::shared_ptr<ChannelHandle> channel;
      std::optional<void*> received;
    };
    std::vector<Case> kept(count);
    std::vector<rota::fiber::detail::SelectCase> plain(count);
    for (std::size_t i = 0; i < count; ++i) {
      ROTA_TRY_ASSIGN(kept[i].channel, c_abi::find<ChannelHandle>(cases[i].channel));
      plain[i].channel = kept[i].channel->channel.core();
      plain[i].send = cases[i].send != 0;
      plain[i].value = plain[i].send ? static_cast<void*>(&cases[i].value) : &kept[i].received;
    }
    const nanoseconds duration(limit);
    const std::size_t index =
        rota::fiber::detail::select_case(plain.data(), count, limit == JANUS_FOREVER ? nullptr : &duration);
    if (index == rota::fiber::detail::kNoCase) return limit == 0 ? ErrorCode::kWouldBlock : ErrorCode::kTimeout;
    const bool done = plain[index].status == rota::fiber::detail::ChannelStatus::kDone;
    cases[index].status = done ? JANUS_OK : JANUS_CLOSED;
    if (cases[index].send == 0) cases[index].value = kept[index].received.value_or(nullptr);
    *chosen = index;
    return {};
  });
}

// -------------------------------------------------------------------------------------------------------------- tokens

int janus_token_create(JanusToken* token) {
  return guarded([token]() -> Result<void> {
    if (token == nullptr) return invalid("token is null");
    return add_token(CancelToken(), token);
  });
}

int janus_token_current(JanusToken* token) {
  return guarded([token]() -> Result<void> {
    if (token == nullptr) return invalid("token is null");
    return add_token(current_token(), token);
  });
}

int janus_token_release(JanusToken token) {
  return guarded([token]() -> Result<void> {
    ROTA_TRY(c_abi::remove<TokenEntry>(token));
    return {};
  });
}

int janus_token_cancel(JanusToken token) {
  return guarded([token]() -> Result<void> {
    ROTA_TRY_ASSIGN(const auto found, c_abi::find<TokenEntry>(token));
    found->token.cancel();
    return {};
  });
}

int janus_token_reason(JanusToken token, int* reason) {
  return guarded([&]() -> Result<void> {
    if (reason == nullptr) return invalid("reason is null");
    ROTA_TRY_ASSIGN(const auto found, c_abi::find<TokenEntry>(token));
    *reason = static_cast<int>(found->token.reason());
    return {};
  });
}

int janus_token_link(JanusToken token, JanusToken parent) {
  return guarded([&]() -> Result<void> {
    ROTA_TRY_ASSIGN(const auto child, c_abi::find<TokenEntry>(token));
    ROTA_TRY_ASSIGN(const auto above, c_abi::find<TokenEntry>(parent));
    child->token.link(above->token);
    return {};
  });
}

int janus_token_on_cancel(JanusToken token, void (*func)(void* arg), void* arg, uint64_t* id) {
  return guarded([&]() -> Result<void> {
    if (func == nullptr) return invalid("func is null");
    ROTA_TRY_ASSIGN(const auto found, c_abi::find<TokenEntry>(token));
    const std::uint64_t added = found->token.on_cancel([func, arg] { func(arg); });
    if (id != nullptr) *id = added;
    return {};
  });
}

int janus_token_off_cancel(JanusToken token, uint64_t id) {
  return guarded([&]() -> Result<void> {
    ROTA_TRY_ASSIGN(const auto found, c_abi::find<TokenEntry>(token));
    if (!found->token.off_cancel(id))
      return Error{ErrorCode::kNotFound, "the call was already made, or there is no such id"};
    return {};
  });
}
