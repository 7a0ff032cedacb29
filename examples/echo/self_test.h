// echo --self-test: the server under as many clients as asked for, in one process.
#pragma once

#include <cstdint>

#include "rota/fiber.h"

namespace echo {

// How many of the connections are real, at most. One address has some 28,000 ports for those who connect to it.
inline constexpr std::uint32_t kMostSockets = 20'000;

// Prints what it saw. Returns 0 if everything was as it should be.
int self_test(rota::fiber::Runtime& runtime, std::uint32_t connections, std::uint32_t most_sockets);

}  // namespace echo
