// What is passed on of the lines that a program writes, and how often.
#include "worker/line_reports.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace rota::worker {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

struct Recorder final : ProgramEvents {
  void on_progress(std::uint32_t permille, const std::string& text) override {
    seen.push_back("progress " + std::to_string(permille) + " " + text);
  }
  void on_checkpoint(const std::string& json) override { seen.push_back("checkpoint " + json); }
  void on_log(const std::string& text) override { seen.push_back("log " + text); }
  void on_cached(const std::string& item) override { seen.push_back("cached " + item); }
  void on_output(bool, std::string, std::uint64_t) override {}
  std::vector<std::string> taken() { return std::exchange(seen, {}); }
  std::vector<std::string> seen;
};

using Lines = std::vector<std::string>;

// Contract: U-2. A checkpoint is a durable record: at most five per second, the latest of them, and always the last.
TEST(LineReports, TheLatestCheckpointCounts) {
  Recorder recorder;
  LineReports reports(recorder);
  reports.take(parse_line("checkpoint 1"), milliseconds(0));
  EXPECT_EQ(recorder.taken(), Lines{"checkpoint 1"}) << "the first one does not wait";
  for (int i = 2; i <= 1000; ++i) reports.take(parse_line("checkpoint " + std::to_string(i)), milliseconds(1));
  EXPECT_EQ(recorder.taken(), Lines{});
  EXPECT_EQ(reports.due(), nanoseconds(milliseconds(200)));
  reports.send_due(milliseconds(199));
  EXPECT_EQ(recorder.taken(), Lines{});
  reports.send_due(milliseconds(200));
  EXPECT_EQ(recorder.taken(), Lines{"checkpoint 1000"});
  EXPECT_EQ(reports.due(), nanoseconds::max());
  reports.take(parse_line("checkpoint /a/b"), milliseconds(201));
  reports.take(parse_line("progress 50 half"), milliseconds(201));
  reports.finish();
  EXPECT_EQ(recorder.taken(), (Lines{"progress 500 half", "checkpoint {\"file\":\"/a/b\"}"}));
}

// Contract: U-2. Log lines and caches are passed on up to a rate; how many were not is said once per second and at the
// end.
TEST(LineReports, LinesBeyondTheRateAreCounted) {
  Recorder recorder;
  LineReports reports(recorder);
  for (int i = 0; i < 150; ++i) reports.take(parse_line(i % 2 == 0 ? "log x" : "cache model m"), milliseconds(i));
  EXPECT_EQ(recorder.taken().size(), 100U);
  reports.take(parse_line("log later"), milliseconds(1000));
  const Lines later = recorder.taken();
  ASSERT_EQ(later.size(), 2U);
  EXPECT_EQ(
      later[0],
      "log on $ROTA_FD: 50 lines were not reported: at most 100 lines with log or cache are passed on per second");
  EXPECT_EQ(later[1], "log later");
  for (int i = 0; i < 100; ++i) reports.take(parse_line("log x"), milliseconds(1001));
  EXPECT_EQ(recorder.taken().size(), 99U);
  reports.finish();
  ASSERT_EQ(recorder.seen.size(), 1U);
  EXPECT_NE(recorder.seen[0].find("1 lines"), std::string::npos);
}

// Contract: U-2. Of lines that cannot be read, the first ten are mentioned.
TEST(LineReports, BadLines) {
  Recorder recorder;
  LineReports reports(recorder);
  for (int i = 0; i < 100'000; ++i) reports.take(parse_line("y"), milliseconds(i));
  ASSERT_EQ(recorder.seen.size(), 11U);
  EXPECT_EQ(recorder.seen.back(), "log on $ROTA_FD: further lines that cannot be read are not reported");
}

}  // namespace
}  // namespace rota::worker
