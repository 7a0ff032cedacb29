// Stacks for the checker's threads, and the switch between them.
//
// All of the checker's threads run on one OS thread; a switch saves the callee-saved registers and costs a few
// nanoseconds (x86-64, aarch64; ucontext elsewhere). AddressSanitizer and ThreadSanitizer are told about each.
// The checker has its own switch, so that it does not depend on code that it may have to check.
//
// A stack whose execution was abandoned (only failed ones are) is not used again. Objects owned by its frames are
// leaked; under LeakSanitizer the stack is kept as well, so that they are reachable. Thread safety: none.
#pragma once

#include <cstddef>

namespace rota::interleave {

class Stack {
 public:
  using Entry = void (*)(void* argument);

  // The stack that the caller already runs on.
  Stack();
  // A new one. `bytes` is rounded up to pages; there is a guard page below.
  explicit Stack(std::size_t bytes);
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  // The next switch_to() enters `entry(argument)`, which must never return: it ends by a final switch to another stack.
  void prepare(Entry entry, void* argument);
  // Saves the caller's context in `from` and continues `to`.
  // REQUIRES: the caller runs on `from`.
  static void switch_to(Stack& from, Stack& to);
  // Marks that it has frames that will never be left.
  void abandon();

 private:
  static void arrive();
  [[noreturn]] static void trampoline();
  void* pointer_ = nullptr;  // The saved stack pointer (or ucontext_t*).
  char* memory_ = nullptr;   // To be unmapped by us, or null.
  void* bottom_ = nullptr;
  std::size_t bytes_ = 0;
  Entry entry_ = nullptr;
  void* argument_ = nullptr;
  void* fake_stack_ = nullptr;  // AddressSanitizer's.
  [[maybe_unused]] void* tsan_fiber_ = nullptr;
};

}  // namespace rota::interleave
