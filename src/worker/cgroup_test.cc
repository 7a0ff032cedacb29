// Control groups: limits are read from files in the format of the kernel, here in a temporary folder; and from a real
// group, if $ROTA_TEST_CGROUP names one.
#include "worker/cgroup.h"

#include <sys/stat.h>

#include <csignal>
#include <cstdlib>

#include "worker/process_testing.h"

namespace rota::worker {
namespace {

using testing::Folder;
using testing::in_runtime;
using testing::write_text;

// Contract: U-2. The smallest limit of a group and those above it counts; "max" is no limit.
TEST(Cgroup, LimitsOnTheWayUp) {
  Folder root;
  const std::string outer = root / "outer";
  const std::string inner = outer + "/inner";
  ::mkdir(outer.c_str(), 0755);
  ::mkdir(inner.c_str(), 0755);
  EXPECT_EQ(cgroup_limits(inner, root.path()).cpu_millis, 0U);
  EXPECT_EQ(cgroup_limits(inner, root.path()).memory_bytes, 0U);
  write_text(outer + "/cpu.max", "150000 100000\n");
  write_text(outer + "/memory.max", "1000000\n");
  write_text(inner + "/cpu.max", "max 100000\n");
  write_text(inner + "/memory.max", "max\n");
  EXPECT_EQ(cgroup_limits(inner, root.path()).cpu_millis, 1500U);
  EXPECT_EQ(cgroup_limits(inner, root.path()).memory_bytes, 1'000'000U);
  write_text(inner + "/memory.max", "500\n");
  EXPECT_EQ(cgroup_limits(inner, root.path()).memory_bytes, 500U);
  EXPECT_EQ(cgroup_limits(outer, root.path()).memory_bytes, 1'000'000U);
  EXPECT_EQ(cgroup_limits(root.path(), root.path()).memory_bytes, 0U);
}

// Contract: U-3. Without a name there is no group; a named directory that is not a cgroup is an error that says so.
TEST(Cgroup, Usable) {
  EXPECT_EQ(usable_cgroup("").value(), "");
  Folder folder;
  const Result<std::string> plain = usable_cgroup(folder.path());
  ASSERT_EQ(plain.code(), ErrorCode::kNotFound);
  EXPECT_NE(plain.error().message.find("does not belong to cgroup version 2"), std::string::npos);
  EXPECT_TRUE(usable_cgroup("auto").ok());
}

// Contract: U-3. In a real group: a daemon that left session, group and environment of its program is killed with it,
// and nothing is left of the group.
TEST(Cgroup, RealGroup) {
  const char* given = std::getenv("ROTA_TEST_CGROUP");
  if (given == nullptr) GTEST_SKIP() << "set $ROTA_TEST_CGROUP to a cgroup directory";
  in_runtime([given] {
    const std::string directory = usable_cgroup(given).value();
    GuardPool guards;
    ProcessSpec spec = testing::shell(
        "grep ^0:: /proc/self/cgroup; (setsid env -i sh -c 'echo up; echo > up; exec /bin/sleep 1000' &) ; read x < "
        "up");
    const Folder folder;
    ASSERT_EQ(::mkfifo((folder / "up").c_str(), 0600), 0);
    spec.directory = folder.path();
    spec.cgroup = directory;
    testing::Started other(
        guards, testing::shell("sleep 1000"));  // So that the guard cannot tell which program the daemon belongs to.
    testing::Started started(guards, spec);
    EXPECT_NE(started.line().find("/rota-"), std::string::npos);
    EXPECT_EQ(started.rest(), "up\n");
    EXPECT_TRUE(started->wait().value().success());
    other->terminate(std::chrono::milliseconds(0));
    EXPECT_EQ(other->wait().value().code, SIGKILL);
    for (int i = 0; i < 12'000; ++i) {  // The guard removes a group when all its processes are dead.
      bool left = false;
      for (const auto& entry : std::filesystem::directory_iterator(directory)) left |= entry.is_directory();
      if (!left) return;
      ASSERT_TRUE(fiber::sleep_for(std::chrono::milliseconds(10)).ok());
    }
    FAIL() << "a group is left in " << directory;
  });
}

}  // namespace
}  // namespace rota::worker
