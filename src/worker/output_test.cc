#include "worker/output.h"

#include <gtest/gtest.h>

#include "worker/process_testing.h"

namespace rota::worker {
namespace {

using testing::Folder;
using testing::in_runtime;

std::string pattern(std::size_t size) {
  std::string text;
  text.reserve(size + 16);
  for (std::size_t i = 0; text.size() < size; ++i) text += std::to_string(i) + "\n";
  text.resize(size);
  return text;
}

// Contract: U-3. Up to the bound everything is kept; above it the first and the last half, with the count between them.
// The size of the pieces makes no difference.
TEST(KeptOutput, FirstAndLastHalf) {
  in_runtime([] {
    Folder folder;
    const std::uint64_t limit = 100'000;
    for (const std::size_t size :
         {0UL, 1UL, 49'999UL, 50'000UL, 50'001UL, 100'000UL, 100'001UL, 149'999UL, 1'234'567UL}) {
      for (const std::size_t step : {1000UL, 33'333UL, 250'000UL}) {
        const std::string path = folder / (std::to_string(size) + "-" + std::to_string(step));
        const std::string text = pattern(size);
        KeptOutput output(path, limit);
        for (std::size_t at = 0; at < size; at += step) {
          output.append(std::string_view(text).substr(at, step));
          if (at % 3 == 0) output.flush();
        }
        const KeptOutput::Summary summary = output.finish();
        ASSERT_TRUE(summary.written.ok()) << summary.written.error().to_string();
        EXPECT_EQ(summary.total_bytes, size);
        EXPECT_EQ(summary.dropped_bytes, size > limit ? size - limit : 0);
        if (size == 0) {
          EXPECT_FALSE(std::filesystem::exists(path));
        } else if (size <= limit) {
          EXPECT_EQ(testing::read_text(path), text);
        } else {
          const std::string expected = text.substr(0, limit / 2) + "\n[rota: " + std::to_string(size - limit) +
                                       " bytes of output were dropped here; the first 50000 and the last 50000 bytes "
                                       "are kept]\n" +
                                       text.substr(size - limit / 2);
          EXPECT_EQ(testing::read_text(path), expected) << size << " in steps of " << step;
        }
      }
    }
  });
}

// Contract: U-3. A disk error is reported, and the output is still read and counted.
TEST(KeptOutput, DiskTrouble) {
  in_runtime([] {
    Folder folder;
    KeptOutput nowhere(folder / "no/such/folder", 10'000);
    for (int i = 0; i < 100; ++i) nowhere.append(std::string(1000, 'x'));
    const KeptOutput::Summary summary = nowhere.finish();
    EXPECT_FALSE(summary.written.ok());
    EXPECT_EQ(summary.total_bytes, 100'000U);
    KeptOutput full("/dev/full", 10'000);
    full.append("x");
    EXPECT_EQ(full.finish().written.code(), ErrorCode::kNoSpace);
  });
}

TEST(LastLine, OfWhatIsNotEmpty) {
  constexpr std::size_t kLongest = 1000;
  const auto last = [](std::initializer_list<std::string_view> pieces) {
    LastLine line(kLongest);
    for (const std::string_view piece : pieces) line.feed(piece);
    return std::string(line.line());
  };
  EXPECT_EQ(last({}), "");
  EXPECT_EQ(last({"one\ntwo\n"}), "two");
  EXPECT_EQ(last({"one\ntw", "o"}), "two");
  EXPECT_EQ(last({"one\n", "\n\r\n"}), "one");
  EXPECT_EQ(last({"one\r\n"}), "one");
  const std::string large(kLongest + 1, 'x');
  EXPECT_EQ(last({large}), "");
  EXPECT_EQ(last({large, "\n"}), "");
  EXPECT_EQ(last({large, "\nshort\n"}), "short");
  EXPECT_EQ(last({"short\n", large}), "");
  EXPECT_EQ(last({std::string(kLongest, 'x'), "\n"}).size(), kLongest);
}

}  // namespace
}  // namespace rota::worker
