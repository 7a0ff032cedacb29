// Does not want to stop: it swallows every exception, and goes on in a destructor, where none may leave.
#include "plugin.h"
#include "rota/fiber.h"

namespace {
struct Deaf {
  ~Deaf() {
    volatile long x = 0;
    for (;;) {
      try {
        rota::fiber::tick();
        x = x + 1;
      } catch (...) {  // NOLINT(bugprone-empty-catch): that is its nature.
      }
    }
  }
};
}  // namespace

extern "C" long plugin_run(const Host&, long) {
  const Deaf deaf;
  throw "not even this is heard";
}
