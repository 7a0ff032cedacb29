// Contract: U-7. Whatever a task prints of a secret is masked, however its writes divide it and in the forms in which
// programs print values.
#include "worker/secret_mask.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/prng.h"
#include "worker/task_check.h"

namespace rota::worker {
namespace {

std::string in_pieces(const SecretMask& mask, const std::vector<std::string>& pieces) {
  std::string out;
  StreamMask stream(mask);
  const StreamMask::Sink sink = [&out](std::string_view bytes) { out += bytes; };
  for (const std::string& piece : pieces) stream.feed(piece, sink);
  stream.finish(sink);
  return out;
}

TEST(SecretMaskTest, WithoutValuesNothingChanges) {
  const SecretMask mask;
  EXPECT_TRUE(mask.empty());
  EXPECT_EQ(mask.masked("hunter22"), "hunter22");
  EXPECT_EQ(in_pieces(mask, {"hun", "ter22"}), "hunter22");
}

TEST(SecretMaskTest, EveryDivisionIntoTwoWritesIsMasked) {
  const SecretMask mask({"hunter22-hunter2"});
  const std::string text = "a hunter22-hunter2 b hunter22-hunter2hunter22-hunter2 hunter22-hunter";
  for (std::size_t at = 0; at <= text.size(); ++at) {
    EXPECT_EQ(in_pieces(mask, {text.substr(0, at), text.substr(at)}), "a *** b *** hunter22-hunter") << at;
  }
  std::vector<std::string> bytes;
  for (const char c : text) bytes.emplace_back(1, c);
  EXPECT_EQ(in_pieces(mask, bytes), "a *** b *** hunter22-hunter");
}

// What cannot be the beginning of a value is passed on at once: a prompt must not wait for the end of the program.
TEST(SecretMaskTest, HoldsBackNoMoreThanTheBeginningOfAValue) {
  const SecretMask mask({"hunter22"});
  std::string out;
  StreamMask stream(mask);
  const StreamMask::Sink sink = [&out](std::string_view bytes) { out += bytes; };
  stream.feed("name? hun", sink);
  EXPECT_EQ(out, "name? ");
  stream.feed("dred", sink);
  EXPECT_EQ(out, "name? hundred");
}

TEST(SecretMaskTest, ValuesThatOverlapAreMaskedTogether) {
  EXPECT_EQ(SecretMask({"abcdef", "defghi"}).masked("xabcdefghix"), "x***x");
  EXPECT_EQ(SecretMask({"abcd", "abcd--abcd--zz"}).masked("abcd--abcd--zy"), "***--***--zy");
  EXPECT_EQ(SecretMask({"abcd", "abcd--abcd--zz"}).masked("abcd--abcd--zz"), "***");
  EXPECT_EQ(SecretMask({"secret", "secretlonger"}).masked("secretlonge secretlonger"), "***longe ***");
}

TEST(SecretMaskTest, AValueOfSeveralLinesIsMaskedAsAWholeAndLineByLine) {
  const SecretMask mask({"-----BEGIN KEY-----\nMIIEvQIBADAN\r\nx\nQ29udGVudA==\n-----END KEY-----"});
  EXPECT_EQ(mask.masked("[-----BEGIN KEY-----\nMIIEvQIBADAN\r\nx\nQ29udGVudA==\n-----END KEY-----]"), "[***]");
  EXPECT_EQ(mask.masked("1: MIIEvQIBADAN\n2: x\n3: Q29udGVudA==\n"), "1: ***\n2: x\n3: ***\n");
}

TEST(SecretMaskTest, EncodedValuesAreMasked) {
  const SecretMask mask({"pa\"ss\\w\xc3\xb6rd\xf0\x9f\x94\x91/+1"});
  EXPECT_EQ(mask.masked(R"({"a": "pa\"ss\\w)"
                        "\xc3\xb6rd\xf0\x9f\x94\x91"
                        R"(/+1"})"),
            R"({"a": "***"})");
  EXPECT_EQ(mask.masked(R"({"a": "pa\"ss\\w\u00f6rd\ud83d\udd11/+1"})"), R"({"a": "***"})") << "json.dumps of Python";
  EXPECT_EQ(mask.masked("?q=pa%22ss%5Cw%C3%B6rd%F0%9F%94%91%2F%2B1&"), "?q=***&");
  EXPECT_EQ(mask.masked("?q=pa%22ss%5cw%c3%b6rd%f0%9f%94%91%2f%2b1&"), "?q=***&");
  EXPECT_EQ(mask.masked(R"({"a": "pa\"ss\\w)"
                        "\xc3\xb6rd\xf0\x9f\x94\x91"
                        R"(\/+1"})"),
            R"({"a": "***"})");
  const SecretMask path({"ab/cd ef+12"});
  for (const char* text : {"ab/cd%20ef%2B12", "ab/cd+ef%2b12", "ab%2Fcd+ef%2B12"}) EXPECT_EQ(path.masked(text), "***");
  // 120 bytes, as `base64` and `openssl base64` write them, with the line feed of `echo` behind them.
  const SecretMask large({std::string(60, 'k') + std::string(60, 'w')});
  EXPECT_EQ(large.masked("a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tr\n"
                         "a2trd3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3\n"
                         "d3d3d3d3Cg==\n"),
            "***\n***\n***Cg==\n");
  EXPECT_EQ(large.masked("a2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tra2tr\n"
                         "a2tra2tra2tra2trd3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3\n"
                         "d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3d3Cg==\n"),
            "***\n***\n***Cg==\n");
  const SecretMask plain({"hunter22hunter22"});
  // base64 of "hunter22hunter22", of "user:hunter22hunter22" and of "a:hunter22hunter22".
  EXPECT_EQ(plain.masked("aHVudGVyMjJodW50ZXIyMg==").find("aHVudGVy"), std::string::npos);
  EXPECT_EQ(plain.masked("dXNlcjpodW50ZXIyMmh1bnRlcjIy").find("h1bnRlcj"), std::string::npos);
  EXPECT_EQ(plain.masked("YTpodW50ZXIyMmh1bnRlcjIy").find("odW50ZXIy"), std::string::npos);
}

TEST(SecretMaskTest, MaskedJsonStaysJson) {
  const SecretMask mask({"12345", "{\"type\": \"key\"}"});
  EXPECT_EQ(mask.masked_json(R"({"a": "12345"})"), R"({"a": "***"})");
  EXPECT_EQ(mask.masked_json("1234567"), "\"***67\"");
  EXPECT_EQ(mask.masked_json(R"({"port":12345,"n":[-12345, 9, true]})"), R"({"port":"***","n":["-***", 9, true]})");
  EXPECT_EQ(mask.masked_json("{\"type\": \"key\"}"), "\"***\"");
  EXPECT_EQ(mask.masked_json("[1]"), "[1]");
  const SecretMask word({"hunter22"});
  EXPECT_EQ(word.masked_json(R"({"a\"": "x\u0068unter22\n", "b": "\u0041"})"), R"({"a\"": "x***\n", "b": "\u0041"})");
}

// The automaton against a search that marks every occurrence of every value, with values that share parts.
TEST(SecretMaskTest, AgreesWithASimpleSearch) {
  Prng prng(7);
  for (int round = 0; round < 3'000; ++round) {
    const auto random_text = [&](std::size_t least, std::size_t most) {
      std::string text;
      const std::size_t size = least + prng.below(most - least + 1);
      for (std::size_t i = 0; i < size; ++i) text += static_cast<char>('a' + prng.below(2));
      return text;
    };
    std::vector<std::string> values;
    for (std::uint64_t i = 0; i <= prng.below(3); ++i) values.push_back(random_text(4, 9));
    const std::string text = random_text(0, 60);
    std::vector<bool> marked(text.size());
    for (const std::string& value : values) {
      for (std::size_t at = 0; (at = text.find(value, at)) != std::string::npos; ++at) {
        for (std::size_t i = 0; i < value.size(); ++i) marked[at + i] = true;
      }
    }
    std::string expected;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (!marked[i]) expected += text[i];
      if (marked[i] && (i == 0 || !marked[i - 1])) expected += kMasked;
    }
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < text.size();) {
      pieces.push_back(text.substr(at, 1 + prng.below(7)));
      at += pieces.back().size();
    }
    ASSERT_EQ(in_pieces(SecretMask(values), pieces), expected) << text;
  }
}

}  // namespace
}  // namespace rota::worker
