#include "ledger/file_lock.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ledger/disk_testing.h"

namespace rota::ledger::detail {
namespace {

// Contract: L-2. A process that is killed while it starts a child leaves the lock with the child for a moment: the next
// process waits for that and is not refused.
TEST(FileLock, AChildOfOneThatIsGone) {
  const TestFolder folder;
  const std::string path = folder / "lock";
  const pid_t owner = ::fork();
  ASSERT_GE(owner, 0);
  if (owner == 0) {
    const Result<FileLock> lock = FileLock::take(path, "it");
    if (!lock.ok()) ::_exit(1);
    const pid_t child = ::fork();
    if (child == 0) ::poll(nullptr, 0, 50);  // So long it has not executed its program.
    ::_exit(child < 0 ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(owner, &status, 0), owner);
  ASSERT_EQ(status, 0);
  const Result<FileLock> lock = FileLock::take(path, "it");
  EXPECT_TRUE(lock.ok()) << lock.error().to_string();
}

// Contract: L-2. A living holder is a conflict, and is named.
TEST(FileLock, OneThatLives) {
  const TestFolder folder;
  const std::string path = folder / "lock";
  const FileLock held = FileLock::take(path, "it").value();
  const Result<FileLock> second = FileLock::take(path, "it");
  ASSERT_EQ(second.code(), ErrorCode::kConflict);
  EXPECT_NE(second.error().message.find("process " + std::to_string(::getpid())), std::string::npos);
}

}  // namespace
}  // namespace rota::ledger::detail
