// The rules of redis_link.h one by one: what a link writes, keeps and acknowledges after one thing has happened. Where
// several rules repair the same loss, redis_link_test.cc would not notice that one of them is missing.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "bus/redis_link.h"

namespace rota::bus {
namespace {

using namespace std::chrono_literals;
using Role = Link::Role;
using WriteResult = Link::WriteResult;

constexpr std::uint64_t kMe = 1;
constexpr std::uint64_t kPeer = 2;
constexpr std::size_t kMuch = 1 << 20;

// A link that has heard of its peer and has begun generation 101.
struct Opened {
  explicit Opened(Role role = Role::kWorker) : link(role, kMe, {.messages = 100, .bytes = 10'000}) {
    receive({.from = kPeer, .to = kMe});
    link.greet();
    write_all();
  }
  Link::Received receive(Frame frame) { return link.receive({50, ++entries}, std::move(frame), now); }
  // What it writes now, all of which succeeds; the ids, with '*' for one that Redis chooses.
  std::vector<std::string> write_all() {
    std::vector<std::string> ids;
    while (link.wants_write()) {
      for (const Link::Write& write : link.take_writes(now, kMuch)) {
        ids.push_back(write.id);
        frames.push_back(decode_frame(write.bytes).value());
        link.written(WriteResult::kWritten, write.id == "*" ? StreamId{100, 0} : StreamId::parse(write.id).value());
      }
    }
    return ids;
  }
  // The acknowledgement that it would send now.
  std::uint64_t acknowledged() {
    link.greet();
    write_all();
    return frames.back().acknowledged;
  }

  std::chrono::nanoseconds now{0};
  Link link;
  std::uint64_t entries = 0;
  std::vector<Frame> frames{};
};

// U-1, rule (6): a new process sees message 5 first, and 3 and 4 are not acknowledged. It acknowledges nothing above 2
// before it has them and has handled them: the sender would forget them.
TEST(RedisLinkRules, NothingIsAcknowledgedBeforeLateMessagesAreHandled) {
  Opened end;
  Link::Received first = end.receive({.from = kPeer, .to = kMe, .base = 3, .first = 5, .messages = {"five"}});
  ASSERT_EQ(first.messages.size(), 1U);
  end.link.acknowledge(first.messages[0].serial, end.now);
  EXPECT_EQ(end.acknowledged(), 2U);
  Link::Received late = end.receive({.from = kPeer, .to = kMe, .base = 3, .first = 3, .messages = {"three", "four"}});
  ASSERT_EQ(late.messages.size(), 2U);
  EXPECT_EQ(end.acknowledged(), 2U) << "delivered, but not handled";
  end.link.acknowledge(late.messages[0].serial, end.now);
  EXPECT_EQ(end.acknowledged(), 2U);
  end.link.acknowledge(late.messages[1].serial, end.now);
  EXPECT_EQ(end.acknowledged(), 5U);
}

// U-1, rule (6): a new process begins with old frames, which a stale replica still had. What its predecessor has
// acknowledged since is kept by nobody: it is not waited for, and what comes after it is delivered.
TEST(RedisLinkRules, WhatAPredecessorAcknowledgedIsNotWaitedFor) {
  Opened end;
  EXPECT_EQ(end.receive({.from = kPeer, .base = 1, .first = 1, .messages = {"one", "two"}}).messages.size(), 2U);
  const Link::Received later = end.receive({.from = kPeer, .base = 5, .first = 5, .messages = {"five"}});
  ASSERT_EQ(later.messages.size(), 1U);
  EXPECT_EQ(later.messages[0].number, 5U);
  end.write_all();
  EXPECT_EQ(end.frames.back().resend_from, 0U);
  end.link.acknowledge(later.messages[0].serial, end.now);
  EXPECT_EQ(end.acknowledged(), 5U);
  // Without messages, the frame says the same.
  (void)end.receive({.from = kPeer, .to = kMe, .base = 9, .first = 9});
  end.write_all();
  EXPECT_EQ(end.frames.back().resend_from, 0U);
  EXPECT_EQ(end.receive({.from = kPeer, .to = kMe, .base = 9, .first = 9, .messages = {"nine"}}).messages.size(), 1U);
}

// U-1: a worker wrote to the former host under an id that Redis chooses; the bytes were delayed and are executed after
// the worker has changed to this host. That is no other host: only what was written later is (simulator, seed 82).
TEST(RedisLinkRules, ALateFrameForAFormerHost) {
  constexpr std::uint64_t kFormer = 9;
  Opened end(Role::kHost);
  (void)end.receive({.from = kPeer, .to = kMe, .read = 200});
  EXPECT_FALSE(end.receive({.from = kPeer, .to = kFormer, .read = 100}).superseded);
  EXPECT_EQ(end.receive({.from = kPeer, .to = kMe, .read = 200, .messages = {"one"}}).messages.size(), 1U);
  EXPECT_TRUE(end.receive({.from = kPeer, .to = kFormer, .read = 201}).superseded);
}

// U-1: an acknowledgement of messages that were never written, by a peer that is confused or hostile, covers only
// those that were.
TEST(RedisLinkRules, AnAcknowledgementCoversOnlyWhatWasWritten) {
  Opened end;
  end.link.push("one", end.now);
  end.write_all();
  end.link.push("two", end.now);
  end.receive({.from = kPeer, .to = kMe, .acknowledged = 1'000'000});
  EXPECT_EQ(end.link.unacknowledged(), 1U);
  ASSERT_EQ(end.write_all().size(), 1U);
  EXPECT_EQ(end.frames.back().first, 2U);
  EXPECT_EQ(end.frames.back().base, 2U);
  EXPECT_EQ(end.frames.back().messages, std::vector<std::string>{"two"});
  EXPECT_TRUE(end.link.has_room(1));
}

// U-1, rule (1): after a connection broke, everything that is not acknowledged is written again at once under the same
// ids, without waiting for the other end to miss it.
TEST(RedisLinkRules, WrittenAgainAfterAConnectionBroke) {
  Opened end;
  end.link.push("one", end.now);
  const std::vector<std::string> ids = end.write_all();
  ASSERT_EQ(ids, std::vector<std::string>{"101-1"});
  EXPECT_FALSE(end.link.wants_write());
  EXPECT_TRUE(end.link.is_flushed());
  end.link.connection_lost();
  EXPECT_FALSE(end.link.is_flushed());
  EXPECT_EQ(end.write_all(), ids);
  EXPECT_EQ(end.frames.back().messages, std::vector<std::string>{"one"});
}

// U-1, rule (2): Redis was out of memory for the first of two entries, and took the second. The first could never be
// written under its id, so both get new ones in a new generation, which begins with an id that Redis chooses.
TEST(RedisLinkRules, ANewGenerationAfterARefusal) {
  Opened end;
  end.link.push(std::string(300'000, 'a'), end.now);  // Two entries.
  end.link.push(std::string(300'000, 'b'), end.now);
  const std::vector<Link::Write> writes = end.link.take_writes(end.now, kMuch);
  ASSERT_EQ(writes.size(), 2U);
  end.link.written(WriteResult::kRefused, {});
  end.link.written(WriteResult::kWritten, StreamId::parse(writes[1].id).value());
  EXPECT_EQ(end.write_all(), (std::vector<std::string>{"*", "102-1", "102-2"}));
  EXPECT_EQ(end.frames.back().messages.front().front(), 'b');
}

// U-1, rule (4): the pauses between probes double while nothing is heard of the other end. They begin again with the
// shortest when it is heard, or when the connection is new: what is missing then is asked for soon.
TEST(RedisLinkRules, ProbesComeSoonAgainWhenThereIsHope) {
  Opened end;
  end.link.push("one", end.now);
  end.write_all();
  // Seconds until the next probe.
  const auto next_probe = [&] {
    for (int seconds = 1; seconds <= 100; ++seconds) {
      end.now += 1s;
      if (!end.link.tick(end.now)) continue;
      end.write_all();
      if (end.frames.back().probe) return seconds;
    }
    return 0;
  };
  for (const int expected : {5, 10, 20, 40, 60, 60}) EXPECT_EQ(next_probe(), expected);
  end.receive({.from = kPeer, .to = kMe});
  for (const int expected : {5, 10, 20}) EXPECT_EQ(next_probe(), expected);
  end.link.connection_lost();
  EXPECT_EQ(next_probe(), 6);  // From the next tick on.
  end.receive({.from = kPeer, .to = kMe, .acknowledged = 1});
  EXPECT_EQ(next_probe(), 0) << "nothing is missing";
}

// U-1: an entry whose messages are not handled stays in Redis: if this process ends now, the next one reads it there.
TEST(RedisLinkRules, EntriesThatAreNotHandledAreNotTrimmed) {
  Opened end(Role::kHost);
  const std::uint64_t heard = end.entries;
  Link::Received one = end.receive({.from = kPeer, .to = kMe, .first = 1, .messages = {"one"}});
  Link::Received two = end.receive({.from = kPeer, .to = kMe, .first = 2, .messages = {"two"}});
  ASSERT_TRUE(one.messages.size() == 1 && two.messages.size() == 1);
  EXPECT_EQ(end.link.take_read_trim(1), (StreamId{50, heard + 1}));  // The greeting.
  EXPECT_FALSE(end.link.has_trim());
  EXPECT_EQ(end.link.take_read_trim(1), std::nullopt);
  end.link.acknowledge(one.messages[0].serial, end.now);
  EXPECT_EQ(end.link.take_read_trim(1), (StreamId{50, heard + 2}));
  end.link.acknowledge(two.messages[0].serial, end.now);
  EXPECT_EQ(end.link.take_read_trim(1), (StreamId{50, heard + 3}));
}

// U-1: a process that is told that another one has its name must end, and so must one that sees its peer address
// another one. A notice for another process means nothing.
TEST(RedisLinkRules, Superseded) {
  Opened told;
  EXPECT_FALSE(told.receive({.from = kPeer, .to = 9, .notice = NoticeKind::kSuperseded}).superseded);
  EXPECT_TRUE(told.receive({.from = kPeer, .to = kMe, .notice = NoticeKind::kSuperseded}).superseded);
  Opened bypassed;
  EXPECT_TRUE(bypassed.receive({.from = kPeer, .to = 9}).superseded);
}

// U-1: a host tells a process that a newer one has replaced that it is superseded, as often as it writes.
TEST(RedisLinkRules, AReplacedWorkerIsTold) {
  Opened host(Role::kHost);
  host.receive({.from = 3, .to = 0});
  host.write_all();
  for (int i = 0; i < 2; ++i) {
    host.frames.clear();
    Link::Received late = host.receive({.from = kPeer, .to = kMe, .first = 1, .messages = {"late"}});
    EXPECT_TRUE(late.messages.empty());
    host.write_all();
    ASSERT_FALSE(host.frames.empty());
    EXPECT_EQ(host.frames.front().to, kPeer);
    EXPECT_EQ(host.frames.front().notice, NoticeKind::kSuperseded);
  }
}

// L-3: a host of an older term is ignored by a worker, also if the worker has never heard of it and its frame comes
// last: it was deposed and does not know. The worker's frames tell it.
TEST(RedisLinkRules, AWorkerIgnoresAHostOfAnOlderTerm) {
  constexpr std::uint64_t kOld = 7;
  Opened end;
  end.receive({.from = 8, .term = 12});
  ASSERT_EQ(end.link.peer(), 8U);
  end.write_all();
  const Link::Received ignored = end.receive({.from = kOld, .messages = {"run"}, .term = 11});
  EXPECT_EQ(end.link.peer(), 8U);
  EXPECT_TRUE(ignored.messages.empty());
  EXPECT_EQ(ignored.replaced_process, 0U);
  ASSERT_EQ(end.write_all().size(), 1U);
  EXPECT_EQ(end.frames.back().term, 12U);
  EXPECT_EQ(end.frames.back().to, 8U);
  // The next leader is followed; so is a host that has no terms, as ever.
  end.receive({.from = 9, .term = 13});
  EXPECT_EQ(end.link.peer(), 9U);
  end.receive({.from = 10});
  EXPECT_EQ(end.link.peer(), 10U);
}

// L-3: a host that reads of a newer term than its own is superseded, whomever the frame is for.
TEST(RedisLinkRules, AHostThatReadsOfANewerTermIsSuperseded) {
  Link host(Role::kHost, kMe, {}, 5);
  EXPECT_FALSE(host.receive({1, 1}, {.from = kPeer, .to = kMe, .term = 5}, 0ns).superseded);
  EXPECT_FALSE(host.receive({1, 2}, {.from = kPeer, .to = kMe, .term = 4}, 0ns).superseded);
  const Link::Received newer = host.receive({1, 3}, {.from = 3, .to = 99, .messages = {"done"}, .term = 6}, 0ns);
  EXPECT_TRUE(newer.superseded);
  EXPECT_EQ(newer.newer_term, 6U);
  EXPECT_TRUE(newer.messages.empty());
  Link without(Role::kHost, kMe, {});
  EXPECT_FALSE(without.receive({1, 1}, {.from = kPeer, .to = kMe, .term = 6}, 0ns).superseded);
}

}  // namespace
}  // namespace rota::bus
