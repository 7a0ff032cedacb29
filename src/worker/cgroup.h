// Control groups (version 2): the limits of this process, and whether programs can have groups of their own.
//
// A worker uses a cgroup for programs only if it was given one: by name, or with "auto" the one that it is in, if this
// is not the root and can be written to, as under systemd with Delegate=yes or in a container. The groups of the root
// belong to the machine and are left alone.
#pragma once

#include <cstdint>
#include <string>

#include "rota/result.h"

namespace rota::worker {

// 0: no limit.
struct CgroupLimits {
  std::uint64_t cpu_millis = 0;
  std::uint64_t memory_bytes = 0;
};
// The smallest limits of the group that this process is in and of the groups above it.
[[nodiscard]] CgroupLimits own_cgroup_limits();
// The smallest limits of one directory and of those above it, up to `root`. For tests.
[[nodiscard]] CgroupLimits cgroup_limits(std::string directory, const std::string& root);

// The directory for the groups of programs, for WorkerOptions::cgroup. Empty: none, which is the result for "" and for
// "auto" if there is no usable group. An error if a directory was named and cannot be used. The memory and cpu
// controllers are enabled for the children of the group if possible.
[[nodiscard]] Result<std::string> usable_cgroup(const std::string& wanted);

}  // namespace rota::worker
