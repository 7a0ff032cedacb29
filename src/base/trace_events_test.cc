#include "base/trace_events.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace rota {
namespace {

using nlohmann::json;

// Whatever names hold, the file is JSON, with exact times.
TEST(TraceEvents, IsJson) {
  std::ostringstream out;
  TraceEvents trace(out);
  trace.begin("\"slices\":1", "a \"process\"");
  trace.track(3, "worker\n3");
  trace.slice(3, 1'234'567, 2'000'001, "train\\", "\"attempt\":1");
  trace.arrow(7, "needs", 3, 2'000'000, 4, 2'000'001);
  trace.counter("ready", 5, 2);
  trace.end();
  const json parsed = json::parse(out.str());
  const json& events = parsed.at("traceEvents");
  ASSERT_EQ(events.size(), 6U);
  EXPECT_EQ(parsed["otherData"]["slices"], 1);
  EXPECT_EQ(events[0]["args"]["name"], "a \"process\"");
  EXPECT_EQ(events[1]["tid"], 3);
  EXPECT_EQ(events[2]["name"], "train\\");
  EXPECT_NE(out.str().find("\"ts\":1234.567,\"dur\":765.434"), std::string::npos) << out.str();
  EXPECT_EQ(events[3]["ph"], "s");
  EXPECT_EQ(events[4]["bp"], "e");
  EXPECT_EQ(events[5]["args"]["tasks"], 2);
}

TEST(TraceLanes, TheLowestFreeOne) {
  TraceLanes lanes;
  EXPECT_EQ(lanes.count(), 1U);
  EXPECT_EQ(lanes.place(0, 10), 0U);
  EXPECT_EQ(lanes.place(1, 5), 1U);
  EXPECT_EQ(lanes.place(2, 20), 2U);
  EXPECT_EQ(lanes.place(5, 6), 1U) << "it ends where the next begins";
  EXPECT_EQ(lanes.place(12, 13), 0U);
  EXPECT_EQ(lanes.count(), 3U);
}

}  // namespace
}  // namespace rota
