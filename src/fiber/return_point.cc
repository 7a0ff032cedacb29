// Walking to a frame, and jumping there.
#include "fiber/return_point.h"

#include <unwind.h>

#include "rota/assert.h"

#if ROTA_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace rota::fiber::detail {

#if ROTA_CAN_RETURN

namespace {

struct Walk {
  const void* act;  // The function whose frame is looked for.
  ReturnPoint to{};
  bool found = false;
  bool done = false;
};

_Unwind_Reason_Code visit(_Unwind_Context* frame, void* argument) {
  auto* walk = static_cast<Walk*>(argument);
  if (walk->found) {
    // The caller of act(): its registers as they are on return, by their columns in the x86-64 tables. The frame's own
    // address is where the stack stands after the call.
    walk->to = {_Unwind_GetGR(frame, 3),  _Unwind_GetGR(frame, 6),  _Unwind_GetGR(frame, 12), _Unwind_GetGR(frame, 13),
                _Unwind_GetGR(frame, 14), _Unwind_GetGR(frame, 15), _Unwind_GetIP(frame),     _Unwind_GetCFA(frame)};
    walk->done = true;
    return _URC_END_OF_STACK;
  }
  if (reinterpret_cast<const void*>(_Unwind_GetRegionStart(frame)) == walk->act) walk->found = true;
  return _URC_NO_REASON;
}

}  // namespace

std::optional<ReturnPoint> return_of(const void* act) {
  Walk walk{.act = act};
  _Unwind_Backtrace(visit, &walk);
  if (!walk.done) return std::nullopt;
  return walk.to;
}

void return_to(const ReturnPoint& to) {
#if ROTA_ASAN
  __asan_handle_no_return();  // The abandoned frames are plain memory again.
#endif
  asm volatile(
      "movq 0(%0), %%rbx\n\t"
      "movq 8(%0), %%rbp\n\t"
      "movq 16(%0), %%r12\n\t"
      "movq 24(%0), %%r13\n\t"
      "movq 32(%0), %%r14\n\t"
      "movq 40(%0), %%r15\n\t"
      "movq 48(%0), %%rcx\n\t"
      "movq 56(%0), %%rsp\n\t"
      "jmpq *%%rcx"
      :
      : "a"(&to)
      : "memory");
  __builtin_unreachable();
}

#else

std::optional<ReturnPoint> return_of(const void*) { return std::nullopt; }
void return_to(const ReturnPoint&) { ROTA_ASSERT(false, "there is nowhere to return to"); }

#endif

}  // namespace rota::fiber::detail
