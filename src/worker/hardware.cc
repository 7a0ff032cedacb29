// What this process may use of the machine it is on.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "rota/worker.h"
#include "worker/cgroup.h"

namespace rota {

Hardware Hardware::detect() {
  Hardware hardware;
  cpu_set_t set;
  CPU_ZERO(&set);
  const long online = std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1L);
  const int usable = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : static_cast<int>(online);
  hardware.cpu_millis = static_cast<std::uint64_t>(std::max(usable, 1)) * 1000;
  hardware.memory_bytes =
      static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(::sysconf(_SC_PAGE_SIZE));
  const worker::CgroupLimits limits = worker::own_cgroup_limits();
  if (limits.cpu_millis != 0) hardware.cpu_millis = std::min(hardware.cpu_millis, limits.cpu_millis);
  if (limits.memory_bytes != 0) hardware.memory_bytes = std::min(hardware.memory_bytes, limits.memory_bytes);
  std::error_code none;  // No such directory: no such devices.
  for (const auto& entry : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none)) {
    if (entry.is_directory(none) && hardware.gpus < 64) ++hardware.gpus;
  }
  return hardware;
}

}  // namespace rota
