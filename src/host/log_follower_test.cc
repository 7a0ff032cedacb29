#include "host/log_follower.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace rota::host {
namespace {

class LogFollowerTest : public ::testing::Test {
 protected:
  LogFollowerTest() {
    std::string name = ::testing::TempDir() + "rota_follow_XXXXXX";
    folder_ = mkdtemp(name.data());
    path_ = folder_ + "/1-1.log";
  }
  ~LogFollowerTest() override { std::filesystem::remove_all(folder_); }
  void write(const std::string& text) { std::ofstream(path_, std::ios::binary | std::ios::trunc) << text; }

  std::string folder_;
  std::string path_;
};

TEST_F(LogFollowerTest, ReturnsNewBytes) {
  LogFollower log(path_);
  EXPECT_EQ(*log.more(), "") << "there is no file yet";
  write("one\n");
  EXPECT_EQ(*log.more(), "one\n");
  EXPECT_EQ(*log.more(), "");
  write("one\ntwo\n");
  EXPECT_EQ(*log.more(), "two\n");
  write("one\ntwo\nthree");
  EXPECT_EQ(*log.rest(), "three");
  EXPECT_EQ(*log.rest(), "");
}

// U-3: if a log has exceeded its limit, the notice of what was dropped and the end of the output follow.
TEST_F(LogFollowerTest, ContinuesAtTheNoticeOfDroppedOutput) {
  const std::string head = "head " + std::string(600, 'h') + "\n";
  LogFollower log(path_);
  write(head + "ring of the first round\n");
  EXPECT_EQ(*log.more(), head + "ring of the first round\n");
  const std::string end =
      "\n[rota: 9 bytes of output were dropped here; the first 606 and the last 24 bytes are kept]\nend\n";
  write(head + end);
  EXPECT_EQ(*log.rest(), end) << "from the notice on";
  EXPECT_EQ(*log.rest(), "");
}

TEST(LastLines, CountsFromTheEnd) {
  EXPECT_EQ(last_lines("a\nb\nc\n", 0), "");
  EXPECT_EQ(last_lines("a\nb\nc\n", 1), "c\n");
  EXPECT_EQ(last_lines("a\nb\nc", 2), "b\nc");
  EXPECT_EQ(last_lines("a\nb\nc\n", 9), "a\nb\nc\n");
  EXPECT_EQ(last_lines("\n\n", 1), "\n");
  EXPECT_EQ(last_lines("", 3), "");
}

}  // namespace
}  // namespace rota::host
