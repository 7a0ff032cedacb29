// echo --self-test: the server under as many clients as asked for, in one process.
#pragma once

#include <cstdint>

#include "rota/fiber.h"

namespace echo {

// Prints what it saw. Returns 0 if everything was as it should be.
int self_test(rota::fiber::Runtime& runtime, std::uint32_t connections);

}  // namespace echo
