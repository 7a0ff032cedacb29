#include "worker/output_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace rota::worker {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

struct Bench {
  OutputStream stream{[this](bool from_stderr, std::string bytes, std::uint64_t dropped) {
    told.push_back((from_stderr ? "err " : "out ") + std::to_string(dropped) + " " +
                   (bytes.size() > 40 ? std::to_string(bytes.size()) + " bytes" : bytes));
    total += bytes.size();
    lost += dropped;
  }};
  std::vector<std::string> told;
  std::uint64_t total = 0;
  std::uint64_t lost = 0;
};

// Contract: U-2. Small pieces are sent together, a while after the first; without output nothing is due.
TEST(OutputStream, Coalesces) {
  Bench bench;
  EXPECT_EQ(bench.stream.due(), nanoseconds::max());
  bench.stream.feed(false, "a", 1000s);
  bench.stream.feed(false, "b\n", 1000s + 50ms);
  bench.stream.feed(true, "oh", 1000s + 60ms);
  EXPECT_EQ(bench.stream.due(), 1000s + OutputStream::kAfter);
  bench.stream.send_due(1000s + 99ms);
  EXPECT_TRUE(bench.told.empty());
  bench.stream.send_due(1000s + 100ms);
  EXPECT_EQ(bench.told, (std::vector<std::string>{"out 0 ab\n"}));
  EXPECT_EQ(bench.stream.due(), 1000s + 160ms);
  bench.stream.finish();
  EXPECT_EQ(bench.told.back(), "err 0 oh");
  EXPECT_EQ(bench.stream.due(), nanoseconds::max());
  bench.stream.finish();
  EXPECT_EQ(bench.told.size(), 2U);
}

TEST(OutputStream, AChunkDoesNotWait) {
  Bench bench;
  bench.stream.feed(false, std::string(OutputStream::kChunkBytes, 'x'), 1s);
  EXPECT_EQ(bench.told, (std::vector<std::string>{"out 0 16384 bytes"}));
  EXPECT_EQ(bench.stream.due(), nanoseconds::max());
}

// Contract: U-2. A program that prints without end: a bounded number of bytes per second, in few chunks, and every byte
// is either sent or counted.
TEST(OutputStream, IsBounded) {
  Bench bench;
  const std::string block(16 * 1024, 'x');
  std::uint64_t fed = 0;
  nanoseconds now = 5s;
  for (; now < 15s; now += 100us) {  // 160 MB/s for ten seconds.
    bench.stream.feed(fed % 3 == 0, block, now);
    bench.stream.send_due(now);
    fed += block.size();
  }
  bench.stream.finish();
  EXPECT_EQ(bench.total + bench.lost, fed);
  EXPECT_LE(bench.total, 11 * OutputStream::kBytesPerSecond);
  EXPECT_GE(bench.total, 9 * OutputStream::kBytesPerSecond);
  EXPECT_LE(bench.told.size(), 2 * bench.total / OutputStream::kChunkBytes);
  // Later, output is sent again.
  now += 10s;
  bench.stream.feed(false, "quiet\n", now);
  bench.stream.finish();
  EXPECT_EQ(bench.told.back(), "out 0 quiet\n");
}

// Contract: U-3. What is held back comes later and in its place; if it is too much, its last part is kept, and what is
// dropped is counted at its place.
TEST(OutputStream, HoldsBackAndCountsInPlace) {
  Bench bench;
  bench.stream.feed(false, std::string(OutputStream::kBytesPerSecond - 3, 'x'), 1s);
  bench.stream.feed(false, "abcdef", 1s);
  EXPECT_EQ(bench.told.back(), "out 0 abc");
  bench.stream.feed(false, "ghi", 1s + 1ms);
  EXPECT_EQ(bench.told.back(), "out 0 abc");
  bench.stream.feed(false, "later", 2s);
  EXPECT_EQ(bench.told.back(), "out 0 defghi");
  bench.stream.finish();
  EXPECT_EQ(bench.told.back(), "out 0 later");
  EXPECT_EQ(bench.lost, 0U);
}

// Contract: U-3. The last lines of a program that printed far too much, on both streams, are sent at its end.
TEST(OutputStream, TheEndIsNeverLost) {
  std::string seen;
  std::uint64_t lost = 0;
  OutputStream stream([&](bool, std::string bytes, std::uint64_t dropped) {
    seen += bytes;
    lost += dropped;
  });
  const std::string block(100'000, 'x');
  for (int i = 0; i < 100; ++i) stream.feed(i % 2 == 0, block, 1s);
  stream.feed(false, "the last line\n", 1s);
  stream.feed(true, "and why\n", 1s);
  stream.finish();
  EXPECT_NE(seen.find("the last line\n"), std::string::npos);
  EXPECT_TRUE(seen.ends_with("and why\n"));
  EXPECT_EQ(seen.size() + lost, 100 * block.size() + 22);
  EXPECT_LE(seen.size(), OutputStream::kBytesPerSecond + 4 * OutputStream::kTailBytes + 22);
}

}  // namespace
}  // namespace rota::worker
