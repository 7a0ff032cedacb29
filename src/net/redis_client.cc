#include "net/redis_client.h"

#include <deque>
#include <string>
#include <utility>

#include "base/sync.h"
#include "rota/fiber/error.h"
#include "rota/fiber/sync.h"
#include "rota/fiber/task.h"
#include "rota/fiber/time.h"

namespace rota::net {

struct RedisClient::Core {
  struct Call {
    RespCommands commands;
    fiber::Event done{};
    Result<std::vector<RespValue>> result = ErrorCode::kClosed;
  };
  using Calls = std::deque<std::shared_ptr<Call>>;

  Core(Network& the_network, RedisUrl the_url, RedisClientOptions the_options)
      : network(the_network),
        url(std::move(the_url)),
        options(std::move(the_options)),
        address(url.to_string()),
        backoff(options.retry_after, options.retry_most, options.seed) {}

  Network& network;
  const RedisUrl url;
  const RedisClientOptions options;
  const std::string address;
  Backoff backoff;                              // The task's.
  std::unique_ptr<RedisConnection> connection;  // The task's.
  std::chrono::nanoseconds next_attempt{0};     // The task's.
  fiber::Event wake{};                          // Set when there are calls, or the client closes.
  fiber::Task<void> task{};

  sync::Mutex mutex;
  bool closed ROTA_GUARDED_BY(mutex) = false;
  Calls calls ROTA_GUARDED_BY(mutex);

  static void finish(const Calls& some, const Error& error) {
    for (const std::shared_ptr<Call>& call : some) {
      call->result = error;
      call->done.set();
    }
  }

  void run() {
    try {
      for (;;) {
        wake.wait();
        wake.reset();  // Before the calls are taken: a call that comes later sets it again.
        Calls some;
        {
          const sync::MutexLock lock(mutex);
          if (closed) break;
          some.swap(calls);
        }
        if (!some.empty()) serve(some);
      }
    } catch (const fiber::Cancelled&) {
    }
    Calls rest;
    {
      const sync::MutexLock lock(mutex);
      closed = true;
      rest.swap(calls);
    }
    finish(rest, Error{ErrorCode::kClosed, "the client of Redis at " + address + " is closed"});
    connection.reset();
  }

  void serve(const Calls& some) {
    if (Result<void> connected = ensure_connected(); !connected.ok()) return finish(some, connected.error());
    RespCommands all;
    for (const std::shared_ptr<Call>& call : some) all.append(call->commands);
    Result<std::vector<RespValue>> replies = connection->exchange(all, options.reply_within);
    if (!replies.ok()) {
      connection.reset();
      return finish(some, replies.error());
    }
    auto next = replies->begin();
    bool reconnect = false;
    for (const std::shared_ptr<Call>& call : some) {
      const auto end = next + static_cast<std::ptrdiff_t>(call->commands.count());
      for (auto reply = next; reply != end; ++reply) {
        reconnect |= reply->is_error() && needs_reconnect(redis_error(reply->text, address).code);
      }
      call->result = std::vector<RespValue>(std::move_iterator(next), std::move_iterator(end));
      call->done.set();
      next = end;
    }
    if (reconnect) connection.reset();
  }

  Result<void> ensure_connected() {
    if (connection != nullptr) return {};
    if (const auto now = fiber::now(); now < next_attempt) ROTA_TRY(fiber::sleep_for(next_attempt - now));
    Result<std::unique_ptr<RedisConnection>> opened = RedisConnection::open(network, url, options.connect);
    if (!opened.ok()) {
      next_attempt = fiber::now() + backoff.next();
      return opened.error();
    }
    backoff.reset();
    connection = std::move(*opened);
    return {};
  }
};

RedisClient::RedisClient(Network& network, RedisUrl url, RedisClientOptions options, fiber::Nursery& nursery)
    : core_(std::make_shared<Core>(network, std::move(url), std::move(options))) {
  core_->task = nursery.spawn([core = core_] { core->run(); });
}

RedisClient::~RedisClient() { close(); }

void RedisClient::close() {
  {
    const sync::MutexLock lock(core_->mutex);
    if (std::exchange(core_->closed, true)) return;
  }
  core_->task.cancel();
}

Result<std::vector<RespValue>> RedisClient::call(RespCommands commands, Deadline deadline) {
  auto call = std::make_shared<Core::Call>();
  call->commands = std::move(commands);
  {
    const sync::MutexLock lock(core_->mutex);
    if (core_->closed) return Error{ErrorCode::kClosed, "the client of Redis at " + core_->address + " is closed"};
    if (core_->calls.size() >= core_->options.queue) {
      return Error{ErrorCode::kQueueFull, std::to_string(core_->options.queue) + " calls wait for Redis at " +
                                              core_->address + " already; it is slow or cannot be reached"};
    }
    core_->calls.push_back(call);
  }
  core_->wake.set();
  try {
    if (deadline.never()) {
      call->done.wait();
    } else if (!call->done.wait_for(deadline.time() - fiber::now())) {
      return Error{ErrorCode::kDeadlineExceeded, "Redis at " + core_->address + " did not answer within the deadline"};
    }
  } catch (const fiber::Cancelled&) {
    return ErrorCode::kCancelled;
  }
  return std::move(call->result);
}

Result<RespValue> RedisClient::call_one(std::initializer_list<std::string_view> arguments, Deadline deadline) {
  RespCommands commands;
  commands.add(arguments);
  ROTA_TRY_ASSIGN(std::vector<RespValue> replies, call(std::move(commands), deadline));
  if (replies.front().is_error()) return redis_error(replies.front().text, core_->address);
  return std::move(replies.front());
}

}  // namespace rota::net
