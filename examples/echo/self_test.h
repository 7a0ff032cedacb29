// echo --self-test: the server with the requested number of clients, in one process.
#pragma once

#include <cstdint>

#include "rota/fiber.h"

namespace echo {

// How many of the connections are real sockets, at most. One address has about 28,000 ports for its clients.
inline constexpr std::uint32_t kMostSockets = 20'000;

// Prints what it measured. Returns 0 if every check passed.
int self_test(rota::fiber::Runtime& runtime, std::uint32_t connections, std::uint32_t most_sockets);

}  // namespace echo
