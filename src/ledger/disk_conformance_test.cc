#include "ledger/disk_testing.h"

namespace rota::ledger {
namespace {

struct RelaxedHome : DiskHome {
  RelaxedHome() : DiskHome(TestFolder::Where::kMemory) { options.durability = Durability::kRelaxed; }
};
// All bounds as small as possible.
struct SmallSteps : DiskHome {
  SmallSteps() : DiskHome(TestFolder::Where::kMemory) {
    options.checkpoint_pages = 1;
    options.piece_bytes = 100'000;
    options.compact_records = 50;
  }
};

using DiskHomes = ::testing::Types<DiskHome, RelaxedHome, SmallSteps>;

// Contract: L-1. The ledger on disk passes the common suite: durable, relaxed, and with its smallest bounds.
INSTANTIATE_TYPED_TEST_SUITE_P(Disk, LedgerConformance, DiskHomes);

}  // namespace
}  // namespace rota::ledger
