// rota::Worker::join(): a worker on the Redis bus of a fleet.
#include <chrono>
#include <memory>
#include <utility>

#include "bus/redis_bus.h"
#include "net/redis_url.h"
#include "net/stream.h"
#include "rota/fiber/error.h"
#include "rota/fiber/nursery.h"
#include "rota/worker.h"

namespace rota {

namespace {
constexpr std::chrono::seconds kFlush{5};  // For the last messages to reach Redis.
}

Result<void> Worker::join(const JoinOptions& join) {
  ROTA_TRY_ASSIGN(bus::RedisBusOptions options, bus::RedisBusOptions::of(join.redis, join.prefix, join.redis_ca));
  if (join.new_redis) {
    options.new_account = [&join]() -> Result<net::RedisUrl> {
      ROTA_TRY_ASSIGN(const std::string url, join.new_redis());
      return net::RedisUrl::parse(url);
    };
  }
  Result<void> outcome;
  try {
    fiber::with_scope([&](fiber::Nursery& nursery) {
      Result<std::unique_ptr<bus::RedisWorkerEnd>> end =
          bus::RedisWorkerEnd::open(net::real_network(), std::move(options), spec().name, nursery);
      if (!end.ok()) {
        outcome = std::move(end).take_error();
        return;
      }
      outcome = run(**end);
      if (outcome.ok()) outcome = (*end)->ended();
      if (outcome.ok()) (void)(*end)->flush(kFlush);
      (*end)->close();
    });
  } catch (const fiber::Cancelled&) {
    return ErrorCode::kCancelled;
  }
  return outcome;
}

}  // namespace rota
