// A stand-in for redis-server with the commands that Rota uses, over any network (S-1).
//
// It passes the conformance suite of the bus in the same test run as the real server. Commands: PING, AUTH (any),
// SELECT (one database), XADD (with MAXLEN), XREAD (COUNT, BLOCK), XTRIM MINID, LPUSH, LLEN, BLPOP, SADD, SREM,
// SMEMBERS, EXISTS, DEL, FLUSHALL. Replies, error texts and the rules for ids are those of Redis 7.0.
//
// Faults: what a server may do to its clients. All of them take effect at once.
// Thread safety: every function from any task.
#pragma once

#include <memory>

#include "net/stream.h"
#include "rota/fiber/nursery.h"
#include "rota/result.h"

namespace rota::net {

class FakeRedis {
 public:
  // Starts its tasks in the nursery, which outlives it, as the network does.
  static Result<std::unique_ptr<FakeRedis>> start(Network& network, const Endpoint& endpoint, fiber::Nursery& nursery);
  ~FakeRedis();  // As close().

  [[nodiscard]] Endpoint endpoint() const;
  // As if it were killed and restarted at once without its data: connections break.
  void restart_empty();
  // FLUSHALL: connections stay.
  void lose_everything();
  // What a replica has at this moment, and the failover to that replica: connections break.
  void remember();
  void fail_over();
  // While it is set, commands that need memory are refused.
  void set_out_of_memory(bool on);
  // While it is set, no command is executed.
  void set_paused(bool on);
  void break_connections();
  void close();

 private:
  struct Core;
  explicit FakeRedis(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

}  // namespace rota::net
