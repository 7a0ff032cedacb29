// A copy of a ledger's file that is being written to.
#pragma once

#include <string>

#include "ledger/disk_options.h"
#include "rota/result.h"

namespace rota::ledger::detail {

// Copies what is committed when it begins to `path`: first to path.partial, synced and checked record by record, then
// by renaming. AlreadyExists if there is something at `path`. A failure leaves neither. Blocks the calling thread.
Result<void> back_up(const DiskOptions& options, const std::string& path);

}  // namespace rota::ledger::detail
