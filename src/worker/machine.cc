#include "worker/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "rota/worker.h"
#include "worker/cgroup.h"

namespace rota {

namespace worker {

namespace {

// "Model: \t\t NVIDIA A100-SXM4-40GB" becomes "NVIDIA A100-SXM4-40GB".
std::string model_of(const std::filesystem::path& information) {
  std::ifstream file(information);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("Model:")) continue;
    line.erase(0, 6);
    const std::size_t first = line.find_first_not_of(" \t");
    const std::size_t last = line.find_last_not_of(" \t\r");
    return first == std::string::npos ? std::string() : line.substr(first, last - first + 1);
  }
  return {};
}

}  // namespace

std::vector<model::Device> nvidia_devices(const std::string& directory) {
  std::vector<std::filesystem::path> found;
  std::error_code error;  // No such directory: no such devices.
  for (std::filesystem::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    std::error_code unreadable;
    if (at->is_directory(unreadable)) found.push_back(at->path());
  }
  std::sort(found.begin(), found.end());
  if (found.size() > static_cast<std::size_t>(model::kMostDevices)) found.resize(model::kMostDevices);
  std::vector<model::Device> devices;
  for (const std::filesystem::path& path : found) devices.push_back({.model = model_of(path / "information")});
  return devices;
}

}  // namespace worker

model::Resources machine_resources() {
  model::Resources resources;
  cpu_set_t set;
  CPU_ZERO(&set);
  const long online = std::max(::sysconf(_SC_NPROCESSORS_ONLN), 1L);
  const long usable = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : online;
  resources.cpu_millis = std::int64_t{std::max(usable, 1L)} * 1000;
  resources.memory_bytes = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGE_SIZE);
  const worker::CgroupLimits limits = worker::own_cgroup_limits();
  const auto limit = [](std::int64_t& amount, std::uint64_t most) {
    if (most != 0 && most < static_cast<std::uint64_t>(amount)) amount = static_cast<std::int64_t>(most);
  };
  limit(resources.cpu_millis, limits.cpu_millis);
  limit(resources.memory_bytes, limits.memory_bytes);
  resources.gpus = worker::nvidia_devices();
  return resources;
}

}  // namespace rota
