// The host's end of the Redis bus.
//
//   send() ──► Link ──► writer ── XADD, XTRIM ──► Redis ── XREAD ──► readers ──► Link ──► inbox ──► receive()
//
// One task writes for all workers: it takes what all links have to write, sends it as one pipeline, and takes the next
// batch when Redis has answered. Readers wait for up to kMostPerReader streams each, so that the cost of a message does
// not grow with the number of workers. One task waits for announcements of workers, one looks at the clock.
//
// A worker that is gone is forgotten: its streams are removed from Redis, and its Link from this process. If it speaks
// again after all, it announces itself, because nobody acknowledges its messages, and gets a new Link under another
// process number: to the worker, that is a host that has restarted, which loses nothing (redis_link.h).
#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "base/json_text.h"
#include "base/log.h"
#include "base/prng.h"
#include "bus/queue.h"
#include "bus/redis_session.h"
#include "net/redis_client.h"
#include "rota/fiber/error.h"
#include "rota/fiber/time.h"

namespace rota::bus {

using net::RespCommands;
using net::RespValue;
using std::chrono::nanoseconds;

namespace {

constexpr std::size_t kMostPerReader = 64;        // Streams of one XREAD.
constexpr std::size_t kMostBatchBytes = 1 << 20;  // Of one pipeline, about.
constexpr std::size_t kTrimAfter = 64;            // Entries that are not needed any more; a tick trims fewer.
constexpr RedisSession::Line kJoinLine = RedisSession::kJoin;
constexpr RedisSession::Line kReaderLine = 2;  // The first reader's.

// The keys are this bus's by their names: what else is there is removed, as it would be if Redis had lost them.
bool is_wrong_type(const RespValue& reply) { return reply.is_error() && reply.text.starts_with("WRONGTYPE"); }

}  // namespace

struct RedisHostEnd::Core : std::enable_shared_from_this<RedisHostEnd::Core> {
  // A worker. Its members are guarded by `mutex`, except for the constants and the event.
  struct Peer {
    Peer(const RedisSession& session, std::string worker, std::uint64_t process)
        : name(std::move(worker)),
          to_key(session.keys().to(name)),
          from_key(session.keys().from(name)),
          link(Link::Role::kHost, process, session.link_bounds(), session.options().term),
          heard_at(fiber::now()) {}
    const std::string name;
    const std::string to_key;
    const std::string from_key;
    fiber::Event room{};  // Set when messages were acknowledged.
    Link link;
    bool is_dirty = false;     // In `dirty`.
    bool announce = true;      // To be added to the set of workers.
    bool trim = false;         // However few entries it is.
    bool remove_from = false;  // Its stream has an id that leaves no room for others: to be removed.
    bool remove_to = false;    // The same for the stream of this host.
    bool forgotten = false;    // Not in `peers` any more.
    nanoseconds heard_at;      // Or could not be heard, or made.
    nanoseconds warned_at{-1};
  };
  using PeerPtr = std::shared_ptr<Peer>;
  struct Reader {
    std::vector<PeerPtr> peers;
  };
  struct Envelope {
    PeerPtr peer;
    std::uint64_t serial = 0;  // 0: made by this end.
    model::FromWorker message;
  };
  struct Held {
    std::uint64_t id = 0;
    PeerPtr peer;
    std::uint64_t serial = 0;
  };
  struct Operation {
    enum class Kind : std::uint8_t { kWrite, kOther };
    PeerPtr peer;
    Kind kind = Kind::kOther;
  };

  Core(net::Network& network, RedisBusOptions options, fiber::Nursery& the_nursery)
      : session(network, std::move(options), "host"),
        nursery(the_nursery),
        inbox(session.options().capacity),
        opened_at(fiber::now()) {
    net::RedisClientOptions client_options;
    client_options.connect.within = session.options().connect_within;
    client_options.connect.tls = session.options().tls;
    client_options.reply_within = session.options().reply_within;
    client_options.retry_after = session.options().retry_after;
    client_options.retry_most = session.options().retry_most;
    client_options.seed = session.options().process;
    client = std::make_unique<net::RedisClient>(network, session.options().url, client_options, nursery);
  }

  RedisSession session;
  fiber::Nursery& nursery;
  std::unique_ptr<net::RedisClient> client;  // For questions that a caller waits for.
  Queue<Envelope> inbox;
  std::deque<Held> held;  // Received and not acknowledged; the receiver's.
  const nanoseconds opened_at;
  fiber::Event work{};      // Set when `dirty` is not empty.
  fiber::Event progress{};  // Set after each batch.

  sync::Mutex mutex;
  std::map<std::string, PeerPtr, std::less<>> peers ROTA_GUARDED_BY(mutex);
  std::map<std::string, PeerPtr, std::less<>> by_key ROTA_GUARDED_BY(mutex);  // By the key of the stream that is read.
  std::vector<std::unique_ptr<Reader>> readers ROTA_GUARDED_BY(mutex);
  std::deque<PeerPtr> dirty ROTA_GUARDED_BY(mutex);
  std::set<std::string, std::less<>> expected ROTA_GUARDED_BY(mutex);  // Workers that the host counts on.
  std::vector<PeerPtr> to_remove ROTA_GUARDED_BY(mutex);               // Forgotten; their streams are still in Redis.
  std::uint64_t forgotten ROTA_GUARDED_BY(mutex) = 0;                  // How often a worker was forgotten.
  bool wake_readers ROTA_GUARDED_BY(mutex) = false;
  nanoseconds refused_at ROTA_GUARDED_BY(mutex){-1};  // When the log last said that there are too many workers.
  bool remove_wake ROTA_GUARDED_BY(mutex) = false;    // Its key has another type.

  void start();
  void launch(void (Core::*loop)());
  PeerPtr add_peer(const std::string& worker);
  void mark(const PeerPtr& peer) ROTA_REQUIRES(mutex);
  void forget(const PeerPtr& peer) ROTA_REQUIRES(mutex);
  // Tasks.
  void write();
  void read(std::size_t index);
  void await_workers();
  void watch_clock();
  // Their parts.
  RespCommands take_batch(std::deque<Operation>& operations);
  // False: Redis refused something; wait before the next batch.
  bool apply(const std::deque<Operation>& operations, const std::vector<RespValue>& replies);
  Result<void> read_once(std::size_t index, std::unique_ptr<net::RedisConnection>& connection, StreamId& wake_cursor,
                         bool wait, std::size_t* careful);
  Result<void> take_entry(const StreamEntry& entry);
  Result<void> take_received(const PeerPtr& peer, Link::Received received);
  void warn(const PeerPtr& peer, std::string_view what, const Error& error);
  void warn_removed(const std::string& key);
  void close();
};

// ------------------------------------------------------------------------------------------------------------- workers

void RedisHostEnd::Core::launch(void (Core::*loop)()) {
  session.add_task(nursery.spawn([self = shared_from_this(), loop] {
    try {
      (self.get()->*loop)();
    } catch (const fiber::Cancelled&) {
    }
  }));
}

void RedisHostEnd::Core::start() {
  launch(&Core::write);
  launch(&Core::await_workers);
  launch(&Core::watch_clock);
}

void RedisHostEnd::Core::mark(const PeerPtr& peer) {
  if (!peer->forgotten && !std::exchange(peer->is_dirty, true)) dirty.push_back(peer);
  work.set();
}

void RedisHostEnd::Core::forget(const PeerPtr& peer) {
  peer->forgotten = true;
  ++forgotten;
  peers.erase(peer->name);
  by_key.erase(peer->from_key);
  for (const std::unique_ptr<Reader>& reader : readers) std::erase(reader->peers, peer);
  std::erase(dirty, peer);
  to_remove.push_back(peer);
  peer->room.set();
  work.set();
}

// A worker that is known already is greeted, so that it learns of this host. Null: too many are known.
RedisHostEnd::Core::PeerPtr RedisHostEnd::Core::add_peer(const std::string& worker) {
  std::size_t new_reader = 0;
  PeerPtr peer;
  {
    const sync::MutexLock lock(mutex);
    if (peers.size() >= session.options().most_workers && !peers.contains(worker)) {
      const nanoseconds now = fiber::now();
      if (refused_at.count() < 0 || now - refused_at >= std::chrono::minutes(1)) {
        refused_at = now;
        ROTA_LOG(kError, "too many workers are known to the bus; further ones are ignored", {"worker", worker},
                 {"most", session.options().most_workers});
      }
      return nullptr;
    }
    PeerPtr& place = peers[worker];
    if (place == nullptr) {
      const std::uint64_t process = session.options().process;
      place =
          std::make_shared<Peer>(session, worker, forgotten == 0 ? process : SplitMix64::mix(process ^ forgotten) | 1U);
      by_key[place->from_key] = place;
      auto reader = std::find_if(readers.begin(), readers.end(),
                                 [](const auto& each) { return each->peers.size() < kMostPerReader; });
      if (reader == readers.end()) {
        reader = readers.insert(readers.end(), std::make_unique<Reader>());
        new_reader = readers.size();
      } else {
        wake_readers = true;
      }
      (*reader)->peers.push_back(place);
    }
    peer = place;
    peer->link.greet();
    mark(peer);
  }
  if (new_reader != 0) {
    session.add_task(nursery.spawn([self = shared_from_this(), index = new_reader - 1] {
      try {
        self->read(index);
      } catch (const fiber::Cancelled&) {
      }
    }));
  }
  return peer;
}

void RedisHostEnd::Core::await_workers() {
  net::Backoff backoff = session.backoff(1);
  std::unique_ptr<net::RedisConnection> connection;
  for (;;) {
    RespCommands command;
    nanoseconds block{0};
    if (connection == nullptr) {
      auto opened = session.connect(kJoinLine, backoff);
      if (!opened.ok()) return;
      connection = std::move(*opened);
      command.add({"SMEMBERS", session.keys().workers()});
    } else {
      block = RedisSession::kBlock;
      command.add({"BLPOP", session.keys().join(), std::to_string(RedisSession::kBlock.count() / 1000)});
    }
    const Result<RespValue> reply = session.exchange_one(kJoinLine, connection, command, block);
    if (!reply.ok()) {
      if (reply.code() == ErrorCode::kFailedPrecondition && connection != nullptr) {
        const std::string key = block.count() > 0 ? session.keys().join() : session.keys().workers();
        warn_removed(key);
        RespCommands removal;
        removal.add({"DEL", key});
        (void)session.exchange_one(kJoinLine, connection, removal);
      }
      connection.reset();
      if (!fiber::sleep_for(backoff.next()).ok()) return;
      continue;
    }
    if (block.count() > 0) backoff.reset();  // The first command may work although the second never does.
    for (std::size_t i = block.count() > 0 ? 1 : 0; i < reply->items.size(); ++i) {  // BLPOP's begins with the key.
      const std::string& name = reply->items[i].text;
      if (Result<void> valid = check_worker_name(name); valid.ok()) {
        add_peer(name);
      } else {
        ROTA_LOG(kWarn, "a worker with a name that is not allowed announced itself", {"why", valid.error().message});
      }
    }
  }
}

void RedisHostEnd::Core::watch_clock() {
  while (fiber::sleep_for(session.options().acknowledge_within / 2).ok()) {
    const bool hears = session.status().ok();
    const sync::MutexLock lock(mutex);
    const nanoseconds now = fiber::now();
    std::vector<PeerPtr> gone;
    for (const auto& [name, peer] : peers) {
      peer->trim = true;
      if (!hears) peer->heard_at = now;  // Nobody can be heard.
      if (now - peer->heard_at >= session.options().forget_after && !expected.contains(name)) {
        gone.push_back(peer);
      } else if (peer->link.tick(now) || peer->link.has_trim()) {
        mark(peer);
      }
    }
    for (const PeerPtr& peer : gone) forget(peer);
  }
}

// ------------------------------------------------------------------------------------------------------------- writing

void RedisHostEnd::Core::write() {
  net::Backoff backoff = session.backoff(RedisSession::kWriter);
  net::Backoff refused = session.backoff(1'000'000);
  std::unique_ptr<net::RedisConnection> connection;
  for (;;) {
    if (connection == nullptr) {
      auto opened = session.connect(RedisSession::kWriter, backoff);
      if (!opened.ok()) return;
      connection = std::move(*opened);
      const sync::MutexLock lock(mutex);
      wake_readers = true;  // Shows whether writing works.
      work.set();
      for (const auto& [name, peer] : peers) {
        peer->link.connection_lost();
        peer->link.greet();
        peer->announce = true;
        mark(peer);
      }
    }
    work.wait();
    work.reset();
    std::deque<Operation> operations;
    const RespCommands commands = take_batch(operations);
    if (commands.empty()) continue;
    Result<std::vector<RespValue>> replies = session.exchange(RedisSession::kWriter, connection, commands);
    if (!replies.ok()) {
      if (replies.code() == ErrorCode::kCancelled) return;
      if (!fiber::sleep_for(backoff.next()).ok()) return;
      continue;
    }
    backoff.reset();
    if (apply(operations, *replies)) {
      refused.reset();
    } else if (!fiber::sleep_for(refused.next()).ok()) {
      return;
    }
  }
}

RespCommands RedisHostEnd::Core::take_batch(std::deque<Operation>& operations) {
  using Kind = Operation::Kind;
  RespCommands commands;
  const sync::MutexLock lock(mutex);
  const nanoseconds now = fiber::now();
  if (std::exchange(remove_wake, false)) {
    commands.add({"DEL", session.keys().wake()});
    operations.push_back({nullptr, Kind::kOther});
  }
  if (std::exchange(wake_readers, false)) {
    commands.add({"XADD", session.keys().wake(), "MAXLEN", "1", "*", "w", ""});
    operations.push_back({nullptr, Kind::kOther});
  }
  for (const PeerPtr& peer : std::exchange(to_remove, {})) {
    if (peers.contains(peer->name)) continue;  // It is back.
    commands.add({"DEL", peer->to_key, peer->from_key});
    commands.add({"SREM", session.keys().workers(), peer->name});
    for (int i = 0; i < 2; ++i) operations.push_back({peer, Kind::kOther});
  }
  while (!dirty.empty() && commands.bytes().size() < kMostBatchBytes) {
    const PeerPtr peer = std::move(dirty.front());
    dirty.pop_front();
    peer->is_dirty = false;
    if (std::exchange(peer->announce, false)) {
      commands.add({"SADD", session.keys().workers(), peer->name});
      operations.push_back({peer, Kind::kOther});
    }
    if (std::exchange(peer->remove_to, false)) {
      commands.add({"DEL", peer->to_key});
      operations.push_back({peer, Kind::kOther});
    }
    for (const Link::Write& write : peer->link.take_writes(now, kMostBatchBytes)) {
      add_write(commands, peer->to_key, write);
      operations.push_back({peer, Kind::kWrite});
    }
    const std::size_t least = std::exchange(peer->trim, false) ? 1 : kTrimAfter;
    if (const std::optional<StreamId> trim = peer->link.take_written_trim(least)) {
      commands.add({"XTRIM", peer->to_key, "MINID", trim->to_string()});
      operations.push_back({peer, Kind::kOther});
    }
    if (std::exchange(peer->remove_from, false)) {
      commands.add({"DEL", peer->from_key});
      operations.push_back({peer, Kind::kOther});
    } else if (const std::optional<StreamId> read_trim = peer->link.take_read_trim(least)) {
      commands.add({"XTRIM", peer->from_key, "MINID", read_trim->to_string()});
      operations.push_back({peer, Kind::kOther});
    }
  }
  if (!dirty.empty() || wake_readers) work.set();
  return commands;
}

bool RedisHostEnd::Core::apply(const std::deque<Operation>& operations, const std::vector<RespValue>& replies) {
  bool all_taken = true;
  std::optional<Error> refused;
  {
    const sync::MutexLock lock(mutex);
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const Operation& operation = operations[i];
      if (operation.kind == Operation::Kind::kWrite) {
        WriteReply reply = write_reply(replies[i]);
        const bool wrong_type = is_wrong_type(replies[i]);
        if (wrong_type) warn_removed(operation.peer->to_key);
        if (wrong_type || reply.exhausted || reply.id.major >= kExhaustedId) {
          reply.result = Link::WriteResult::kRefused;
          operation.peer->remove_to = true;
        }
        all_taken &= reply.result != Link::WriteResult::kRefused;
        operation.peer->link.written(reply.result, reply.id);
        if (operation.peer->link.wants_write()) mark(operation.peer);
        if (reply.result == Link::WriteResult::kIdTooLow) continue;
      } else if (operation.peer == nullptr && is_wrong_type(replies[i])) {
        warn_removed(session.keys().wake());
        remove_wake = wake_readers = true;
        work.set();
      } else if (operation.peer != nullptr && replies[i].is_error()) {
        operation.peer->announce = true;  // Perhaps it was this that was refused.
        mark(operation.peer);
        all_taken = false;
      }
      if (replies[i].is_error() && !refused) refused = net::redis_error(replies[i].text, session.address());
    }
  }
  progress.set();
  if (refused) {
    session.note_broken(RedisSession::kWriter, *refused);
  } else {
    session.note_works(RedisSession::kWriter);
  }
  return all_taken;
}

// ------------------------------------------------------------------------------------------------------------- reading

void RedisHostEnd::Core::read(std::size_t index) {
  const RedisSession::Line line = kReaderLine + index;
  session.watch(line);
  net::Backoff backoff = session.backoff(line);
  std::unique_ptr<net::RedisConnection> connection;
  StreamId wake_cursor;
  std::size_t careful = 0;  // Streams still to be read one by one, because a reply was too large.
  bool wait = false;        // The first read on a connection does not wait: it shows whether reading works.
  for (;;) {
    if (connection == nullptr) {
      auto opened = session.connect(line, backoff);
      if (!opened.ok()) return;
      connection = std::move(*opened);
      wait = false;
    }
    const Result<void> done = read_once(index, connection, wake_cursor, wait, &careful);
    if (done.ok()) {
      backoff.reset();
      wait = true;
      continue;
    }
    if (done.code() == ErrorCode::kCancelled || done.code() == ErrorCode::kClosed) return;
    connection.reset();
    if (!fiber::sleep_for(backoff.next()).ok()) return;
  }
}

Result<void> RedisHostEnd::Core::read_once(std::size_t index, std::unique_ptr<net::RedisConnection>& connection,
                                           StreamId& wake_cursor, bool wait, std::size_t* careful) {
  std::vector<std::string> keys;
  std::vector<std::string> ids;
  PeerPtr single;
  {
    const sync::MutexLock lock(mutex);
    const std::vector<PeerPtr>& some = readers[index]->peers;
    if (some.empty()) *careful = 0;
    if (*careful > 0) {
      const PeerPtr& peer = single = some[--*careful % some.size()];
      keys.push_back(peer->from_key);
      ids.push_back(peer->link.cursor().to_string());
    } else {
      keys.push_back(session.keys().wake());
      ids.push_back(wake_cursor.to_string());
      for (const PeerPtr& peer : some) {
        keys.push_back(peer->from_key);
        ids.push_back(peer->link.cursor().to_string());
      }
    }
  }
  const bool one_by_one = single != nullptr;
  wait = wait && !one_by_one;
  RespCommands command;
  command.begin((wait ? 6 : 4) + 2 * keys.size());
  command.argument("XREAD");
  command.argument("COUNT");
  command.argument(one_by_one ? "1" : "16");
  if (wait) {
    command.argument("BLOCK");
    command.argument(std::to_string(RedisSession::kHostBlock.count()));
  }
  command.argument("STREAMS");
  for (const std::string& key : keys) command.argument(key);
  for (const std::string& id : ids) command.argument(id);
  const nanoseconds block = wait ? RedisSession::kHostBlock : std::chrono::milliseconds(0);
  const Result<RespValue> reply = session.exchange_one(kReaderLine + index, connection, command, block);
  if (!reply.ok()) {
    const bool wrong_type = reply.code() == ErrorCode::kFailedPrecondition;
    if (wrong_type && one_by_one) {
      warn_removed(single->from_key);
      const sync::MutexLock lock(mutex);
      single->remove_from = true;
      single->link.forget_cursor();
      mark(single);
    } else if (wrong_type || reply.code() == ErrorCode::kTooLarge) {
      *careful = 2 * keys.size();
      const sync::MutexLock lock(mutex);
      wake_readers = true;  // If it is the key for waking, the writer finds out.
      work.set();
    }
    return reply.error();
  }
  ROTA_TRY_ASSIGN(const std::vector<StreamEntry> entries, stream_entries(*reply));
  for (const StreamEntry& entry : entries) {
    if (entry.key == session.keys().wake()) {
      wake_cursor = entry.id;
    } else {
      ROTA_TRY(take_entry(entry));
    }
  }
  return {};
}

Result<void> RedisHostEnd::Core::take_entry(const StreamEntry& entry) {
  PeerPtr peer;
  Link::Received received;
  Result<Frame> frame = entry.frame == nullptr
                            ? Result<Frame>(Error{ErrorCode::kCorrupt, "the entry does not have the field of a frame"})
                            : decode_frame(*entry.frame);
  {
    const sync::MutexLock lock(mutex);
    const auto found = by_key.find(entry.key);
    if (found == by_key.end()) return {};
    peer = found->second;
    peer->heard_at = fiber::now();
    if (entry.id.major >= kExhaustedId) {
      // After such an id nobody could write to this stream for long.
      peer->remove_from = true;
      peer->link.forget_cursor();
      frame = Error{ErrorCode::kCorrupt, "the id of the entry is " + entry.id.to_string() + "; the stream is removed"};
    } else if (frame.ok()) {
      received = peer->link.receive(entry.id, std::move(*frame), fiber::now());
      peer->room.set();
    } else {
      peer->link.skip(entry.id);
      // A worker of another version learns from the answer that the versions differ.
      if (frame.code() == ErrorCode::kUnsupported) peer->link.greet();
    }
    mark(peer);
  }
  if (!frame.ok()) {
    warn(peer, "an entry in the stream of a worker cannot be read and is ignored", frame.error());
    return {};
  }
  return take_received(peer, std::move(received));
}

Result<void> RedisHostEnd::Core::take_received(const PeerPtr& peer, Link::Received received) {
  if (received.newer_term != 0) {
    session.end("worker '" + printable(peer->name) + "' has heard of a host with term " +
                    std::to_string(received.newer_term) + ", which is newer than this one's, " +
                    std::to_string(session.options().term),
                received.newer_term);
    close();
    return ErrorCode::kClosed;
  }
  if (received.superseded) {
    session.end("another host uses the fleet '" + session.options().prefix + "' in Redis at " + session.address() +
                ": worker '" + printable(peer->name) +
                "' follows it now. This host stops; give each fleet a prefix of its own");
    close();
    return ErrorCode::kClosed;
  }
  if (received.replaced_process != 0) {
    ROTA_LOG(kInfo, "a new process has taken the name of a worker", {"worker", peer->name});
    const sync::MutexLock lock(mutex);
    peer->link.tell(received.replaced_process, NoticeKind::kSuperseded, 0,
                    "another process has taken the name '" + printable(peer->name) +
                        "' of this worker; give each worker a name of its own");
    mark(peer);
  }
  if (received.notice == NoticeKind::kRefused || received.notice == NoticeKind::kMismatch) {
    ROTA_LOG(kError, "a worker could not read a message", {"worker", peer->name}, {"why", received.notice_text});
    // A task whose assignment was not understood must end.
    const Result<model::ToWorker> refused = model::decode_to_worker(received.refused);
    if (const auto* assign = refused.ok() ? std::get_if<model::Assign>(&*refused) : nullptr) {
      model::Ended ended;
      ended.outcome.message =
          "worker '" + printable(peer->name) + "' could not read the assignment: " + received.notice_text;
      ROTA_TRY(inbox.send({peer, 0, model::Report{assign->id, assign->term, std::move(ended), assign->assigned_ns}}));
    }
  }
  for (Link::Received::Message& message : received.messages) {
    Result<model::FromWorker> decoded = model::decode_from_worker(message.bytes);
    if (!decoded.ok()) {
      warn(peer, "a message of a worker cannot be read and is ignored", decoded.error());
      const bool mismatch = decoded.code() == ErrorCode::kUnsupported;
      const sync::MutexLock lock(mutex);
      peer->link.tell(peer->link.peer(), mismatch ? NoticeKind::kMismatch : NoticeKind::kRefused, message.number,
                      "the host could not read a message: " + decoded.error().message);
      mark(peer);
      continue;
    }
    ROTA_TRY(inbox.send({peer, message.serial, std::move(*decoded)}));
  }
  return {};
}

void RedisHostEnd::Core::warn(const PeerPtr& peer, std::string_view what, const Error& error) {
  {
    const sync::MutexLock lock(mutex);
    const nanoseconds now = fiber::now();
    if (peer->warned_at.count() >= 0 && now - peer->warned_at < std::chrono::seconds(10)) return;
    peer->warned_at = now;
  }
  ROTA_LOG(kError, what, {"worker", peer->name}, {"why", error.message});
}

void RedisHostEnd::Core::warn_removed(const std::string& key) {
  ROTA_LOG(kWarn,
           "a key of the fleet in Redis is of another type, and is removed; does something else use this prefix?",
           {"key", key}, {"redis", session.address()});
}

void RedisHostEnd::Core::close() {
  session.close();
  client->close();
  inbox.close();
  const sync::MutexLock lock(mutex);
  for (const auto& [name, peer] : peers) peer->room.set();
  progress.set();
}

// ------------------------------------------------------------------------------------------------------- the interface

Result<std::unique_ptr<RedisHostEnd>> RedisHostEnd::open(net::Network& network, RedisBusOptions options,
                                                         fiber::Nursery& nursery) {
  ROTA_TRY(RedisSession::check(options));
  auto core = std::make_shared<Core>(network, std::move(options), nursery);
  core->start();
  return std::unique_ptr<RedisHostEnd>(new RedisHostEnd(std::move(core)));  // NOLINT: the constructor is private.
}

RedisHostEnd::RedisHostEnd(std::shared_ptr<Core> core) : core_(std::move(core)) {}
RedisHostEnd::~RedisHostEnd() { close(); }
void RedisHostEnd::close() { core_->close(); }
Result<void> RedisHostEnd::status() const { return core_->session.status(); }
Result<void> RedisHostEnd::ended() const { return core_->session.ended(); }
Result<void> RedisHostEnd::await_connected(nanoseconds limit) { return core_->session.await_connected(limit); }

Result<DeliveryFromWorker> RedisHostEnd::receive(nanoseconds limit) {
  ROTA_TRY_ASSIGN(Queue<Core::Envelope>::Delivery delivery, receive_from(core_->inbox, core_->session, limit));
  core_->held.push_back({delivery.id, delivery.message.peer, delivery.message.serial});
  return DeliveryFromWorker{delivery.id, delivery.message.peer->name, std::move(delivery.message.message)};
}

Result<void> RedisHostEnd::acknowledge(std::uint64_t id) {
  core_->inbox.acknowledge(id);
  const sync::MutexLock lock(core_->mutex);
  const nanoseconds now = fiber::now();
  while (!core_->held.empty() && core_->held.front().id <= id) {
    const Core::Held& held = core_->held.front();
    held.peer->link.acknowledge(held.serial, now);
    if (held.peer->link.wants_write()) core_->mark(held.peer);
    core_->held.pop_front();
  }
  return {};
}

void RedisHostEnd::expect(const std::string& worker, bool expected) {
  const sync::MutexLock lock(core_->mutex);
  expected ? (void)core_->expected.insert(worker) : (void)core_->expected.erase(worker);
}

Result<void> RedisHostEnd::rewind() {
  core_->held.clear();
  core_->inbox.rewind();
  return {};
}

Result<void> RedisHostEnd::send(const std::string& worker, model::ToWorker message) {
  ROTA_TRY(check_worker_name(worker));
  std::string bytes = model::encode_message(message);
  if (bytes.size() > core_->session.options().message_most_bytes) {
    return Error{ErrorCode::kTooLarge, "a message for worker '" + printable(worker) + "' has " +
                                           std::to_string(bytes.size()) + " bytes; the bus carries at most " +
                                           std::to_string(core_->session.options().message_most_bytes) +
                                           ". Keep large inputs in files"};
  }
  Core::PeerPtr peer;
  {
    const sync::MutexLock lock(core_->mutex);
    if (const auto found = core_->peers.find(worker); found != core_->peers.end()) peer = found->second;
  }
  if (peer == nullptr) {
    if (core_->session.is_closed()) return core_->session.closed_error();
    if (fiber::now() - core_->opened_at >= core_->session.options().rejoin_within) {
      ROTA_TRY_ASSIGN(const RespValue exists, core_->client->call_one({"EXISTS", core_->session.keys().from(worker)}));
      if (exists.integer == 0) {
        return Error{ErrorCode::kNotFound, "no worker named '" + printable(worker) +
                                               "' has ever been connected to this bus, or Redis lost its streams"};
      }
    }
    peer = core_->add_peer(worker);
    if (peer == nullptr) {
      return Error{ErrorCode::kNotFound, "the bus knows " + std::to_string(core_->session.options().most_workers) +
                                             " workers already, and takes no more; '" + printable(worker) +
                                             "' is not among them"};
    }
  }
  try {
    for (;;) {
      {
        const sync::MutexLock lock(core_->mutex);
        if (core_->session.is_closed()) return core_->session.closed_error();
        if (peer->forgotten) {
          return Error{ErrorCode::kNotFound, "worker '" + printable(worker) + "' has been silent for too long"};
        }
        if (peer->link.has_room(bytes.size())) {
          peer->link.push(std::move(bytes), fiber::now());
          core_->mark(peer);
          return {};
        }
        peer->room.reset();
      }
      peer->room.wait();
    }
  } catch (const fiber::Cancelled&) {
    return ErrorCode::kCancelled;
  }
}

Result<void> RedisHostEnd::flush(nanoseconds limit) {
  const nanoseconds until = fiber::now() + limit;
  try {
    for (;;) {
      {
        const sync::MutexLock lock(core_->mutex);
        if (core_->session.is_closed()) return core_->session.closed_error();
        bool flushed = true;
        for (const auto& [name, peer] : core_->peers) {
          flushed &= peer->link.peer() == 0 || peer->link.is_flushed();
        }
        if (flushed) return {};
        core_->progress.reset();
      }
      if (!core_->progress.wait_for(until - fiber::now())) return ErrorCode::kTimeout;
    }
  } catch (const fiber::Cancelled&) {
    return ErrorCode::kCancelled;
  }
}

}  // namespace rota::bus
