// Code of a metered target, as a plug-in would have it: most of it does not want to end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace metered {

using Counter = volatile std::uint64_t;

// None of these returns. Each counts its rounds.
void endless(Counter& rounds);
void endless_noexcept(Counter& rounds) noexcept;
void endless_destructor(Counter& rounds);
void endless_while_unwinding(Counter& rounds);
void endless_handler(Counter& rounds);
void endless_calls(Counter& rounds);
void endless_swallowing(Counter& rounds);  // Catches whatever it is told, Cancelled too.
void endless_with_children(Counter& rounds);
// Calls itself without end, a little more stack each time.
void dive(Counter& rounds);
void dive_in_a_scope(Counter& rounds);

// Counts from 0 to `n`.
std::uint64_t count_to(std::uint64_t n);
// By plain recursion: 2 * fibonacci(n + 1) - 1 calls.
std::uint64_t fibonacci(unsigned n);
// Runs until its task is cancelled; true then.
bool runs_until_cancelled(Counter& rounds);
// Counts to `n` while it holds `inside`, which nobody else may; false if somebody did.
bool count_alone(bool& inside, std::uint64_t n);
// Allocates `bytes` in small blocks, and keeps them, or returns each at once. Returns how much it got.
enum class Hoard : std::uint8_t { kNew, kVector, kMalloc, kRealloc, kReallocArray, kReturns };
std::size_t hoard(Hoard how, std::size_t bytes);
// Allocates `bytes` in one block with each function of the C library that allocates, and frees them. The names of those
// that returned a block.
std::vector<std::string> served(std::size_t bytes);
std::vector<std::string> all_allocators();
// A handler of a signal that takes its time.
void slow_handler(int signal);
extern Counter g_handled;

}  // namespace metered
