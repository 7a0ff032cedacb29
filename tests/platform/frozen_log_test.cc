// The log of a fleet has the same bytes on every processor.
#include "fleet/frozen_log_test.h"

#include <gtest/gtest.h>

namespace rota::fleet {
namespace {

// Contract: B-1.
TEST(FrozenLog, HasTheSameBytes) { EXPECT_EQ(play_frozen_log(), kFrozenLog); }

}  // namespace
}  // namespace rota::fleet
