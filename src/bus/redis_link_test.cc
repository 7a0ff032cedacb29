#include "bus/redis_link.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/prng.h"

namespace rota::bus {
namespace {

using namespace std::chrono_literals;
using WriteResult = Link::WriteResult;

// A stream as Redis keeps it: ids rise, and a lower one is refused.
struct FakeStream {
  std::map<StreamId, std::string> entries{};
  StreamId top{};

  WriteResult add(const std::string& id_text, const std::string& bytes, std::uint64_t clock_ms, StreamId& id) {
    if (id_text == "*") {
      id = clock_ms > top.major ? StreamId{clock_ms, 0} : top.next();
    } else {
      id = StreamId::parse(id_text).value();
    }
    if (id <= top) return WriteResult::kIdTooLow;
    top = id;
    entries[id] = bytes;
    return WriteResult::kWritten;
  }
  void trim(StreamId below) { entries.erase(entries.begin(), entries.lower_bound(below)); }
};

// A host and a worker with two streams between them, and everything that can happen to them.
struct World {
  explicit World(std::uint64_t seed) : random(seed) {}

  struct End {
    std::unique_ptr<Link> link{};
    FakeStream* out = nullptr;
    FakeStream* in = nullptr;
    std::uint64_t sent = 0;
    std::vector<std::string> received{};    // By this process.
    std::deque<std::uint64_t> unhandled{};  // Serials.
    bool superseded = false;
  };

  Prng random;
  std::chrono::nanoseconds now{0};
  std::uint64_t clock_ms = 1000;
  FakeStream to{}, from{};
  FakeStream old_to{}, old_from{};  // What a stale replica has.
  End host{}, worker{};
  LinkBounds bounds{.messages = 32, .bytes = 10000, .acknowledge_within = 1s, .probe_after = 5s};

  void start_host(std::uint64_t process) {
    host = End{.link = std::make_unique<Link>(Link::Role::kHost, process, bounds), .out = &to, .in = &from};
    host.link->greet();
  }
  void start_worker(std::uint64_t process) {
    worker = End{.link = std::make_unique<Link>(Link::Role::kWorker, process, bounds), .out = &from, .in = &to};
    worker.link->greet();
  }

  void send(End& end, const std::string& text) {
    if (!end.link->has_room(text.size())) return;
    end.link->push(text, now);
    ++end.sent;
  }
  void send_next(End& end, const char* who) { send(end, who + std::to_string(end.sent + 1)); }

  enum class Mood { kWorks, kBreaks, kRefuses };
  void write(End& end, Mood mood) {
    const std::vector<Link::Write> writes = end.link->take_writes(now, 500);
    for (const Link::Write& write : writes) {
      if (mood == Mood::kBreaks && random.chance(1, 3)) break;
      const bool refused = mood == Mood::kRefuses && random.chance(1, 2);
      StreamId id;
      const WriteResult result = refused ? WriteResult::kRefused : end.out->add(write.id, write.bytes, clock_ms, id);
      if (mood != Mood::kBreaks) end.link->written(result, id);
    }
    if (mood == Mood::kBreaks) reconnect(end);
    if (const auto trim = end.link->take_written_trim(1); trim && &end == &host) to.trim(*trim);
    if (const auto trim = end.link->take_read_trim(1); trim && &end == &host) from.trim(*trim);
  }
  static void reconnect(End& end) {
    end.link->connection_lost();
    end.link->greet();
  }
  void read(End& end, std::size_t most) {
    while (most-- > 0) {
      const auto entry = end.in->entries.upper_bound(end.link->cursor());
      if (entry == end.in->entries.end()) return;
      Result<Frame> frame = decode_frame(entry->second);
      if (!frame.ok()) {
        end.link->skip(entry->first);
        continue;
      }
      Link::Received received = end.link->receive(entry->first, std::move(*frame), now);
      end.superseded |= received.superseded;
      for (Link::Received::Message& message : received.messages) {
        end.received.push_back(std::move(message.bytes));
        end.unhandled.push_back(message.serial);
      }
    }
  }
  void handle(End& end, std::size_t most) {
    while (most-- > 0 && !end.unhandled.empty()) {
      end.link->acknowledge(end.unhandled.front(), now);
      end.unhandled.pop_front();
    }
  }
  void tick() {
    (void)host.link->tick(now);
    (void)worker.link->tick(now);
  }
  void lose_everything() { to = from = FakeStream{}; }

  // One random step. Faults: what Redis may do.
  void step(bool faults) {
    now += std::chrono::milliseconds(random.below(50));
    clock_ms += random.below(3);
    End& end = random.chance(1, 2) ? host : worker;
    switch (random.below(6)) {
      case 0:
        send_next(end, &end == &host ? "h" : "w");
        break;
      case 1:
        write(end, Mood::kWorks);
        break;
      case 2:
        read(end, random.below(4));
        break;
      case 3:
        handle(end, random.below(4));
        break;
      case 4:
        tick();
        break;
      default:
        if (faults && random.chance(1, 4)) fault(end);
    }
  }
  void fault(End& end) {
    switch (random.below(9)) {
      case 0:
        write(end, Mood::kBreaks);
        break;
      case 1:
        write(end, Mood::kRefuses);  // Out of memory.
        break;
      case 2:  // Killed and restarted empty.
        lose_everything();
        reconnect(host);
        reconnect(worker);
        break;
      case 3:  // FLUSHALL: no connection breaks.
        lose_everything();
        break;
      case 4:  // Remembered by a replica ...
        old_to = to;
        old_from = from;
        break;
      case 5:  // ... which takes over.
        to = old_to;
        from = old_from;
        reconnect(host);
        reconnect(worker);
        break;
      case 6: {  // A stranger writes.
        StreamId id;
        (void)end.out->add("*", "garbage", clock_ms, id);
        break;
      }
      case 7:
        clock_ms = clock_ms > 500 ? clock_ms - 500 : 1;
        break;
      default:
        now += 7s;
    }
  }
  void settle() {
    for (int i = 0; i < 60; ++i) {
      for (End* end : {&host, &worker}) {
        tick();
        for (int j = 0; j < 5; ++j) {
          write(*end, Mood::kWorks);
          read(end == &host ? worker : host, 100);
          handle(host, 100);
          handle(worker, 100);
        }
      }
      now += 3s;
      clock_ms += 3000;
    }
  }
  static std::vector<std::string> numbered(const char* who, std::uint64_t count) {
    std::vector<std::string> all;
    for (std::uint64_t i = 1; i <= count; ++i) all.push_back(who + std::to_string(i));
    return all;
  }
};

// Contract: U-1. An entry is written once more because the connection broke, and Redis has it already: what the second
// frame says besides, the acknowledgement of what arrived in the meantime, goes out in a frame of its own, without a
// probe of the other end.
TEST(RedisLink, AcknowledgementInAFrameThatRedisHasAlready) {
  World world(1);
  world.start_host(7);
  world.start_worker(8);
  world.send_next(world.host, "h");
  world.send_next(world.worker, "w");
  world.settle();
  world.send_next(world.worker, "w");
  const auto lost = world.worker.link->take_writes(world.now, 500);  // Redis gets it; the reply is lost.
  ASSERT_EQ(lost.size(), 1U);
  StreamId id;
  ASSERT_EQ(world.from.add(lost[0].id, lost[0].bytes, world.clock_ms, id), Link::WriteResult::kWritten);
  world.send_next(world.host, "h");
  world.write(world.host, World::Mood::kWorks);
  world.read(world.worker, 10);
  world.handle(world.worker, 10);
  World::reconnect(world.worker);
  for (int i = 0; i < 3; ++i) world.write(world.worker, World::Mood::kWorks);
  world.read(world.host, 10);
  EXPECT_EQ(world.host.received, World::numbered("w", 2));
  EXPECT_EQ(world.host.link->unacknowledged(), 0U);
}

// Contract: U-1. While both processes live, every message arrives exactly once and in order, whatever Redis loses:
// killed, emptied with and without a broken connection, failed over to a stale replica, out of memory, written to by a
// stranger, with a clock that goes back.
TEST(RedisLink, ExactlyOnceWhateverRedisLoses) {
  for (std::uint64_t seed = 1; seed <= 1500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    world.start_host(7);
    world.start_worker(8);
    world.send_next(world.host, "h");
    world.send_next(world.worker, "w");
    world.settle();  // A process that has received nothing yet begins with what it sees first.
    for (int i = 0; i < 400; ++i) world.step(true);
    world.settle();
    ASSERT_EQ(world.worker.received, World::numbered("h", world.host.sent));
    ASSERT_EQ(world.host.received, World::numbered("w", world.worker.sent));
    EXPECT_EQ(world.host.link->unacknowledged(), 0U);
    EXPECT_EQ(world.worker.link->unacknowledged(), 0U);
    EXPECT_FALSE(world.host.superseded || world.worker.superseded);
    EXPECT_TRUE(world.to.entries.size() < 8 && world.from.entries.size() < 8) << "the streams are not trimmed";
    if (HasFailure()) return;
  }
}

// Contract: U-1. What a worker has not acknowledged when it ends is delivered to the next process of its name, from the
// oldest on and in order; what the worker had written is delivered to the host.
TEST(RedisLink, ANewWorkerGetsWhatTheOldOneDidNotAcknowledge) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    world.start_host(7);
    world.start_worker(8);
    for (int i = 0; i < 300; ++i) world.step(false);
    world.write(world.worker, World::Mood::kWorks);  // If its generation has begun, everything is written.
    world.write(world.worker, World::Mood::kWorks);
    const std::uint64_t from_old = world.worker.link->is_flushed() ? world.worker.sent : 0;
    const std::size_t handled = world.worker.received.size() - world.worker.unhandled.size();
    world.start_worker(9);
    for (int i = 0; i < 300; ++i) world.step(false);
    world.settle();
    // The host may not have heard of some acknowledgements: the new process begins there or earlier.
    const std::vector<std::string> all = World::numbered("h", world.host.sent);
    ASSERT_LE(world.worker.received.size(), all.size());
    const std::size_t first = all.size() - world.worker.received.size();
    EXPECT_LE(first, handled);
    EXPECT_EQ(world.worker.received,
              std::vector<std::string>(all.begin() + static_cast<std::ptrdiff_t>(first), all.end()));
    std::vector<std::string> expected = World::numbered("w", from_old);
    for (const std::string& text : World::numbered("w", world.worker.sent)) expected.push_back(text);
    if (from_old > 0) {
      EXPECT_EQ(world.host.received, expected);
    }
    if (HasFailure()) return;
  }
}

// Contract: U-1. A new host gets what the old one did not acknowledge, although Redis lost it meanwhile.
TEST(RedisLink, ANewHostGetsWhatTheOldOneDidNotAcknowledge) {
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world(seed);
    world.start_host(7);
    world.start_worker(8);
    for (int i = 0; i < 300; ++i) world.step(false);
    const std::size_t handled = world.host.received.size() - world.host.unhandled.size();
    world.start_host(9);
    if (seed % 2 == 0) {
      world.lose_everything();
      world.reconnect(world.worker);
    }
    for (int i = 0; i < 300; ++i) world.step(false);
    world.settle();
    const std::vector<std::string> all = World::numbered("w", world.worker.sent);
    // Each one at least once; the last ones in order.
    std::map<std::string, int> counts;
    for (const std::string& text : world.host.received) ++counts[text];
    for (std::size_t i = handled; i < all.size(); ++i) EXPECT_GE(counts[all[i]], 1) << all[i];
    EXPECT_EQ(world.worker.link->unacknowledged(), 0U);
    if (HasFailure()) return;
  }
}

// Contract: U-1. Two processes with one name: the newer one wins, and the older one is told, even if it missed
// everything that was sent meanwhile.
TEST(RedisLink, TheNewerProcessWins) {
  World world(1);
  world.start_host(7);
  world.start_worker(8);
  world.settle();
  world.send(world.host, "h1");
  world.settle();
  World::End older = std::move(world.worker);
  world.start_worker(9);
  world.settle();
  world.send(world.host, "h2");
  world.settle();
  EXPECT_EQ(world.worker.received, std::vector<std::string>{"h2"});
  EXPECT_FALSE(world.worker.superseded);
  // The older one reads on: it does not get the newer one's message.
  world.read(older, 100);
  EXPECT_EQ(older.received, std::vector<std::string>{"h1"});
  // It missed all of that, if the entries were trimmed; what it writes makes the host tell it.
  world.send(older, "w1");
  for (int i = 0; i < 3; ++i) world.write(older, World::Mood::kWorks);
  world.settle();
  world.read(older, 100);
  EXPECT_TRUE(older.superseded);
  EXPECT_TRUE(world.host.received.empty());
  EXPECT_FALSE(world.worker.superseded);
}

// Contract: U-1. A host that another one has replaced learns it from the workers.
TEST(RedisLink, ADeposedHostIsSuperseded) {
  World world(1);
  world.start_host(7);
  world.start_worker(8);
  world.settle();
  World::End older = std::move(world.host);
  world.start_host(9);
  world.settle();
  world.send(older, "late");
  for (int i = 0; i < 3; ++i) world.write(older, World::Mood::kWorks);
  world.read(world.worker, 100);
  EXPECT_TRUE(world.worker.received.empty());
  for (int i = 0; i < 3; ++i) world.write(world.worker, World::Mood::kWorks);
  world.read(older, 100);
  EXPECT_TRUE(older.superseded);
  world.settle();
  EXPECT_FALSE(world.host.superseded);
  world.send(world.host, "h1");
  world.settle();
  EXPECT_EQ(world.worker.received, std::vector<std::string>{"h1"});
}

// Contract: U-1. A frame that is cut at any byte, has a changed bit, or is of another version has a clear error.
TEST(RedisLink, FramesThatAreDamagedOrOfAnotherVersion) {
  Frame frame{.from = 3, .to = 4, .notice_text = "text", .messages = {"one", std::string("\0two", 4)}};
  const std::string bytes = encode_frame(frame);
  ASSERT_TRUE(decode_frame(bytes).ok());
  EXPECT_EQ(decode_frame(bytes)->messages, frame.messages);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(decode_frame(bytes.substr(0, size)).code(), ErrorCode::kCorrupt) << size;
  }
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    EXPECT_EQ(decode_frame(changed).code(), bit < 8 ? ErrorCode::kUnsupported : ErrorCode::kCorrupt) << bit;
  }
  for (const int version : {kFrameVersion - 1, kFrameVersion + 1}) {
    std::string other = bytes;
    other[0] = static_cast<char>(version);
    const Result<Frame> refused = decode_frame(other);
    EXPECT_EQ(refused.code(), ErrorCode::kUnsupported);
    EXPECT_NE(refused.error().message.find("version " + std::to_string(version)), std::string::npos);
  }
}

// Contract: U-1. A sender is told when there is no more room, by number and by bytes; one message always fits.
TEST(RedisLink, Bounds) {
  Link link(Link::Role::kWorker, 1, {.messages = 2, .bytes = 100});
  EXPECT_TRUE(link.has_room(1000));
  link.push(std::string(60, 'x'), 0s);
  EXPECT_TRUE(link.has_room(40));
  EXPECT_FALSE(link.has_room(41));
  link.push("y", 0s);
  EXPECT_FALSE(link.has_room(1));
}

// Contract: U-1, B-16. Messages for live views leave room for heartbeats and the ends of tasks.
TEST(RedisLink, MinorMessagesLeaveRoom) {
  using Weight = Link::Weight;
  Link by_number(Link::Role::kWorker, 1, {.messages = 16, .bytes = 1000});
  EXPECT_TRUE(by_number.has_room(2000, Weight::kMinor)) << "one message always fits";
  for (int i = 0; i < 14; ++i) {
    EXPECT_TRUE(by_number.has_room(1, Weight::kMinor));
    by_number.push("x", 0s);
  }
  EXPECT_FALSE(by_number.has_room(1, Weight::kMinor));
  EXPECT_TRUE(by_number.has_room(1));
  Link by_bytes(Link::Role::kWorker, 1, {.messages = 16, .bytes = 1000});
  by_bytes.push(std::string(870, 'x'), 0s);
  EXPECT_TRUE(by_bytes.has_room(5, Weight::kMinor));
  EXPECT_FALSE(by_bytes.has_room(6, Weight::kMinor));
  EXPECT_TRUE(by_bytes.has_room(130));
}

}  // namespace
}  // namespace rota::bus
