#include "bus/redis_session.h"

#include <algorithm>
#include <random>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "net/tls.h"
#include "rota/fiber/error.h"
#include "rota/fiber/time.h"

namespace rota::bus {

using net::RespValue;

namespace {

RedisBusOptions with_process(RedisBusOptions options) {
  if (options.process == 0) {
    std::random_device random;
    options.process = (std::uint64_t{random()} << 32 | random()) | 1U;
  }
  return options;
}

constexpr std::chrono::nanoseconds kLogAgain = std::chrono::minutes(1);  // The same problem.

}  // namespace

Result<RedisBusOptions> RedisBusOptions::of(const std::string& url, const std::string& prefix,
                                            const std::string& ca_file) {
  RedisBusOptions options;
  ROTA_TRY_ASSIGN(options.url, net::RedisUrl::parse(url));
  ROTA_TRY(check_prefix(prefix));
  options.prefix = prefix;
  if (options.url.tls == ca_file.empty()) {
    return Error{ErrorCode::kInvalidArgument,
                 ca_file.empty()
                     ? "rediss:// needs the certificate of the CA that signed the server's: give the PEM file "
                       "with --redis-ca FILE or ROTA_REDIS_CA"
                     : "--redis-ca is for rediss:// only, and the URL begins with redis://"};
  }
  if (ca_file.empty()) return options;
  net::TlsClientOptions tls;
  tls.ca.path = ca_file;
  ROTA_TRY_ASSIGN(options.tls, net::TlsContext::client(std::move(tls)));
  return options;
}

Result<void> RedisSession::check(const RedisBusOptions& options) {
  ROTA_TRY(check_prefix(options.prefix));
  if (options.capacity == 0 || options.message_most_bytes == 0) {
    return Error{ErrorCode::kInvalidArgument, "the Redis bus needs room for at least one message of one byte"};
  }
  if (options.message_most_bytes > std::size_t{32} << 20) {
    return Error{ErrorCode::kInvalidArgument, "a message of the Redis bus may have at most 33554432 bytes"};
  }
  return {};
}

RedisSession::RedisSession(net::Network& network, RedisBusOptions options, std::string role)
    : network_(network),
      options_(with_process(std::move(options))),
      keys_{options_.prefix},
      address_(options_.url.to_string()),
      role_(std::move(role)),
      url_(options_.url) {
  broken_[kWriter] = Error{ErrorCode::kUnavailable, "not connected to Redis at " + address_ + " yet"};
}

net::Backoff RedisSession::backoff(std::uint64_t number) const {
  return {options_.retry_after, options_.retry_most, SplitMix64::mix(options_.process) + number};
}

LinkBounds RedisSession::link_bounds() const {
  return {options_.capacity, options_.capacity_bytes, options_.acknowledge_within, options_.probe_after};
}

Result<std::unique_ptr<net::RedisConnection>> RedisSession::connect(Line line, net::Backoff& backoff) {
  for (;;) {
    if (is_closed()) return ErrorCode::kClosed;
    net::RedisConnectOptions connect_options;
    connect_options.within = options_.connect_within;
    connect_options.tls = options_.tls;
    const net::RedisUrl used = url();
    auto connection = net::RedisConnection::open(network_, used, connect_options);
    if (connection.ok() || connection.code() == ErrorCode::kCancelled) return connection;
    note_broken(line, connection.error());
    if (connection.code() == ErrorCode::kUnauthenticated && options_.new_account) ask_for_account(used);
    ROTA_TRY(fiber::sleep_for(backoff.next()));
  }
}

net::RedisUrl RedisSession::url() const {
  const sync::MutexLock lock(mutex_);
  return url_;
}

void RedisSession::ask_for_account(const net::RedisUrl& refused) {
  {
    const sync::MutexLock lock(mutex_);
    // A new account may make the one before it useless, so that two tasks must not each get one.
    if (asking_ || closed_ || url_.password != refused.password) return;
    asking_ = true;
  }
  Result<net::RedisUrl> given = options_.new_account();
  {
    const sync::MutexLock lock(mutex_);
    asking_ = false;
    if (given.ok()) url_ = *given;
  }
  if (given.ok()) {
    ROTA_LOG(kInfo, "Redis had forgotten the account; there is a new one", {"as", role_}, {"redis", address_});
  } else {
    ROTA_LOG(kWarn, "Redis refuses the account, and there is no new one yet; trying again", {"as", role_},
             {"why", given.error().message});
  }
}

bool RedisSession::is_permanent(ErrorCode code) const {
  if (code == ErrorCode::kUnauthenticated) return !options_.new_account;
  return code == ErrorCode::kPermissionDenied || code == ErrorCode::kUnsupported;
}

Result<std::vector<RespValue>> RedisSession::exchange(Line line, std::unique_ptr<net::RedisConnection>& connection,
                                                      const net::RespCommands& commands,
                                                      std::chrono::nanoseconds block) {
  const auto set_overdue_at = [&](std::chrono::nanoseconds time) {
    const sync::MutexLock lock(mutex_);
    if (const auto watched = overdue_at_.find(line); watched != overdue_at_.end()) watched->second = time;
  };
  set_overdue_at(fiber::now() + block + kOverdue);
  Result<std::vector<RespValue>> replies = connection->exchange(commands, options_.reply_within + block);
  set_overdue_at(std::chrono::nanoseconds::max());
  if (!replies.ok()) {
    connection.reset();
    if (replies.code() != ErrorCode::kCancelled) note_broken(line, replies.error());
    return replies;
  }
  for (const RespValue& reply : *replies) {
    if (!reply.is_error()) continue;
    Error error = net::redis_error(reply.text, address_);
    if (!net::needs_reconnect(error.code)) continue;
    connection.reset();
    note_broken(line, error);
    return error;
  }
  return replies;
}

Result<RespValue> RedisSession::exchange_one(Line line, std::unique_ptr<net::RedisConnection>& connection,
                                             const net::RespCommands& command, std::chrono::nanoseconds block) {
  ROTA_TRY_ASSIGN(std::vector<RespValue> replies, exchange(line, connection, command, block));
  if (replies.front().is_error()) {
    Error error = net::redis_error(replies.front().text, address_);
    note_broken(line, error);
    return error;
  }
  note_works(line);
  return std::move(replies.front());
}

void RedisSession::note_works(Line line) {
  bool news = false;
  {
    const sync::MutexLock lock(mutex_);
    if (broken_.erase(line) == 0 || !broken_.empty() || closed_) return;
    news = std::exchange(told_, false);
  }
  changed_.set();
  if (news) ROTA_LOG(kInfo, "connected to Redis", {"as", role_}, {"redis", address_});
}

void RedisSession::note_broken(Line line, const Error& error) {
  bool news = false;
  {
    const sync::MutexLock lock(mutex_);
    if (closed_) return;
    const auto now = fiber::now();
    const auto before = broken_.find(line);
    news = before == broken_.end() || before->second.message != error.message;
    // A problem that comes and goes is not logged each time.
    news = news && (error.message != logged_ || now - logged_at_ >= kLogAgain);
    broken_[line] = error;
    if (news) {
      told_ = true;
      logged_ = error.message;
      logged_at_ = now;
    }
  }
  changed_.set();
  if (news) ROTA_LOG(kWarn, "Redis is not usable; trying again", {"as", role_}, {"why", error.message});
}

Result<void> RedisSession::status() const {
  const sync::MutexLock lock(mutex_);
  if (broken_.empty()) return {};
  return broken_.begin()->second;
}

void RedisSession::watch(Line line) {
  const sync::MutexLock lock(mutex_);
  overdue_at_.emplace(line, std::chrono::nanoseconds::max());
}

bool RedisSession::is_overdue() const {
  const std::chrono::nanoseconds now = fiber::now();
  return std::any_of(overdue_at_.begin(), overdue_at_.end(), [now](const auto& each) { return each.second < now; });
}

bool RedisSession::hears() const {
  const sync::MutexLock lock(mutex_);
  return (broken_.empty() || broken_.begin()->first == kJoin) && !is_overdue();
}

Error RedisSession::nothing_received() const {
  const sync::MutexLock lock(mutex_);
  if (!broken_.empty() && broken_.begin()->first != kJoin) {
    return {ErrorCode::kUnavailable, broken_.begin()->second.message};
  }
  if (is_overdue()) return {ErrorCode::kUnavailable, "Redis at " + address_ + " does not answer"};
  return {ErrorCode::kTimeout, "no message arrived in time"};
}

Result<void> RedisSession::await_connected(std::chrono::nanoseconds limit) {
  const auto until = fiber::now() + limit;
  try {
    for (;;) {
      {
        const sync::MutexLock lock(mutex_);
        if (closed_) return ended_.ok() ? Result<void>(ErrorCode::kClosed) : ended_;
        if (broken_.empty()) return {};
        for (const auto& [line, error] : broken_) {
          if (is_permanent(error.code)) return error;
        }
        changed_.reset();
      }
      if (!changed_.wait_for(until - fiber::now())) return status();
    }
  } catch (const fiber::Cancelled&) {
    return ErrorCode::kCancelled;
  }
}

void RedisSession::end(std::string why, std::uint64_t newer_term) {
  ROTA_LOG(kError, "the bus is closed", {"as", role_}, {"why", why});
  {
    const sync::MutexLock lock(mutex_);
    if (!closed_ && ended_.ok()) {
      Error error{ErrorCode::kClosed, std::move(why)};
      if (newer_term != 0) error = std::move(error).with("newer_term", std::to_string(newer_term));
      ended_ = std::move(error);
    }
  }
  close();
}

Result<void> RedisSession::ended() const {
  const sync::MutexLock lock(mutex_);
  return ended_;
}

void RedisSession::close() {
  std::vector<fiber::Task<void>> tasks;
  {
    const sync::MutexLock lock(mutex_);
    if (std::exchange(closed_, true)) return;
    tasks.swap(tasks_);
  }
  for (const fiber::Task<void>& task : tasks) task.cancel();
  changed_.set();
}

bool RedisSession::is_closed() const {
  const sync::MutexLock lock(mutex_);
  return closed_;
}

Error RedisSession::closed_error() const {
  const sync::MutexLock lock(mutex_);
  return ended_.ok() ? Error{ErrorCode::kClosed, "this end of the bus is closed"} : ended_.error();
}

void RedisSession::add_task(fiber::Task<void> task) {
  const sync::MutexLock lock(mutex_);
  if (closed_) {
    task.cancel();
  } else {
    tasks_.push_back(std::move(task));
  }
}

WriteReply write_reply(const RespValue& reply) {
  if (reply.is_text()) {
    if (const std::optional<StreamId> id = StreamId::parse(reply.text)) return {Link::WriteResult::kWritten, *id};
  }
  const bool too_low = reply.is_error() && reply.text.find("equal or smaller than") != std::string::npos;
  const bool exhausted = reply.is_error() && reply.text.find("exhausted the last possible ID") != std::string::npos;
  return {too_low ? Link::WriteResult::kIdTooLow : Link::WriteResult::kRefused, {}, exhausted};
}

void add_write(net::RespCommands& commands, std::string_view key, const Link::Write& write) {
  commands.add({"XADD", key, write.id, "f", write.bytes});
}

Result<std::vector<StreamEntry>> stream_entries(const RespValue& reply) {
  std::vector<StreamEntry> entries;
  if (reply.is_nil()) return entries;  // Nothing came in time.
  const Error wrong{ErrorCode::kCorrupt, "the reply to XREAD does not have the form of one"};
  if (!reply.is_array()) return wrong;
  for (const RespValue& stream : reply.items) {
    if (!stream.is_array() || stream.items.size() != 2 || !stream.items[0].is_text()) return wrong;
    for (const RespValue& item : stream.items[1].items) {
      if (!item.is_array() || item.items.size() != 2 || !item.items[0].is_text()) return wrong;
      const std::optional<StreamId> id = StreamId::parse(item.items[0].text);
      if (!id) return wrong;
      const std::vector<RespValue>& fields = item.items[1].items;
      StreamEntry entry{stream.items[0].text, *id, nullptr};
      if (fields.size() == 2 && fields[0].text == "f" && fields[1].is_text()) entry.frame = &fields[1].text;
      entries.push_back(std::move(entry));
    }
  }
  return entries;
}

}  // namespace rota::bus
