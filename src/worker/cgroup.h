// Control groups (version 2): what limits this process, and whether commands may have groups of their own.
//
// A worker uses a cgroup for commands only where it was given one: by name, or with "auto" the one it is in, if that is
// not the root of all and can be written to, as it is under systemd with Delegate=yes or in a container. The root's
// groups are the machine's and not ours.
#pragma once

#include <cstdint>
#include <string>

#include "rota/result.h"

namespace rota::worker {

// 0: not limited.
struct CgroupLimits {
  std::uint64_t cpu_millis = 0;
  std::uint64_t memory_bytes = 0;
};
// Of the group that this process is in, and those above it.
[[nodiscard]] CgroupLimits own_cgroup_limits();
// Of one directory, and those above it up to `root`. For tests.
[[nodiscard]] CgroupLimits cgroup_limits(std::string directory, const std::string& root);

// The directory for commands' groups that `wanted` (WorkerOptions::cgroup) means; empty: none, which is right for ""
// and for "auto" where there is no group to be had. An error if a directory was named and cannot be used. Where a group
// is used, its children get the memory and cpu controllers if they are to be had.
[[nodiscard]] Result<std::string> usable_cgroup(const std::string& wanted);

}  // namespace rota::worker
