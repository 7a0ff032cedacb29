// Calls itself until there is no stack left.
#include "plugin.h"

namespace {
// NOLINTNEXTLINE(misc-no-recursion)
[[gnu::noinline]] long dive(volatile char* above, long depth) {
  volatile char here[200];
  here[0] = above[0];
  if (depth < 0) return 0;  // Never true.
  return dive(here, depth + 1) + here[0];
}
}  // namespace

extern "C" long plugin_run(const Host&, long) {
  volatile char surface = 1;
  return dive(&surface, 0);
}
