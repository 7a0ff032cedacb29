// What a person sees when an assertion fails, and what it costs when it does not.
#include "rota/assert.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "base/sync.h"
#include "rota/error_code.h"
#include "rota/id.h"

namespace rota {
namespace {

struct TaskTag {};

// A hook that turns a failure into an exception, so that the message can be looked at.
struct Caught : std::runtime_error {
  explicit Caught(const AssertInfo& info)
      : std::runtime_error(std::string(info.message)), text(info.text), expression(info.expression), line(info.line) {}
  std::string text;
  std::string expression;
  int line;
};
void throw_it(const AssertInfo& info) { throw Caught(info); }

class AssertHookTest : public testing::Test {
 protected:
  // What the failures write is read through the hook; on stderr it would only be in the way.
  AssertHookTest() : before_(set_assert_hook(throw_it)) { testing::internal::CaptureStderr(); }
  ~AssertHookTest() override {
    testing::internal::GetCapturedStderr();
    set_assert_hook(before_);
  }

  template <class F>
  static Caught catch_failure(F&& f) {
    try {
      f();
    } catch (const Caught& caught) {
      return caught;
    }
    throw std::logic_error("nothing was asserted");
  }

 private:
  AssertHook before_;
};

TEST(AssertTest, HoldsCostNothingAndEvaluateNoPieces) {
  int evaluated = 0;
  const auto piece = [&] { return ++evaluated; };
  ROTA_ASSERT(evaluated == 0, "evaluated=", piece());
  EXPECT_EQ(evaluated, 0);
}

constexpr int checked_half(int value) {
  ROTA_ASSERT(value % 2 == 0, "odd: ", value);
  return value / 2;
}
static_assert(checked_half(4) == 2);  // An assertion does not keep a function from being constexpr.

using AssertDeathTest = testing::Test;

TEST(AssertDeathTest, FailureNamesExpressionTextPlaceAndFunction) {
  const int used = 7;
  const int limit = 5;
  EXPECT_DEATH(ROTA_ASSERT(used <= limit, "used=", used, " limit=", limit),
               "assert_test\\.cc:[0-9]+: assertion failed: used <= limit \\| used=7 limit=5 \\(in TestBody\\)");
  EXPECT_DEATH(ROTA_ASSERT(used == limit), "assertion failed: used == limit \\(in TestBody\\)");
  EXPECT_DEATH(ROTA_PANIC("no way ", used), "assert_test\\.cc:[0-9]+: panic: no way 7 \\(in TestBody\\)");
}

TEST(AssertDeathTest, HookRunsBeforeTheAbort) {
  EXPECT_DEATH(
      {
        set_assert_hook([](const AssertInfo&) { std::fputs("the state of the world\n", stderr); });
        ROTA_ASSERT(false, "first");
      },
      "first.*\n.*the state of the world");
}

TEST(AssertDeathTest, AFailureInsideTheHookAborts) {
  EXPECT_DEATH(
      {
        set_assert_hook([](const AssertInfo&) { ROTA_ASSERT(1 == 2); });
        ROTA_PANIC("outer");
      },
      "outer.*\n.*inside the assertion hook");
}

TEST(AssertDeathTest, DebugAssertFollowsTheBuild) {
  int evaluated = 0;
#if ROTA_DASSERTS_ENABLED
  EXPECT_DEATH(ROTA_DASSERT(++evaluated == 2, "debug"), "evaluated == 2 \\| debug");
#else
  ROTA_DASSERT(++evaluated == 2, "debug");
#endif
  EXPECT_EQ(evaluated, 0);
}

TEST_F(AssertHookTest, EveryKindOfPieceIsPrinted) {
  enum class Colour : int { kRed = 3 };
  const std::string owned = "owned";
  const char* const missing = nullptr;
  const auto caught = catch_failure([&] {
    ROTA_ASSERT(false, "s ", owned, ' ', std::string_view("view"), ' ', -1, ' ', 18446744073709551615U, ' ', true, ' ',
                1.5, ' ', Colour::kRed, ' ', nullptr, ' ', reinterpret_cast<void*>(0xbeef), ' ', Id<TaskTag>(9), ' ',
                missing, ' ', ErrorCode::kNotFound);
  });
  EXPECT_EQ(caught.text, "s owned view -1 18446744073709551615 true 1.5 3 0x0 0xbeef 9 (null) 3");
  EXPECT_EQ(caught.expression, "false");
}

TEST_F(AssertHookTest, LongTextIsCutNotOverrun) {
  const std::string text(100'000, 'x');
  const auto caught = catch_failure([&] { ROTA_ASSERT(text.empty(), text, text, 12345); });
  EXPECT_GE(caught.text.size(), 1000U);
  EXPECT_LE(std::string(caught.what()).size(), 4096U);
  EXPECT_EQ(caught.text.find_first_not_of('x'), std::string::npos);
}

TEST_F(AssertHookTest, AHookMayLeaveByAnExceptionAndTheNextFailureIsReportedAgain) {
  for (int i = 0; i < 3; ++i) {
    const auto caught = catch_failure([&] { ROTA_PANIC("round ", i); });
    EXPECT_EQ(caught.text, "round " + std::to_string(i));
    EXPECT_TRUE(caught.expression.empty());
  }
}

TEST_F(AssertHookTest, ThreadsThatFailTogetherAreReportedOneAfterTheOther) {
  constexpr int kThreads = 8;
  std::vector<std::string> texts(kThreads);
  {
    std::vector<sync::Thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back(
          [&texts, t] { texts[static_cast<std::size_t>(t)] = catch_failure([&] { ROTA_PANIC("thread ", t); }).text; });
    }
  }
  for (int t = 0; t < kThreads; ++t) EXPECT_EQ(texts[static_cast<std::size_t>(t)], "thread " + std::to_string(t));
}

TEST_F(AssertHookTest, SettingAHookReturnsTheOneBefore) {
  EXPECT_EQ(set_assert_hook(nullptr), throw_it);
  EXPECT_EQ(set_assert_hook(throw_it), nullptr);
}

}  // namespace
}  // namespace rota
