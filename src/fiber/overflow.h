// Stack overflow: a fault in a fiber's guard page ends the task, not the process (F-23).
#pragma once

#include <csignal>
#include <cstddef>

namespace rota::fiber::detail {

// Once per process: installs handlers for SIGSEGV and SIGBUS. Other faults are passed to the previous handler.
void install_overflow_handler();

// The stack on which the handler runs, for the thread that holds this object. Before and after, the thread has its own.
class AlternateStack {
 public:
  AlternateStack();
  ~AlternateStack();
  AlternateStack(const AlternateStack&) = delete;
  AlternateStack& operator=(const AlternateStack&) = delete;

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
  stack_t before_{};
};

}  // namespace rota::fiber::detail
