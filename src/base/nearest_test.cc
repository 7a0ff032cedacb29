// Edit distance and suggestions.
#include "base/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace rota {
namespace {

TEST(NearestTest, DistancesOfKnownPairs) {
  EXPECT_EQ(edit_distance("", ""), 0U);
  EXPECT_EQ(edit_distance("abc", "abc"), 0U);
  EXPECT_EQ(edit_distance("", "abc"), 3U);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3U);
  EXPECT_EQ(edit_distance("workers", "wrokers"), 1U);  // A swap is one slip.
  EXPECT_EQ(edit_distance("ca", "abc"), 3U);
  EXPECT_EQ(edit_distance(std::string(65, 'a'), "a"), 65U);
}

TEST(NearestTest, DistanceIsAMetricOnSmallWords) {
  const std::vector<std::string> words = {"", "a", "b", "ab", "ba", "abc", "cab", "aab", "bca"};
  for (const auto& a : words) {
    for (const auto& b : words) {
      EXPECT_EQ(edit_distance(a, b), edit_distance(b, a));
      EXPECT_EQ(edit_distance(a, b) == 0, a == b);
      EXPECT_GE(edit_distance(a, b), std::max(a.size(), b.size()) - std::min(a.size(), b.size()));
      EXPECT_LE(edit_distance(a, b), std::max(a.size(), b.size()));
    }
  }
}

TEST(NearestTest, SuggestsSlipsOnly) {
  const std::vector<std::string> names = {"fiber.workers", "worker.grace", "host.name"};
  EXPECT_EQ(nearest("fiber.worker", names), "fiber.workers");
  EXPECT_EQ(nearest("worker.garce", names), "worker.grace");
  EXPECT_EQ(nearest("bus.hosts", names), "");
  EXPECT_EQ(nearest("", names), "");
  EXPECT_EQ(nearest("x", std::vector<std::string>{}), "");
}

}  // namespace
}  // namespace rota
