// Makes a copy of a ledger's file while it is being written to.
#pragma once

#include <string>

#include "ledger/disk_options.h"
#include "rota/result.h"

namespace rota::ledger::detail {

// Copies the transactions that are committed at its beginning to `path`: first to path.partial, synced and checked
// record by record, then by renaming. AlreadyExists if `path` exists. A failure leaves neither file. Blocks the calling
// thread.
Result<void> back_up(const DiskOptions& options, const std::string& path);

}  // namespace rota::ledger::detail
