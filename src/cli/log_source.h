// The records of a log, wherever it is: a log file (fleet/record.h), or the ledger of a host or of `rota run`, which
// another process may have open. Every record is checked as it is read. Nothing is changed.
//
//   ROTA_TRY_ASSIGN(auto log, LogSource::open(place.log));
//   ROTA_TRY_ASSIGN(fleet::Brain brain, log->begin());
//   for (;;) { ROTA_TRY_ASSIGN(const fleet::Record* record, log->next()); if (record == nullptr) break; ... }
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fleet/brain.h"
#include "fleet/record.h"
#include "rota/result.h"

namespace rota::cli {

class LogSource {
 public:
  virtual ~LogSource() = default;

  // By its file. NotFound, IoError, PermissionDenied; Corrupt for what is no log.
  static Result<std::unique_ptr<LogSource>> open(const std::string& path);

  // Begins anew. The brain as it was before the first record that next() gives: an empty one, or, for a ledger whose
  // first records were compacted, its snapshot's.
  virtual Result<fleet::Brain> begin() = 0;
  // How many records are missing at the front.
  [[nodiscard]] virtual std::uint64_t compacted() const { return 0; }
  // The next record, or null at the end. Corrupt with the position of the first defect. It is valid until the next
  // call.
  virtual Result<const fleet::Record*> next() = 0;
  // After the end: next() goes on with what was committed since.
  virtual Result<void> refresh() { return {}; }
  // How much of it was read, of 1000.
  [[nodiscard]] virtual int permille() const = 0;

  // The record of this index, or null if there is none; begins anew.
  Result<const fleet::Record*> find(std::uint64_t index);
};

}  // namespace rota::cli
