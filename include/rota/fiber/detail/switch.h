// switch_fibers(): switch_stacks() with the reports to the sanitizers. Included by core.h.
#pragma once

#include "rota/fiber/detail/core.h"

#if ROTA_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#if ROTA_TSAN
#include <sanitizer/tsan_interface.h>
#endif

namespace rota::fiber::detail {

[[gnu::always_inline]] inline void switch_fibers(ThreadWorker* worker, Fiber* from, Fiber* to) {
  worker->fiber = to;
  const ExceptionGlobals exceptions = *worker->exceptions;
  const bool handling = exceptions.caught != nullptr || exceptions.uncaught != 0;
  if (handling) [[unlikely]] {
    *worker->exceptions = {};
  }
#if ROTA_ASAN
  __sanitizer_start_switch_fiber(&from->fake_stack, to->low, to->bytes);
#endif
#if ROTA_TSAN
  __tsan_switch_to_fiber(to->tsan, 0);
#endif
  switch_stacks(&from->sp, to->sp);
#if ROTA_ASAN
  __sanitizer_finish_switch_fiber(from->fake_stack, nullptr, nullptr);
#endif
  ThreadWorker* resumed = current_worker();
  if (handling) [[unlikely]] {
    *resumed->exceptions = exceptions;
  }
  run_after_switch(resumed);
}

}  // namespace rota::fiber::detail
