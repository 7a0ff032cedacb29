// A worker's end of the Redis bus: one task writes, one reads, one looks at the clock.
#include <algorithm>
#include <deque>
#include <optional>
#include <utility>

#include "base/json_text.h"
#include "base/log.h"
#include "bus/queue.h"
#include "bus/redis_session.h"
#include "rota/fiber/error.h"
#include "rota/fiber/time.h"

namespace rota::bus {

using net::RespCommands;
using net::RespValue;
using std::chrono::nanoseconds;

namespace {

constexpr std::size_t kMostBatchBytes = 1 << 20;  // Of one pipeline, about.
constexpr RedisSession::Line kReaderLine = 1;

// A final report that no bus can carry would be sent for ever, and its task would never end.
Result<std::string> encode_within(const model::FromWorker& message, std::size_t most) {
  std::string bytes = model::encode_message(message);
  if (bytes.size() <= most) return bytes;
  const std::string sizes = std::to_string(bytes.size()) + " bytes; the bus carries at most " + std::to_string(most);
  const auto* report = std::get_if<model::Report>(&message);
  const auto* ended = report == nullptr ? nullptr : std::get_if<model::Ended>(&report->body);
  if (ended == nullptr) return Error{ErrorCode::kTooLarge, "a message of this worker has " + sizes};
  model::Ended failed;
  failed.outcome.message = "the report of the task's end, with its result, has " + sizes +
                           ". Write large results to files, and return their paths";
  failed.outcome.final = true;  // The next attempt would be no smaller.
  failed.outcome.started_ns = ended->outcome.started_ns;
  failed.outcome.ended_ns = ended->outcome.ended_ns;
  failed.outcome.cpu_us = ended->outcome.cpu_us;
  failed.outcome.max_rss_bytes = ended->outcome.max_rss_bytes;
  return model::encode_message(model::Report{report->id, report->term, std::move(failed), report->assigned_ns});
}

// What only live views show, and what may be lost.
Link::Weight weight_of(const model::FromWorker& message) {
  const auto* report = std::get_if<model::Report>(&message);
  const bool major = report == nullptr || std::holds_alternative<model::Ended>(report->body) ||
                     std::holds_alternative<model::Checkpoint>(report->body);
  return major ? Link::Weight::kMajor : Link::Weight::kMinor;
}

}  // namespace

struct RedisWorkerEnd::Core : std::enable_shared_from_this<RedisWorkerEnd::Core> {
  struct Item {
    std::uint64_t serial = 0;  // 0: no message, but the news that the host is another process.
    model::ToWorker message;
  };
  struct Held {
    std::uint64_t id = 0;
    std::uint64_t serial = 0;
  };

  Core(net::Network& network, RedisBusOptions options, std::string worker)
      : session(network, std::move(options), "worker '" + printable(worker) + "'"),
        name(std::move(worker)),
        to_key(session.keys().to(name)),
        from_key(session.keys().from(name)),
        inbox(session.options().capacity),
        link(Link::Role::kWorker, session.options().process, session.link_bounds()) {}

  RedisSession session;
  const std::string name;
  const std::string to_key;
  const std::string from_key;
  Queue<Item> inbox;
  std::deque<Held> held;    // Received and not acknowledged; the receiver's.
  fiber::Event work{};      // Set when there is something to write.
  fiber::Event room{};      // Set when messages were acknowledged.
  fiber::Event progress{};  // Set after each batch.

  sync::Mutex mutex;
  Link link ROTA_GUARDED_BY(mutex);
  bool announce ROTA_GUARDED_BY(mutex) = true;
  bool stalled ROTA_GUARDED_BY(mutex) = false;  // A send() has waited in vain.
  // An entry of another version has come, and no readable one since: when, and the sentence about it.
  std::optional<nanoseconds> mismatch_at ROTA_GUARDED_BY(mutex);
  std::string mismatch ROTA_GUARDED_BY(mutex);

  void start(fiber::Nursery& nursery);
  // Tasks.
  void write();
  void read();
  void watch_clock();
  Result<void> read_once(std::unique_ptr<net::RedisConnection>& connection, bool wait);
  Result<void> take_entry(const StreamEntry& entry);
  void release_news();
  void end(std::string why);
  void close();
};

void RedisWorkerEnd::Core::start(fiber::Nursery& nursery) {
  for (void (Core::*loop)() : {&Core::write, &Core::read, &Core::watch_clock}) {
    session.add_task(nursery.spawn([self = shared_from_this(), loop] {
      try {
        (self.get()->*loop)();
      } catch (const fiber::Cancelled&) {
      }
    }));
  }
}

void RedisWorkerEnd::Core::write() {
  net::Backoff backoff = session.backoff(RedisSession::kWriter);
  net::Backoff refused_pause = session.backoff(2);
  std::unique_ptr<net::RedisConnection> connection;
  for (;;) {
    if (connection == nullptr) {
      auto opened = session.connect(RedisSession::kWriter, backoff);
      if (!opened.ok()) return;
      connection = std::move(*opened);
      const sync::MutexLock lock(mutex);
      link.connection_lost();
      link.greet();
      announce = true;
      work.set();
    }
    work.wait();
    work.reset();
    RespCommands commands;
    std::size_t writes = 0;
    {
      const sync::MutexLock lock(mutex);
      for (const Link::Write& write : link.take_writes(fiber::now(), kMostBatchBytes)) {
        add_write(commands, from_key, write);
        ++writes;
      }
      // After the entry: the host looks for the stream when it hears of the worker.
      if (std::exchange(announce, false)) commands.add({"LPUSH", session.keys().join(), name});
    }
    if (commands.empty()) continue;
    Result<std::vector<RespValue>> replies = session.exchange(RedisSession::kWriter, connection, commands);
    if (!replies.ok()) {
      if (replies.code() == ErrorCode::kCancelled) return;
      if (!fiber::sleep_for(backoff.next()).ok()) return;
      continue;
    }
    std::optional<Error> refused;
    {
      const sync::MutexLock lock(mutex);
      for (std::size_t i = 0; i < replies->size(); ++i) {
        const RespValue& reply = (*replies)[i];
        const WriteReply result = write_reply(reply);
        if (i < writes) link.written(result.result, result.id);
        if (reply.is_error() && result.result != Link::WriteResult::kIdTooLow) {
          refused = net::redis_error(reply.text, session.address());
          if (i >= writes) announce = true;
        }
      }
      if (link.wants_write() || announce) work.set();
    }
    progress.set();
    backoff.reset();
    if (!refused) {
      session.note_works(RedisSession::kWriter);
      refused_pause.reset();
      continue;
    }
    session.note_broken(RedisSession::kWriter, *refused);
    if (!fiber::sleep_for(refused_pause.next()).ok()) return;
  }
}

void RedisWorkerEnd::Core::watch_clock() {
  while (fiber::sleep_for(session.options().acknowledge_within / 2).ok()) {
    std::optional<std::string> why;
    {
      const sync::MutexLock lock(mutex);
      if (link.tick(fiber::now())) {
        if (link.is_probing()) announce = true;  // A host without memory of this worker may have lost its announcement.
        work.set();
      }
      (void)link.take_written_trim(1);  // The host trims.
      (void)link.take_read_trim(1);
      if (mismatch_at && fiber::now() - *mismatch_at >= 2 * session.options().probe_after) why = mismatch;
    }
    if (why) return end(*why);
  }
}

void RedisWorkerEnd::Core::read() {
  net::Backoff backoff = session.backoff(kReaderLine);
  std::unique_ptr<net::RedisConnection> connection;
  bool wait = false;  // The first read on a connection does not wait: it shows whether reading works.
  for (;;) {
    if (connection == nullptr) {
      auto opened = session.connect(kReaderLine, backoff);
      if (!opened.ok()) return;
      connection = std::move(*opened);
      wait = false;
    }
    const Result<void> done = read_once(connection, wait);
    if (done.ok()) {
      backoff.reset();
      wait = true;
      continue;
    }
    if (done.code() == ErrorCode::kCancelled || done.code() == ErrorCode::kClosed) return;
    connection.reset();
    if (done.code() == ErrorCode::kFailedPrecondition) {
      // The key is of another type. The host removes it when it tries to write.
      const sync::MutexLock lock(mutex);
      link.probe();
      work.set();
    }
    if (!fiber::sleep_for(backoff.next()).ok()) return;
  }
}

Result<void> RedisWorkerEnd::Core::read_once(std::unique_ptr<net::RedisConnection>& connection, bool wait) {
  std::string cursor;
  {
    const sync::MutexLock lock(mutex);
    cursor = link.cursor().to_string();
  }
  RespCommands command;
  if (wait) {
    const std::string block = std::to_string(RedisSession::kBlock.count());
    command.add({"XREAD", "COUNT", "4", "BLOCK", block, "STREAMS", to_key, cursor});
  } else {
    command.add({"XREAD", "COUNT", "4", "STREAMS", to_key, cursor});
  }
  ROTA_TRY_ASSIGN(const RespValue reply, session.exchange_one(kReaderLine, connection, command, RedisSession::kBlock));
  ROTA_TRY_ASSIGN(const std::vector<StreamEntry> entries, stream_entries(reply));
  for (const StreamEntry& entry : entries) ROTA_TRY(take_entry(entry));
  return {};
}

Result<void> RedisWorkerEnd::Core::take_entry(const StreamEntry& entry) {
  Result<Frame> frame = entry.frame == nullptr
                            ? Result<Frame>(Error{ErrorCode::kCorrupt, "the entry does not have the field of a frame"})
                            : decode_frame(*entry.frame);
  Link::Received received;
  const bool exhausted = entry.id.major >= kExhaustedId;
  {
    const sync::MutexLock lock(mutex);
    if (exhausted) {
      // Nothing can be read after it. The host removes the stream when it tries to write.
      link.forget_cursor();
      link.probe();
    } else if (frame.ok()) {
      received = link.receive(entry.id, std::move(*frame), fiber::now());
      stalled = false;
      mismatch_at.reset();
      room.set();
    } else {
      link.skip(entry.id);
      // Either the host has another version, and will not answer, or somebody else wrote this.
      if (frame.code() == ErrorCode::kUnsupported && !mismatch_at) {
        mismatch_at = fiber::now();
        mismatch = frame.error().message;
        link.probe();
      }
    }
    if (link.wants_write()) work.set();
  }
  if (exhausted) {
    return Error{ErrorCode::kCorrupt, "the stream of this worker has an entry with the id " + entry.id.to_string()};
  }
  if (!frame.ok()) {
    ROTA_LOG(kError, "an entry in the stream of this worker cannot be read and is ignored", {"worker", name},
             {"why", frame.error().message});
    return {};
  }
  if (received.superseded) {
    end("another process has taken the name '" + printable(name) +
        "' of this worker, and this one stops; give each worker a name of its own");
    return ErrorCode::kClosed;
  }
  if (received.notice == NoticeKind::kMismatch) {
    end(received.notice_text);
    return ErrorCode::kClosed;
  }
  if (received.notice == NoticeKind::kRefused) {
    ROTA_LOG(kError, "the host could not read a message", {"worker", name}, {"why", received.notice_text});
  }
  // Before the first message of the new process.
  if (received.replaced_process != 0) ROTA_TRY(inbox.send({0, model::RegisterAgain{}}));
  for (Link::Received::Message& message : received.messages) {
    Result<model::ToWorker> decoded = model::decode_to_worker(message.bytes);
    if (decoded.ok()) {
      ROTA_TRY(inbox.send({message.serial, std::move(*decoded)}));
      continue;
    }
    ROTA_LOG(kError, "a message of the host cannot be read and is ignored", {"worker", name},
             {"why", decoded.error().message});
    const sync::MutexLock lock(mutex);
    link.tell(link.peer(), NoticeKind::kRefused, message.number, decoded.error().message);
    work.set();
  }
  return {};
}

// The receiver was told of another host by an error, which it cannot acknowledge: the news leaves the inbox when no
// message before it is left there. Otherwise a few hosts that send this worker nothing would fill it for good.
void RedisWorkerEnd::Core::release_news() {
  while (!held.empty() && held.front().serial == 0) {
    inbox.acknowledge(held.front().id);
    held.pop_front();
  }
}

void RedisWorkerEnd::Core::end(std::string why) {
  session.end(std::move(why));
  close();
}

void RedisWorkerEnd::Core::close() {
  session.close();
  inbox.close();
  room.set();
  progress.set();
}

// ------------------------------------------------------------------------------------------------------- the interface

Result<std::unique_ptr<RedisWorkerEnd>> RedisWorkerEnd::open(net::Network& network, RedisBusOptions options,
                                                             std::string worker, fiber::Nursery& nursery) {
  ROTA_TRY(RedisSession::check(options));
  ROTA_TRY(check_worker_name(worker));
  auto core = std::make_shared<Core>(network, std::move(options), std::move(worker));
  core->start(nursery);
  return std::unique_ptr<RedisWorkerEnd>(new RedisWorkerEnd(std::move(core)));  // NOLINT: the constructor is private.
}

RedisWorkerEnd::RedisWorkerEnd(std::shared_ptr<Core> core) : core_(std::move(core)) {}
RedisWorkerEnd::~RedisWorkerEnd() { close(); }
void RedisWorkerEnd::close() { core_->close(); }
Result<void> RedisWorkerEnd::status() const { return core_->session.status(); }
Result<void> RedisWorkerEnd::ended() const { return core_->session.ended(); }
Result<void> RedisWorkerEnd::await_connected(nanoseconds limit) { return core_->session.await_connected(limit); }

Result<DeliveryToWorker> RedisWorkerEnd::receive(nanoseconds limit) {
  ROTA_TRY_ASSIGN(Queue<Core::Item>::Delivery delivery, receive_from(core_->inbox, core_->session, limit));
  core_->held.push_back({delivery.id, delivery.message.serial});
  if (delivery.message.serial == 0) {
    core_->release_news();
    return Error{ErrorCode::kUnavailable, "another process of the host has taken over; it may not know this worker"};
  }
  return DeliveryToWorker{delivery.id, std::move(delivery.message.message)};
}

Result<void> RedisWorkerEnd::acknowledge(std::uint64_t id) {
  core_->inbox.acknowledge(id);
  std::uint64_t serial = 0;
  while (!core_->held.empty() && core_->held.front().id <= id) {
    serial = std::max(serial, core_->held.front().serial);
    core_->held.pop_front();
  }
  core_->release_news();
  if (serial == 0) return {};
  const sync::MutexLock lock(core_->mutex);
  core_->link.acknowledge(serial, fiber::now());
  if (core_->link.wants_write()) core_->work.set();
  return {};
}

Result<void> RedisWorkerEnd::send(model::FromWorker message) {
  ROTA_TRY_ASSIGN(std::string bytes, encode_within(message, core_->session.options().message_most_bytes));
  const Link::Weight weight = weight_of(message);
  const nanoseconds until = fiber::now() + core_->session.options().send_within;
  try {
    for (;;) {
      {
        const sync::MutexLock lock(core_->mutex);
        if (core_->session.is_closed()) return core_->session.closed_error();
        if (core_->link.has_room(bytes.size(), weight)) {
          core_->link.push(std::move(bytes), fiber::now());
          core_->work.set();
          return {};
        }
        if (core_->stalled || fiber::now() >= until) {
          core_->stalled = true;
          return Error{ErrorCode::kUnavailable,
                       std::to_string(core_->link.unacknowledged()) +
                           " messages of this worker are not acknowledged by the host, and there is no room for more"};
        }
        core_->room.reset();
      }
      (void)core_->room.wait_for(until - fiber::now());
    }
  } catch (const fiber::Cancelled&) {
    return ErrorCode::kCancelled;
  }
}

Result<void> RedisWorkerEnd::flush(nanoseconds limit) {
  const nanoseconds until = fiber::now() + limit;
  try {
    for (;;) {
      {
        const sync::MutexLock lock(core_->mutex);
        if (core_->session.is_closed()) return core_->session.closed_error();
        if (core_->link.is_flushed()) return {};
        core_->progress.reset();
      }
      if (!core_->progress.wait_for(until - fiber::now())) return ErrorCode::kTimeout;
    }
  } catch (const fiber::Cancelled&) {
    return ErrorCode::kCancelled;
  }
}

}  // namespace rota::bus
