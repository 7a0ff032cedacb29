// Counts the primes below its input, and asks its host for the memory.
#include <cstddef>
#include <vector>

#include "plugin.h"

extern "C" long plugin_run(const Host& host, long input) {
  const auto n = static_cast<std::size_t>(input);
  std::pmr::vector<bool> composite(n, false, host.memory);
  long primes = 0;
  for (std::size_t i = 2; i < n; ++i) {
    if (composite[i]) continue;
    ++primes;
    for (std::size_t k = i * i; k < n; k += i) composite[k] = true;
  }
  return primes;
}
