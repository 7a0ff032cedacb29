// A trace file is valid JSON with exact times.
#include "base/trace_events.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace rota {
namespace {

using nlohmann::json;

// The file is JSON for every name, and its times are exact.
TEST(TraceEvents, IsJson) {
  std::ostringstream out;
  TraceEvents trace(out);
  trace.begin([](JsonWriter& data) { data.field("slices", 1); }, "a \"process\"");
  trace.track(3, "worker\n3");
  trace.slice(3, 1'234'567, 2'000'001, "train\\", [](JsonWriter& arguments) { arguments.field("attempt", 1); });
  trace.slice(3, 2'000'001, 2'000'002, "text", "\"attempt\":2");
  trace.arrow(7, "needs", 3, 2'000'000, 4, 2'000'001);
  trace.counter("ready", 5, 2);
  trace.end();
  const json parsed = json::parse(out.str());
  const json& events = parsed.at("traceEvents");
  ASSERT_EQ(events.size(), 7U);
  EXPECT_EQ(parsed["otherData"]["slices"], 1);
  EXPECT_EQ(events[0]["args"]["name"], "a \"process\"");
  EXPECT_EQ(events[1]["tid"], 3);
  EXPECT_EQ(events[2]["name"], "train\\");
  EXPECT_NE(out.str().find("\"ts\":1234.567,\"dur\":765.434"), std::string::npos) << out.str();
  EXPECT_EQ(events[2]["args"]["attempt"], 1);
  EXPECT_EQ(events[3]["args"]["attempt"], 2);
  EXPECT_EQ(events[4]["ph"], "s");
  EXPECT_EQ(events[5]["bp"], "e");
  EXPECT_EQ(events[6]["args"]["tasks"], 2);
}

TEST(TraceLanes, GivesTheLowestFreeLane) {
  TraceLanes lanes;
  EXPECT_EQ(lanes.count(), 1U);
  EXPECT_EQ(lanes.place(0, 10), 0U);
  EXPECT_EQ(lanes.place(1, 5), 1U);
  EXPECT_EQ(lanes.place(2, 20), 2U);
  EXPECT_EQ(lanes.place(5, 6), 1U) << "a slice may begin where another ends";
  EXPECT_EQ(lanes.place(12, 13), 0U);
  EXPECT_EQ(lanes.count(), 3U);
}

}  // namespace
}  // namespace rota
