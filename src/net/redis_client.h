// A connection to Redis that many tasks share.
//
// Calls that arrive while earlier ones are under way are sent together as soon as those are answered (a pipeline that
// forms by itself, without a timer). One task of the client's own does all input and output, so that a caller that is
// cancelled or out of time disturbs nobody else. After a failure the next call connects again; attempts are spaced by a
// backoff.
//
// Not for commands that block at the server: they would delay every other call (redis_connection.h).
// Thread safety: every function from any task.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "net/redis_connection.h"
#include "net/redis_url.h"
#include "net/resp.h"
#include "net/stream.h"
#include "rota/fiber/nursery.h"
#include "rota/result.h"

namespace rota::net {

struct RedisClientOptions {
  RedisConnectOptions connect{};
  std::chrono::nanoseconds reply_within = std::chrono::seconds(5);  // Then the connection counts as broken.
  std::chrono::nanoseconds retry_after = std::chrono::milliseconds(20);
  std::chrono::nanoseconds retry_most = std::chrono::seconds(2);
  std::size_t queue = 4096;  // Calls that wait; more get QueueFull.
  std::uint64_t seed = 1;    // Of the jitter.
};

class RedisClient {
 public:
  // Starts its task in the nursery, which outlives it, as the network does.
  RedisClient(Network& network, RedisUrl url, RedisClientOptions options, fiber::Nursery& nursery);
  ~RedisClient();  // As close().
  RedisClient(const RedisClient&) = delete;
  RedisClient& operator=(const RedisClient&) = delete;

  // One reply for each command; an error that Redis replies is a value (redis_error()). Unavailable, Unauthenticated,
  // PermissionDenied as RedisConnection::open(); Unavailable: the connection broke, and the commands were executed or
  // not; DeadlineExceeded: the commands may still be executed; QueueFull; Closed; Cancelled.
  Result<std::vector<RespValue>> call(RespCommands commands, Deadline deadline = {});
  // One command whose error replies are errors.
  Result<RespValue> call_one(std::initializer_list<std::string_view> arguments, Deadline deadline = {});
  // Calls that wait get Closed. Idempotent; never waits.
  void close();

 private:
  struct Core;
  std::shared_ptr<Core> core_;
};

}  // namespace rota::net
