// Finds the hooks of base/sim_hooks.h in the sources, by name.
//
// Thread safety: a function without state.
#pragma once

#include <map>
#include <string>

namespace rota::sim {

// The names in all uses of `macro` (ROTA_GUARD, ROTA_SOMETIMES) below `source`/src, and the file that each is in:
// "host/host.cc".
[[nodiscard]] std::map<std::string, std::string> find_hooks(const std::string& source, const std::string& macro);

}  // namespace rota::sim
