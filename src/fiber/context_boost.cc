// The stack switch for processors for which Rota has none of its own: Boost.Context's.
//
// Only after a jump is it known where the stack that was left can be continued; so the code that arrives stores that,
// in the place that the leaving side named.
#include "rota/fiber/detail/context.h"

#if ROTA_BOOST_CONTEXT
#include <boost/context/detail/fcontext.hpp>

#include "rota/assert.h"
#include "rota/detail/sync.h"

namespace rota::fiber::detail {

namespace {

using boost::context::detail::transfer_t;

sync::Atomic<EntryFunction> g_entry{nullptr};

void arrive(transfer_t from) { *static_cast<void**>(from.data) = from.fctx; }

void begin(transfer_t from) {
  arrive(from);
  g_entry.load(std::memory_order_relaxed)();
}

}  // namespace

void switch_stacks(void** save, void* load) noexcept { arrive(boost::context::detail::jump_fcontext(load, save)); }

void* prepare_stack(void* top, EntryFunction entry) noexcept {
  const EntryFunction known = g_entry.exchange(entry, std::memory_order_relaxed);
  ROTA_ASSERT(known == nullptr || known == entry, "all stacks start in one function");
  constexpr std::size_t kAtLeast = 4096;  // Boost requires the size and does not use it on any Unix.
  return boost::context::detail::make_fcontext(top, kAtLeast, begin);
}

}  // namespace rota::fiber::detail
#endif
