// The tests that every Network and its streams must pass, whatever carries the bytes (stream.h).
//
//   struct MyHome {                                   // default-constructed for each test, in a task
//     static constexpr std::uint64_t kSeeds = 10;     // for deterministic mode; 0 if it does not work there
//     static constexpr std::size_t kBulkBytes;        // more than the buffers between two ends hold
//     Network& network();
//     Endpoint endpoint();                            // where to listen; the same each time
//     static Result<void> ready(ByteStream& accepted);  // does what accept() leaves to the first use: a handshake
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(Mine, StreamConformance, MyHome);
//
// Each test runs on real threads, and under several seeds in deterministic mode if the network supports it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/prng.h"
#include "net/stream.h"
#include "rota/fiber.h"

namespace rota::net {

// Bytes that no other seed has.
inline std::string test_bytes(std::uint64_t seed, std::size_t size) {
  std::string bytes(size, '\0');
  Prng random(seed);
  for (std::size_t at = 0; at < size; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = random.next();
    std::memcpy(bytes.data() + at, &word, std::min(size - at, sizeof word));
  }
  return bytes;
}

template <class T>
std::string text_of(const Result<T>& result) {
  return result.ok() ? "ok" : result.error().to_string();
}

struct StreamPair {
  std::unique_ptr<ByteStream> client;
  std::unique_ptr<ByteStream> server;
};

template <class Home>
class StreamConformance : public ::testing::Test {
 protected:
  static constexpr std::size_t kBulk = Home::kBulkBytes;

  template <class Body>
  void everywhere(Body&& body) {
    const auto once = [&] {
      Home home;
      body(home);
    };
    constexpr std::uint64_t seeds = ROTA_TSAN ? std::min<std::uint64_t>(Home::kSeeds, 2) : Home::kSeeds;
    for (std::uint64_t seed = 0; seed <= seeds && !::testing::Test::HasFailure(); ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed));
      fiber::Config config{.worker_count = 3};
      if (seed > 0) config.deterministic_seed = seed;
      fiber::Runtime runtime(config);
      runtime.run(once);
    }
  }
  // Runs body(home, pair) with two connected ends.
  template <class Body>
  void with_pair(Body&& body) {
    everywhere([&](Home& home) {
      auto listener = home.network().listen(home.endpoint()).value();
      StreamPair pair = connect_pair(home, *listener);
      if (pair.client != nullptr && pair.server != nullptr) body(home, pair);
    });
  }
  static StreamPair connect_pair(Home& home, Listener& listener) {
    StreamPair pair;
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] {
        auto server = listener.accept(std::chrono::hours(1));
        ASSERT_TRUE(server.ok()) << text_of(server);
        const Result<void> ready = Home::ready(**server);
        ASSERT_TRUE(ready.ok()) << text_of(ready);
        pair.server = std::move(*server);
      });
      auto client = home.network().connect(listener.endpoint(), std::chrono::hours(1));
      EXPECT_TRUE(client.ok()) << text_of(client);
      if (client.ok()) pair.client = std::move(*client);
    });
    return pair;
  }
  // Reads to the end of the stream, in pieces of varying size.
  static std::string read_to_end(ByteStream& stream) {
    std::string text;
    std::string buffer(70'000, '\0');
    for (std::size_t size = 1;; size = size * 3 % 70'000 + 1) {
      const Result<std::size_t> count = stream.read_some(std::span(buffer).first(size), {});
      if (!count.ok()) {
        ADD_FAILURE() << text_of(count);
        return text;
      }
      if (*count == 0) return text;
      text.append(buffer, 0, *count);
    }
  }
  static std::string read_text(ByteStream& stream, std::size_t size) {
    std::string text(size, '\0');
    const Result<void> read = stream.read_exactly(text, {});
    EXPECT_TRUE(read.ok()) << text_of(read);
    return text;
  }
  static void write_text(ByteStream& stream, std::string_view text) {
    const Result<void> written = stream.write_all(text, {});
    EXPECT_TRUE(written.ok()) << text_of(written);
  }
  // Lets other tasks run until the task waits, or is a few instructions away from it. The test fails if it ends.
  template <class T>
  static void until_blocked(const fiber::Task<T>& task) {
    while (task.state() != fiber::TaskState::kBlocked && !task.is_completed()) fiber::yield();
    EXPECT_FALSE(task.is_completed());
  }
};
TYPED_TEST_SUITE_P(StreamConformance);

// Contract: F-26. Bytes of every value arrive in both directions, in order, however the writer and the reader divide
// them.
TYPED_TEST_P(StreamConformance, BytesArriveInOrder) {
  this->with_pair([this](TypeParam&, StreamPair& pair) {
    const std::size_t size = std::min<std::size_t>(this->kBulk, 100'000);
    const std::string there = test_bytes(1, size);
    const std::string back = test_bytes(2, size);
    const auto write_in_pieces = [this](ByteStream& stream, std::string_view bytes) {
      for (std::size_t next = 1; !bytes.empty(); next = next * 5 % 9973) {
        const std::size_t piece = std::min(next, bytes.size());
        this->write_text(stream, bytes.substr(0, piece));
        bytes.remove_prefix(piece);
      }
      const Result<void> ended = stream.shutdown_write({});
      EXPECT_TRUE(ended.ok()) << text_of(ended);
    };
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] { write_in_pieces(*pair.client, there); });
      n.launch([&] { write_in_pieces(*pair.server, back); });
      n.launch([&] { EXPECT_EQ(this->read_to_end(*pair.client), back); });
      EXPECT_EQ(this->read_to_end(*pair.server), there);
    });
  });
}

// Contract: F-26. After a half-close the peer reads what remains and then the end, as often as it asks; the other
// direction stays open.
TYPED_TEST_P(StreamConformance, HalfClose) {
  this->with_pair([this](TypeParam&, StreamPair& pair) {
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] {
        EXPECT_EQ(this->read_to_end(*pair.server), "question");
        char byte = 0;
        EXPECT_EQ(pair.server->read_some({&byte, 1}, {}).value(), 0U);
        this->write_text(*pair.server, "answer");
        EXPECT_TRUE(pair.server->shutdown_write({}).ok());
      });
      this->write_text(*pair.client, "question");
      EXPECT_TRUE(pair.client->shutdown_write({}).ok());
      EXPECT_TRUE(pair.client->shutdown_write({}).ok());  // Idempotent.
      const Result<void> late = pair.client->write_all("late", {});
      EXPECT_EQ(late.code(), ErrorCode::kClosed) << text_of(late);
      EXPECT_EQ(this->read_to_end(*pair.client), "answer");
    });
  });
}

// Contract: F-26. Nothing is transferred for an empty buffer, and nothing is waited for.
TYPED_TEST_P(StreamConformance, EmptyBuffers) {
  this->with_pair([this](TypeParam&, StreamPair& pair) {
    EXPECT_EQ(pair.client->read_some({}, {}).value(), 0U);
    EXPECT_TRUE(pair.client->read_exactly({}, {}).ok());
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] { EXPECT_EQ(this->read_text(*pair.server, 1), "x"); });
      this->write_text(*pair.client, "");
      this->write_text(*pair.client, "x");
    });
  });
}

// Contract: F-26. A stream that ends in the middle of read_exactly() is an error that says how far it got.
TYPED_TEST_P(StreamConformance, ReadExactlyAtTheEnd) {
  this->with_pair([this](TypeParam&, StreamPair& pair) {
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] {
        this->write_text(*pair.client, "abc");
        EXPECT_TRUE(pair.client->shutdown_write({}).ok());
      });
      char buffer[5];
      const Result<void> read = pair.server->read_exactly(buffer, {});
      ASSERT_EQ(read.code(), ErrorCode::kClosed) << text_of(read);
      EXPECT_EQ(*read.error().detail("done_bytes"), "3");
      EXPECT_NE(read.error().message.find(pair.server->peer()), std::string::npos) << read.error().message;
    });
  });
}

// Contract: F-26. A read gives up at its deadline, says so, and loses nothing: the next read gets the bytes.
TYPED_TEST_P(StreamConformance, ReadDeadline) {
  using namespace std::chrono_literals;
  this->with_pair([this](TypeParam&, StreamPair& pair) {
    // The server takes part, so that a handshake that the network may have cannot be what the reader waits for.
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] { EXPECT_EQ(this->read_text(*pair.server, 5), "hello"); });
      this->write_text(*pair.client, "hello");
    });
    char buffer[4];
    const Result<std::size_t> read = pair.client->read_some(buffer, 1ms);
    ASSERT_EQ(read.code(), ErrorCode::kDeadlineExceeded) << text_of(read);
    EXPECT_EQ(*read.error().detail("done_bytes"), "0");
    EXPECT_NE(read.error().message.find(pair.client->peer()), std::string::npos) << read.error().message;
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] {
        this->write_text(*pair.server, "ab");
        EXPECT_EQ(this->read_text(*pair.server, 1), "!");
        this->write_text(*pair.server, "cd");
      });
      EXPECT_EQ(this->read_text(*pair.client, 2), "ab");
      const Result<void> rest = pair.client->read_exactly(buffer, 1ms);
      ASSERT_EQ(rest.code(), ErrorCode::kDeadlineExceeded) << text_of(rest);
      EXPECT_EQ(*rest.error().detail("done_bytes"), "0");
      this->write_text(*pair.client, "!");
      EXPECT_EQ(this->read_text(*pair.client, 2), "cd");
    });
  });
}

// Contract: F-26. A writer waits while its peer does not read, up to its deadline. The stream cannot be written to
// after that: the peer would not know where a message begins.
TYPED_TEST_P(StreamConformance, WriteDeadline) {
  using namespace std::chrono_literals;
  this->with_pair([this](TypeParam&, StreamPair& pair) {
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] { this->write_text(*pair.server, "y"); });
      EXPECT_EQ(this->read_text(*pair.client, 1), "y");
    });
    const std::string bulk = test_bytes(3, this->kBulk);
    const Result<void> written = pair.client->write_all(bulk, 20ms);
    ASSERT_EQ(written.code(), ErrorCode::kDeadlineExceeded) << text_of(written);
    EXPECT_LT(std::stoull(*written.error().detail("done_bytes")), bulk.size());
    EXPECT_NE(written.error().message.find(pair.client->peer()), std::string::npos) << written.error().message;
    EXPECT_EQ(pair.client->write_all("more", {}).code(), ErrorCode::kClosed);
    EXPECT_EQ(pair.client->shutdown_write({}).code(), ErrorCode::kClosed);
  });
}

// Contract: F-26. A writer that waits for its peer continues when the peer reads, and nothing is lost.
TYPED_TEST_P(StreamConformance, SlowReader) {
  this->with_pair([this](TypeParam&, StreamPair& pair) {
    const std::string bulk = test_bytes(4, this->kBulk);
    fiber::with_scope([&](fiber::Nursery& n) {
      auto writer = n.spawn([&] {
        this->write_text(*pair.client, bulk);
        EXPECT_TRUE(pair.client->shutdown_write({}).ok());
      });
      this->until_blocked(writer);
      EXPECT_FALSE(writer.is_completed());
      EXPECT_EQ(this->read_to_end(*pair.server), bulk);
    });
  });
}

// Contract: F-26. Both ends write more than the buffers hold at the same time, while other tasks read.
TYPED_TEST_P(StreamConformance, FullDuplex) {
  this->with_pair([this](TypeParam&, StreamPair& pair) {
    const std::string there = test_bytes(5, this->kBulk);
    const std::string back = test_bytes(6, this->kBulk);
    const auto write = [this](ByteStream& stream, const std::string& bytes) {
      this->write_text(stream, bytes);
      EXPECT_TRUE(stream.shutdown_write({}).ok());
    };
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] { write(*pair.client, there); });
      n.launch([&] { write(*pair.server, back); });
      n.launch([&] { EXPECT_EQ(this->read_to_end(*pair.client), back); });
      EXPECT_EQ(this->read_to_end(*pair.server), there);
    });
  });
}

// Contract: F-26. close() ends the waits of a reader and of a writer with Closed, and every later operation.
TYPED_TEST_P(StreamConformance, CloseEndsWaits) {
  this->with_pair([this](TypeParam&, StreamPair& pair) {
    const std::string bulk = test_bytes(7, this->kBulk);
    fiber::with_scope([&](fiber::Nursery& n) {
      auto reader = n.spawn([&] {
        char byte = 0;
        return pair.client->read_some({&byte, 1}, {});
      });
      auto writer = n.spawn([&] { return pair.client->write_all(bulk, {}); });
      this->until_blocked(reader);
      this->until_blocked(writer);
      pair.client->close();
      pair.client->close();
      const Result<std::size_t> read = reader.get();
      EXPECT_EQ(read.code(), ErrorCode::kClosed) << text_of(read);
      const Result<void> written = writer.get();
      EXPECT_EQ(written.code(), ErrorCode::kClosed) << text_of(written);
    });
    char byte = 0;
    EXPECT_EQ(pair.client->read_some({&byte, 1}, {}).code(), ErrorCode::kClosed);
    EXPECT_EQ(pair.client->write_all("x", {}).code(), ErrorCode::kClosed);
    EXPECT_EQ(pair.client->shutdown_write({}).code(), ErrorCode::kClosed);
  });
}

// Contract: F-26. A task that waits in any operation can be cancelled. Reading may continue in another task.
TYPED_TEST_P(StreamConformance, Cancellation) {
  this->everywhere([this](TypeParam& home) {
    auto listener = home.network().listen(home.endpoint()).value();
    const auto cancelled = [this](auto operation) {
      fiber::with_scope([&](fiber::Nursery& outer) {
        auto task = outer.spawn([&] { return operation().code(); });
        this->until_blocked(task);
        task.cancel();
        EXPECT_EQ(task.get(), ErrorCode::kCancelled);
      });
    };
    cancelled([&] { return listener->accept({}); });
    StreamPair pair = this->connect_pair(home, *listener);
    ASSERT_TRUE(pair.client != nullptr && pair.server != nullptr);
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] { this->write_text(*pair.server, "y"); });
      EXPECT_EQ(this->read_text(*pair.client, 1), "y");
    });
    char byte = 0;
    cancelled([&] { return pair.client->read_some({&byte, 1}, {}); });
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] { this->write_text(*pair.server, "z"); });
      EXPECT_EQ(this->read_text(*pair.client, 1), "z");
    });
    const std::string bulk = test_bytes(8, this->kBulk);
    cancelled([&] { return pair.client->write_all(bulk, {}); });
    EXPECT_EQ(pair.client->write_all("x", {}).code(), ErrorCode::kClosed);
  });
}

// Contract: F-26. When the peer has gone, a reader gets the rest and then the end or Closed, and a writer gets Closed
// sooner or later.
TYPED_TEST_P(StreamConformance, PeerCloses) {
  this->with_pair([this](TypeParam&, StreamPair& pair) {
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] {
        this->write_text(*pair.server, "last words");
        pair.server->close();
        pair.server.reset();
      });
      EXPECT_EQ(this->read_text(*pair.client, 10), "last words");
    });
    char byte = 0;
    const Result<std::size_t> end = pair.client->read_some({&byte, 1}, {});
    if (end.ok()) {
      EXPECT_EQ(*end, 0U);
    } else {
      EXPECT_EQ(end.code(), ErrorCode::kClosed) << text_of(end);
    }
    const std::string block(10'000, 'x');
    Result<void> written;
    for (int i = 0; i < 100'000 && written.ok(); ++i) written = pair.client->write_all(block, {});
    EXPECT_EQ(written.code(), ErrorCode::kClosed) << text_of(written);
  });
}

// Contract: F-26. A listener serves many clients at once, and each stream carries its own bytes.
TYPED_TEST_P(StreamConformance, ManyConnections) {
  this->everywhere([this](TypeParam& home) {
    constexpr std::uint64_t kClients = ROTA_TSAN ? 5 : 12;
    auto listener = home.network().listen(home.endpoint()).value();
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] {
        fiber::with_scope([&](fiber::Nursery& sessions) {
          for (;;) {
            auto stream = listener->accept({});
            if (!stream.ok()) {
              EXPECT_EQ(stream.code(), ErrorCode::kClosed) << text_of(stream);
              return;
            }
            sessions.launch([this, s = std::shared_ptr<ByteStream>(std::move(*stream))] {
              this->write_text(*s, this->read_to_end(*s));
              EXPECT_TRUE(s->shutdown_write({}).ok());
            });
          }
        });
      });
      fiber::with_scope([&](fiber::Nursery& clients) {
        for (std::uint64_t i = 0; i < kClients; ++i) {
          clients.launch([&, i] {
            auto stream = home.network().connect(listener->endpoint(), {});
            ASSERT_TRUE(stream.ok()) << text_of(stream);
            const std::string bytes = test_bytes(100 + i, 1000 + i);
            this->write_text(**stream, bytes);
            EXPECT_TRUE((*stream)->shutdown_write({}).ok());
            EXPECT_EQ(this->read_to_end(**stream), bytes);
          });
        }
      });
      listener->close();
    });
  });
}

// Contract: F-26. A listener reports its address, gives up at a deadline, refuses a second one at its address, and
// close() ends accept(). After that connect() is refused with a sentence, and another listener may take the address.
TYPED_TEST_P(StreamConformance, Listeners) {
  using namespace std::chrono_literals;
  this->everywhere([this](TypeParam& home) {
    auto listener = home.network().listen(home.endpoint()).value();
    const Endpoint bound = listener->endpoint();
    EXPECT_TRUE(!bound.unix_path.empty() || bound.port != 0);
    EXPECT_EQ(Endpoint::parse(bound.to_string()).value(), bound);
    const auto late = listener->accept(1ms);
    ASSERT_EQ(late.code(), ErrorCode::kDeadlineExceeded) << text_of(late);
    EXPECT_NE(late.error().message.find(bound.to_string()), std::string::npos) << late.error().message;
    const auto second = home.network().listen(bound);
    ASSERT_EQ(second.code(), ErrorCode::kAlreadyExists) << text_of(second);
    EXPECT_NE(second.error().message.find("listen on " + bound.to_string()), std::string::npos);
    fiber::with_scope([&](fiber::Nursery& n) {
      auto waiting = n.spawn([&] { return listener->accept({}).code(); });
      this->until_blocked(waiting);
      listener->close();
      listener->close();
      EXPECT_EQ(waiting.get(), ErrorCode::kClosed);
    });
    EXPECT_EQ(listener->accept({}).code(), ErrorCode::kClosed);
    const auto refused = home.network().connect(bound, 120s);
    ASSERT_EQ(refused.code(), ErrorCode::kUnavailable) << text_of(refused);
    EXPECT_NE(refused.error().message.find("connect to " + bound.to_string()), std::string::npos)
        << refused.error().message;
    listener = home.network().listen(bound).value();
    EXPECT_NE(this->connect_pair(home, *listener).server, nullptr);
  });
}

// Contract: F-26. A stream lives on when its listener is gone, and either end may be destroyed first.
TYPED_TEST_P(StreamConformance, StreamsOutliveTheirListener) {
  this->everywhere([this](TypeParam& home) {
    auto listener = home.network().listen(home.endpoint()).value();
    StreamPair pair = this->connect_pair(home, *listener);
    StreamPair other = this->connect_pair(home, *listener);
    listener.reset();
    fiber::with_scope([&](fiber::Nursery& n) {
      n.launch([&] { this->write_text(*pair.server, "still here"); });
      EXPECT_EQ(this->read_text(*pair.client, 10), "still here");
    });
    pair.client.reset();
    other.server.reset();
  });
}

REGISTER_TYPED_TEST_SUITE_P(StreamConformance, BytesArriveInOrder, HalfClose, EmptyBuffers, ReadExactlyAtTheEnd,
                            ReadDeadline, WriteDeadline, SlowReader, FullDuplex, CloseEndsWaits, Cancellation,
                            PeerCloses, ManyConnections, Listeners, StreamsOutliveTheirListener);

}  // namespace rota::net
