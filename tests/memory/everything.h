// A program that uses every part of the fiber runtime, written so that each step may fail.
#pragma once

#include <functional>

#include "rota/fiber.h"

namespace everything {

// One step each. They throw what fails, and leave nothing behind.
struct Step {
  const char* name;
  void (*run)(rota::fiber::Runtime& runtime);
};
// In a task.
extern const Step kSteps[];
extern const int kStepCount;

}  // namespace everything
