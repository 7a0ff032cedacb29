// What a ledger holds, as a brain again: the latest snapshot, and the records after it.
//
//   snapshot = "rota host 1\n" chain (16 bytes, the log's chain after the snapshot's last record) Brain::snapshot()
//
// Every record is checked against the chain, and the state against each record's hashes, before anything is decided.
//
// Thread safety: functions without state. In a task they park it, as the ledger does.
#pragma once

#include <string>

#include "fleet/brain.h"
#include "fleet/record.h"
#include "ledger/ledger.h"
#include "rota/result.h"

namespace rota::host {

struct Recovered {
  fleet::Brain brain;
  fleet::LogPosition position{};  // What the next record continues.
};

// Corrupt, with the record's index, if the log does not continue the snapshot or itself.
[[nodiscard]] Result<Recovered> recover(ledger::Ledger& ledger);

// The brain as it was after the snapshot's record. Corrupt if it is not one of a host.
[[nodiscard]] Result<Recovered> decode_snapshot(const ledger::Snapshot& snapshot);

[[nodiscard]] std::string encode_snapshot(const fleet::Brain& brain, const Hash128& chain);

}  // namespace rota::host
