// Strong ids: they do not mix, and they order, hash, print and parse.
#include "rota/id.h"

#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <type_traits>
#include <unordered_set>

namespace rota {
namespace {

struct TaskTag {
  static constexpr std::string_view kPrefix = "task";
};
struct WorkerTag {};
struct QueueTag {};
using TaskId = Id<TaskTag>;
using WorkerId = Id<WorkerTag, std::uint32_t>;
using QueueName = StringId<QueueTag>;

static_assert(!std::is_convertible_v<std::uint64_t, TaskId>);
static_assert(!std::is_convertible_v<TaskId, std::uint64_t>);
static_assert(!std::is_constructible_v<TaskId, Id<WorkerTag>>);
static_assert(!std::is_constructible_v<TaskId, WorkerId>);
static_assert(std::is_trivially_copyable_v<TaskId>);
static_assert(sizeof(TaskId) == 8 && sizeof(WorkerId) == 4);
static_assert(TaskId(1) < TaskId(2) && TaskId(3).next() == TaskId(4) && TaskId().is_none());

TEST(IdTest, PrintsAndParsesTheSameText) {
  EXPECT_EQ(TaskId(7).to_string(), "task-7");
  EXPECT_EQ(WorkerId(7).to_string(), "7");
  EXPECT_EQ(TaskId(18446744073709551615U).to_string(), "task-18446744073709551615");
  for (const std::uint64_t value : {0UL, 1UL, 10UL, 18446744073709551615UL}) {
    EXPECT_EQ(TaskId::parse(TaskId(value).to_string()), TaskId(value));
  }
  std::ostringstream out;
  out << TaskId(3) << ' ' << WorkerId(4) << ' ' << QueueName("fast");
  EXPECT_EQ(out.str(), "task-3 4 fast");
}

TEST(IdTest, ParsesNothingElse) {
  for (const char* text : {"", "7", "task", "task-", "task-07", "task--1", "task-+1", "task- 1", "task-1 ", "Task-1",
                           "task-18446744073709551616", "task-0x1", "tasks-1"}) {
    EXPECT_EQ(TaskId::parse(text), std::nullopt) << text;
  }
  EXPECT_EQ(WorkerId::parse("4294967296"), std::nullopt);
  EXPECT_EQ(WorkerId::parse("4294967295"), WorkerId(4294967295U));
}

TEST(IdTest, AreKeysOfMaps) {
  std::map<QueueName, int> ordered{{QueueName("b"), 2}, {QueueName("a"), 1}};
  EXPECT_EQ(ordered.begin()->first.str(), "a");
  std::unordered_set<TaskId> ids;
  for (std::uint64_t i = 0; i < 1000; ++i) ids.insert(TaskId(i));
  EXPECT_EQ(ids.size(), 1000U);
  std::unordered_set<QueueName> names{QueueName("a"), QueueName("a"), QueueName("b")};
  EXPECT_EQ(names.size(), 2U);
  EXPECT_TRUE(QueueName().is_none());
}

TEST(IdTest, DenseIdsSpreadOverLowBits) {
  std::unordered_set<std::size_t> buckets;
  for (std::uint64_t i = 0; i < 64; ++i) buckets.insert(std::hash<TaskId>()(TaskId(i << 32)) & 63U);
  EXPECT_GT(buckets.size(), 32U);  // 64 balls in 64 boxes fill about 40; the bare number would fill one.
}

}  // namespace
}  // namespace rota
