// The switch of processors that we have none of our own for: Boost.Context's.
//
// Only after a jump is it known where the one who left goes on; so whoever arrives stores that for him, where he said.
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
  constexpr std::size_t kAtLeast = 4096;  // Boost asks for the size and does not look at it on any Unix.
  return boost::context::detail::make_fcontext(top, kAtLeast, begin);
}

}  // namespace rota::fiber::detail
#endif
