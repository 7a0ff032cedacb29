// Starts tasks that start tasks that start tasks.
#include "plugin.h"
#include "rota/fiber.h"

namespace {
// NOLINTNEXTLINE(misc-no-recursion)
void explode() {
  rota::fiber::with_scope([](rota::fiber::Nursery& nursery) {
    for (;;) nursery.launch(explode);
  });
}
}  // namespace

extern "C" long plugin_run(const Host&, long) {
  explode();
  return 0;
}
