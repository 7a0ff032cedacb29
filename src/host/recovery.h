// Recovery: builds the brain from the ledger's latest snapshot and the records after it.
//
//   snapshot = "rota host 2\n" chain (16 bytes, the log's chain after the snapshot's last record) Brain::snapshot()
//
// Each record is checked against the chain, and the state against the record's hashes, before anything is decided.
//
// Thread safety: functions without state. They park the calling fiber while the ledger works.
#pragma once

#include <string>

#include "fleet/brain.h"
#include "fleet/record.h"
#include "ledger/ledger.h"
#include "rota/result.h"

namespace rota::host {

struct Recovered {
  fleet::Brain brain;
  fleet::LogPosition position{};  // The position after which the next record is appended.
};

// Corrupt, with the record's index, if the log does not continue the snapshot or itself.
[[nodiscard]] Result<Recovered> recover(ledger::Ledger& ledger);

// The brain as it was after the snapshot's last record. Corrupt if the bytes are not a snapshot of a host.
[[nodiscard]] Result<Recovered> decode_snapshot(const ledger::Snapshot& snapshot);

[[nodiscard]] std::string encode_snapshot(const fleet::Brain& brain, const Hash128& chain);

}  // namespace rota::host
