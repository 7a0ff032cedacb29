// What both ends of the Redis bus have in common: connecting again and again, the state of the connection, and the end.
//
// Thread safety: every function from any task.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/sync.h"
#include "bus/redis_bus.h"
#include "bus/redis_link.h"
#include "bus/redis_names.h"
#include "net/redis_connection.h"
#include "net/resp.h"
#include "rota/fiber/sync.h"
#include "rota/fiber/task.h"
#include "rota/fiber/time.h"
#include "rota/result.h"

namespace rota::bus {

class RedisSession {
 public:
  // How long XREAD and BLPOP wait at the server.
  static constexpr std::chrono::milliseconds kBlock{5000};
  // The same for the host's XREAD. Short, because a reply that is overdue by kOverdue shows that Redis is paused, and
  // the host must know that before it takes the silence of its workers for their end.
  static constexpr std::chrono::milliseconds kHostBlock{1000};
  static constexpr std::chrono::milliseconds kOverdue{300};

  static Result<void> check(const RedisBusOptions& options);
  RedisSession(net::Network& network, RedisBusOptions options, std::string role);

  [[nodiscard]] const RedisBusOptions& options() const { return options_; }
  [[nodiscard]] const RedisKeys& keys() const { return keys_; }
  [[nodiscard]] const std::string& address() const { return address_; }
  [[nodiscard]] net::Backoff backoff(std::uint64_t number) const;
  [[nodiscard]] LinkBounds link_bounds() const;

  // Each task has a connection of its own, and a number for it; the writer's is 0. The bus works if all of them do.
  using Line = std::size_t;
  static constexpr Line kWriter = 0;
  static constexpr Line kJoin = SIZE_MAX;  // The host's, for announcements: without it, it still hears its workers.

  // Connects, as often as necessary, with pauses. Cancelled, or Closed after close().
  Result<std::unique_ptr<net::RedisConnection>> connect(Line line, net::Backoff& backoff);
  // Executes commands. If a reply says that this server or this account is of no use, the connection is gone, and the
  // error was noted. `block`: how long the commands may wait at the server.
  Result<std::vector<net::RespValue>> exchange(Line line, std::unique_ptr<net::RedisConnection>& connection,
                                               const net::RespCommands& commands, std::chrono::nanoseconds block = {});
  // The same for one command, whose error reply is an error.
  Result<net::RespValue> exchange_one(Line line, std::unique_ptr<net::RedisConnection>& connection,
                                      const net::RespCommands& command, std::chrono::nanoseconds block = {});

  void note_works(Line line);
  void note_broken(Line line, const Error& error);
  [[nodiscard]] Result<void> status() const;
  // False if messages may wait that cannot be read now. A line that is watched counts as broken while a reply is
  // overdue.
  [[nodiscard]] bool hears() const;
  void watch(Line line);
  // For a receiver without messages: Timeout, or why there may be messages that cannot be read now.
  [[nodiscard]] Error nothing_received() const;
  Result<void> await_connected(std::chrono::nanoseconds limit);

  // Closes the bus for good, with a sentence for ended().
  void end(std::string why, std::uint64_t newer_term = 0);
  [[nodiscard]] Result<void> ended() const;
  void close();
  [[nodiscard]] bool is_closed() const;
  [[nodiscard]] Error closed_error() const;
  void add_task(fiber::Task<void> task);

 private:
  net::Network& network_;
  const RedisBusOptions options_;
  const RedisKeys keys_;
  const std::string address_;
  const std::string role_;  // For the log: "host", "worker 'w1'".
  fiber::Event changed_;    // Set when the status changes, or the session closes.
  mutable sync::Mutex mutex_;
  bool closed_ ROTA_GUARDED_BY(mutex_) = false;
  [[nodiscard]] bool is_overdue() const ROTA_REQUIRES(mutex_);
  [[nodiscard]] net::RedisUrl url() const;
  // After `refused` was refused: asks for another account, unless somebody asks already or has got one.
  void ask_for_account(const net::RedisUrl& refused);
  // A wrong account does not mend itself by waiting, unless a new one can be had.
  [[nodiscard]] bool is_permanent(ErrorCode code) const;

  net::RedisUrl url_ ROTA_GUARDED_BY(mutex_);  // With the account that is valid now.
  bool asking_ ROTA_GUARDED_BY(mutex_) = false;
  std::map<Line, Error> broken_ ROTA_GUARDED_BY(mutex_);
  // Lines that are watched: when the reply to the command that was sent is overdue; max(): none was sent.
  std::map<Line, std::chrono::nanoseconds> overdue_at_ ROTA_GUARDED_BY(mutex_);
  bool told_ ROTA_GUARDED_BY(mutex_) = true;    // The log says that Redis is not usable, or nothing yet.
  std::string logged_ ROTA_GUARDED_BY(mutex_);  // The last problem in the log.
  std::chrono::nanoseconds logged_at_ ROTA_GUARDED_BY(mutex_){};
  Result<void> ended_ ROTA_GUARDED_BY(mutex_);
  std::vector<fiber::Task<void>> tasks_ ROTA_GUARDED_BY(mutex_);
};

// As inbox.receive(), but returns Unavailable soon if Redis cannot be reached.
template <class Inbox>
auto receive_from(Inbox& inbox, const RedisSession& session, std::chrono::nanoseconds limit)
    -> decltype(inbox.receive(limit)) {
  constexpr std::chrono::nanoseconds kLook = std::chrono::milliseconds(200);
  const std::chrono::nanoseconds until =
      fiber::now() + std::min<std::chrono::nanoseconds>(limit, std::chrono::hours(1000));
  for (;;) {
    if (!session.ended().ok()) return session.closed_error();
    const std::chrono::nanoseconds rest = until - fiber::now();
    auto delivery = inbox.receive(std::clamp(rest, std::chrono::nanoseconds(0), kLook));
    if (delivery.ok()) return delivery;
    if (delivery.code() == ErrorCode::kClosed) return session.closed_error();
    if (delivery.code() != ErrorCode::kTimeout) return delivery;
    if (rest <= kLook || !session.hears()) return session.nothing_received();
  }
}

// The result of an XADD.
struct WriteReply {
  Link::WriteResult result = Link::WriteResult::kRefused;
  StreamId id{};
  bool exhausted = false;  // The stream has the highest id that there is.
};
[[nodiscard]] WriteReply write_reply(const net::RespValue& reply);
// XADD <key> <id> f <frame>
void add_write(net::RespCommands& commands, std::string_view key, const Link::Write& write);

// An entry of XREAD's reply.
struct StreamEntry {
  std::string key;
  StreamId id;
  const std::string* frame = nullptr;  // Null: the entry does not have our form.
};
// The entries, which refer to `reply`. Corrupt if it is not a reply of XREAD.
[[nodiscard]] Result<std::vector<StreamEntry>> stream_entries(const net::RespValue& reply);

}  // namespace rota::bus
