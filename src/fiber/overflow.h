// Stack overflow: a fault in a fiber's guard ends the task, not the process (F-23).
#pragma once

#include <cstddef>

namespace rota::fiber::detail {

// Once for the process: SIGSEGV and SIGBUS. A fault that is none of ours goes to the handler that was there before.
void install_overflow_handler();

// The stack on which the handler runs, for the thread that holds this.
class AlternateStack {
 public:
  AlternateStack();
  ~AlternateStack();
  AlternateStack(const AlternateStack&) = delete;
  AlternateStack& operator=(const AlternateStack&) = delete;

 private:
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace rota::fiber::detail
