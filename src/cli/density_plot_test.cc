#include "cli/density_plot.h"

#include <gtest/gtest.h>

#include <string>

namespace rota::cli {
namespace {

// H-3: bars for submissions, a line for workers, both within the frame.
TEST(DensityPlot, DrawsBothSeries) {
  const Result<DensityData> data = parse_density(
      R"({"bucket_sec": 60, "submissions": [[600, 5], [720, 10]], "active_workers": [[600, 2], [660, 4], [720, 0]]})");
  ASSERT_TRUE(data.ok()) << data.error().to_string();
  EXPECT_EQ(data->bucket_sec, 60);
  const std::string svg = density_svg(*data);
  // Half as high as the second, and as wide as one of three buckets.
  EXPECT_NE(svg.find(R"(<rect x="60.0" y="175.0" width="280.0" height="135.0")"), std::string::npos) << svg;
  EXPECT_NE(svg.find(R"(<rect x="620.0" y="40.0" width="280.0" height="270.0")"), std::string::npos) << svg;
  EXPECT_NE(svg.find(R"(d="M60.0 175.0H340.0V40.0H620.0V310.0H900.0")"), std::string::npos) << svg;
  EXPECT_NE(svg.find(">1970-01-01 00:10:00Z<"), std::string::npos) << svg;
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
}

TEST(DensityPlot, NothingYet) {
  const Result<DensityData> data = parse_density(R"({"bucket_sec": 60, "submissions": [], "active_workers": []})");
  ASSERT_TRUE(data.ok());
  EXPECT_NE(density_svg(*data).find("no submissions"), std::string::npos);
}

TEST(DensityPlot, RefusesOtherFiles) {
  for (const char* text :
       {"", "[]", "{}", R"({"bucket_sec": 0, "submissions": [], "active_workers": []})",
        R"({"bucket_sec": 60, "submissions": [[1]], "active_workers": []})",
        R"({"bucket_sec": 60, "submissions": [[1, 2.5]], "active_workers": []})",
        R"({"bucket_sec": 60, "submissions": [[2, 1], [1, 1]], "active_workers": []})",
        R"({"bucket_sec": 60, "submissions": [[1, -1]], "active_workers": []})", R"({"bucket_sec": 60})"}) {
    EXPECT_EQ(parse_density(text).code(), ErrorCode::kParseError) << text;
  }
}

}  // namespace
}  // namespace rota::cli
