// Allocates all the memory that it can get, and keeps it.
#include <string>
#include <vector>

#include "plugin.h"

extern "C" long plugin_run(const Host& host, long) {
  std::pmr::vector<std::pmr::string> hoard(host.memory);
  for (;;) hoard.emplace_back(std::size_t{4096}, 'x');
}
