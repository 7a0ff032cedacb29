// Cost and energy of workers over time, with figures that can be worked out by hand.
#include "fleet/usage.h"

#include <gtest/gtest.h>

#include <string_view>

#include "fleet/brain.h"
#include "fleet/script_brain_test.h"

namespace rota::fleet {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

// The clock of a script begins at 1 s. One task of ten seconds on a worker at 0.001 $/s; the other one, at 0.002 $/s,
// is disabled at 105 s.
constexpr std::string_view kOneOfTwo = R"(worker a cpu=1 cost=3.6
worker b cpu=1 cost=7.2
at 100s workflow w
  stage x pin=a
at 105s disable b
at 110s ok wf-1.0
)";

// H-2: a meter that begins in the middle counts from there on; what is disabled and idle costs nothing; time goes on
// after the last record, and never back.
TEST(UsageMeter, BeginsAnywhere) {
  const testing_support::ScriptBrain script(kOneOfTwo);
  UsageMeter meter;
  Brain brain;
  bool begun = false;
  for (const Record& record : script.log()) {
    ASSERT_TRUE(brain.verify(record).ok());
    if (begun) {
      meter.see(record, brain.state());
    } else if (record.wall_ns >= 100 * kSecond) {
      meter.begin(brain.state());
      begun = true;
    }
  }
  EXPECT_EQ(meter.totals().cost_busy_microdollars, 10'000);
  EXPECT_EQ(meter.totals().cost_up_microdollars, 10'000 + 5 * 2'000);
  EXPECT_EQ(meter.totals(121 * kSecond).cost_busy_microdollars, 10'000);
  EXPECT_EQ(meter.totals(121 * kSecond).cost_up_microdollars, 20'000 + 10'000);
  EXPECT_EQ(meter.totals(0), meter.totals());
}

}  // namespace
}  // namespace rota::fleet
