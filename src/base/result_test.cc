// Result as its users meet it: values, errors, propagation, cost, and what happens to those who misuse it.
#include "rota/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace rota {
namespace {

Result<std::string> read(int which) {
  if (which == 0) return "text";
  if (which == 1) return ErrorCode::kWouldBlock;
  return Error{ErrorCode::kNotFound, "no file " + std::to_string(which)}.with("which", std::to_string(which));
}
Result<void> check(int which) {
  ROTA_TRY(read(which));
  return {};
}
Result<std::size_t> measure(int which) {
  ROTA_TRY_ASSIGN(const std::string text, read(which));
  ROTA_TRY_ASSIGN(std::string again, read(which));
  ROTA_TRY(check(which));
  return text.size() + again.size();
}
Result<std::unique_ptr<int>> box(int value) {
  if (value < 0) return Error{ErrorCode::kInvalidArgument, "negative"};
  return std::make_unique<int>(value);
}
Result<std::unique_ptr<int>> rebox(int value) {
  std::unique_ptr<int> inner;
  ROTA_TRY_ASSIGN(inner, box(value));
  ++*inner;
  return inner;
}

static_assert(sizeof(Result<void>) == sizeof(void*));
static_assert(sizeof(Result<std::uint64_t>) == 2 * sizeof(void*));
static_assert(std::is_nothrow_move_constructible_v<Result<void>>);
static_assert(std::is_nothrow_move_constructible_v<Result<std::string>>);
static_assert(!std::is_copy_constructible_v<Result<std::unique_ptr<int>>>);
static_assert(std::is_copy_constructible_v<Result<std::string>>);
static_assert(!std::is_convertible_v<int, Result<std::unique_ptr<int>>>);

TEST(ResultTest, CarriesAValueOrAnError) {
  const auto good = read(0);
  EXPECT_TRUE(good.ok());
  EXPECT_TRUE(good.has_value());
  EXPECT_TRUE(static_cast<bool>(good));
  EXPECT_EQ(good.value(), "text");
  EXPECT_EQ(*good, "text");
  EXPECT_EQ(good->size(), 4U);
  EXPECT_EQ(good.code(), ErrorCode::kOk);

  const auto bad = read(7);
  EXPECT_FALSE(bad.ok());
  EXPECT_EQ(bad.code(), ErrorCode::kNotFound);
  EXPECT_EQ(bad.error().message, "no file 7");
  ASSERT_NE(bad.error().detail("which"), nullptr);
  EXPECT_EQ(*bad.error().detail("which"), "7");
  EXPECT_EQ(bad.error().detail("other"), nullptr);
  EXPECT_EQ(bad.error().to_string(), "NotFound: no file 7 (which=7)");
  EXPECT_EQ(bad.value_or("else"), "else");
  EXPECT_EQ(good.value_or("else"), "text");
}

TEST(ResultTest, ABareCodeSaysWhatTheTableSays) {
  const auto blocked = read(1);
  EXPECT_EQ(blocked.code(), ErrorCode::kWouldBlock);
  EXPECT_EQ(blocked.error().code, ErrorCode::kWouldBlock);
  EXPECT_EQ(blocked.error().message, error_code_info(ErrorCode::kWouldBlock).meaning);
  for (const ErrorCodeInfo& info : error_codes()) {
    if (info.code == ErrorCode::kOk) continue;
    const Result<void> result = info.code;
    EXPECT_EQ(result.code(), info.code);
    EXPECT_EQ(result.error(), (Error{info.code, std::string(info.meaning), {}}));
  }
}

TEST(ResultTest, TryHandsTheErrorOnUnchanged) {
  EXPECT_EQ(measure(0).value(), 8U);
  EXPECT_EQ(measure(1).code(), ErrorCode::kWouldBlock);
  EXPECT_EQ(measure(5).error(), read(5).error());
  EXPECT_EQ(check(5).error(), read(5).error());
  EXPECT_TRUE(check(0).ok());
}

TEST(ResultTest, TryMovesTheHeapErrorWithoutCopyingIt) {
  Result<std::string> first = Error{ErrorCode::kIoError, "disk"};
  const Error* where = &first.error();
  const auto pass_on = [&]() -> Result<int> {
    ROTA_TRY(std::move(first));
    return 1;
  };
  const auto second = pass_on();
  EXPECT_EQ(&second.error(), where);
}

TEST(ResultTest, HoldsWhatCanOnlyBeMoved) {
  auto boxed = rebox(1);
  ASSERT_TRUE(boxed.ok());
  const std::unique_ptr<int> taken = std::move(boxed).value();
  EXPECT_EQ(*taken, 2);
  EXPECT_EQ(rebox(-1).error().message, "negative");
  EXPECT_EQ(*box(3).value_or(nullptr), 3);
}

TEST(ResultTest, CopiesAndAssignsInEveryDirection) {
  const Result<std::string> value = std::string(100, 'v');
  const Result<std::string> heap = Error{ErrorCode::kConflict, "heap"};
  const Result<std::string> bare = ErrorCode::kClosed;
  for (const auto* from : {&value, &heap, &bare}) {
    for (const auto* to : {&value, &heap, &bare}) {
      Result<std::string> copied = *to;
      copied = *from;
      EXPECT_EQ(copied.code(), from->code());
      if (from->ok()) {
        EXPECT_EQ(*copied, **from);
      } else {
        EXPECT_EQ(copied.error(), from->error());
      }
      Result<std::string> moved = *to;
      Result<std::string> source = *from;
      moved = std::move(source);
      EXPECT_EQ(moved.code(), from->code());
      auto& self = moved;
      moved = self;
      EXPECT_EQ(moved.code(), from->code());
    }
  }
  Result<void> nothing;
  nothing = Result<void>(Error{ErrorCode::kConflict, "x"});
  const Result<void> copy = nothing;
  EXPECT_EQ(copy.error(), nothing.error());
}

TEST(ResultTest, TakesTheErrorOut) {
  auto bad = read(9);
  const Error error = std::move(bad).take_error().in("opening");
  EXPECT_EQ(error.message, "opening: no file 9");
  Result<void> bare = ErrorCode::kCancelled;
  EXPECT_EQ(std::move(bare).take_error().code, ErrorCode::kCancelled);
}

// Counts what is alive, and throws when told to.
struct Counted {
  static inline int alive = 0;
  static inline bool throw_on_copy = false;
  Counted() { ++alive; }
  Counted(const Counted&) {
    if (throw_on_copy) throw std::runtime_error("copy");
    ++alive;
  }
  Counted& operator=(const Counted&) = default;
  ~Counted() { --alive; }
};

TEST(ResultTest, EveryValueIsDestroyedOnce) {
  {
    Result<Counted> a = Counted();
    Result<Counted> b = ErrorCode::kClosed;
    EXPECT_EQ(Counted::alive, 1);
    b = a;
    EXPECT_EQ(Counted::alive, 2);
    a = ErrorCode::kClosed;
    EXPECT_EQ(Counted::alive, 1);
    Counted::throw_on_copy = true;
    EXPECT_THROW(a = b, std::runtime_error);
    Counted::throw_on_copy = false;
    EXPECT_EQ(a.code(), ErrorCode::kClosed);
  }
  EXPECT_EQ(Counted::alive, 0);
}

using ResultDeathTest = testing::Test;

TEST(ResultDeathTest, MisuseAborts) {
  EXPECT_DEATH(static_cast<void>(read(3).value()), "value\\(\\) of an error: NotFound: no file 3");
  EXPECT_DEATH(static_cast<void>(*read(1)), "value\\(\\) of an error: WouldBlock");
  EXPECT_DEATH(check(3).value(), "value\\(\\) of an error: NotFound");
  EXPECT_DEATH(static_cast<void>(read(0).error()), "error\\(\\) of a Result that has a value");
  EXPECT_DEATH(static_cast<void>(check(0).error()), "error\\(\\) of a Result that is ok");
  EXPECT_DEATH(static_cast<void>(Result<void>(ErrorCode::kOk)), "made from ErrorCode::kOk");
  EXPECT_DEATH(static_cast<void>(Result<int>(Error{ErrorCode::kOk, "fine"})), "has the code ErrorCode::kOk");
  EXPECT_DEATH(
      {
        Result<void> first = ErrorCode::kClosed;
        const Result<void> second = std::move(first);
        static_cast<void>(first.error());
      },
      "moved-from error");
}

TEST(ResultTest, AMovedFromErrorIsNotSuccess) {
  Result<void> first = Error{ErrorCode::kClosed, "x"};
  const Result<void> second = std::move(first);
  EXPECT_FALSE(first.ok());  // NOLINT(bugprone-use-after-move): that is the question.
  EXPECT_FALSE(second.ok());
}

}  // namespace
}  // namespace rota
