#include "fiber/runtime_core.h"
#include "rota/fiber/detail/charge.h"

namespace rota::fiber::detail {
Result<void> grant_meter(Worker*, NurseryCore*, Record*) { return {}; }
void settle_meter(Worker*, Record*) {}
void open_metered(Worker*, NurseryCore*) {}
void close_metered(Worker*, NurseryCore*) {}
ErrorCode charge_component(Component /*component*/) { return ErrorCode::kOk; }
ErrorCode charge_memory_slow(std::size_t /*bytes*/) { return ErrorCode::kOk; }
void release_memory_slow(std::size_t /*bytes*/) {}
void ChannelPermit::acquire(std::size_t /*capacity*/) {}
void ChannelPermit::release() {}
}  // namespace rota::fiber::detail
