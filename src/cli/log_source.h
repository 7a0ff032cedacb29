// The records of a log, wherever it is: a log file (fleet/record.h), or the ledger of a host or of `rota run`, by its
// folder or its file. Every record is checked as it is read.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fleet/record.h"
#include "rota/result.h"

namespace rota::cli {

class LogSource {
 public:
  virtual ~LogSource() = default;

  // NotFound, IoError, PermissionDenied; Corrupt for what is no log; Conflict for a ledger that is in use;
  // FailedPrecondition for one whose first records are gone.
  static Result<std::unique_ptr<LogSource>> open(const std::string& path);

  // The next record, or null at the end. Corrupt with the position of the first defect. It is valid until the next
  // call.
  virtual Result<const fleet::Record*> next() = 0;
  // Begins anew.
  virtual void rewind() = 0;
  // How much of it was read, of 1000.
  [[nodiscard]] virtual int permille() const = 0;

  // The record of this index, or null if there is none; begins anew.
  Result<const fleet::Record*> find(std::uint64_t index);
};

}  // namespace rota::cli
