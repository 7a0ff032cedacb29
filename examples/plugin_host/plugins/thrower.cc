// Throws at once.
#include <stdexcept>

#include "plugin.h"

extern "C" long plugin_run(const Host&, long) { throw std::runtime_error("I never wanted to be a plug-in"); }
