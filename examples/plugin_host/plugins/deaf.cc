// Refuses to stop: it catches every exception, and continues in a destructor, which no exception may leave.
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
      } catch (...) {  // NOLINT(bugprone-empty-catch): this is what it demonstrates.
      }
    }
  }
};
}  // namespace

extern "C" long plugin_run(const Host&, long) {
  const Deaf deaf;
  throw "not even this is heard";
}
