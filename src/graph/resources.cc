#include "rota/graph/resources.h"

#include <string>

namespace rota::graph {

namespace {
Result<void> check_memory(std::uint64_t mb, const char* what) {
  if (mb <= kMemoryMbMax) return {};
  return Error{ErrorCode::kInvalidArgument, std::string(what) + " of " + std::to_string(mb) +
                                                " MB exceeds the limit of " + std::to_string(kMemoryMbMax) + " MB"};
}
}  // namespace

Result<void> check(const ResourceBudget& budget) {
  if (budget.cpu_slots_hard == 0) {
    return Error{ErrorCode::kInvalidArgument, "a budget of 0 CPU slots runs nothing; give at least 1"};
  }
  ROTA_TRY(check_memory(budget.ram_mb_soft, "a RAM budget"));
  return check_memory(budget.vram_mb_soft, "a VRAM budget");
}

Result<void> check(const AgingPolicy& aging) {
  if (aging.interval_ms == 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "an aging interval of 0 ms would raise a priority without end; give at least 1, or a boost of 0"};
  }
  return {};
}

Result<void> check(const ResourceDemand& demand, const ResourceBudget& budget) {
  if (demand.cpu_slots == 0) {
    return Error{ErrorCode::kInvalidArgument, "a task needs at least 1 CPU slot to run on"};
  }
  if (demand.cpu_slots > budget.cpu_slots_hard) {
    return Error{ErrorCode::kCapacity, "it needs " + std::to_string(demand.cpu_slots) +
                                           " CPU slots, but the budget has " + std::to_string(budget.cpu_slots_hard) +
                                           ", so it could never run"};
  }
  ROTA_TRY(check_memory(demand.ram_mb, "a RAM demand"));
  return check_memory(demand.vram_mb, "a VRAM demand");
}

}  // namespace rota::graph
