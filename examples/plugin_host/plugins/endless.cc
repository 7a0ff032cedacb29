// Loops forever.
#include "plugin.h"

extern "C" long plugin_run(const Host&, long input) {
  volatile long x = input;
  for (;;) x = x + 1;
}
