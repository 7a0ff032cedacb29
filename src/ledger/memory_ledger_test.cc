#include "ledger/memory_ledger.h"

#include "ledger/conformance.h"

namespace rota::ledger {
namespace {

struct MemoryHome {
  static constexpr bool kPersists = false;
  static constexpr bool kBacksUp = false;
  Result<std::unique_ptr<Ledger>> open(bool /*deterministic*/) { return std::make_unique<MemoryLedger>(); }
};

// Contract: L-1. The ledger in memory passes the common suite.
INSTANTIATE_TYPED_TEST_SUITE_P(Memory, LedgerConformance, MemoryHome);

}  // namespace
}  // namespace rota::ledger
