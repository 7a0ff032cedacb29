// The debug check for tasks that outlive the variables that they refer to (F-4: no task outlives its scope, but the
// variables of the scope's body do not live that long).
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

#include "rota/fiber.h"

namespace rota::fiber {
namespace {

#if ROTA_DASSERTS_ENABLED

constexpr const char* kMessage = "declare those variables before the scope";

// Contract: F-4. A variable of the body that a task still refers to when the body returns is reported. (The task does
// not use it here.)
TEST(BodyCheck, ReportsAVariableOfTheBody) {
  ::testing::internal::CaptureStderr();
  Runtime runtime({.worker_count = 1});
  runtime.run([] {
    with_scope([](Nursery& nursery) {
      std::atomic<int> sum{0};
      nursery.launch([&sum] { (void)sum; });
    });
  });
  EXPECT_NE(::testing::internal::GetCapturedStderr().find(kMessage), std::string::npos);
}
TEST(BodyCheck, ReportsItInADeadlineAndAfterAnException) {
  ::testing::internal::CaptureStderr();
  Runtime runtime({.worker_count = 1});
  const auto fails = [] {
    (void)with_deadline(std::chrono::hours(1), [](Nursery& nursery) {
      std::atomic<int> sum{0};
      nursery.launch([&sum] { (void)sum; });
      throw std::runtime_error("no");
    });
  };
  EXPECT_THROW(runtime.run(fails), std::runtime_error);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find(kMessage), std::string::npos);
}

#endif

// Contract: F-4. The safe orders are not reported: variables before the scope, and tasks that the body joins; nor what
// looks similar: references to objects on the heap, to the scope itself, and copies.
TEST(BodyCheck, AcceptsTheSafeOrders) {
  ::testing::internal::CaptureStderr();
  Runtime runtime({.worker_count = 2});
  runtime.run([] {
    for (int round = 0; round < 100; ++round) {
      std::atomic<int> before{0};
      with_scope([&before](Nursery& nursery) {
        nursery.launch([&before] { before.fetch_add(1); });
        std::atomic<int> inside{0};
        Task<void> joined = nursery.spawn([&inside] { inside.fetch_add(1); });
        joined.get();
        EXPECT_EQ(inside.load(), 1);
        const auto shared = std::make_shared<std::atomic<int>>(0);
        nursery.launch([shared] { shared->fetch_add(1); });
        std::atomic<int>* on_heap = shared.get();
        Task<void> uses = nursery.spawn([on_heap] { on_heap->fetch_add(1); });
        uses.get();
        with_scope([&before, &nursery](Nursery& inner) {
          inner.launch([&before] { before.fetch_add(1); });
          nursery.launch([&before] { before.fetch_add(1); });  // Into the outer one, from the inner body.
        });
      });
      EXPECT_EQ(before.load(), 3);
    }
  });
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace rota::fiber
