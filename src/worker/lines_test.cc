#include "worker/lines.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace rota::worker {
namespace {

Line line(const std::string& text) { return parse_line(text).value(); }

// Contract: U-2. Each kind of line.
TEST(Lines, Understood) {
  EXPECT_EQ(line("progress 0"), (Line{.kind = Line::Kind::kProgress}));
  EXPECT_EQ(line("progress 42.5 half way  through"),
            (Line{.kind = Line::Kind::kProgress, .permille = 425, .text = "half way  through"}));
  EXPECT_EQ(line("progress 100.0 "), (Line{.kind = Line::Kind::kProgress, .permille = 1000}));
  EXPECT_EQ(line("checkpoint {\"step\": 3}"), (Line{.kind = Line::Kind::kCheckpoint, .text = "{\"step\": 3}"}));
  EXPECT_EQ(line("checkpoint /data/my model.bin"),
            (Line{.kind = Line::Kind::kCheckpointFile, .text = "/data/my model.bin"}));
  EXPECT_EQ(line("log Grüße, welt"), (Line{.kind = Line::Kind::kLog, .text = "Grüße, welt"}));
  EXPECT_EQ(line("log"), (Line{.kind = Line::Kind::kLog}));
  EXPECT_EQ(line("cache model llama-7b"), (Line{.kind = Line::Kind::kCache, .text = "model", .name = "llama-7b"}));
}

// Contract: U-2. Any other line is refused with a message that says what would be right.
TEST(Lines, Refused) {
  const auto refused = [](const std::string& text, const std::string& part) {
    const Result<Line> parsed = parse_line(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.code(), ErrorCode::kParseError);
    EXPECT_NE(parsed.error().message.find(part), std::string::npos) << parsed.error().message;
    EXPECT_LT(parsed.error().message.size(), 400U);
  };
  for (const char* text : {"progress", "progress ", "progress x", "progress 101", "progress 100.1", "progress -1",
                           "progress 1.25", "progress 1.", "progress .5", "progress 1e1", "progress 0042"}) {
    refused(text, "write 'progress 42.5");
  }
  for (const char* text : {"checkpoint", "checkpoint ", "checkpoint x", "checkpoint {", "checkpoint {} {}"}) {
    refused(text, "a checkpoint is JSON or a path");
  }
  for (const char* text : {"cache", "cache model", "cache model ", "cache  x", "cache model a b", "cache m/n a"}) {
    refused(text, "write 'cache model llama-7b'");
  }
  refused("Progress 1", "unknown");
  refused(" log x", "unknown");
  refused("log a\tb", "plain UTF-8");
  refused("log \xff", "plain UTF-8");
  refused("log " + std::string(kLineMost, 'x'), "longer than 65536 bytes");
}

// The size of the pieces makes no difference; a line that is too long does not affect the others.
TEST(Lines, Stream) {
  const std::string stream = "log one\n\nbad\nlog " + std::string(3 * kLineMost, 'x') + "\nlog two\nprogress 7";
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}, std::size_t{4096}, stream.size()}) {
    LineReader reader;
    std::vector<std::string> seen;
    const auto take = [&](Result<Line> l) { seen.push_back(l.ok() ? l->text : std::string(to_string(l.code()))); };
    for (std::size_t at = 0; at < stream.size(); at += step)
      reader.feed(std::string_view(stream).substr(at, step), take);
    EXPECT_EQ(seen, (std::vector<std::string>{"one", "ParseError", "ParseError", "two"}));
    reader.finish(take);
    EXPECT_EQ(seen.size(), 5U);
    reader.finish(take);
    EXPECT_EQ(seen.size(), 5U);
  }
}

RC_GTEST_PROP(Lines, NeverAnythingButALineOrAnError, (const std::string& noise)) {
  LineReader reader;
  const auto take = [&](const Result<Line>& l) {
    if (!l.ok()) RC_ASSERT(l.code() == ErrorCode::kParseError);
    if (l.ok()) RC_ASSERT(l->permille <= 1000U);
  };
  reader.feed(noise, take);
  reader.feed("progress " + noise + "\ncheckpoint " + noise, take);
  reader.finish(take);
}

}  // namespace
}  // namespace rota::worker
