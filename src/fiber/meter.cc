#include "fiber/runtime_core.h"

namespace rota::fiber::detail {
Result<void> grant_meter(Worker*, NurseryCore*, Record*) { return {}; }
void settle_meter(Worker*, Record*) {}
void open_metered(Worker*, NurseryCore*) {}
void close_metered(Worker*, NurseryCore*) {}
}  // namespace rota::fiber::detail
