// Where the project's sources are, for tests that read files of the project.
//
// rota_source_dir(<target>) in CMake adds the definition to a test program, in a file of its own: it is the only one
// that differs between two clones, so that they share all other files of the compiler cache.
#pragma once

namespace rota {

extern const char kSourceDir[];  // An absolute path without a final slash.

}  // namespace rota
