#include "worker/cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "base/json_text.h"

namespace rota::worker {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// 0 for "max", for a missing file, and for text that is not a number.
std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::uint64_t smaller(std::uint64_t a, std::uint64_t b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

struct Own {
  std::string root;       // Where the hierarchy is mounted; empty if it is not.
  std::string directory;  // Of this process.
};

Own own_cgroup() {
  Own own;
  std::istringstream mounts(read("/proc/self/mounts"));
  for (std::string device, where, type, rest; mounts >> device >> where >> type && std::getline(mounts, rest);) {
    if (type == "cgroup2") own.root = where;
  }
  std::istringstream groups(read("/proc/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::")) own.directory = own.root + (line == "0::/" ? "" : line.substr(3));
  }
  if (own.root.empty()) own.directory.clear();
  return own;
}

Result<void> check(const std::string& directory) {
  const std::string shown = "the cgroup directory '" + printable(directory, 200) + "'";
  struct stat status{};
  if (::stat((directory + "/cgroup.procs").c_str(), &status) != 0) {
    return Error{ErrorCode::kNotFound, shown + " does not belong to cgroup version 2: it has no file cgroup.procs"};
  }
  // The only proof is to make a group.
  const std::string probe = directory + "/rota-probe-" + std::to_string(::getpid());
  if (::mkdir(probe.c_str(), 0755) != 0) {
    return Error{ErrorCode::kPermissionDenied, "cannot make a group in " + shown + " (" +
                                                   std::generic_category().message(errno) +
                                                   "); delegate it to this user, as systemd does with Delegate=yes"};
  }
  ::rmdir(probe.c_str());
  return {};
}

}  // namespace

CgroupLimits cgroup_limits(std::string directory, const std::string& root) {
  CgroupLimits limits;
  while (directory.size() > root.size() && directory.starts_with(root)) {
    limits.memory_bytes = smaller(limits.memory_bytes, number(read(directory + "/memory.max")));
    std::istringstream cpu(read(directory + "/cpu.max"));
    std::string quota;
    std::uint64_t period = 0;
    if (cpu >> quota >> period && period != 0) {
      limits.cpu_millis = smaller(limits.cpu_millis, number(quota) * 1000 / period);
    }
    directory.resize(directory.rfind('/'));
  }
  return limits;
}

CgroupLimits own_cgroup_limits() {
  const Own own = own_cgroup();
  return cgroup_limits(own.directory, own.root);
}

Result<std::string> usable_cgroup(const std::string& wanted) {
  if (wanted.empty()) return std::string();
  std::string directory = wanted;
  if (wanted == "auto") {
    const Own own = own_cgroup();
    if (own.directory == own.root || !check(own.directory).ok()) return std::string();
    directory = own.directory;
  } else {
    ROTA_TRY(check(directory));
  }
  // This may fail: a group that contains processes cannot enable controllers for its children. Limits are then
  // enforced by rlimits.
  for (const char* controller : {"+memory", "+cpu", "+pids"}) {
    std::ofstream(directory + "/cgroup.subtree_control") << controller;
  }
  return directory;
}

}  // namespace rota::worker
