// Hooks of the simulator in product code (S-2): guards that can be removed by name, and rare states that must be
// reached.
//
//   if (ROTA_GUARD("attempt_fence", report.attempt < task.attempt)) return {};   // A mutant without this guard exists.
//   ROTA_SOMETIMES("late report");                                               // The simulator must come here.
//
// In every ordinary build ROTA_GUARD(name, condition) is the condition and ROTA_SOMETIMES(name) is nothing: neither
// costs an instruction. src/sim compiles the files that contain hooks a second time with ROTA_SIM_MUTANTS=1, for its
// own programs; there, a removed guard is false.
//
// Use them in .cc files only: a header would be compiled in two versions into one program.
// Thread safety: none; the simulator has one thread.
#pragma once

#if defined(ROTA_SIM_MUTANTS)

#include <cstdint>
#include <string_view>

namespace rota::sim_hooks {

// FNV-1a. Never 0 for the names in use.
constexpr std::uint64_t hash_of_name(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}
consteval std::uint64_t id_of(std::string_view name) { return hash_of_name(name); }

// The id of the guard that is removed; 0: none.
inline std::uint64_t removed_guard = 0;

// A place that was reached; all of them are linked in a list.
struct Mark {
  explicit Mark(std::string_view the_name) : name(the_name), next(first) { first = this; }
  const std::string_view name;
  std::uint64_t count = 0;
  Mark* const next;
  static inline Mark* first = nullptr;
};

}  // namespace rota::sim_hooks

#define ROTA_GUARD(name, ...) \
  (::rota::sim_hooks::removed_guard == ::rota::sim_hooks::id_of(name) ? false : static_cast<bool>(__VA_ARGS__))
#define ROTA_SOMETIMES(name)                      \
  do {                                            \
    static ::rota::sim_hooks::Mark mark_of{name}; \
    ++mark_of.count;                              \
  } while (false)

#else

#define ROTA_GUARD(name, ...) (__VA_ARGS__)
#define ROTA_SOMETIMES(name) static_cast<void>(0)

#endif
