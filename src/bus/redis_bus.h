// The bus over Redis Streams (U-1): one host and many workers, in any number of processes.
//
//   host ── XADD ──► <prefix>:to:<worker>   ── XREAD with a cursor ──► worker
//   host ◄─ XREAD ── <prefix>:from:<worker> ◄──────────────── XADD ── worker
//   host ◄─ BLPOP ── <prefix>:join          ◄─────────────── LPUSH ── worker, whenever it connects
//
// Redis is a transport that may lose everything at any time. Each end keeps the messages that it has sent until the
// other end has acknowledged them, numbers them, and sends them again after a loss; the receiver drops what it has
// already and asks for what is missing (redis_link.h has the protocol and its argument). Therefore neither host nor
// worker notices a Redis that was killed, restarted empty, paused, out of memory or failed over to a stale replica,
// except by the delay. Messages are lost only together with the process that sent them; the host then sends again from
// its ledger, and the worker registers again.
//
// send() returns when the message is accepted, not when Redis has it. It waits while `capacity` messages, or
// `capacity_bytes`, are not acknowledged by the other end. A worker's send() waits at most `send_within`; after that it
// returns Unavailable at once until the host acknowledges something, so that tasks do not stop because the host is
// away.
//
// Two processes with one name: the newer one wins. The older one's receive() and send() return Closed, and ended() has
// the sentence. The same holds for two hosts that use the same prefix.
//
// A message that the other side cannot decode (another version of rota, damaged bytes) is logged there with the
// worker's name, and its sender is told: a worker whose version does not fit gets Closed, with the sentence of the host
// in ended().
//
// Access: redis_names.h lists the keys, and what a Redis user for one worker may do.
// Thread safety: as bus.h says; the other functions from any task.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "bus/bus.h"
#include "net/redis_connection.h"
#include "net/redis_url.h"
#include "net/stream.h"
#include "rota/fiber/nursery.h"
#include "rota/result.h"

namespace rota::bus {

struct RedisBusOptions {
  // As a user gives them. InvalidArgument, NotFound and so on, with a sentence, for a URL, a prefix or a file that is
  // of no use. `ca_file`: a PEM file, for rediss:// only.
  static Result<RedisBusOptions> of(const std::string& url, const std::string& prefix, const std::string& ca_file);

  net::RedisUrl url{};
  std::shared_ptr<const net::TlsContext> tls{};  // For rediss://.
  // Called in a task when Redis refuses the account, and not again before it has returned: the URL with a new account,
  // or why there is none. A Redis that was restarted may have forgotten the accounts. Empty: the account never changes.
  std::function<Result<net::RedisUrl>()> new_account{};
  // Fleets that share a Redis have different prefixes: 1 to 64 of A-Z a-z 0-9 . _ -
  std::string prefix = "rota";
  // Distinguishes this process from every other one that ever had this role; a worker's incarnation is suitable. 0:
  // drawn at random, which a simulation must not do.
  std::uint64_t process = 0;
  // Of the host's leadership, if hosts share a replicated ledger (redis_link.h); 0: none.
  std::uint64_t term = 0;
  std::size_t capacity = 4096;                         // Messages per worker and direction; also held by a receiver.
  std::size_t capacity_bytes = std::size_t{64} << 20;  // Of those messages.
  std::size_t message_most_bytes = std::size_t{16} << 20;  // A larger message is refused with TooLarge.
  std::size_t most_workers = 10'000;  // That a host knows; announcements of further ones are ignored, and logged.
  std::chrono::nanoseconds connect_within = std::chrono::seconds(5);
  std::chrono::nanoseconds reply_within = std::chrono::seconds(5);       // Then the connection counts as broken.
  std::chrono::nanoseconds retry_after = std::chrono::milliseconds(20);  // Doubles up to retry_most, with jitter.
  std::chrono::nanoseconds retry_most = std::chrono::seconds(2);
  std::chrono::nanoseconds send_within = std::chrono::seconds(5);         // A worker's wait for room.
  std::chrono::nanoseconds acknowledge_within = std::chrono::seconds(1);  // If no other message carries it.
  std::chrono::nanoseconds probe_after = std::chrono::seconds(5);  // Without acknowledgement: was something lost?
  // How long after the start the host holds messages for workers that Redis does not know: they may be about to
  // announce themselves to a Redis that was emptied. After that, send() returns NotFound.
  std::chrono::nanoseconds rejoin_within = std::chrono::seconds(15);
  // After this silence of a worker that the host does not expect, its streams are removed from Redis.
  std::chrono::nanoseconds forget_after = std::chrono::minutes(5);
};

class RedisHostEnd final : public HostEnd {
 public:
  // Starts its tasks in the nursery, which must outlive it; they connect in the background and reconnect for ever.
  // InvalidArgument for a prefix or a bound that is not allowed. REQUIRES: the network outlives the nursery.
  static Result<std::unique_ptr<RedisHostEnd>> open(net::Network& network, RedisBusOptions options,
                                                    fiber::Nursery& nursery);
  ~RedisHostEnd() override;  // As close().

  Result<DeliveryFromWorker> receive(std::chrono::nanoseconds limit) override;
  Result<void> acknowledge(std::uint64_t id) override;
  Result<void> send(const std::string& worker, model::ToWorker message) override;
  Result<void> rewind() override;
  void expect(const std::string& worker, bool expected) override;

  // Waits until Redis answered, and returns at once if the account is refused. Unavailable, Unauthenticated,
  // PermissionDenied or what else is wrong, with a sentence that says what to do; Cancelled.
  Result<void> await_connected(std::chrono::nanoseconds limit);
  // What is wrong with the connection now; ok: nothing.
  [[nodiscard]] Result<void> status() const;
  // Ok until the bus is closed for good from outside: another host took over. Then Closed with the sentence.
  [[nodiscard]] Result<void> ended() const;
  // Waits until everything sent is written to Redis. Timeout; Closed; Cancelled.
  Result<void> flush(std::chrono::nanoseconds limit);
  // Ends the tasks. Messages that are not written yet are dropped. Idempotent; never waits.
  void close();

 private:
  struct Core;
  explicit RedisHostEnd(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

class RedisWorkerEnd final : public WorkerEnd {
 public:
  // As RedisHostEnd::open(). InvalidArgument also for a worker's name that is empty or longer than kMostNameBytes.
  static Result<std::unique_ptr<RedisWorkerEnd>> open(net::Network& network, RedisBusOptions options,
                                                      std::string worker, fiber::Nursery& nursery);
  ~RedisWorkerEnd() override;

  // Unavailable, once, also when another process of the host has taken over: what it heard of this worker may be old,
  // so that the worker must register again.
  Result<DeliveryToWorker> receive(std::chrono::nanoseconds limit) override;
  Result<void> acknowledge(std::uint64_t id) override;
  // A final report that is too large is sent as a failure that says so, so that its task ends.
  Result<void> send(model::FromWorker message) override;

  Result<void> await_connected(std::chrono::nanoseconds limit);
  [[nodiscard]] Result<void> status() const;
  // Ok until this worker must end: a newer process has its name, or the host does not understand it.
  [[nodiscard]] Result<void> ended() const;
  // Waits until everything sent is written to Redis: call it before a process that leaves exits. Timeout; Closed;
  // Cancelled.
  Result<void> flush(std::chrono::nanoseconds limit);
  void close();

 private:
  struct Core;
  explicit RedisWorkerEnd(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

}  // namespace rota::bus
